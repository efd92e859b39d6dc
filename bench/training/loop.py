"""The one training loop: methods.md a, from sentences to an Encoder.

A batch of n sentences is one forward pass over all its views, interleaved (s1, s1, s2, s2, ...). Every random draw is
seeded by (seed, name, step), so a step depends on nothing but what the steps before it left, and a training that goes
on from a checkpoint comes to the same bits as one without a pause.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bench.datasets import corpora, sts
from bench.datasets.manifest import Vectors
from bench.evaluation.geometry import alignment, uniformity
from bench.evaluation.scoring import encoded, score_tasks, sentences
from bench.models.encoder import save_encoder
from bench.models.roofline import peak, record
from bench.results.provenance import provenance, task_sums
from bench.runs.recipe import Recipe
from bench.runs.run import Run
from bench.training.checkpoint import Checkpoint, Checkpoints, forget
from bench.training.context import RunContext
from bench.training.log import Log
from bench.utils import interrupts
from bench.utils.errors import UserError
from bench.utils.files import read_json, sweep, write_json
from bench.utils.progress import Progress
from methods.base import Method, Refusal, Step, seed_torch, stream, stream_seed

BETAS = (0.9, 0.999)  # of AdamW (methods.md a.3)
# Steps between two looks at their losses. To look is to wait for the device, which then waits for the host; otherwise
# the next batch is put together while the device works.
LOOK = {"cpu": 1, "cuda": 25}
NO_MEMORY = ("can't allocate memory", "out of memory", "ALLOC_FAILED")  # of the processor's allocator, CUDA, cuBLAS
BLOCKS = (1.0, 0.8, 0.6, 0.4, 0.2)  # Contrastive Tension's rates in five equal blocks (methods.md b.7)


def batches(count: int, recipe: Recipe, seed: int) -> Iterator[list[int]]:
    """Indices of each batch: one permutation an epoch, the last batch short rather than dropped (methods.md a.1).

    Args:
        count: items of an epoch; indices are 0 to count - 1.
    """
    for epoch in range(recipe.epochs):
        order = torch.randperm(count, generator=stream(seed, "order", epoch)).tolist()
        for start in range(0, count, recipe.batch_size):
            yield order[start : start + recipe.batch_size]


def learning_rate(index: int, total: int, recipe: Recipe) -> float:
    """Linear warm-up over `warmup` of the steps (none by default), then the schedule: linear to 0 (methods.md a.3).

    Args:
        index: steps done before this one, below `total`, the steps of the whole training.
    """
    warm = round(recipe.warmup * total)
    if index < warm:
        return recipe.learning_rate * (index + 1) / warm
    shares = {
        "linear": (total - index) / max(1, total - warm),
        "constant": 1.0,
        "blocks": BLOCKS[(index - warm) * len(BLOCKS) // max(1, total - warm)],
    }
    return recipe.learning_rate * shares[recipe.schedule]


def optimiser_of(weights: Sequence[Tensor], recipe: Recipe) -> torch.optim.Optimizer:
    """AdamW (methods.md a.3) or RMSProp, with the recipe's epsilon and weight decay.

    RMSProp forgets at 0.9, as in TensorFlow, in which the one method that uses it was written (methods.md b.7).
    """
    rate, epsilon, decay = recipe.learning_rate, recipe.epsilon, recipe.weight_decay
    if recipe.optimiser == "rmsprop":
        return torch.optim.RMSprop(weights, lr=rate, alpha=0.9, eps=epsilon, weight_decay=decay)
    return torch.optim.AdamW(weights, lr=rate, betas=BETAS, eps=epsilon, weight_decay=decay, fused=True)


def set_rate(optimiser: torch.optim.Optimizer, index: int, rate: float, recipe: Recipe) -> None:
    """Give an optimiser its learning rate for one step.

    Without bias correction (BERT's own optimiser) AdamW is given the rate, epsilon and decay that undo its correction.
    """
    epsilon, decay = recipe.epsilon, recipe.weight_decay
    if recipe.optimiser == "adamw" and not recipe.bias_correction:
        first, second = 1 - BETAS[0] ** (index + 1), math.sqrt(1 - BETAS[1] ** (index + 1))
        rate, epsilon, decay = rate * first / second, epsilon / second, decay * second / first
    for group in optimiser.param_groups:
        group.update(lr=rate, eps=epsilon, weight_decay=decay)


def train(run: Run, suite: Path, folder: Path, device: str = "cpu") -> dict[str, Any]:
    """Train one run; what it leaves in `folder` is `log.jsonl`, `encoder/` and, last of all, `outcome.json`.

    A training that was stopped goes on from its newest checkpoint, in `folder/checkpoints/` until it has ended.

    Args:
        suite: the suite's folder, where inputs of its own are.
        folder: the run's own; a training that ended there is not repeated.

    Returns:
        What `outcome.json` holds: `{"run", "outcome": {"status": "finished" | "diverged" | "skipped", ...},
        "provenance"}`.

    Raises:
        UserError: the run cannot be trained, is being trained, or is not what the folder's checkpoints are of; memory
            or disk are full.
        Stopped: a signal came (`bench.utils.interrupts`).
    """
    done, checkpoints = folder / "outcome.json", folder / "checkpoints"
    if done.is_file() and read_json(done)["outcome"]["status"] == "finished" and not (folder / "encoder").is_dir():
        _say(f"{folder / 'encoder'} is gone: {run.id} is trained again")
        done.unlink()
    if run.skip and not done.is_file():
        outcome = {"status": "skipped", "reason": run.skip}
        described = {"run": run.describe(), "outcome": outcome}
        write_json(done, described | {"provenance": provenance(device, run.recipe.threads)})
    if not done.is_file():
        with Log(folder / "log.jsonl") as log:
            if not done.is_file():  # another process may have ended it meanwhile
                sweep(folder)
                write_json(done, {"run": run.describe()} | _train(run, RunContext(run, suite, device), folder, log))
    forget(checkpoints)
    return read_json(done)


def _train(run: Run, context: RunContext, folder: Path, log: Log) -> dict[str, Any]:
    """`outcome` and `provenance` of a training, from its newest checkpoint on."""
    torch.set_num_threads(run.recipe.threads)
    # What `use_deterministic_algorithms` does, which imports torch's compiler too: 2 s of every process.
    torch.set_deterministic_debug_mode("error" if context.device == "cpu" else "warn")
    # Nothing here reads memory that it has not written.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    sums = [corpora.corpus_identity(context.corpus_file(name)) for name in run.corpora]
    described = provenance(context.device, run.recipe.threads) | {"corpora": sums}
    checkpoints = Checkpoints(folder / "checkpoints", {"run": run.identity, "corpus": sums[0]})
    training = Training(run, context, {key: value for key, value in described.items() if key != "date"})
    _go_on(training, checkpoints, log)
    try:
        _steps(training, checkpoints, log)
    except Diverged as diverged:
        outcome = {"status": "diverged", "reason": str(diverged), "step": diverged.step}
        outcome["sentences"] = diverged.batch
    else:
        outcome = training.finish(folder / "encoder")
    described["tasks"] = task_sums(training.dev)
    if training.earlier:
        described["earlier"] = training.earlier
    return {"outcome": outcome, "provenance": described}


def _go_on(training: Training, checkpoints: Checkpoints, log: Log) -> None:
    """Take a training and its log to where the newest checkpoint has them, or to their start."""
    name, found = training.run.id, checkpoints.newest()
    if found and found.facts["log"] > log.size:
        _say(f"{log.path} has lost rows since the checkpoint of step {found.facts['done']}: {name} starts anew")
        forget(checkpoints.folder)
        found = None
    log.cut(found.facts["log"] if found else 0)
    if found:
        training.restore(found)
        _say(f"{name} goes on after step {training.done} of {training.total}")


def _steps(training: Training, checkpoints: Checkpoints, log: Log) -> None:
    """All steps that are left, a row of the log each; a checkpoint where one is due or a signal asks for it."""
    name, items, began = training.run.id, 0, time.monotonic()
    with Progress(training.total, name, "step", training.done) as progress, interrupts.deferred():
        for batch in training.batches():
            training.step(batch)
            items += len(batch)
            signal, due = interrupts.pending(), checkpoints.due()
            if not (signal or due or training.is_to_look()):
                continue
            for row in training.rows():
                log.write(row)
                best = f", best dev {training.best['dev']:.2f}" if training.best else ""
                progress.advance(note=f"loss {row['loss']:.4f}{best}, {items / (time.monotonic() - began):.0f} items/s")
            if signal or due:
                checkpoints.save(training.done, training.tensors(), training.facts() | {"log": log.sync()})
            if signal:
                raise interrupts.Stopped(
                    signal, f"{name} has a checkpoint after step {training.done} of {training.total}"
                )


class Diverged(Exception):
    """A training that cannot go on: its loss, its gradient or its vectors are no numbers to go by."""

    def __init__(self, reason: str, step: int, batch: Sequence[int]) -> None:
        super().__init__(reason)
        self.step, self.batch = step, list(batch)


class Training:
    """One training under way. All that its steps change is in `tensors` and `facts`, and comes back by `restore`.

    Attributes:
        done: steps done.
        total: steps of the whole training.
        best: of the best Encoder so far `dev`, its score, the `step` after which it was, and its `place` among the
            method's; empty before the first selection.
        earlier: where steps were done that were not done here: code, versions and device of earlier sittings.
    """

    def __init__(self, run: Run, context: RunContext, here: dict[str, Any]) -> None:
        """Prepare a training at its start.

        Args:
            here: what tells this sitting from others: code, versions, device and corpus.

        Raises:
            UserError: the method refuses the corpus or the backbone, or one of them or the dev set is missing or wrong.
        """
        assert run.seed is not None
        recipe = run.recipe
        self.run, self.context, self.seed, self.here = run, context, run.seed, here
        self.method = run.build()
        try:
            self.method.begin(context)
        except Refusal as refusal:
            raise UserError(f"'{run.text}' cannot be trained: {refusal}") from None
        self.dev = [sts.read(task, context.data, "dev") for task in recipe.select_on.split("+")]
        context.remember(sentences(self.dev))
        self.modules = nn.ModuleList([*context.modules(), self.method]).to(context.device)
        self.weights = [weight for weight in self.modules.parameters() if weight.requires_grad]
        self.optimiser = optimiser_of(self.weights, recipe)
        self.scaler = torch.amp.GradScaler(enabled=recipe.precision == "mixed" and context.device != "cpu")
        self.items = self.method.items(context)
        self.total = recipe.epochs * -(-self.items // recipe.batch_size)
        self.done = 0
        self.best: dict[str, Any] = {}
        self.best_weights: dict[str, Tensor] = {}
        self.since_best = 0
        self.curve: list[dict[str, Any]] = []
        self.earlier: list[dict[str, Any]] = []
        self._unseen: list[tuple[dict[str, Any], Tensor, Tensor, Sequence[int]]] = []  # row, loss, norm, batch
        self._started = time.monotonic()

    @property
    def seconds(self) -> float:
        """How many seconds the training has taken, without what a kill lost."""
        return round(time.monotonic() - self._started, 2)

    def batches(self) -> Iterator[list[int]]:
        """The batches of the steps that are left, until all are done or patience is at its end."""
        recipe = self.run.recipe
        for batch in islice(batches(self.items, recipe, self.seed), self.done, None):
            if recipe.patience and self.since_best >= recipe.patience:
                return
            yield batch

    def step(self, batch: Sequence[int]) -> None:
        """Do one step; `rows` says what came of it.

        Raises:
            UserError: memory is full.
        """
        with self._memory(self.done + 1, batch):
            self._step(batch)

    @contextmanager
    def _memory(self, step: int, batch: Sequence[int]) -> Iterator[None]:
        try:
            yield
        except (MemoryError, RuntimeError) as error:  # torch.OutOfMemoryError is a RuntimeError
            if isinstance(error, MemoryError) or any(words in str(error) for words in NO_MEMORY):
                raise UserError(
                    f"memory is full at step {step} of {self.run.id}, a batch of {self._size(batch)}; set a "
                    "smaller batch_size or max_length (which makes it another run), or take a larger device"
                ) from error
            raise

    def is_to_look(self) -> bool:
        """Whether it is time for `rows`: enough steps are done, the next thing is a selection, or this was the last."""
        enough = len(self._unseen) >= LOOK[self.context.device.partition(":")[0]]
        return enough or self._is_to_select() or self.done == self.total

    def rows(self) -> Iterator[dict[str, Any]]:
        """Rows of the log of the steps since the last call; with dev scores where the last asks for a selection.

        Raises:
            Diverged: a loss, a gradient or the vectors are not finite, or all vectors are alike.
            UserError: memory is full.
        """
        unseen, self._unseen = self._unseen, []
        for row, loss, norm, batch in unseen:
            row["loss"] = loss.item()
            if not math.isfinite(row["loss"]):
                raise Diverged(f"the loss became {row['loss']}", row["step"], batch)
            # A scaler leaves such a step out and lowers its scale; without one, clipping has made zeros or NaN of it.
            if not self.scaler.is_enabled() and not math.isfinite(norm.item()):
                raise Diverged(f"the gradient's norm became {norm.item()}", row["step"], batch)
            if row["step"] == self.done and self._is_to_select():
                with self._memory(row["step"], batch):
                    self._select(row, batch)
            yield row

    def _is_to_select(self) -> bool:
        return self.done % self.run.recipe.select_every == 0 or (self.done == self.total and not self.best)

    def _step(self, batch: Sequence[int]) -> None:
        recipe = self.run.recipe
        self.modules.train()
        step = Step(self.done, self.total, recipe.batch_size, self.seed, batch)
        rate = learning_rate(self.done, self.total, recipe)
        set_rate(self.optimiser, self.done, rate, recipe)
        seed_torch(stream_seed(self.seed, "dropout", self.done), self.context.device)
        loss = self.method.step_loss(self.context, step)
        with torch.no_grad():
            self.method.after_loss(self.context, step)
        self.optimiser.zero_grad(set_to_none=True)
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.optimiser)
        norm = torch.nn.utils.clip_grad_norm_(self.weights, recipe.clip)
        self.scaler.step(self.optimiser)
        self.scaler.update()
        self.done += 1
        row = {"step": self.done, "loss": math.nan, "learning_rate": rate}
        self._unseen.append((row, loss.detach(), norm, batch))

    def _select(self, row: dict[str, Any], batch: Sequence[int]) -> None:
        """Score the method's Encoders on the dev set, add the scores to a row of the log, and keep the best."""
        self.since_best += 1
        for place, encoder in enumerate(self.method.encoders(self.context)):
            vectors = encoded(encoder, self.dev)
            try:
                records = score_tasks(encoder, self.dev, vectors)
            except UserError as error:  # vectors that are not finite, or all alike
                raise Diverged(str(error), row["step"], batch) from None
            scores = {record["task"]: record["value"] for record in records if record["aggregation"] == "all"}
            value = sum(scores.values()) / len(scores)
            row["dev" if place == 0 else f"dev_{place + 1}"] = scores
            if not self.best or value > self.best["dev"]:  # ties keep the earlier one (methods.md a.4)
                self.best = {"dev": value, "step": row["step"], "place": place}
                self.best_weights = _copy(self.modules)
                self.since_best = 0
            if place == 0:
                shape = _geometry(self.dev, vectors, self.context.device)
                row |= shape
                self.curve.append({"step": row["step"], "loss": row["loss"], "dev": value} | shape)

    def finish(self, folder: Path) -> dict[str, Any]:
        """Write the best Encoder to a folder; how the training ended, as the `outcome` of `train`.

        Raises:
            UserError: the folder cannot be written.
        """
        self.modules.load_state_dict(self.best_weights)
        self.modules.eval()
        encoder = self.method.encoders(self.context)[self.best["place"]]
        save_encoder(self.method.finish(encoder, self.context), folder)
        ended = {"status": "finished", "steps": self.done, "best_step": self.best["step"], "best_dev": self.best["dev"]}
        recipe, seconds = self.run.recipe, self.seconds
        reached = peak(self.context.device, recipe.precision, recipe.threads, self.run.backbone.shape.width or 768)
        count, moments = sum(weight.numel() for weight in self.weights), 1 if recipe.optimiser == "rmsprop" else 2
        work = record(self.context.work, count, self.done, seconds, reached, moments)
        return ended | {"seconds": seconds, "work": work, "curve": self.curve}

    # What a checkpoint holds

    def tensors(self) -> dict[str, Tensor]:
        """Weights, with all that the method remembers; those of the best Encoder; the optimiser's means."""
        optimiser = self.optimiser.state_dict()["state"]
        groups = {
            "weights": _copy(self.modules),
            "best": self.best_weights,
            "optimiser": {f"{place}/{key}": value for place, own in optimiser.items() for key, value in own.items()},
        }
        return {
            f"{group}/{name}": each.cpu().contiguous()
            for group, named in groups.items()
            for name, each in named.items()
        }

    def facts(self) -> dict[str, Any]:
        """Everything else, as plain data."""
        names = ("done", "best", "since_best", "curve", "seconds", "here", "earlier")
        own = {name: getattr(self, name) for name in names}
        return own | {"scaler": self.scaler.state_dict(), "work": asdict(self.context.work)}

    def restore(self, found: Checkpoint) -> None:
        """Put everything where a checkpoint has it.

        Raises:
            UserError: the code has other tensors by now.
        """
        groups: dict[str, dict[str, Tensor]] = {"weights": {}, "best": {}, "optimiser": {}}
        for name, tensor in found.tensors.items():
            group, _, rest = name.partition("/")
            groups[group][rest] = tensor
        means: dict[int, dict[str, Tensor]] = {}
        for name, tensor in groups["optimiser"].items():
            place, _, key = name.partition("/")
            means.setdefault(int(place), {})[key] = tensor
        try:
            self.modules.load_state_dict(groups["weights"])
            self.optimiser.load_state_dict({**self.optimiser.state_dict(), "state": means})
        except (RuntimeError, ValueError, KeyError):
            raise UserError(
                f"{found.path} holds other tensors than '{self.run.text}' has by now; delete its folder to start anew"
            ) from None
        facts = dict(found.facts)
        if self.scaler.is_enabled() and facts["scaler"]:
            self.scaler.load_state_dict(facts["scaler"])
        self.best_weights = groups["best"]
        for name in ("done", "best", "since_best", "curve", "earlier"):
            setattr(self, name, facts[name])
        for name, amount in facts["work"].items():  # in place: Encoders count into it too
            setattr(self.context.work, name, amount)
        self._started -= facts["seconds"]
        if facts["here"] != self.here and facts["here"] not in self.earlier:
            self.earlier.append(facts["here"])
            _say(f"{self.run.id}: earlier steps were done by other code, versions or devices; outcome.json names them")

    def _size(self, batch: Sequence[int]) -> str:
        """A batch for a person: how many sentences and word pieces, or items of a kind that the method alone knows."""
        if type(self.method).items is not Method.items or self.run.backbone.kind != "transformer":
            return f"{len(batch)} items"
        sentences = self.context.sentences()
        tokens = self.context.tokenize([sentences[row] for row in batch], self.run.recipe.max_length)
        return f"{len(batch)} sentences with {sum(map(len, tokens))} word pieces"


def _geometry(dev: Sequence[sts.StsTask], vectors: Vectors, device: str) -> dict[str, float | None]:
    """Alignment and uniformity of the dev pairs; of figures, and free, since the vectors are there."""
    pairs = [subset for task in dev for subset in task.subsets]
    first = torch.from_numpy(np.concatenate([vectors(subset.first) for subset in pairs])).to(device)
    second = torch.from_numpy(np.concatenate([vectors(subset.second) for subset in pairs])).to(device)
    gold = torch.from_numpy(np.concatenate([subset.gold for subset in pairs])).to(device)
    return {"alignment": alignment(first, second, gold), "uniformity": uniformity(torch.cat([first, second]))}


def _copy(module: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.detach().to("cpu", copy=True) for name, tensor in module.state_dict().items()}


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)
