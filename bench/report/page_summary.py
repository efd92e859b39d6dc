"""What was found, in a few lines: the first thing on a suite's page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pandas as pd

from bench.comparison.against_baseline import against
from bench.comparison.verdict import VERDICT_SYMBOLS
from bench.datasets.tasks import STS_TASKS
from bench.report.comparison_table import baseline_name
from bench.report.formats import score_text
from bench.report.order_table import measured_averages
from bench.report.tables import columns
from bench.reported import paper_name
from bench.reported.address import row_name
from bench.reported.gains import printed_gains
from bench.results.records import named
from bench.results.suite_results import SuiteResults
from bench.utils.errors import UserError
from bench.utils.text import counted

# Verdicts of numbers that were compared with print.
COMPARED = ("reproduced", "consistent", "lower", "higher", "inconclusive")

Line = tuple[str, str]  # title and text


def verdict_counts(cells: pd.DataFrame) -> dict[str, int]:
    """How many numbers have each verdict, in the order of `VERDICT_SYMBOLS`, without zeros."""
    counts = Counter(cells["verdict"])
    return {kind: counts[kind] for kind in VERDICT_SYMBOLS if counts[kind]}


def found(
    suite: SuiteResults, all_cells: pd.DataFrame, boards: Mapping[str, pd.DataFrame], audited: int
) -> list[Line]:
    """The summary of a suite, without lines that have nothing to say.

    Args:
        suite: the suite.
        all_cells: its `reproduction.cells`.
        boards: its `leaderboards`.
        audited: number of findings of the audit.
    """
    name, task = _headline(suite, boards)
    title, where = f"on {task}", task
    if task == "Avg":
        title = f"{suite.boards[name].family} average"
        where = f"the {title}"
    lines = [
        ("Averages", _averages(all_cells)),
        (f"Highest {title}", _highest(boards[name], task)),
        *_against_baseline(suite, name, task, where),
        ("Print alone", _print_alone(audited)),
    ]
    return [(title, text) for title, text in lines if text]


def _headline(suite: SuiteResults, boards: Mapping[str, pd.DataFrame]) -> tuple[str, str]:
    """The first leaderboard with scores, and the column that sums it up: its average; else STS-B,
    or its first task, if the suite plans too few tasks for an average."""
    has_sts = boards["sts"][[*STS_TASKS]].notna().any(axis=None)  # the others hold scores
    name = next((name for name in boards if has_sts or name != "sts"), "sts")
    planned = columns(suite, name)
    return name, next((task for task in ("Avg", "STS-B") if task in planned), planned[0])


def _averages(all_cells: pd.DataFrame) -> str:
    """How the averages compare with print, and which is furthest from it."""
    rows = measured_averages(all_cells)
    rows = rows[rows["verdict"].isin(COMPARED)]
    if rows.empty:
        return "None can be compared with print."
    far = rows.loc[rows["difference"].abs().idxmax()]
    gap = f"{far['difference']:+.2f}".replace("-", "\N{MINUS SIGN}")
    where = f"{paper_name(far['source'])}, {far['table']}, "
    where += f"{row_name(far['method'], far['variant'])} on {far['backbone']}"
    counts = ", ".join(f"{count} {kind}" for kind, count in verdict_counts(rows).items())
    return f"Of {len(rows)} compared with print: {counts}. The furthest from it: {where}, {gap}."


def _highest(board: pd.DataFrame, task: str) -> str:
    """The best row on each backbone."""
    scored = board.dropna(subset=[task])
    best = scored.loc[scored.groupby("backbone", sort=False)[task].idxmax()]
    return "; ".join(
        f"{row['backbone']}: {named(row['label'], row['setting'])}, "
        f"{score_text(row[task], row[f'{task} sd'])}"
        for row in best.to_dict("records")
        if row["backbone"] != "none" or len(best) == 1
    )


def _against_baseline(suite: SuiteResults, board: str, task: str, where: str) -> list[Line]:
    """How many trained methods are better or worse than the baseline."""
    if not suite.baseline:
        return []
    try:
        rows, _ = against(suite, suite.baseline)
    except UserError:  # no scores yet
        return []
    rows = rows[(rows["board"] == board) & (rows["task"] == task) & (rows["kind"] == "paired")]
    counts = Counter(rows["verdict"])
    text = ", ".join(f"{counts[word]} {word}" for word in ("better", "worse", "undecided"))
    if rows.empty:
        return []
    title = f"Trained methods against {baseline_name(suite, rows)}"
    return [(title, f"{text}, paired by seed on {where}.")]


def _print_alone(audited: int) -> str:
    gains = printed_gains()
    within = (gains["gain"] < gains["reach"]).sum()
    return (
        f"{within} of {len(gains)} printed gains over SimCSE are within the 95 % range of the "
        f"difference of two public runs of SimCSE; the audit has {counted(audited, 'finding')}."
    )
