"""Checksums of tasks: exactly what is scored."""

import hashlib
from collections.abc import Iterable, Sequence

import numpy as np

from bench.datasets.labelled import LabelledTask
from bench.datasets.sts import StsTask


def task_sums(tasks: Iterable[StsTask | LabelledTask]) -> dict[str, dict[str, str]]:
    """Checksums of tasks by name and split: sentences and gold scores or labels, in order."""
    sums: dict[str, dict[str, str]] = {}
    for task in tasks:
        of_task = sums.setdefault(task.name, {})
        if isinstance(task, StsTask):
            parts = [
                (pairs.name, (pairs.first, pairs.second), pairs.gold) for pairs in task.subsets
            ]
            of_task[task.split] = _digest(parts)
        else:
            for split, samples in task.splits.items():
                of_task[split] = _digest([(split, samples.columns, samples.labels)])
    return sums


def _digest(parts: Iterable[tuple[str, Sequence[Sequence[str]], np.ndarray]]) -> str:
    """The sum of parts: name, columns of sentences, and numbers."""
    digest = hashlib.sha256()
    for name, columns, numbers in parts:
        for column in columns:
            digest.update("\n".join((name, *column)).encode())
        digest.update(numbers.tobytes())
    return digest.hexdigest()[:16]
