"""Sets that the manifest of a data folder describes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from bench.datasets import probing, sts
from bench.datasets.tasks import OWN_PROBING, is_described


def check_own(tasks: Iterable[str], data: Path) -> None:
    """Read the described sets among some tasks, so that a mistake in them shows before a training.

    Raises:
        UserError: as `sts.read` and `probing.read`.
    """
    for task in tasks:
        if is_described(task):
            for split in sts.scored_splits(task, data):
                sts.read(task, data, split)
        elif task.startswith(OWN_PROBING):
            probing.read(task, data)
