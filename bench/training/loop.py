"""The training loop: docs/reference/training.md#shared-recipe, from sentences to an Encoder.

A batch of n sentences is one forward pass over all its views, interleaved (s1, s1, s2, s2, ...).
Every random draw is seeded by (seed, name, step). A step therefore depends only on the state before
it, and a training that resumes from a checkpoint gives the same bits as one without a break.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from bench.datasets import corpora, sts
from bench.datasets.labelled import task_sums
from bench.datasets.manifest import EncodeSentences
from bench.evaluation.geometry import alignment, uniformity
from bench.evaluation.scoring import encoded, score_tasks, sentences
from bench.models.defaults import computing, torch_defaults
from bench.models.float32 import SELECTION, float32_products
from bench.models.load import save_encoder
from bench.results.provenance import provenance, timing
from bench.results.records import read_trained
from bench.runs import paths
from bench.runs.run import Recipe, Run
from bench.training.checkpoint import Checkpoints, Log, TrainingState
from bench.training.context import RunContext
from bench.training.optimiser import clip_and_step, learning_rate, make_optimiser, set_learning_rate
from bench.utils import interrupts
from bench.utils.errors import TransientError, UserError, is_memory_full, warn
from bench.utils.files import atomic_folder, is_complete, read_json, write_json
from bench.utils.progress import Progress
from methods.base import Refusal, Step, seed_torch, stream, stream_seed

# Steps in a row that mixed precision may skip because their gradient is not finite. Each halves the
# scale of the loss; so many take it from its first value, 65536, to 1, DeepSpeed's least scale.
SKIPS = 16
# Steps between two reads of the losses. A read waits for the device; on a GPU a batch is prepared
# while the device computes the one before.
SYNC_EVERY = {"cpu": 1, "cuda": 25}


class Diverged(Exception):
    """A training whose loss, gradient or vectors are not finite, or whose vectors are all equal."""

    def __init__(self, reason: str, step: int, batch: Sequence[int]) -> None:
        super().__init__(reason)
        self.step, self.batch = step, batch


@torch_defaults()
def train(run: Run, suite: Path, folder: Path, device: str = "cpu") -> dict[str, Any]:
    """Train one run. It writes `log.jsonl`, `encoder/` and, last, `outcome.json` to `folder`.

    An interrupted training resumes from its newest checkpoint in `folder/checkpoints/`, which is
    deleted at the end. A finished training is not repeated. `suite` is the folder with the inputs.

    Returns the content of `outcome.json`: `run`, `outcome` and `provenance`.
    """
    file = folder / "outcome.json"
    finished = is_complete(file) and read_trained(file).outcome.status == "finished"
    if finished and not (folder / "encoder").is_dir():
        warn(f"{folder / 'encoder'} is gone; training {run.id} again")
        file.unlink()
    if run.skip and not file.is_file():
        skipped = {
            "run": run.describe(),
            "outcome": {"status": "skipped", "reason": run.skip},
            "provenance": provenance(device, run.recipe.threads),
        }
        write_json(file, skipped)
    if not file.is_file():
        with closing(Log(folder / "log.jsonl")) as log:
            if not file.is_file():  # another process may have finished it in the meantime
                # A file system that refuses to rename folders does so before the training.
                with atomic_folder(folder / "trial"):
                    pass
                shutil.rmtree(folder / "trial", ignore_errors=True)
                files = paths.Files(suite, run.data)
                with training_settings(run, device):
                    result = _run_training(run, RunContext(run, files, device), folder, log)
                write_json(file, {"run": run.describe()} | result)
    shutil.rmtree(folder / "checkpoints", ignore_errors=True)
    return read_json(file)


@contextmanager
def training_settings(run: Run, device: str) -> Iterator[None]:
    """Within the block, refuse kernels that are not deterministic, and set the number of threads.
    Afterwards all is as before, also the states of torch's generators."""
    deterministic: Any = torch.utils.deterministic
    filled = deterministic.fill_uninitialized_memory
    # The attention of cuDNN has no deterministic backward pass; `torch_defaults` restores it.
    torch.backends.cuda.enable_cudnn_sdp(False)
    # In the deterministic mode torch fills new memory with NaN, which costs time and changes
    # nothing.
    deterministic.fill_uninitialized_memory = False
    try:
        with (
            computing(run.recipe.threads, "error"),
            torch.random.fork_rng([] if device == "cpu" else [device]),
        ):
            yield
    finally:
        deterministic.fill_uninitialized_memory = filled


