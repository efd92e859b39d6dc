"""Records: all scores, of papers and of own runs, in one form.

A record is a flat dict with the keys of `COLUMNS`. Scores are in points (x 100) and are never
rounded in files. A file of scores is one object `{"provenance": {...}, "records": [...]}`.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

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


# Measurements of a run's encoder besides scores (bench/stages/analyse.py).
ANALYSES = ("alignment", "layers", "tokens", "in-batch", "cosines", "memory", "nearest")

# Stages of a run, in this order.
STAGES = ("train", "score", "analyse")


def write_scores(path: Path, provenance: dict[str, Any], records: Iterable[Record]) -> None:
    """Write scores with their provenance atomically."""
    write_json(path, {"provenance": provenance, "records": list(records)})


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
            f"{path} does not hold scores (provenance and records) as written by score and evaluate; "
            f"name another file, or score again"
        )
    records = content["records"]
    problem = (
        next(filter(None, map(_problem, records)), None)
        if isinstance(records, list)
        else "records is not a list"
    )
    if problem:
        raise no_scores(path, problem)
    return content["provenance"], records


def no_scores(path: Path, why: str) -> UserError:
    """The error for a file of scores that has another form."""
    return UserError(f"{path} is not a scores file ({why}); move it away and score again")


def _problem(record: Any) -> str | None:
    """What is wrong with a record, as a clause; None if it is valid."""
    names = ("task", "split", "metric", "aggregation")
    if not isinstance(record, dict) or not all(isinstance(record.get(name), str) for name in names):
        return f"a record lacks one of {', '.join(names)}"
    cell, value = " ".join(record[name] for name in names[:3]), record.get("value")
    if not isinstance(value, int | float) or isinstance(value, bool):
        return f"{cell} is {value!r}, which is not a number"
    return None if -100 <= value <= 100 else f"{cell} is {value}, outside -100 to 100"
