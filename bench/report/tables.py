"""The tables of a suite: every printed table with our scores, and its own leaderboards."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from bench.comparison.order import orders
from bench.comparison.reproduction import cells, leaderboard
from bench.comparison.statistics import FEWEST_SEEDS
from bench.comparison.verdict import VERDICT_MEANINGS, VERDICT_SYMBOLS
from bench.report.best import with_best
from bench.report.formats import Bold, csv, score_text, write_table
from bench.report.hyperparameters import render_hyperparameters
from bench.report.order_table import order_text, write_summaries
from bench.report.quoted_table import quoted_tables
from bench.reported import LABEL, SOURCES, printed_names, printed_text
from bench.reported.address import row_name, slug
from bench.results.records import SHARES, shown_setting
from bench.results.suite_results import SuiteResults, read_suite
from bench.utils.files import write_text
from bench.utils.text import listed

# Which of two printed differences of the uniformity loss a row is, if a table has both.
DIRECTIONS = {"uniformity_drop": "rise", "uniformity_gain": "fall"}

METRICS = {
    "spearman": "Spearman x 100",
    "accuracy": "accuracy",
    "spearman_delta": "differences of Spearman x 100",
    "uniformity_drop": "by how much the uniformity loss on STS-B rises",
    "uniformity_gain": "by how much it falls",
    "best_step": "the training step with the best dev score",
    "layer_similarity_above": "cosine of neighbouring layers (print states a lower bound)",
    "token_similarity_above": "cosine of tokens in percent (print states a lower bound)",
}

# How the scores of a task's subsets are joined.
AGGREGATED = {
    "mean": "means over their subsets (mean)",
    "wmean": "means over their subsets, weighted by number of pairs (wmean)",
}


def seeds_text(count: int, of: int) -> str:
    """The number of seeds of a score as ` (n = 1)`; empty if it is that of its row, `of`."""
    return f" (n = {count})" if 0 < count < of else ""


def origin(quoted_from: Iterable[str]) -> str:
    """Origin of a printed row: "quoted", "origin unknown", or empty for the paper's own numbers."""
    sources = set(quoted_from)
    return "origin unknown" if sources == {"unknown"} else "" if "" in sources else "quoted"


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
        shown[task] = [score_text(mean, sd) + seeds_text(n, of) for mean, sd, n, of in scores]
    if board["remark"].any():
        shown["Remark"] = board["remark"]
    return shown if several_corpora(board) else shown.drop(columns="Corpus")


def several_corpora(board: pd.DataFrame) -> bool:
    return len(set(board["corpus"]) - {""}) > 1


def tasks_of(table: pd.DataFrame) -> list[str]:
    """The tasks of a printed table in the order of print, but their average last: its verdict is
    that of the row."""
    return sorted(table["task"].unique(), key=lambda task: task == "Avg")


def printed_rows(table: pd.DataFrame) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """The rows of a printed table: name, split if there are several, and cells by task."""
    splits = table["split"].nunique() > 1
    for (*label, split), row in table.groupby([*LABEL, "split"], sort=False, dropna=False):
        name = printed_names().get(tuple(label)) or row_name(label[2], label[4])
        cells = {cell.task: cell for cell in row.itertuples(index=False)}
        yield name, f" {split}" if splits and split else "", cells


def digits_of(cell: Any) -> int:
    return 0 if cell.metric == "best_step" else 2


def shown_table(table: pd.DataFrame) -> pd.DataFrame:
    """A printed table as texts: a line per printed row, followed by ours, one per setting, and by
    the published checkpoint's, if the row quotes one; a sweep as a grid. The best values of each
    column are `Bold`."""
    table = marked(table)
    if is_sweep(table):
        return _grid(table)
    tasks = tasks_of(table)
    both_ways = set(DIRECTIONS) <= set(table["metric"])
    lines = []
    for name, split, row in printed_rows(table):
        last = row.get(tasks[-1]) or [*row.values()][-1]
        if both_ways and last.metric in DIRECTIONS:
            name += f", {DIRECTIONS[last.metric]}"
        lines += _row_lines({"Backbone": last.backbone, "Method": name + split}, row, last)
    verdict = f"Verdict ({tasks[-1]})" if len(tasks) > 1 else "Verdict"
    columns = ["Backbone", "Method", "Line", *tasks, "Verdict"]
    shown = pd.DataFrame(lines, columns=columns, dtype=object)
    return shown.fillna("").rename(columns={"Line": "", "Verdict": verdict})