def _run_training(run: Run, context: RunContext, folder: Path, log: Log) -> dict[str, Any]:
    """Return `outcome` and `provenance` of a training, which starts at its newest checkpoint."""
    sums = [corpora.corpus_identity(context.files.corpus(name)) for name in run.corpora]
    described = provenance(context.device, run.recipe.threads) | {"corpora": sums}
    # What a checkpoint must agree with. The date is no part of it, and neither is the code: a
    # training may go on with other code, and its outcome says so (`earlier`).
    identity = {"run": run.identity, "corpus": sums[0]}
    files = paths.file_sums(run, context.files)
    if files:
        described["files"] = identity["files"] = files
    checkpoints = Checkpoints(folder / "checkpoints", identity)
    origin = {key: value for key, value in described.items() if key != "date"}
    training = Training(run, context, origin)
    state, newest = training.state, checkpoints.newest()
    if not log.cut(newest[1]["log"] if newest else 0):
        raise UserError(
            f"{log.path} has lost rows since the checkpoint was written; "
            f"delete {checkpoints.folder} to start over"
        )
    if newest:
        training.load(*newest)
        warn(f"{run.id} resumes after step {state.step} of {training.total}")
    progress = Progress(training.total, run.id, state.step)
    try:
        with interrupts.defer_signals():
            for row in training.steps(log, checkpoints):
                loss = "skipped" if row["loss"] is None else f"loss {row['loss']:.4f}"
                best = f", best dev {state.best['dev']:.2f}" if state.best else ""
                progress.advance(note=f"step {state.step}, {loss}{best}")
        outcome = training.finish(folder / "encoder")
    except Diverged as diverged:  # a result, which another attempt would repeat
        outcome = {"status": "diverged", "reason": str(diverged), "step": diverged.step}
        outcome["sentences"] = diverged.batch
    except (MemoryError, RuntimeError) as error:
        if not is_memory_full(error):
            raise
        raise TransientError(
            f"memory is full after step {state.step} of {run.id}; end other programs on the device "
            "(nvidia-smi), set a smaller batch_size or max_length (which makes it another run), or "
            "use a larger device"
        ) from error
    if state.scaler.is_enabled():
        outcome["skipped_steps"] = state.skips["all"]
    described["tasks"] = task_sums(training.dev)
    if state.earlier:
        described["earlier"] = state.earlier
    return {"outcome": outcome, "provenance": described}


def batches(count: int, recipe: Recipe, seed: int) -> Iterator[list[int]]:
    """Yield the item indices, 0 to count - 1, of each batch: one permutation per epoch, keeping the
    short last batch (docs/reference/training.md#batches) unless the recipe has `drop_last`."""
    end = count - count % recipe.batch_size if recipe.drop_last else count
    # A stream per epoch, so that its order does not depend on the epochs before it.
    for epoch in range(recipe.epochs):
        order = torch.randperm(count, generator=stream(seed, "order", epoch)).tolist()
        for start in range(0, end, recipe.batch_size):
            yield order[start : start + recipe.batch_size]


def _is_training(module: nn.Module | None) -> bool:
    """Whether a module and all in it are in training mode; to set it takes four times as long."""
    return module is None or (module.training and all(map(_is_training, module._modules.values())))


class _Unread(NamedTuple):
    """A step whose loss was not read yet. To read it is to wait for the device, so the losses of a
    GPU are read some steps at a time."""

    number: int  # from 1
    learning_rate: float
    loss: Tensor
    norm: Tensor  # of the gradient, before it was clipped
    batch: list[int]


