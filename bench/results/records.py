"""Records: all scores, of papers and of own runs, in one form.

A record is a flat dict with the keys of `COLUMNS`. Scores are in points (x 100) and are never
rounded in files. A file of scores is one object `{"provenance": {...}, "records": [...]}`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from bench.datasets.tasks import averages
from bench.results.readers import check_form, report_damage
from bench.utils.errors import UserError
from bench.utils.files import read_json, write_json

Record = dict[str, Any]
CellKey = tuple[str, str, str, str]  # task, split, metric, aggregation

COLUMNS = (
    "source",  # "sentbench" for own runs, else the paper ("is-cse", "sscl", ...)
    "method",  # canonical text of a run, or the row label of a paper
    "backbone",
    "variant",  # "paper" or "official" for own runs, the remark of a paper
    "seed",
    "task",
    "split",
    "metric",
    "aggregation",
    "value",
)

# Metrics of classifiers, whose training depends on the mode. They are not below 0; others are
# correlations.
SHARES = ("accuracy", "accuracy_mlp", "f1")

# A mean of scores that are rounded to two decimals differs this much at most from one of scores
# that are not.
AVERAGE_ROUNDING = 0.005 + 1e-9

# Measurements of a run's encoder besides scores (bench/stages/analyse.py).
ANALYSES = ("alignment", "layers", "tokens", "in-batch", "cosines", "memory", "nearest")

# The end of the label of an encoder that a configuration lists, which the suite has not trained.
OUTSIDE = " (outside encoder)"

# Stages of a run, in this order.
FAILURE = "failure.json"  # in the folder of a run whose last attempt failed
STAGES = ("train", "score", "analyse")


def write_scores(path: Path, provenance: dict[str, Any], records: Iterable[Record]) -> None:
    """Write scores with their provenance atomically."""
    write_json(path, {"provenance": provenance, "records": list(records)})


def is_outside(label: str) -> bool:
    """Whether a row of this label is of an outside encoder, which has no setting."""
    return label.endswith(OUTSIDE)


def shown_setting(label: str, setting: str) -> str:
    """The setting of a row, for tables."""
    return "–" if is_outside(label) else setting


def named(label: str, setting: str) -> str:
    """The name of a method in a setting."""
    return label if is_outside(label) else f"{label}, {setting}"


def with_stand_ins(backbone: str, measured_on: Iterable[str]) -> str:
    """A backbone as printed, with what our runs were measured on instead. An encoder without a
    backbone of the suite, such as a published one, stands in for nothing."""
    others = sorted(set(measured_on) - {backbone, "none", ""})
    return f"{backbone} (ours: {', '.join(others)})" if others else backbone


def cell_key(record: Record) -> CellKey:
    return record["task"], record["split"], record["metric"], record["aggregation"]


def read_scores(path: Path) -> tuple[dict[str, Any], list[Record]]:
    """Read a file of scores.

    Returns:
        Its provenance and its records.

    Raises:
        UserError: the file is missing or has another form.
    """
    content = read_json(path)
    if not isinstance(content, dict) or not {"provenance", "records"} <= content.keys():
        raise UserError(
            f"{path} does not hold scores (provenance and records) as written by score and "
            f"evaluate; name another file, or score again"
        )
    with scores_damage(path):
        check_form(content, {"provenance": dict, "records": list[dict]})
        for record in content["records"]:
            _check_record(record)
        for cell, count in Counter(map(cell_key, content["records"])).items():
            if count > 1:
                raise ValueError(f"{' '.join(cell)} is in it twice")
    return content["provenance"], content["records"]


def scores_damage(path: Path) -> AbstractContextManager[None]:
    """`report_damage` of a file of scores."""
    return report_damage(path, "a scores file", "move it away and score again")


def _check_record(record: Record) -> None:
    names = ("task", "split", "metric", "aggregation")
    if not all(isinstance(record.get(name), str) for name in names):
        raise ValueError(f"a record lacks one of {', '.join(names)}")
    cell, value = " ".join(cell_key(record)[:3]), record.get("value")
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ValueError(f"{cell} is {value!r}, which is not a number")
    lowest = 0 if record["metric"] in SHARES else -100
    if not lowest <= value <= 100:
        raise ValueError(f"{cell} is {value}, outside {lowest} to 100")


def check_averages(records: Iterable[Record]) -> None:
    """Check that each stored `Avg` is the average of the tasks beside it.

    Not part of `read_scores`, so that `bench.checks.verify` can say which score differs.

    Raises:
        ValueError: one is not, or lacks its tasks; see `scores_damage`.
    """
    scores = {cell_key(record): record["value"] for record in records}
    tested = {
        (task, metric): value
        for (task, split, metric, aggregation), value in scores.items()
        if (split, aggregation) == ("test", "all")
    }
    means = averages(tested)
    for (task, split, metric, aggregation), stored in scores.items():
        if task == "Avg":
            mean = means.get(metric) if (split, aggregation) == ("test", "all") else None
            if mean is None:
                raise ValueError(f"it has Avg {split} {metric} {aggregation} without its tasks")
            if abs(stored - mean) > AVERAGE_ROUNDING:
                raise ValueError(f"Avg {split} {metric} is {stored}, but its tasks average {mean}")