def _row_lines(head: dict[str, str], row: dict[str, Any], last: Any) -> list[dict[str, str]]:
    """The lines of one printed row (cells by task), with the verdict of `last`: printed numbers,
    ours, ours in the other setting, and those of the published checkpoint."""
    cells = row.items()
    scored = any(cell.n > 0 for cell in row.values()) or last.verdict == "diverged"
    verdict = f"{VERDICT_SYMBOLS[last.verdict]} {last.verdict}"
    if last.verdict in ("not run", "inconclusive", "diverged"):
        verdict += f": {last.reason}"
    lines = [head | {"Line": _print_line(row), "Verdict": "" if scored else verdict}]
    lines[0] |= {task: printed_score(cell) for task, cell in cells}
    if scored:
        n = last.n or max(cell.n for cell in row.values())  # the average may be missing
        ours = {"Line": f"ours, {last.run.partition('@')[2]}, n = {n}", "Verdict": verdict}
        ours |= {task: _our_score(cell) for task, cell in cells}
        lines.append(ours)
    others = sorted(row.values(), key=lambda cell: (cell is last, cell.other_n))
    if shown := [cell for cell in others if cell.other_n][-1:]:
        line = f"ours, {shown[0].other_setting}, n = {shown[0].other_n}"
        verdict = f"{VERDICT_SYMBOLS.get(last.other_verdict, '')} {last.other_verdict}"
        other = {"Line": line, "Verdict": verdict.strip()}
        lines.append(other | {task: _other_score(cell) for task, cell in cells})
    return lines + _checkpoint_line(row, last)


def _print_line(row: dict[str, Any]) -> str:
    """The name of the line with the printed numbers, which says whether they are quoted."""
    parts = ["printed", origin(cell.quoted_from for cell in row.values())]
    return ", ".join(filter(None, parts))


def _checkpoint_line(row: dict[str, Any], last: Any) -> list[dict[str, str]]:
    """The scores of the published checkpoint that a row quotes; no line if there are none."""
    scored = {task: cell for task, cell in row.items() if pd.notna(cell.checkpoint_mean)}
    if not scored:
        return []
    symbol = VERDICT_SYMBOLS.get(last.checkpoint_verdict, "")
    line = {"Line": "published checkpoint", "Verdict": f"{symbol} {last.checkpoint_verdict}"}
    for task, cell in scored.items():
        line[task] = f"{cell.checkpoint_mean:.2f} {cell.checkpoint_mark}"
    return [line]


def printed_score(cell: Any) -> str:
    """A printed number as in print, bold if it is the best of its column."""
    return Bold(printed_text(cell)) if cell.best_printed else printed_text(cell)


def _our_score(cell: Any, note: str = "") -> str:
    """Our score of a printed number with its verdict, bold if it is the best of its column."""
    score = score_text(cell.mean, cell.sd, digits_of(cell))
    text = f"{score}{note} {cell.mark}"
    return Bold(text) if cell.best_ours else text


def _other_score(cell: Any) -> str:
    score = score_text(cell.other_mean, cell.other_sd, digits_of(cell))
    return f"{score} {cell.other_mark}".strip()


# Sweeps


def is_sweep(table: pd.DataFrame) -> bool:
    """Whether the rows of a printed table vary one quantity, named by `variant`, in at least three
    values of each line, and are scored on one or two tasks."""
    variants = table["variant"]
    if "" in set(variants) or table["task"].nunique() > 2 or table["metric"].nunique() > 1:
        return False
    return all(line["variant"].nunique() > 2 for _, line in table.groupby(sweep_lines(table)))


