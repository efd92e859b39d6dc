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
            points = [run.points(about, task) for run in runs]
            ours = [value for value in points if value is not None]
            mean, sd = mean_and_sd(ours)
            numbers = {
                "task": task,
                "quoted": row[task],
                "measured_on": runs[0].plan["backbone"] if ours else "",
                "ours": tuple(ours),
                "n": len(ours),
                "mean": mean,
                "sd": sd,
                "mark": NOT_COMPARABLE if ours and differ else "",
            }
            rows.append(label | numbers)
    return pd.DataFrame(rows)


def _shown(numbers: pd.DataFrame) -> pd.DataFrame:
    """`quoted_numbers` as texts: a line per quoted row, followed by ours if there is one."""
    lines: list[dict[str, Any]] = []
    groups = numbers.groupby(["name", "run", "backbone", "quoted_from"], sort=False)
    for (name, run, backbone, source), row in groups:
        line = {"Backbone": backbone, "Method": name, "Line": "quoted"}
        scores = dict(zip(row["task"], row["quoted"], strict=True))
        lines.append(line | scores | {"Quoted from": source})
        most = row["n"].max()
        if most:
            measured_on = with_stand_ins(backbone, row["measured_on"])
            line |= {"Backbone": measured_on, "Line": f"ours, {run.partition('@')[2]}, n = {most}"}
            for cell in row.itertuples():
                line[cell.task] = f"{score_text(cell.mean, cell.sd)} {cell.mark}".strip()
            lines.append(line)
    return pd.DataFrame(lines, dtype=object).fillna("")


def quoted_tables(suite: SuiteResults, boards: Iterable[str]) -> list[Summary]:
    """The quoted scores of those boards that have any, as `quoted_<board>`."""
    tables = []
    for board in boards:
        numbers = quoted_numbers(suite, board)
        if len(numbers):
            marked = [MARKED] if numbers["mark"].any() else []
            sentences = ". ".join([CAPTION, *marked, suite.remark_on(numbers["measured_on"])])
            title = f"Quoted scores: {suite.boards[board].family}"
            caption = sentences.rstrip(". ")
            tables.append(Summary(f"quoted_{board}", title, caption, numbers, _shown(numbers)))
    return tables
