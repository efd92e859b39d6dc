"""Records: all scores, of papers and of own runs, in one form.

A record is a flat dict with the keys of `COLUMNS`. Scores are in points (x 100) and are never
rounded in files. A file of scores is one object `{"provenance": {...}, "records": [...]}`.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bench.results.readers import Scores
from bench.runs.labels import is_outside
from bench.utils.files import write_json
from bench.utils.validation import read_document

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

# Metrics of classifiers, whose training depends on the mode.
SHARES = ("accuracy", "accuracy_mlp", "f1")

FAILURE = "failure.json"  # in the folder of a run whose last attempt failed


def write_scores(path: Path, provenance: dict[str, Any], records: Iterable[Record]) -> None:
    """Write scores with their provenance atomically."""
    write_json(path, {"provenance": provenance, "records": list(records)})


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
    """Read a file of scores, `bench.results.readers.Scores`: its provenance and its records."""
    remedy = "name another file, or move it away and score"
    content = read_document(path, Scores, "a scores file", remedy).model_dump(exclude_unset=True)
    return content["provenance"], content["records"]