def sweep_lines(table: pd.DataFrame) -> pd.Series:
    """The line of a sweep to which each number belongs, named by its method. Methods without a
    variant in common make up one line: in print, one of them is the other at zero."""
    methods = table["method"]
    if methods.nunique() == 1 or table.groupby("variant")["method"].nunique().max() > 1:
        return methods
    most, *others = methods.value_counts().index
    values = table[methods.isin(others)].drop_duplicates("variant")
    notes = ", ".join(f"{row.variant}: {row.method}" for row in values.itertuples())
    return pd.Series(f"{most} ({notes})", index=table.index, name="method")


def _grid(table: pd.DataFrame) -> pd.DataFrame:
    """A sweep as texts: a column per value, and the lines of print, ours, and the published
    checkpoint."""
    lines = []
    groups = table.groupby([sweep_lines(table), table["backbone"], table["task"]], sort=False)
    for (line, backbone, task), numbers in groups:
        head = {"Backbone": backbone, "Method": line, "Task": task}
        lines += _grid_lines(head, {cell.variant: cell for cell in numbers.itertuples(index=False)})
    columns = ["Backbone", "Method", "Task", "Line", *table["variant"].unique()]
    shown = pd.DataFrame(lines, columns=columns, dtype=object).fillna("")
    shown = shown.drop(columns="Task") if table["task"].nunique() == 1 else shown
    return shown.rename(columns={"Line": ""})


def _grid_lines(head: dict[str, str], row: dict[str, Any]) -> list[dict[str, str]]:
    """The lines of one line of a sweep (cells by variant): print, ours, ours in the other setting,
    and those of the published checkpoint."""
    n, other_n = (max(getattr(cell, name) for cell in row.values()) for name in ("n", "other_n"))
    line = head | {"Line": _print_line(row)}
    lines = [line | {value: printed_score(cell) for value, cell in row.items()}]
    checkpoint = _checkpoint_line(row, [*row.values()][-1])
    if not n and all(cell.verdict == "not run" for cell in row.values()):
        not_run = {"Line": f"{line['Line']}; {VERDICT_SYMBOLS['not run']} not run"}
        return [lines[0] | not_run, *checkpoint]
    settings = dict.fromkeys(cell.run.partition("@")[2] for cell in row.values() if cell.run)
    ours = {"Line": f"ours, {' or '.join(settings)}, n = {n}"}
    for value, cell in row.items():
        missing = VERDICT_SYMBOLS[cell.verdict]
        ours[value] = _our_score(cell, seeds_text(cell.n, n)) if cell.n else missing
    lines.append(ours)
    if other_n:
        settings = dict.fromkeys(cell.other_setting for cell in row.values() if cell.other_n)
        other = {"Line": f"ours, {' or '.join(settings)}, n = {other_n}"}
        lines.append(other | {value: _other_score(cell) for value, cell in row.items()})
    return lines + checkpoint


def marked(table: pd.DataFrame) -> pd.DataFrame:
    """A printed table with the columns of `with_best`: of each column and backbone, in a sweep of
    each line."""
    return with_best(table, sweep_lines(table) if is_sweep(table) else None)


# Captions and files


def symbols(table: pd.DataFrame) -> str:
    """What the symbols of a printed table mean."""
    seen = set(table[["verdict", "other_verdict", "checkpoint_verdict"]].to_numpy().ravel())
    kinds = [kind for kind in VERDICT_SYMBOLS if kind in seen]
    meanings = [f"{VERDICT_SYMBOLS[kind]} {kind}: {VERDICT_MEANINGS[kind]}" for kind in kinds]
    return f"{'; '.join(meanings)}."


def legend(table: pd.DataFrame) -> str:
    """What the symbols and the bold type of a printed table mean, for below it."""
    if not marked(table)[["best_printed", "best_ours"]].any(axis=None):
        return symbols(table)
    of = "line" if is_sweep(table) else "backbone"
    return (
        f"{symbols(table)} Bold: the best printed value of a column for each {of}, and our best, "
        f"unless it has fewer than {FEWEST_SEEDS} seeds."
    )


