"""Training logs as TensorBoard event files, per step and per evaluation.

Logs hold no times. The wall time of an event is its step in seconds, so TensorBoard's "relative"
axis counts steps.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.export.runs import ExportedRun
from bench.runs import paths
from bench.utils.errors import UserError

# TensorBoard looks for "tfevents"; a fixed name keeps exports reproducible.
EVENTS = "events.out.tfevents.0.sentbench"
TAGS = {
    "loss": "train/loss",
    "learning_rate": "train/learning_rate",
    "alignment": "geometry/alignment",
    "uniformity": "geometry/uniformity",
}


def write(suite_dir: Path, runs: Sequence[ExportedRun], folder: Path, requested: bool) -> list[str]:
    """Write the log of each trained run.

    Raises:
        UserError: `tensorboard` is not installed, a requested run has no log, no run has, or a log
            is damaged.
    """
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        what = "event files need tensorboard, which is not installed"
        raise UserError(f"{what}; pip install tensorboard") from None
    remarks: list[str] = []
    for run in runs:
        log = paths.run_folder(suite_dir, run.id) / "log.jsonl"
        if not log.is_file():
            why = f"{log} does not exist" if run.description["trained"] else "it is not trained"
            remarks.append(f"{run.id} has no training log: {why}")
            if requested:
                raise UserError(f"{remarks[-1]}; leave it out")
            continue
        with SummaryWriter(str(folder / run.id)) as writer:
            for step, tag, value in scalars(log):
                writer.add_scalar(tag, value, step, walltime=float(step))
        (events,) = (folder / run.id).iterdir()
        events.rename(folder / run.id / EVENTS)
    if len(remarks) == len(runs):
        raise UserError(f"{suite_dir} has no training log to export: {remarks[0]}")
    return remarks


def scalars(log: Path) -> Iterator[tuple[int, str, float]]:
    """Step, tag and value of each number of a training log, in order.

    Raises:
        UserError: a line is not a row of a training log.
    """
    with open(log, encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                row: dict[str, Any] = json.loads(line)
                yield from _scalars(row, int(row["step"]))
            except (ValueError, TypeError, KeyError, AttributeError):
                what = f"{log}, line {number}: not a row of a training log"
                raise UserError(f"{what}; delete the line") from None


def _scalars(row: Mapping[str, Any], step: int) -> Iterator[tuple[int, str, float]]:
    for key, value in row.items():
        if key in TAGS and value is not None:
            yield step, TAGS[key], float(value)
        elif key.startswith("dev"):
            for task, score in value.items():
                yield step, f"{key}/{task}", float(score)
