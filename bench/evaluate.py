"""Scores of an Encoder: every distinct sentence of all tasks is encoded once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bench.encoders import Encoder
from bench.errors import UserError, nearest
from bench.records import STS_TASKS, Record, average
from bench.tasks import sts


def read_tasks(names: Sequence[str], data: Path) -> list[sts.StsTask]:
    """The test split of each task, and the dev split where it has one.

    Args:
        names: task names, or "sts" for all seven.

    Raises:
        UserError: an unknown task, or files that are not as the manifest says.
    """
    wanted: list[str] = []
    for name in names:
        if name != "sts" and name not in STS_TASKS:
            raise UserError(f"unknown task '{name}'{nearest(name, ('sts', *STS_TASKS))}")
        wanted += STS_TASKS if name == "sts" else [name]
    tasks = []
    for name in dict.fromkeys(wanted):
        tasks.append(sts.read(name, data, "test"))
        if name in ("STS-B", "SICK-R"):
            tasks.append(sts.read(name, data, "dev"))
    return tasks


def score_tasks(encoder: Encoder, tasks: Sequence[sts.StsTask]) -> list[Record]:
    """Records (task, split, metric, aggregation, value) of each task, and the average where all seven are there.

    Raises:
        UserError: the vectors are not finite or all alike.
    """
    sentences = sts.sentences(tasks)
    rows = {sentence: row for row, sentence in enumerate(sentences)}
    vectors = encoder.encode(sentences)

    def look_up(texts: Sequence[str]) -> np.ndarray:
        return vectors[[rows[text] for text in texts]]

    records = [record for task in tasks for record in sts.score(task, look_up)]
    test = {r["task"]: r["value"] for r in records if r["split"] == "test" and r["aggregation"] == "all"}
    if set(test) == set(STS_TASKS):
        value = average([test[task] for task in STS_TASKS])
        records.append({"task": "Avg", "split": "test", "metric": "spearman", "aggregation": "all", "value": value})
    return records
