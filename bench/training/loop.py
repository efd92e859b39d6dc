"""The training loop: docs/methods.md#shared-recipe, from sentences to an Encoder.

A batch of n sentences is one forward pass over all its views, interleaved (s1, s1, s2, s2, ...).
Every random draw is seeded by (seed, name, step). A step therefore depends only on the state before
it, and a training that resumes from a checkpoint gives the same bits as one without a break.
"""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bench.datasets import corpora, sts
from bench.datasets.manifest import Vectors
from bench.datasets.sums import task_sums
from bench.evaluation.geometry import alignment, uniformity
from bench.evaluation.scoring import encoded, score_tasks, sentences
from bench.models.float32 import ELSEWHERE, SELECTION, float32_products
from bench.models.load import save_encoder
from bench.results.provenance import provenance
from bench.runs.run import Run
from bench.training.checkpoint import Checkpoint, Checkpoints
from bench.training.context import RunContext
from bench.training.log import Log
from bench.training.optimiser import apply_gradients, make_optimiser, set_learning_rate
from bench.training.schedule import batches, learning_rate, total_steps
from bench.training.state import TrainingState
from bench.utils import interrupts
from bench.utils.errors import TransientError, UserError, warn
from bench.utils.files import read_json, remove_partial, write_json
from bench.utils.memory import is_memory_full
from bench.utils.progress import Progress
from methods.base import Refusal, Step, seed_torch, stream_seed

# Steps in a row that mixed precision may skip because their gradient is not finite. Each halves the
# scale of the loss; so many take it from its first value, 65536, to 1, DeepSpeed's least scale.
SKIPS = 16
# Steps between two reads of the losses. A read waits for the device; on a GPU a batch is prepared
# while the device computes the one before.
SYNC_EVERY = {"cpu": 1, "cuda": 25}


class Diverged(Exception):
    """A training that cannot continue: its loss, gradient or vectors are not finite, or all vectors
    are equal."""

    def __init__(self, reason: str, step: int, batch: Sequence[int]) -> None:
        super().__init__(reason)
        self.step, self.batch = step, list(batch)


def train(run: Run, suite: Path, folder: Path, device: str = "cpu") -> dict[str, Any]:
    """Train one run. It writes `log.jsonl`, `encoder/` and, last, `outcome.json` to `folder`.

    An interrupted training resumes from its newest checkpoint in `folder/checkpoints/`, which is
    deleted at the end. A finished training is not repeated.

    Args:
        run: the run.
        suite: the suite's folder, for inputs that the suite stores itself.
        folder: the run's folder.
        device: "cpu" or "cuda".

    Returns the content of `outcome.json`: `run`, `outcome` and `provenance`.

    Raises:
        UserError: the run cannot be trained, another process is training it, its checkpoints are of
            another run, or memory or disk are full.
        Stopped: a signal arrived (`bench.utils.interrupts`).
    """
    outcome_file = folder / "outcome.json"
    done = outcome_file.is_file() and read_json(outcome_file)["outcome"]["status"] == "finished"
    if done and not (folder / "encoder").is_dir():
        warn(f"{folder / 'encoder'} is gone; training {run.id} again")
        outcome_file.unlink()
    if run.skip and not outcome_file.is_file():
        skipped: dict[str, Any] = {"outcome": {"status": "skipped", "reason": run.skip}}
        skipped["provenance"] = provenance(device, run.recipe.threads)
        write_json(outcome_file, {"run": run.describe()} | skipped)
    if not outcome_file.is_file():
        with Log(folder / "log.jsonl") as log:
            if not outcome_file.is_file():  # another process may have finished it in the meantime
                remove_partial(folder)
                with training_settings(run):
                    result = _run_training(run, RunContext(run, suite, device), folder, log)
                write_json(outcome_file, {"run": run.describe()} | result)
    shutil.rmtree(folder / "checkpoints", ignore_errors=True)
    return read_json(outcome_file)


