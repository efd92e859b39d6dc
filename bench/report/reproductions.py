"""Reproductions by others, as the page shows them beside the printed numbers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from math import nan
from statistics import fmean, stdev
from typing import Any

import pandas as pd

from bench.report.formats import score_text
from bench.report.tables import digits_of
from bench.reported import paper_name, printed_text
from bench.reported.address import address, row_name
from bench.reported.reproductions import Reproduction, reproductions


@cache
def _registered() -> tuple[Reproduction, ...]:
    """Read once, not for every number of a page."""
    return reproductions()


def _theirs(cell: Any, entry: Reproduction) -> str:
    scores = entry.numbers[address(cell)]
    sd = stdev(scores) if len(scores) > 1 else nan
    return f"{score_text(fmean(scores), sd, digits_of(cell))}, n = {len(scores)}"


def _entries(cell: Any) -> Iterator[Reproduction]:
    return (entry for entry in _registered() if address(cell) in entry.numbers)


def facts(cell: Any) -> list[tuple[str, str]]:
    """Every reproduction of a printed number: who made it, and its scores.

    Args:
        cell: a row of `bench.comparison.reproduction.cells`.
    """
    return [(f"Reproduced by {entry.by}", _theirs(cell, entry)) for entry in _entries(cell)]


def rows(all_cells: pd.DataFrame) -> list[dict[str, Any]]:
    """A row per reproduced number and reproduction, in the order of print, for the page's table."""
    return [
        {
            "address": address(cell),
            "title": f"{paper_name(cell.source)}, {cell.table}: "
            f"{row_name(cell.method, cell.variant)}, {cell.backbone}, {cell.task}",
            "printed": printed_text(cell),
            "theirs": _theirs(cell, entry),
            "entry": entry,
        }
        for cell in all_cells.itertuples()
        for entry in _entries(cell)
    ]
