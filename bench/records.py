"""A record is every number: printed and reproduced alike.

A record is a flat dict with the keys of `COLUMNS`. Scores are in points (x 100) and are never rounded in files. What a
command measures goes to disk as one object `{"provenance": {...}, "records": [...]}`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from bench.errors import UserError, guess
from bench.files import read_json, write_json

Record = dict[str, Any]

COLUMNS = (
    "source",  # "sentbench" for our own runs, else the paper ("is-cse", "sscl", ...)
    "method",  # a run's canonical text, or the printed row label
    "backbone",
    "variant",  # "paper" or "official" for our runs, the printed remark for papers
    "seed",
    "task",
    "split",
    "metric",
    "aggregation",
    "value",
)

STS_TASKS = ("STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R")
TRANSFER_TASKS = ("MR", "CR", "SUBJ", "MPQA", "SST2", "TREC", "MRPC")
PROBING_TASKS = (
    "Length",
    "WordContent",
    "Depth",
    "TopConstituents",
    "BigramShift",
    "Tense",
    "SubjNumber",
    "ObjNumber",
    "OddManOut",
    "CoordinationInversion",
)
# The same questions on the sentences of another source (X-Probe), which has no TopConstituents.
XPROBE_TASKS = tuple(f"xprobe-{task}" for task in PROBING_TASKS if task != "TopConstituents")

# Chinese STS-B: an STS set with a name of its own, in no average.
CHINESE_TASKS = ("CNSD-STS-B",)
# An STS set of a user's own is called so, whatever follows; its data folder's manifest says where it is.
OWN_STS = "sts:"
# A probing task of a user's own is called so: the file probing/NAME.txt, whose sizes that manifest says.
OWN_PROBING = "probing:"

GROUPS = {
    "sts": STS_TASKS,
    "transfer": TRANSFER_TASKS,
    "probing": PROBING_TASKS,
    "all": (*STS_TASKS, *TRANSFER_TASKS, *PROBING_TASKS),
    "xprobe": XPROBE_TASKS,
    "chinese": CHINESE_TASKS,
}
# A suite's own tables: tasks, and the metric shown.
BOARDS = {
    "sts": (STS_TASKS, "spearman"),
    "transfer": (TRANSFER_TASKS, "accuracy"),
    "probing": (PROBING_TASKS, "accuracy"),
    "probing_mlp": (PROBING_TASKS, "accuracy_mlp"),
    "chinese": (CHINESE_TASKS, "spearman"),
}
# Measurements of a run's encoder that are no scores (bench/analyse.py).
ANALYSES = ("alignment", "layers", "tokens", "in-batch", "cosines", "memory", "nearest")

# What is done with a run, in this order.
STAGES = ("train", "score", "analyse")

KNOWN_TASKS = (*GROUPS["all"], *XPROBE_TASKS, *CHINESE_TASKS)

# What papers print -> the name used here; nowhere else is there such a table.
TASK_ALIASES = {
    "SICK15": "STS15",
    "SST": "SST2",
    "SST-2": "SST2",
    "MPRC": "MRPC",
    "SentLen": "Length",
    "TreeDepth": "Depth",
    "CoordInv": "CoordinationInversion",
    "STSB": "STS-B",
    "STS-Benchmark": "STS-B",
    "SICKR": "SICK-R",
    "Avg.": "Avg",
}


def canonical_task(label: str) -> str:
    """The task name used here for a label that a paper prints."""
    return TASK_ALIASES.get(label, label)


def is_described(task: str) -> bool:
    """Whether it is an STS set whose files a manifest describes: CNSD's, or one of a user's own."""
    return task in CHINESE_TASKS or (task.startswith(OWN_STS) and task != OWN_STS)


def is_probing(task: str) -> bool:
    """Whether it is a probing task as SentEval has them: one of its ten, or one of a user's own."""
    name = task.removeprefix(OWN_PROBING)
    return task in PROBING_TASKS or (name != task and re.fullmatch(r"\w[\w.-]*", name) is not None)


def expand_tasks(names: Sequence[str]) -> list[str]:
    """Single tasks, each once, for names of tasks and groups.

    Raises:
        UserError: a name is neither.
    """
    names = [canonical_task(name.strip()) for name in names]
    for name in names:
        if name not in GROUPS and name not in KNOWN_TASKS and not is_described(name) and not is_probing(name):
            listed = "; ".join(map(", ".join, (GROUPS, STS_TASKS, TRANSFER_TASKS, PROBING_TASKS)))
            raise UserError(f"unknown task '{name}'{guess(name, (*GROUPS, *KNOWN_TASKS))} (known: {listed})")
    return list(dict.fromkeys(task for name in names for task in GROUPS.get(name, (name,))))


def average(values: Sequence[float]) -> float:
    """The papers' "Avg.": the mean of the cells as printed, that is rounded to two decimals (methods.md a.5)."""
    return sum(round(value, 2) for value in values) / len(values)


def write_scores(path: Path, provenance: dict[str, Any], records: Iterable[Record]) -> None:
    """Write scores with their provenance, whole or not at all."""
    write_json(path, {"provenance": provenance, "records": list(records)})


def read_scores(path: Path) -> tuple[dict[str, Any], list[Record]]:
    """Read what `write_scores` wrote: `(provenance, records)`.

    Raises:
        UserError: the file is missing or does not have that form.
    """
    content = read_json(path)
    if not isinstance(content, dict) or not {"provenance", "records"} <= content.keys():
        raise UserError(
            f"{path} does not hold scores (provenance and records), as score and evaluate write them; "
            f"name another file, or score again"
        )
    return content["provenance"], content["records"]
