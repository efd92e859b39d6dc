"""The tables of a suite: every printed table with our scores, and its own leaderboards."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from bench.comparison.order import orders
from bench.comparison.reproduction import cells, leaderboard
from bench.comparison.verdict import VERDICT_SYMBOLS
from bench.datasets.tasks import TASK_ORDER
from bench.report.formats import csv, slug, write_table
from bench.report.order_table import order_text, write_summaries
from bench.reported import SOURCES
from bench.results.suite_results import SuiteResults, read_suite
from bench.utils.files import write_text

VERDICT_LEGEND = "; ".join(f"{symbol} {kind}" for kind, symbol in VERDICT_SYMBOLS.items())

# Which of two printed differences of the uniformity loss a row is, if a table has both.
DIRECTIONS = {"uniformity_drop": "rise", "uniformity_gain": "fall"}

METRICS = {
    "spearman": "Spearman x 100",
    "accuracy": "accuracy",
    "spearman_delta": "differences of Spearman x 100, ours paired by seed",
    "uniformity_drop": "by how much the uniformity loss on STS-B rises",
    "uniformity_gain": "by how much it falls",
    "best_step": "the training step with the best dev score",
}


def score_text(mean: float, sd: float, digits: int = 2) -> str:
    """`75.11 ± 0.84`; without an sd (NaN) `75.11`, without a mean a dash."""
    if pd.isna(mean):
        return "–"
    return f"{mean:.{digits}f}" if pd.isna(sd) else f"{mean:.{digits}f} ± {sd:.{digits}f}"


def seeds_text(count: int, of: int) -> str:
    """The number of seeds of a score as ` (n = 1)`; empty if it is that of its row, `of`."""
    return f" (n = {count})" if 0 < count < of else ""


def row_name(method: str, variant: str) -> str:
    """Label of a printed row: its method, with its variant in parentheses."""
    if variant.startswith("(") and variant.endswith(")"):
        variant = variant[1:-1]
    return f"{method} ({variant})" if variant else method


def origin(quoted_from: Iterable[str]) -> str:
    """Origin of a printed row: "quoted", "origin unknown", or empty for the paper's own numbers."""
    sources = set(quoted_from)
    return "origin unknown" if sources == {"unknown"} else "" if "" in sources else "quoted"


_LEADERBOARD = {
    "backbone": "Backbone", "label": "Method", "setting": "Setting", "corpus": "Corpus", "n": "n"
}  # fmt: skip


def shown_leaderboard(board: pd.DataFrame) -> pd.DataFrame:
    """A `leaderboard` as texts."""
    shown = board[list(_LEADERBOARD)].astype(str).rename(columns=_LEADERBOARD)
    tasks = [name for name in board.columns if f"{name} sd" in board.columns]
    for task in tasks[:1] if tasks[1:] == ["Avg"] else tasks:  # no average of a single task
        scores = board[[task, f"{task} sd", f"{task} n", "n"]].itertuples(index=False, name=None)
        shown[task] = [score_text(mean, sd) + seeds_text(n, of) for mean, sd, n, of in scores]
    if board["remark"].any():
        shown["Remark"] = board["remark"]
    return shown if several_corpora(board) else shown.drop(columns="Corpus")


def several_corpora(board: pd.DataFrame) -> bool:
    return len(set(board["corpus"]) - {""}) > 1


def tasks_of(table: pd.DataFrame) -> list[str]:
    """The tasks of a printed table in the usual order, unknown ones first."""
    order = {task: place for place, task in enumerate(TASK_ORDER)}
    return sorted(table["task"].unique(), key=lambda task: order.get(task, -1))


def printed_rows(table: pd.DataFrame) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """The rows of a printed table: name, split if there are several, and cells by task."""
    label = ["method", "backbone", "variant", "split"]
    splits = table["split"].nunique() > 1
    for (method, _, variant, split), row in table.groupby(label, sort=False, dropna=False):
        cells = {cell.task: cell for cell in row.itertuples(index=False)}
        yield row_name(method, variant), f" {split}" if splits and split else "", cells


def digits_of(cell: Any) -> int:
    return 0 if cell.metric == "best_step" else 2


def shown_table(table: pd.DataFrame) -> pd.DataFrame:
    """A printed table as texts: a line per printed row, followed by ours, one per setting."""
    tasks = tasks_of(table)
    both_ways = set(DIRECTIONS) <= set(table["metric"])
    lines = []
    for name, split, row in printed_rows(table):
        last = row.get(tasks[-1]) or [*row.values()][-1]
        if both_ways and last.metric in DIRECTIONS:
            name += f", {DIRECTIONS[last.metric]}"
        lines += _row_lines({"Backbone": last.backbone, "Method": name + split}, row, last)
    verdict = f"Verdict ({tasks[-1]})" if len(tasks) > 1 else "Verdict"
    shown = pd.DataFrame(lines, columns=["Backbone", "Method", "Line", *tasks, "Verdict"])
    return shown.fillna("").rename(columns={"Line": "", "Verdict": verdict})


