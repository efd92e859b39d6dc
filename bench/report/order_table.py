"""The order of printed rows, and how the averages behind it agree, as tables and as text."""

from __future__ import annotations

from math import nan
from typing import Any, NamedTuple

import pandas as pd

from bench.comparison.order import row_averages
from bench.comparison.verdict import VERDICT_MEANINGS
from bench.report.formats import score_text, with_interval
from bench.reported import paper_name
from bench.results.suite_results import SuiteResults

ORDER_CAPTION = (
    "Kendall's tau-b of printed and measured averages with its 95 % bootstrap interval over the "
    "seeds: 1 if the order of the rows is that of print, -1 if it is reversed; expected: what "
    "95 % of tables would reach if print were one run of ours in each row; n: the fewest seeds of "
    "a trained row"
)
AVERAGES_CAPTION = (
    "printed averages with ours (mean ± standard deviation over n seeds): rank of print among "
    "print and our seeds, 1 if no seed is higher; expected best of five seeds; CV* of print and "
    f"our seeds in percent. ? inconclusive: {VERDICT_MEANINGS['inconclusive']}; ≈ consistent: "
    f"{VERDICT_MEANINGS['consistent']}"
)


def _where(source: str, table: str) -> str:
    """A printed table with its paper, without the arXiv number."""
    return f"{paper_name(source) if source else 'All papers'}, {table}"


def _rows_text(row: dict[str, Any]) -> str:
    """`12 rows`, with how many of them are not comparable."""
    rows, differ = row["rows"], row["not_comparable"]
    if not differ:
        return f"{rows} rows"
    return f"{rows} rows ({'all' if differ == rows else differ} not comparable)"


def order_text(orders: pd.DataFrame, source: str, table: str) -> str:
    """The order of a printed table as a sentence of its caption; empty if it has none.

    Args:
        orders: as returned by `bench.comparison.order.orders`.
        source, table: names of the printed table.
    """
    rows = orders[(orders["source"] == source) & (orders["table"] == table)]
    parts = []
    for row in rows.to_dict("records"):
        tau = with_interval(row["tau"], row["low"], row["high"])
        text = f"tau = {tau} over {_rows_text(row)}"
        if rows["backbone"].nunique() > 1:
            text += f" on {row['backbone']}"
        if rows["split"].nunique() > 1:
            text += f", {row['split']} set"
        if pd.notna(row["expected"]):
            text += f", expected from {row['expected']:.2f}"
        parts.append(text)
    return f"Order: {'; '.join(parts)}." if parts else ""


def shown_orders(suite: SuiteResults, orders: pd.DataFrame) -> pd.DataFrame:
    """`bench.comparison.order.orders` as texts."""
    lines = []
    for row in orders.to_dict("records"):
        split = f", {row['split']}" if row["split"] == "dev" else ""
        lines.append({
            "Table": _where(row["source"], row["table"] or suite.boards[row["board"]].title),
            "Backbone": row["backbone"] + split,
            "Rows": _rows_text(row).replace(" rows", ""),
            "n": "–" if pd.isna(row["seeds"]) else str(row["seeds"]),
            "tau": with_interval(row["tau"], row["low"], row["high"]),
            "Expected": score_text(row["expected"], nan),
            "Remark": row["remark"],
        })  # fmt: skip
    shown = pd.DataFrame(lines)
    return shown if orders["remark"].any() else shown.drop(columns="Remark", errors="ignore")


def measured_averages(all_cells: pd.DataFrame) -> pd.DataFrame:
    """The `row_averages` of `cells` that have scores of ours."""
    rows = row_averages(all_cells)
    return rows[rows["n"] > 0]


def shown_averages(rows: pd.DataFrame) -> pd.DataFrame:
    """`measured_averages` as texts."""
    lines = []
    for row in rows.to_dict("records"):
        lines.append({
            "Table": _where(row["source"], row["table"]),
            "Backbone": row["backbone"],
            "Method": row["method"],
            "Variant": row["variant"],
            "Score": " ".join(filter(None, [row["task"], row["split"]])),
            "Print": score_text(row["printed"], nan),
            "Ours": score_text(row["mean"], row["sd"]),
            "n": str(row["n"]),
            "Rank": "–" if pd.isna(row["rank"]) else f"{row['rank']} of {row['n'] + 1}",
            "Best of 5": score_text(row["best_of_five"], nan),
            "CV*": score_text(row["cv"], nan),
            "Verdict": f"{row['mark']} {row['verdict']}",
        })  # fmt: skip
    return pd.DataFrame(lines)


class Summary(NamedTuple):
    """A table over all printed tables."""

    stem: str  # of its file names
    title: str
    caption: str
    numbers: pd.DataFrame
    shown: pd.DataFrame  # texts
    remark: str = ""  # for its files; the page has it once

    @property
    def columns(self) -> dict[str, bool]:
        """The columns of `shown`, and whether they hold plain numbers."""
        numeric = ("n", "Expected", "Print", "Best of 5", "CV*")
        return {name: name in numeric for name in self.shown}


def summaries(suite: SuiteResults, orders: pd.DataFrame, all_cells: pd.DataFrame) -> list[Summary]:
    """The tables `order` and `averages`, without those that have no rows."""
    averages = measured_averages(all_cells)
    remark = suite.remark_on(all_cells["measured_on"])
    tables = [
        Summary(
            "order", "Order of rows", ORDER_CAPTION, orders, shown_orders(suite, orders), remark
        ),
        Summary(
            "averages", "Averages", AVERAGES_CAPTION, averages, shown_averages(averages), remark
        ),
    ]
    return [table for table in tables if len(table.numbers)]
