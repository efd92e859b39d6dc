"""A record is every number: printed and reproduced alike.

A record is a flat dict with the keys of `COLUMNS`. Scores are in points (x 100) and are never rounded in files. What a
command measures goes to disk as one object `{"provenance": {...}, "records": [...]}`.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bench.utils.errors import UserError
from bench.utils.files import read_json, write_json

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


# Measurements of a run's encoder that are no scores (bench/stages/analyse.py).
ANALYSES = ("alignment", "layers", "tokens", "in-batch", "cosines", "memory", "nearest")

# What is done with a run, in this order.
STAGES = ("train", "score", "analyse")


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
    records = content["records"]
    odd = next(filter(None, map(_odd, records)), None) if isinstance(records, list) else "its records are no list"
    if odd:
        raise no_scores(path, odd)
    return content["provenance"], records


def no_scores(path: Path, why: str) -> UserError:
    """What to say of a file of scores in which something is not as it was written."""
    return UserError(f"{path} is not a scores file ({why}); move it away and score again")


def _odd(record: Any) -> str | None:
    """What is wrong with a record that was read, as a clause."""
    names = ("task", "split", "metric", "aggregation")
    if not isinstance(record, dict) or not all(isinstance(record.get(name), str) for name in names):
        return f"a record lacks one of {', '.join(names)}"
    cell, value = " ".join(record[name] for name in names[:3]), record.get("value")
    if not isinstance(value, int | float) or isinstance(value, bool):
        return f"{cell} is {value!r}, which is no number"
    return None if -100 <= value <= 100 else f"{cell} is {value}, and points end at 100"