@contextmanager
def training_settings(run: Run) -> Iterator[None]:
    """Set what trainings need of torch, in the block; the number of threads also stays after it.

    Kernels that are not deterministic are refused.
    """
    filling: Any = torch.utils.deterministic
    before = torch.get_deterministic_debug_mode(), filling.fill_uninitialized_memory
    cudnn = torch.backends.cuda.cudnn_sdp_enabled()
    # Equals `use_deterministic_algorithms`, which also imports torch's compiler: 2 s per process.
    torch.set_deterministic_debug_mode("error")
    # The attention of cuDNN has no deterministic backward pass.
    torch.backends.cuda.enable_cudnn_sdp(False)
    # No code here reads memory that it has not written.
    filling.fill_uninitialized_memory = False
    torch.set_num_threads(run.recipe.threads)
    try:
        with float32_products(ELSEWHERE):
            yield
    finally:
        torch.set_deterministic_debug_mode(before[0])
        torch.backends.cuda.enable_cudnn_sdp(cudnn)
        filling.fill_uninitialized_memory = before[1]


def _run_training(run: Run, context: RunContext, folder: Path, log: Log) -> dict[str, Any]:
    """Return `outcome` and `provenance` of a training, which starts at its newest checkpoint."""
    sums = [corpora.corpus_identity(context.corpus_file(name)) for name in run.corpora]
    described = provenance(context.device, run.recipe.threads) | {"corpora": sums}
    checkpoints = Checkpoints(folder / "checkpoints", {"run": run.identity, "corpus": sums[0]})
    origin = {key: value for key, value in described.items() if key != "date"}
    training = Training(run, context, origin)
    state, checkpoint = training.state, checkpoints.newest()
    if checkpoint and checkpoint.state["log"] > log.size:
        raise UserError(
            f"{log.path} has lost rows since {checkpoint.path} was written; "
            "delete the folder of the checkpoints to start over"
        )
    log.cut(checkpoint.state["log"] if checkpoint else 0)
    if checkpoint:
        training.load(checkpoint)
        warn(f"{run.id} resumes after step {state.step} of {training.total}")
    try:
        _run_steps(training, checkpoints, log)
        outcome = training.finish(folder / "encoder")
    except Diverged as diverged:
        outcome = {"status": "diverged", "reason": str(diverged), "step": diverged.step}
        outcome["sentences"] = diverged.batch
    if state.scaler.is_enabled():
        outcome["skipped_steps"] = state.skips["all"]
    described["tasks"] = task_sums(training.dev)
    if state.earlier:
        described["earlier"] = state.earlier
    return {"outcome": outcome, "provenance": described}


def _run_steps(training: Training, checkpoints: Checkpoints, log: Log) -> None:
    """Run and log the remaining steps; save checkpoints when due and after a signal."""
    name, state, items, began = training.run.id, training.state, 0, time.monotonic()
    progress = Progress(training.total, name, "step", state.step)
    try:
        with progress, interrupts.defer_signals():
            for batch in training.batches():
                training.step(batch)
                items += len(batch)
                signal, due = interrupts.pending_signal(), checkpoints.due()
                if not (signal or due or training.should_sync()):
                    continue
                for row in training.sync():
                    log.write(row)
                    best = f", best dev {state.best['dev']:.2f}" if state.best else ""
                    speed = items / (time.monotonic() - began)
                    loss = "skipped" if row["loss"] is None else f"loss {row['loss']:.4f}"
                    progress.advance(note=f"{loss}{best}, {speed:.0f} items/s")
                if signal or due:
                    checkpoints.save(state.step, state.state_dict() | {"log": log.sync()})
                if signal:
                    kept = f"{name} has a checkpoint after step {state.step} of {training.total}"
                    raise interrupts.Stopped(signal, kept)
    except (MemoryError, RuntimeError) as error:
        if not is_memory_full(error):
            raise
        raise TransientError(
            f"memory is full after step {state.step} of {name}; set a smaller batch_size or "
            "max_length (which makes it another run), or use a larger device"
        ) from error


