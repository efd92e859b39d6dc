"""Quoted scores of methods of other papers beside ours, as tables without verdicts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pandas as pd

from bench.comparison.reproduction import deviations_from_print, select
from bench.comparison.statistics import mean_and_sd
from bench.comparison.verdict import VERDICT_MEANINGS, VERDICT_SYMBOLS
from bench.report.formats import score_text
from bench.report.order_table import Summary
from bench.reported import quoted
from bench.results.records import with_stand_ins
from bench.results.suite_results import SuiteResults

CAPTION = (
    "scores of methods of other papers, as printed in the place that is named, and ours below "
    "(mean ± standard deviation over n seeds). These papers are not among those that are "
    "reproduced here, so there are no verdicts"
)
NOT_COMPARABLE = VERDICT_SYMBOLS["not comparable"]
MARKED = f"{NOT_COMPARABLE} not comparable: {VERDICT_MEANINGS['not comparable']}"


def quoted_numbers(suite: SuiteResults, board: str) -> pd.DataFrame:
    """Each quoted score of a board with ours.

    Returns:
        Columns: `name`, `run`, `backbone`, `quoted_from` as in `bench.reported.quoted`; `task`;
        `quoted`, the score as printed, or empty; `measured_on`, the backbone of our runs, or empty;
        `ours` (tuple of points, one per seed), `n`, `mean` and `sd`; `mark`, ≠ if ours are not
        comparable with the quoted score.
    """
    about, rows = suite.boards[board], []
    for row in quoted(board).to_dict("records"):
        runs = select(suite, row["run"], row["backbone"]) if row["run"] else []
        differ = any(deviations_from_print(run, row["backbone"], about.metric) for run in runs)
        label = {name: row[name] for name in ("name", "run", "backbone", "quoted_from")}
        for task in (*about.tasks, "Avg"):
            ours = [value for run in runs if (value := run.points(about, task)) is not None]
            mean, sd = mean_and_sd(ours)
            measured_on = runs[0].plan["backbone"] if ours else ""
            rows.append(
                label
                | {"task": task, "quoted": row[task], "measured_on": measured_on}
                | {"ours": tuple(ours), "n": len(ours), "mean": mean, "sd": sd}
                | {"mark": NOT_COMPARABLE if ours and differ else ""}
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
            scores = zip(row["mean"], row["sd"], row["mark"], strict=True)
            texts = [f"{score_text(mean, sd)} {mark}".strip() for mean, sd, mark in scores]
            ours = {"Backbone": with_stand_ins(backbone, row["measured_on"]), "Method": name}
            ours["Line"] = f"ours, {run.partition('@')[2]}, n = {most}"
            lines.append(ours | dict(zip(row["task"], texts, strict=True)))
    return pd.DataFrame(lines, dtype=object).fillna("")


def quoted_tables(suite: SuiteResults, boards: Iterable[str]) -> list[Summary]:
    """The quoted scores of those boards that have any, as `quoted_<board>`."""
    tables = []
    for board in boards:
        if len(numbers := quoted_numbers(suite, board)):
            remark = suite.remark_on(numbers["measured_on"])
            parts = [CAPTION, *[MARKED] * bool(numbers["mark"].any())]
            caption = f"{'. '.join(parts)}. {remark}".strip().removesuffix(".")
            title = f"Quoted scores: {suite.boards[board].family}"
            tables.append(Summary(f"quoted_{board}", title, caption, numbers, _shown(numbers)))
    return tables