class Training:
    """A training in progress."""

    def __init__(self, run: Run, context: RunContext, origin: dict[str, Any]) -> None:
        """Prepare a training at step 0; `origin` is code, versions, device and corpus."""
        recipe = run.recipe
        self.run, self.context, self.seed = run, context, context.seed
        self.method = run.build()
        try:
            self.method.begin(context)
        except Refusal as refusal:
            raise UserError(f"'{run.method}' cannot be trained: {refusal}") from None
        self.dev = [sts.read(task, context.files.data, "dev") for task in recipe.selection]
        context.remember(sentences(self.dev))
        # Backbone, training head and method.
        self.modules = nn.ModuleList([*context.modules(), self.method]).to(context.device)
        self.weights = [weight for weight in self.modules.parameters() if weight.requires_grad]
        optimiser = make_optimiser(self.weights, recipe)
        # Small gradients would be zero in float16.
        scaled = context.dtype == torch.float16
        scaler = torch.amp.GradScaler(context.device_type, enabled=scaled)
        self.state = TrainingState(self.modules, optimiser, scaler, origin)
        self._unread: list[_Unread] = []
        self.items = self.method.items(context)
        self.total = sum(1 for _ in batches(self.items, recipe, self.seed))
        if not self.total:
            raise UserError(
                f"'{run.method}' leaves out short batches, and its {self.items} items fill "
                f"none of {recipe.batch_size}; set a smaller batch_size or drop_last=false"
            )

    def steps(
        self, log: Log | None = None, checkpoints: Checkpoints | None = None
    ) -> Iterator[dict[str, Any]]:
        """Take the remaining steps, until patience is used up, and yield the log row of each.
        `checkpoints` gets the state when one is due, and after a signal, which raises `Stopped`."""
        state, recipe = self.state, self.run.recipe
        self.modules.train()
        for batch in islice(batches(self.items, recipe, self.seed), state.step, None):
            if recipe.patience and state.since_best >= recipe.patience:
                return
            self._unread.append(self._take(batch))
            signal = interrupts.pending_signal()
            is_due = checkpoints is not None and (checkpoints.due() or bool(signal))
            if not (is_due or signal or self._must_read()):
                continue
            for row in self._read():
                if log:
                    log.write(row)
                yield row
            # Only now, since a checkpoint tells how many rows the log has.
            if is_due and checkpoints and log:
                checkpoints.save(state.step, state.state_dict() | {"log": log.sync()})
            if signal:
                kept = f"{self.run.id} has a checkpoint after step {state.step} of {self.total}"
                raise interrupts.Stopped(signal, kept)

    def _take(self, batch: list[int]) -> _Unread:
        """Take one optimiser step on a batch."""
        context, method, state, recipe = self.context, self.method, self.state, self.run.recipe
        optimiser, scaler = state.optimiser, state.scaler
        for part in self.modules:
            if not _is_training(part):  # a method or a selection changed it
                part.train()
        for weight in self.weights:
            weight.grad = None

        # Dropout depends on seed and step alone, not on what was drawn before: methods with one
        # seed share their masks, and a training can resume here.
        step = Step(state.step, self.total, recipe.batch_size, self.seed, batch)
        seed_torch(stream_seed(self.seed, "dropout", step.index), context.device)
        loss = method.step_loss(context, step)
        with torch.no_grad():
            method.after_loss(context, step)  # memories take the vectors of this batch
        with context.products():
            scaler.scale(loss).backward()

        # The schedule is a function of the step, so there is nothing of it to resume.
        rate = learning_rate(step.index, self.total, recipe)
        set_learning_rate(optimiser, rate, recipe)
        if context.on_gpu and recipe.optimiser == "adamw":
            norm = clip_and_step(self.weights, optimiser, scaler, recipe.clip)
        else:
            scaler.unscale_(optimiser)
            norm = nn.utils.clip_grad_norm_(self.weights, recipe.clip)
            scaler.step(optimiser)
            scaler.update()
        state.step += 1
        return _Unread(state.step, rate, loss.detach(), norm, batch)

    def _must_read(self) -> bool:
        """Whether the losses are read now: when there are many, at the end, and before a selection,
        so that weights that have diverged are never selected."""
        step, most = self.state.step, SYNC_EVERY[self.context.device_type]
        is_selected = step % self.run.recipe.select_every == 0
        return is_selected or step == self.total or len(self._unread) >= most

    def _read(self) -> Iterator[dict[str, Any]]:
        """Yield the log row of each step whose loss was not read, after its selection."""
        steps, self._unread = self._unread, []
        for step in steps:
            row = self._row(step)
            # Losses are read at each selection: only the last of these steps can have one.
            is_last = step.number == self.total and not self.state.best
            if is_last or step.number % self.run.recipe.select_every == 0:
                self._select(row, step.batch)
            yield row

    def _row(self, step: _Unread) -> dict[str, Any]:
        """The log row of a step; `Diverged` if its loss or its gradient is not finite.

        An enabled scaler skips a step whose gradient is not finite and lowers its scale, as in the
        released code. Without one, clipping has turned the gradient into zeros or NaN.
        """
        loss, norm = step.loss.item(), step.norm.item()
        row: dict[str, Any] = {
            "step": step.number,
            "loss": loss,
            "learning_rate": step.learning_rate,
        }
        skips, reason = self.state.skips, ""
        # A loss that is finite may have a gradient that is not, and the other way round.
        skipped = self.state.scaler.is_enabled() and not math.isfinite(norm)
        skips["all"] += skipped
        skips["in_a_row"] = skips["in_a_row"] + 1 if skipped else 0
        if skips["in_a_row"] > SKIPS:
            steps = f"{SKIPS + 1} steps in a row"
            reason = f"the gradients of {steps} were not finite, the last loss {loss}"
        elif skipped:
            row |= {"loss": loss if math.isfinite(loss) else None, "skipped": True}
        elif not math.isfinite(loss):
            reason = f"the loss became {loss}"
        elif not math.isfinite(norm):
            reason = f"the gradient's norm became {norm}"
        if reason:
            raise Diverged(reason, step.number, step.batch)
        return row

    def _select(self, row: dict[str, Any], batch: Sequence[int]) -> None:
        """Score the Encoders of the method on dev, and keep the best
        (docs/reference/training.md#selection)."""
        state = self.state
        state.since_best += 1
        for place, encoder in enumerate(self.method.encoders(self.context)):
            with float32_products(SELECTION):
                vectors = encoded(encoder, self.dev)
            try:
                records = score_tasks(encoder, self.dev, vectors)
            except UserError as error:  # vectors that are not finite, or all equal
                raise Diverged(str(error), row["step"], batch) from None
            scores = {
                record["task"]: record["value"]
                for record in records
                if record["aggregation"] == "all"
            }
            value = sum(scores.values()) / len(scores)
            row["dev" if place == 0 else f"dev_{place + 1}"] = scores
            # Strictly larger, so that of equal scores the earliest is kept.
            if not state.best or value > state.best["dev"]:
                state.best = {"dev": value, "step": row["step"], "place": place}
                weights = self.modules.state_dict()
                state.best_weights = {name: tensor.clone() for name, tensor in weights.items()}
                state.since_best = 0
            if place > 0:
                continue  # figures show the curve of the first Encoder
            geometry = self._geometry(vectors)
            row |= geometry
            state.curve.append({"step": row["step"], "loss": row["loss"], "dev": value, **geometry})

    def _geometry(self, vectors: EncodeSentences) -> dict[str, float | None]:
        """Alignment and uniformity of the dev pairs, for figures."""
        device = self.context.device
        pairs = zip(*chain.from_iterable(task.items() for task in self.dev), strict=True)
        firsts, seconds = (torch.from_numpy(vectors(side)).to(device) for side in pairs)
        gold = np.concatenate([subset.gold for task in self.dev for subset in task.subsets])
        return {
            "alignment": alignment(firsts, seconds, torch.from_numpy(gold).to(device)),
            "uniformity": uniformity(torch.cat([firsts, seconds])),
        }

    def finish(self, folder: Path) -> dict[str, Any]:
        """Write the best Encoder to a folder and return the `outcome` of `train`."""
        state, seconds = self.state, self.state.seconds
        self.modules.load_state_dict(state.best_weights)
        self.modules.eval()
        encoder = self.method.encoders(self.context)[state.best["place"]]
        checksum = save_encoder(self.method.finish(encoder, self.context), folder)
        return {
            "status": "finished",
            "encoder_sha256": checksum,
            "steps": state.step,
            "best_step": state.best["step"],
            "best_dev": state.best["dev"],
            **timing(seconds, self.context.device),
            "curve": state.curve,
        }

    def load(self, path: Path, state: dict[str, Any]) -> None:
        """Load the state of a checkpoint; refuse one with other tensors than this code has."""
        try:
            self.state.load_state_dict(state)
        except (RuntimeError, ValueError, KeyError):
            raise UserError(
                f"{path} does not match the tensors of '{self.run.method}' in this "
                "version of the code; delete its folder to start over"
            ) from None
        if self.state.earlier:
            warn(
                f"{self.run.id}: earlier steps ran with other code, versions or devices; "
                "outcome.json lists them"
            )