class Training:
    """A training in progress."""

    def __init__(self, run: Run, context: RunContext, origin: dict[str, Any]) -> None:
        """Prepare a training at step 0; `origin` is code, versions, device and corpus. `UserError`
        if the method refuses the corpus or the backbone, or an input is missing or invalid."""
        assert run.seed is not None
        recipe = run.recipe
        self.run, self.context, self.seed = run, context, run.seed
        self.method = run.build()
        try:
            self.method.begin(context)
        except Refusal as refusal:
            raise UserError(f"'{run.method}' cannot be trained: {refusal}") from None
        self.dev = [sts.read(task, context.data, "dev") for task in recipe.selection]
        context.remember(sentences(self.dev))
        # Backbone, training head and method.
        self.modules = nn.ModuleList([*context.modules(), self.method]).to(context.device)
        self.weights = [weight for weight in self.modules.parameters() if weight.requires_grad]
        optimiser = make_optimiser(self.weights, recipe)
        scaled = recipe.precision == "mixed" and context.device != "cpu"
        scaler = torch.amp.GradScaler(enabled=scaled)
        self.state = TrainingState(self.modules, optimiser, scaler, context.work, origin)
        self.items = self.method.items(context)
        self.total = total_steps(self.items, recipe)
        if not self.total:
            raise UserError(
                f"'{run.method}' leaves out short batches, and its {self.items} items fill "
                f"none of {recipe.batch_size}; set a smaller batch_size or drop_last=false"
            )
        # Log row, loss, gradient norm and batch of each step whose loss was not read yet.
        self._unread: list[tuple[dict[str, Any], Tensor, Tensor, Sequence[int]]] = []

    def batches(self) -> Iterator[list[int]]:
        """Yield the batches of the remaining steps, until patience is used up."""
        recipe = self.run.recipe
        for batch in islice(batches(self.items, recipe, self.seed), self.state.step, None):
            if recipe.patience and self.state.since_best >= recipe.patience:
                return
            yield batch

    def step(self, batch: Sequence[int]) -> None:
        """Take one optimiser step; `sync` reports its loss."""
        recipe, state, index = self.run.recipe, self.state, self.state.step
        optimiser, scaler = state.optimiser, state.scaler
        self.modules.train()
        step = Step(index, self.total, recipe.batch_size, self.seed, batch)
        rate = learning_rate(index, self.total, recipe)
        set_learning_rate(optimiser, index, rate, recipe)
        seed_torch(stream_seed(self.seed, "dropout", index), self.context.device)
        loss = self.method.step_loss(self.context, step)
        with torch.no_grad():
            self.method.after_loss(self.context, step)
        optimiser.zero_grad(set_to_none=True)
        with self.context.products():
            scaler.scale(loss).backward()
        norm = apply_gradients(self.weights, optimiser, scaler, recipe.clip)
        state.step += 1
        row = {"step": state.step, "loss": math.nan, "learning_rate": rate}
        self._unread.append((row, loss.detach(), norm, batch))

    def should_select(self) -> bool:
        """Return whether the dev set is scored after this step; the last one selects if no other
        one did."""
        state = self.state
        return state.step % self.run.recipe.select_every == 0 or (
            state.step == self.total and not state.best
        )

    def should_sync(self) -> bool:
        """Return whether to call `sync` now, which waits for the device."""
        every = SYNC_EVERY[self.context.device.partition(":")[0]]
        is_last = self.state.step == self.total
        return len(self._unread) >= every or is_last or self.should_select()

    def sync(self) -> Iterator[dict[str, Any]]:
        """Wait for the device and yield the log rows of the steps since the last call.

        If a selection is due after the last of them, its row has the dev scores.

        Raises:
            Diverged: a loss, a gradient or the vectors are not finite, or all vectors are equal.
        """
        unread, self._unread = self._unread, []
        for row, loss, norm, batch in unread:
            row["loss"] = loss.item()
            self._check_step(row, norm.item(), batch)
            if row["step"] == self.state.step and self.should_select():
                self._select(row, batch)
            yield row

    def _check_step(self, row: dict[str, Any], norm: float, batch: Sequence[int]) -> None:
        """Raise `Diverged` if a step's loss or gradient is not finite, unless it was skipped.

        An enabled scaler skips a step whose gradient is not finite and lowers its scale, as in the
        released code. Without one, clipping has turned the gradient into zeros or NaN.
        """
        loss, step, skips = row["loss"], row["step"], self.state.skips
        skipped = self.state.scaler.is_enabled() and not math.isfinite(norm)
        skips["all"] += skipped
        skips["in_a_row"] = skips["in_a_row"] + 1 if skipped else 0
        if skips["in_a_row"] > SKIPS:
            reason = f"the gradients of {SKIPS + 1} steps in a row were not finite"
            raise Diverged(f"{reason}, the last loss {loss}", step, batch)
        if skipped:
            row |= {"loss": loss if math.isfinite(loss) else None, "skipped": True}
        elif not math.isfinite(loss):
            raise Diverged(f"the loss became {loss}", step, batch)
        elif not math.isfinite(norm):
            raise Diverged(f"the gradient's norm became {norm}", step, batch)

    def _select(self, row: dict[str, Any], batch: Sequence[int]) -> None:
        """Score the method's Encoders on dev, add the scores to a log row, and keep the best."""
        self.state.since_best += 1
        for place, encoder in enumerate(self.method.encoders(self.context)):
            with float32_products(SELECTION):
                vectors = encoded(encoder, self.dev)
            try:
                records = score_tasks(encoder, self.dev, vectors)
            except UserError as error:  # vectors that are not finite, or all equal
                raise Diverged(str(error), row["step"], batch) from None
            kept = [record for record in records if record["aggregation"] == "all"]
            scores = {record["task"]: record["value"] for record in kept}
            value = sum(scores.values()) / len(scores)
            row["dev" if place == 0 else f"dev_{place + 1}"] = scores
            self.state.keep_best(value, row["step"], place)
            if place == 0:
                geometry = _geometry(self.dev, vectors, self.context.device)
                point = {"step": row["step"], "loss": row["loss"], "dev": value}
                row |= geometry
                self.state.curve.append(point | geometry)

    def finish(self, folder: Path) -> dict[str, Any]:
        """Write the best Encoder to a folder and return the `outcome` of `train`."""
        state = self.state
        self.modules.load_state_dict(state.best_weights)
        self.modules.eval()
        encoder = self.method.encoders(self.context)[state.best["place"]]
        save_encoder(self.method.finish(encoder, self.context), folder)
        work, seconds = self.context.work, state.seconds
        flop = {"forward": work.forward, "backward": work.backward, "selection": work.selection}
        counted = {"tokens": work.tokens, "sentences": work.sentences, "flop": flop}
        return {
            "status": "finished",
            "steps": state.step,
            "best_step": state.best["step"],
            "best_dev": state.best["dev"],
            "seconds": seconds,
            "work": counted | {"seconds": seconds},
            "curve": state.curve,
        }

    def load(self, checkpoint: Checkpoint) -> None:
        """Load a checkpoint; `UserError` if its tensors are not those of this code."""
        try:
            elsewhere = self.state.load_state_dict(checkpoint.state)
        except (RuntimeError, ValueError, KeyError):
            raise UserError(
                f"{checkpoint.path} does not match the tensors of '{self.run.method}' in this "
                "version of the code; delete its folder to start over"
            ) from None
        if elsewhere:
            warn(
                f"{self.run.id}: earlier steps ran with other code, versions or devices; "
                "outcome.json lists them"
            )


def _geometry(dev: Sequence[sts.StsTask], vectors: Vectors, device: str) -> dict[str, float | None]:
    """Return alignment and uniformity of the dev pairs, for figures."""
    pairs = [subset for task in dev for subset in task.subsets]
    arrays = (
        [vectors(subset.first) for subset in pairs],
        [vectors(subset.second) for subset in pairs],
        [subset.gold for subset in pairs],
    )
    first, second, gold = (torch.from_numpy(np.concatenate(parts)).to(device) for parts in arrays)
    return {
        "alignment": alignment(first, second, gold),
        "uniformity": uniformity(torch.cat([first, second])),
    }
