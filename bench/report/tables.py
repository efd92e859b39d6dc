"""The tables of a suite: every printed table with our scores, and its own leaderboards."""

from collections.abc import Iterable, Sequence
from math import nan
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from bench.comparison.order import orders, row_averages
from bench.comparison.reproduction import (
    Cell,
    deviations_from_print,
    frame,
    leaderboard,
    points,
    select,
)
from bench.comparison.statistics import mean_and_sd
from bench.comparison.verdict import VERDICT_MEANINGS, VERDICT_SYMBOLS
from bench.datasets.metrics import METRICS, SHARE
from bench.report.formats import csv, score_text, with_interval, write_table
from bench.report.hyperparameters import render_hyperparameters
from bench.report.printed_table import captioned, in_lines, legend, printed_tables, seeds_text
from bench.reported import paper_name, quoted
from bench.results.records import shown_setting, with_stand_ins
from bench.results.suite_results import SuiteResults
from bench.utils.files import write_text

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
    return f"{paper_name(source) if source else 'All papers'}, {table}"


def _rows_text(row: Any) -> str:
    """`12 rows`, with how many of them are not comparable."""
    if not row.not_comparable:
        return f"{row.rows} rows"
    differ = "all" if row.not_comparable == row.rows else row.not_comparable
    return f"{row.rows} rows ({differ} not comparable)"


def order_text(orders: pd.DataFrame, source: str, table: str) -> str:
    """The order of a printed table as a sentence of its caption; empty if it has none."""
    rows = orders[(orders["source"] == source) & (orders["table"] == table)]
    parts = []
    for row in rows.itertuples():
        text = f"tau = {with_interval(row.tau, row.low, row.high)} over {_rows_text(row)}"
        text += f" on {row.backbone}" if rows["backbone"].nunique() > 1 else ""
        text += f", {row.split} set" if rows["split"].nunique() > 1 else ""
        text += f", expected from {row.expected:.2f}" if pd.notna(row.expected) else ""
        parts.append(text)
    return f"Order: {'; '.join(parts)}." if parts else ""


def shown_orders(suite: SuiteResults, orders: pd.DataFrame) -> pd.DataFrame:
    """`bench.comparison.order.orders` as texts."""
    lines = []
    for row in orders.itertuples():
        lines.append({
            "Table": _where(row.source, row.table or suite.boards[row.board].title),
            "Backbone": row.backbone + (", dev" if row.split == "dev" else ""),
            "Rows": _rows_text(row).replace(" rows", ""),
            "n": "–" if pd.isna(row.seeds) else str(row.seeds),
            "tau": with_interval(row.tau, row.low, row.high),
            "Expected": score_text(row.expected, nan),
            "Remark": row.remark,
        })  # fmt: skip
    shown = pd.DataFrame(lines)
    return shown if orders["remark"].any() else shown.drop(columns="Remark", errors="ignore")


def measured_averages(cells: Iterable[Cell]) -> list[Cell]:
    """The `row_averages` of cells that have scores of ours."""
    return [cell for cell in row_averages(cells) if cell.ours.n]


