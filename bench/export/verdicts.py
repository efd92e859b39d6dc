"""The verdicts of a suite as JSON: one entry per printed number that measures something."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from bench.comparison.reproduction import cells
from bench.comparison.verdict import VERDICT_MEANINGS
from bench.export.runs import ExportedRun
from bench.reported import SOURCES
from bench.reported.address import address, reproduce_command, row_name
from bench.results.suite_results import read_suite
from bench.utils.errors import UserError
from bench.utils.files import write_json

# Fields of `cells` that are copied; those that are unknown (NaN) are null.
PLACE = ["backbone", "task", "split", "metric", "printed", "quoted_from", "run", "minus"]
JUDGED = ["n", "mean", "sd", "difference", "tolerance", "verdict", "mark", "reason", "seeds"]
JUDGED += ["within", "p", "p_adjusted", "measured_on", "ours_split", "aggregation"]


def write(suite_dir: Path, runs: Sequence[ExportedRun], folder: Path, requested: bool) -> list[str]:
    """Write `verdicts.json`. An entry's `address` is the fragment that names it on the page.

    Raises:
        UserError: single runs are requested, or the suite has no plan.
    """
    if requested:
        raise UserError("verdicts are those of a whole suite; leave --run out")
    suite = read_suite(suite_dir)
    remarks = [suite.partial, suite.remark, suite.growth]
    numbers = [_number(cell) for cell in cells(suite).itertuples(index=False)]
    about = {"suite": suite.name, "data": suite.data, "remarks": list(filter(None, remarks))}
    meanings = {"papers": SOURCES, "meanings": VERDICT_MEANINGS}
    write_json(folder / "verdicts.json", {**about, **meanings, "numbers": numbers})
    return []


def _number(cell: Any) -> dict[str, Any]:
    named = {"address": address(cell), "paper": cell.source, "table": cell.table}
    named |= {"row": row_name(cell.method, cell.variant)}
    named |= {name: _plain(getattr(cell, name)) for name in [*PLACE, *JUDGED]}
    named["ours"] = list(cell.ours)
    return named | ({"command": reproduce_command(cell)} if cell.run else {})


def _plain(value: Any) -> Any:
    """A value as JSON has it: NaN and NA as null, numbers of numpy as Python's."""
    if pd.isna(value):
        return None
    return value.item() if hasattr(value, "item") else value
