"""The tables of a suite: every printed table with our scores, and its own leaderboards."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from bench.comparison.order import orders
from bench.comparison.reproduction import Cell, frame, leaderboard
from bench.datasets.metrics import METRICS, SHARE
from bench.report.formats import csv, score_text, write_table
from bench.report.hyperparameters import render_hyperparameters
from bench.report.printed_table import captioned, in_lines, legend, printed_tables, seeds_text
from bench.report.summaries import order_text, quoted_tables, summaries
from bench.results.records import shown_setting
from bench.results.suite_results import SuiteResults
from bench.utils.files import write_text

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