def _row_lines(head: dict[str, str], row: dict[str, Any], last: Any) -> list[dict[str, str]]:
    """The lines of one printed row (cells by task), with the verdict of `last`: printed numbers,
    ours, and ours in the other setting."""
    digits, cells = digits_of(last), row.items()
    scored = any(cell.n > 0 for cell in row.values()) or last.verdict == "diverged"
    verdict = f"{VERDICT_SYMBOLS[last.verdict]} {last.verdict}"
    if last.verdict in ("not run", "inconclusive", "diverged"):
        verdict += f": {last.reason}"
    source = filter(None, ["printed", origin(cell.quoted_from for cell in row.values())])
    lines = [head | {"Line": ", ".join(source), "Verdict": "" if scored else verdict}]
    lines[0] |= {task: f"{cell.printed:.{digits}f}" for task, cell in cells}
    if scored:
        ours = {"Line": f"ours, {last.run.partition('@')[2]}, n = {last.n}", "Verdict": verdict}
        for task, cell in cells:
            score = score_text(cell.mean, cell.sd, digits)
            ours[task] = f"{score} {VERDICT_SYMBOLS[cell.verdict]}"
        lines.append(ours)
    if last.other_n:
        line = f"ours, {last.other_setting}, n = {last.other_n}"
        verdict = f"{VERDICT_SYMBOLS[last.other_verdict]} {last.other_verdict}"
        other = {"Line": line, "Verdict": verdict}
        for task, cell in cells:
            score = score_text(cell.other_mean, cell.other_sd, digits)
            symbol = VERDICT_SYMBOLS[cell.other_verdict] if cell.other_verdict else ""
            other[task] = f"{score} {symbol}".strip()
        lines.append(other)
    return lines


def captioned(suite: SuiteResults, table: pd.DataFrame) -> str:
    """The caption of a printed table, without the legend of the verdicts."""
    source, name = table.iloc[0][["source", "table"]]
    metric = " and ".join(METRICS[metric] for metric in table["metric"].unique())
    text = f"{SOURCES[source]}, {name}: {metric} as printed and as measured "
    text += "(mean ± standard deviation over n seeds)."
    if (table["split"] != table["ours_split"]).any():
        stated, ours = (" and ".join(table[name].unique()) for name in ("split", "ours_split"))
        text += f" Printed as of the {stated} sets; ours are of the {ours} sets."
    elif set(table["split"]) == {"dev"}:
        averaged = "; Avg is of two, STS-B and SICK-R" if "Avg" in set(table["task"]) else ""
        text += f" All scores are of dev sets{averaged}."
    return f"{text} {suite.remark_on(table['measured_on'])}".strip()


def leaderboard_caption(suite: SuiteResults, name: str, board: pd.DataFrame) -> str:
    """The caption of one of the suite's own tables."""
    title = f"{suite.boards[name].title}, mean ± standard deviation over n seeds"
    return f"Suite {suite.name}: {title}. {suite.remark_on(board['backbone'])}".strip()


def leaderboards(suite: SuiteResults) -> dict[str, pd.DataFrame]:
    """The suite's own tables that hold any score, by name; that of STS in any case."""
    boards = {}
    for name, about in suite.boards.items():
        board = leaderboard(suite, name)
        if name == "sts" or board[list(about.tasks)].notna().any(axis=None):
            boards[name] = board
    return boards


def printed_tables(all_cells: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The cells of each printed table, by the stem of its file names."""
    groups = all_cells.groupby(["source", "table"], sort=False)
    return {f"{source}_{slug(name)}": table for (source, name), table in groups}


def render_tables(suite_dir: Path, out: Path) -> None:
    """Write leaderboards, printed tables, `order` and `averages` in four formats, and `cells.csv`,
    into `out`.

    Raises:
        UserError: files of the suite are missing or damaged, or `out` cannot be written.
    """
    suite = read_suite(suite_dir)
    all_cells = cells(suite)
    write_text(out / "cells.csv", csv(all_cells))
    for name, board in leaderboards(suite).items():
        caption = leaderboard_caption(suite, name, board)
        write_table(out, name, board.drop(columns="run_ids"), shown_leaderboard(board), caption)
    found = orders(suite, all_cells)
    write_summaries(out, suite, found, all_cells)
    for stem, table in printed_tables(all_cells).items():
        order = order_text(found, *table.iloc[0][["source", "table"]])
        caption = f"{captioned(suite, table)} {order}".strip() + f" {VERDICT_LEGEND}."
        write_table(out, stem, table, shown_table(table), caption)
