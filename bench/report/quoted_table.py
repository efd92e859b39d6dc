"""Quoted scores of methods of other papers beside ours, as tables without verdicts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pandas as pd

from bench.comparison.reproduction import select
from bench.comparison.statistics import mean_and_sd
from bench.report.formats import score_text
from bench.report.order_table import Summary
from bench.reported import quoted
from bench.results.suite_results import SuiteResults

CAPTION = (
    "scores of methods of other papers, as printed in the place that is named, and ours below "
    "(mean ± standard deviation over n seeds). These papers are not among those that are "
    "reproduced here, so there are no verdicts"
)


def quoted_numbers(suite: SuiteResults, board: str) -> pd.DataFrame:
    """Each quoted score of a board with ours.

    Returns:
        Columns: `name`, `run`, `backbone`, `quoted_from` as in `bench.reported.quoted`; `task`;
        `quoted`, the score as printed, or empty; `measured_on`, the backbone of our runs, or empty;
        `ours` (tuple of points, one per seed), `n`, `mean` and `sd`.
    """
    about, rows = suite.boards[board], []
    for row in quoted(board).to_dict("records"):
        runs = select(suite, row["run"], row["backbone"]) if row["run"] else []
        label = {name: row[name] for name in ("name", "run", "backbone", "quoted_from")}
        for task in (*about.tasks, "Avg"):
            ours = [value for run in runs if (value := run.points(about, task)) is not None]
            mean, sd = mean_and_sd(ours)
            measured_on = runs[0].plan["backbone"] if ours else ""
            rows.append(
                label
                | {"task": task, "quoted": row[task], "measured_on": measured_on}
                | {"ours": tuple(ours), "n": len(ours), "mean": mean, "sd": sd}
            )
    return pd.DataFrame(rows)


def _shown(numbers: pd.DataFrame) -> pd.DataFrame:
    """`quoted_numbers` as texts: a line per quoted row, followed by ours if there is one."""
    lines: list[dict[str, Any]] = []
    for (name, run, backbone, source), row in numbers.groupby(
        ["name", "run", "backbone", "quoted_from"], sort=False
    ):
        head = {"Backbone": backbone, "Method": name}
        lines.append(head | {"Line": "quoted"} | dict(zip(row["task"], row["quoted"], strict=True)))
        lines[-1]["Quoted from"] = source
        if most := row["n"].max():
            texts = map(score_text, row["mean"], row["sd"])
            ours = f"ours, {run.partition('@')[2]}, n = {most}"
            lines.append(head | {"Line": ours} | dict(zip(row["task"], texts, strict=True)))
    return pd.DataFrame(lines, dtype=object).fillna("")


def quoted_tables(suite: SuiteResults, boards: Iterable[str]) -> list[Summary]:
    """The quoted scores of those boards that have any, as `quoted_<board>`."""
    tables = []
    for board in boards:
        if len(numbers := quoted_numbers(suite, board)):
            remark = suite.remark_on(numbers["measured_on"])
            caption = f"{CAPTION}. {remark}".removesuffix(".").strip()
            title = f"Quoted scores: {suite.boards[board].family}"
            tables.append(Summary(f"quoted_{board}", title, caption, numbers, _shown(numbers)))
    return tables
