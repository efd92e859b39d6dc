"""Checksums of tasks: exactly what is scored."""

import hashlib
from collections.abc import Iterable, Sequence

import numpy as np

from bench.datasets.labelled import LabelledTask
from bench.datasets.sts import StsTask


def task_sums(tasks: Iterable[StsTask | LabelledTask]) -> dict[str, dict[str, str]]:
    """Checksums of tasks by name and split: sentences and gold scores or labels, in order.

    The checksum of a data folder covers its files; this one covers exactly what was scored.
    """
    sums: dict[str, dict[str, str]] = {}
    for task in tasks:
        if isinstance(task, StsTask):
            pairs = [(one.name, (one.first, one.second), one.gold) for one in task.subsets]
            sums.setdefault(task.name, {})[task.split] = _digest(pairs)
        else:
            for split, samples in task.splits.items():
                labelled = [(split, samples.columns, samples.labels)]
                sums.setdefault(task.name, {})[split] = _digest(labelled)
    return sums


def _digest(parts: Iterable[tuple[str, Sequence[Sequence[str]], np.ndarray]]) -> str:
    """The sum of parts: name, columns of sentences, and numbers."""
    digest = hashlib.sha256()
    for name, columns, numbers in parts:
        for column in columns:
            digest.update("\n".join((name, *column)).encode())
        digest.update(numbers.tobytes())
    return digest.hexdigest()[:16]