def shown_averages(cells: Iterable[Cell]) -> pd.DataFrame:
    """`measured_averages` as texts."""
    lines = []
    for cell in cells:
        number, ours = cell.number, cell.ours
        lines.append({
            "Table": _where(number.source, number.table),
            "Backbone": number.backbone,
            "Method": number.method,
            "Variant": number.variant,
            "Score": " ".join(filter(None, [number.task, number.split])),
            "Print": score_text(number.value, nan),
            "Ours": score_text(ours.mean, ours.sd),
            "n": str(ours.n),
            "Rank": f"{cell.rank} of {ours.n + 1}" if cell.rank else "–",
            "Best of 5": score_text(cell.best_of_five, nan),
            "CV*": score_text(cell.cv, nan),
            "Verdict": f"{ours.verdict.mark} {ours.verdict.kind}",
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


def summaries(suite: SuiteResults, orders: pd.DataFrame, cells: Sequence[Cell]) -> list[Summary]:
    """The tables `order` and `averages`, without those that have no rows."""
    averages, tables = measured_averages(cells), []
    remark = suite.remark_on(cell.ours.measured_on for cell in cells)
    if len(orders):
        shown = shown_orders(suite, orders)
        tables.append(Summary("order", "Order of rows", ORDER_CAPTION, orders, shown, remark))
    if averages:
        shown, numbers = shown_averages(averages), frame(averages)
        tables.append(Summary("averages", "Averages", AVERAGES_CAPTION, numbers, shown, remark))
    return tables


QUOTED_CAPTION = (
    "scores of methods of other papers, as printed in the place that is named, and ours below "
    "(mean ± standard deviation over n seeds). These papers are not among those that are "
    "reproduced here, so there are no verdicts"
)
NOT_COMPARABLE = VERDICT_SYMBOLS["not comparable"]
MARKED = f"{NOT_COMPARABLE} not comparable: {VERDICT_MEANINGS['not comparable']}"


def quoted_tables(suite: SuiteResults, boards: Iterable[str]) -> list[Summary]:
    """The quoted scores of those boards that have any, as `quoted_<board>`: `numbers` has each
    score with ours, one per seed, `shown` a line per quoted row, followed by ours if there is
    one."""
    tables = []
    for board in boards:
        about = suite.boards[board]
        numbers: list[dict[str, Any]] = []
        lines: list[dict[str, str]] = []
        for row in quoted(board).to_dict("records"):
            runs = select(suite, row["run"], row["backbone"]) if row["run"] else []
            differ = any(deviations_from_print(run, row["backbone"], about.metric) for run in runs)
            line = {"Backbone": row["backbone"], "Method": row["name"], "Line": "quoted"}
            texts, most = dict(line), 0
            lines.append(line)
            line["Quoted from"] = row["quoted_from"]
            for task in (*about.tasks, "Avg"):
                ours = points(runs, about, task)
                (mean, sd), mark = mean_and_sd(ours), NOT_COMPARABLE if ours and differ else ""
                names = ("name", "run", "backbone", "quoted_from")
                numbers.append({name: row[name] for name in names} | {
                    "task": task,
                    "quoted": row[task],
                    "measured_on": runs[0].plan.backbone if ours else "",
                    "ours": ours,
                    "n": len(ours),
                    "mean": mean,
                    "sd": sd,
                    "mark": mark,
                })  # fmt: skip
                line[task], most = row[task], max(most, len(ours))
                texts[task] = f"{score_text(mean, sd)} {mark}".strip()
            if most:
                texts["Backbone"] = with_stand_ins(row["backbone"], [runs[0].plan.backbone])
                texts["Line"] = f"ours, {row['run'].partition('@')[2]}, n = {most}"
                lines.append(texts)
        if numbers:
            table = pd.DataFrame(numbers)
            sentences = [QUOTED_CAPTION, suite.remark_on(table["measured_on"])]
            if table["mark"].any():
                sentences.insert(1, MARKED)
            caption = ". ".join(sentences).rstrip(". ")
            columns = ["Backbone", "Method", "Line", *about.tasks, "Avg", "Quoted from"]
            shown = pd.DataFrame(lines, columns=columns, dtype=object).fillna("")
            title = f"Quoted scores: {about.family}"
            tables.append(Summary(f"quoted_{board}", title, caption, table, shown))
    return tables


_LEADERBOARD = {
    "backbone": "Backbone", "label": "Method", "setting": "Setting", "corpus": "Corpus", "n": "n"
}  # fmt: skip


def shown_leaderboard(board: pd.DataFrame, tasks: Sequence[str] = ()) -> pd.DataFrame:
    """A `leaderboard` as texts, with the columns `tasks`, by default all."""
    shown = board[list(_LEADERBOARD)].astype(str).rename(columns=_LEADERBOARD)
    shown["Setting"] = list(map(shown_setting, board["label"], board["setting"]))
    tasks = tasks or [name for name in board.columns if f"{name} sd" in board.columns]
    for task in tasks[:1] if tasks[1:] == ["Avg"] else tasks:  # no average of a single task
        scores = board[[task, f"{task} sd", f"{task} n", "n"]].itertuples(index=False, name=None)
        shown[task] = [score_text(mean, sd) + seeds_text(n, row_n) for mean, sd, n, row_n in scores]
    if board["remark"].any():
        shown["Remark"] = board["remark"]
    several_corpora = len(set(board["corpus"]) - {""}) > 1
    return shown if several_corpora else shown.drop(columns="Corpus")


def leaderboard_title(suite: SuiteResults, name: str) -> str:
    """What one of the suite's own tables holds."""
    title = f"{suite.planned(name).title}, mean ± standard deviation over n seeds"
    if METRICS[suite.boards[name].metric].kind == SHARE and suite.plan.mode != "test":
        title += f", classifiers of mode {suite.plan.mode}"
    return title


def leaderboard_caption(suite: SuiteResults, name: str, board: pd.DataFrame) -> str:
    """The caption of one of the suite's own tables."""
    title = leaderboard_title(suite, name)
    return f"Suite {suite.plan.suite}: {title}. {suite.remark_on(board['backbone'])}".strip()


def columns(suite: SuiteResults, name: str) -> list[str]:
    """The columns of one of the suite's own tables: the planned tasks, and their average if all
    tasks that it is of are planned and there are several."""
    whole, planned = suite.boards[name].tasks, suite.planned(name).tasks
    return [*planned, "Avg"] if planned == whole and len(whole) > 1 else [*planned]


def leaderboards(suite: SuiteResults) -> dict[str, pd.DataFrame]:
    """The suite's own tables that hold any score, by name; that of STS in any case."""
    boards = {}
    for name, about in suite.boards.items():
        board = leaderboard(suite, name)
        if name == "sts" or board[list(about.tasks)].notna().any(axis=None):
            boards[name] = board
    return boards


def render_tables(suite: SuiteResults, cells: Sequence[Cell], out: Path) -> None:
    """Write every table of a suite with these cells into `out`, in four formats, and `cells.csv`,
    which has every printed number."""
    write_text(out / "cells.csv", csv(frame(cells)))
    boards = leaderboards(suite)
    for name, board in boards.items():
        caption = leaderboard_caption(suite, name, board)
        shown = shown_leaderboard(board, columns(suite, name))
        write_table(out, name, board.drop(columns="run_ids"), shown, caption)
    order = orders(suite, cells)
    for summary in [*summaries(suite, order, cells), *quoted_tables(suite, boards)]:
        caption = f"Suite {suite.plan.suite}: {summary.caption}. {summary.remark}".strip()
        write_table(out, summary.stem, summary.numbers, summary.shown, caption)
    for stem, table in printed_tables(cells).items():
        if table.is_measured:
            text = order_text(order, table.source, table.name)
            caption = f"{captioned(suite, table)} {text}".strip()
            write_table(out, stem, frame(table.cells), in_lines(table), caption, legend(table))
    render_hyperparameters(out, suite)