def captioned(suite: SuiteResults, table: pd.DataFrame) -> str:
    """The caption of a printed table; `legend` is what stands below it."""
    source, name = table.iloc[0][["source", "table"]]
    metric = listed(METRICS[metric] for metric in table["metric"].unique())
    text = f"{SOURCES[source]}, {name}: {metric}, printed and measured "
    text += "(mean ± standard deviation over n seeds)."
    other = table[table["split"] != table["ours_split"]]
    for stated, rows in other.groupby("split", sort=False):
        printed = "Printed" if len(rows) == len(table) else "Some are printed"
        where = f"as of the {stated} sets" if stated else "without the name of a set"
        ours = listed(rows["ours_split"])
        text += f" {printed} {where}; ours are of the {ours} sets."
    if other.empty and set(table["split"]) == {"dev"}:
        averaged = "; Avg is of two, STS-B and SICK-R" if "Avg" in set(table["task"]) else ""
        text += f" All scores are of dev sets{averaged}."
    parts = [text, *notes(table), suite.remark_on(table["measured_on"]), suite.growth]
    return " ".join(filter(None, parts))


def notes(table: pd.DataFrame) -> list[str]:
    """What to know about the rows of a printed table: their notes in recipes.yaml, each once, what
    our differences are, and where subsets are aggregated otherwise than in the other rows."""
    found = [note for note in table["note"].unique() if note]
    if "spearman_delta" in set(table["metric"]):
        found.append("Our differences are between runs with the same seed.")
    for (aggregation, backbone), rows in table.groupby(["aggregation", "backbone"], sort=False):
        if aggregation:
            names = listed(rows["method"])
            found.append(
                f"On {backbone}, STS12 to STS16 of {names} are {AGGREGATED[aggregation]}, printed "
                f"and ours; in all other rows they are correlations over all pairs."
            )
    return found


def leaderboard_title(suite: SuiteResults, name: str) -> str:
    """What one of the suite's own tables holds."""
    title = f"{suite.planned(name).title}, mean ± standard deviation over n seeds"
    if suite.boards[name].metric in SHARES and suite.mode != "test":
        title += f", classifiers of mode {suite.mode}"
    return title


def leaderboard_caption(suite: SuiteResults, name: str, board: pd.DataFrame) -> str:
    """The caption of one of the suite's own tables."""
    title = leaderboard_title(suite, name)
    return f"Suite {suite.name}: {title}. {suite.remark_on(board['backbone'])}".strip()


def columns(suite: SuiteResults, name: str) -> list[str]:
    """The columns of one of the suite's own tables: the planned tasks, and their average if all
    tasks that it is of are planned and there are several."""
    whole, planned = suite.boards[name], suite.planned(name)
    with_average = planned.tasks == whole.tasks and len(whole.tasks) > 1
    return [*planned.tasks, *["Avg"] * with_average]


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


def is_measured(table: pd.DataFrame) -> bool:
    """Whether a printed table has any number of ours beside it, or a training that diverged."""
    scored = (table["n"] > 0) | (table["other_n"] > 0) | table["checkpoint_mean"].notna()
    return bool((scored | (table["verdict"] == "diverged")).any())


def render_tables(suite_dir: Path, out: Path) -> None:
    """Write leaderboards, quoted scores, printed tables with a measurement, printed
    hyper-parameters, `order` and `averages` in four formats, and `cells.csv`, which has every
    printed number, into `out`.

    Raises:
        UserError: files of the suite are missing or damaged, or `out` cannot be written.
    """
    suite = read_suite(suite_dir)
    all_cells = cells(suite)
    write_text(out / "cells.csv", csv(all_cells))
    own = leaderboards(suite)
    for name, board in own.items():
        caption = leaderboard_caption(suite, name, board)
        shown = shown_leaderboard(board, columns(suite, name))
        write_table(out, name, board.drop(columns="run_ids"), shown, caption)
    for about in quoted_tables(suite, own):
        caption = f"Suite {suite.name}: {about.caption}."
        write_table(out, about.stem, about.numbers, about.shown, caption)
    found = orders(suite, all_cells)
    write_summaries(out, suite, found, all_cells)
    for stem, table in printed_tables(all_cells).items():
        if not is_measured(table):
            continue
        order = order_text(found, *table.iloc[0][["source", "table"]])
        caption = f"{captioned(suite, table)} {order}".strip()
        write_table(out, stem, table, shown_table(table), caption, legend(table))
    render_hyperparameters(out, suite)
