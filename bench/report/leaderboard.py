"""The suite's own tables: every system with its seeds, and its difference from the baseline."""

from collections.abc import Mapping, Sequence
from math import nan
from pathlib import Path
from textwrap import fill

import pandas as pd

from bench.comparison.against_baseline import COMPARISON_SYMBOLS, find, with_baseline
from bench.comparison.reproduction import leaderboard
from bench.comparison.statistics import FEWEST_SEEDS
from bench.datasets.metrics import METRICS, SHARE
from bench.registry.backbones import NO_BACKBONE
from bench.report.formats import (
    Bold,
    csv,
    difference_text,
    latex,
    markdown,
    plain,
    score_text,
    seeds_text,
    write_table,
)
from bench.reported.address import slug
from bench.results.suite_results import SuiteResults, read_suite
from bench.runs.plan import named
from bench.runs.run import OUTSIDE

DIFFERENCE = "Minus baseline"
NAME_WIDTH = 36  # letters in a line of a name in the terminal
BOLD = (
    f"Bold: the best mean of a backbone, unless it has fewer than {FEWEST_SEEDS} seeds or is of a "
    "control that is trained with labels."
)


def columns(suite: SuiteResults, name: str) -> list[str]:
    """The columns of a leaderboard: the planned tasks, and their average if all tasks that it is of
    are planned and there are several."""
    whole, planned = suite.boards[name].tasks, suite.planned(name).tasks
    return [*planned, "Avg"] if planned == whole and len(whole) > 1 else [*planned]


def leaderboards(suite: SuiteResults, compared: pd.DataFrame | None) -> dict[str, pd.DataFrame]:
    """The leaderboards that hold any score, by name; that of STS in any case.

    With comparisons with the suite's baseline, the first frame of `with_baseline`, a leaderboard
    has the columns `difference` and `half_width` of its last task, and `verdict`, which is
    "baseline" in the row of the baseline and empty where nothing is compared.
    """
    boards = {}
    for name, about in suite.boards.items():
        board = leaderboard(suite, name)
        if name != "sts" and board[list(about.tasks)].isna().all(axis=None):
            continue
        if compared is not None:
            baseline, is_shown = find(suite, suite.plan.baseline), compared["board"] == name
            is_shown &= compared["task"] == columns(suite, name)[-1]
            runs = compared[is_shown].explode("run_ids")
            # A method without a backbone is compared on each backbone, and shown beside a single
            # one.
            by_run = runs.set_index("run_ids")[["difference", "half_width", "verdict"]]
            by_run = by_run[~by_run.index.duplicated(keep=False)]
            board = board.join(by_run.reindex(board["run_ids"].str[0]).set_axis(board.index))
            is_baseline = board[["method", "setting"]].eq([baseline.method, baseline.setting])
            board["verdict"] = board["verdict"].fillna("").mask(is_baseline.all(axis=1), "baseline")
        boards[name] = board
    return boards


def runs_of(suite: SuiteResults, text: str) -> set[str]:
    """The ids of the runs that a text names: a label as in tables, or a method as in
    configurations."""
    labels = {run.plan.id: run.plan.label.removesuffix(OUTSIDE).lower() for run in suite.runs}
    ids = {run_id for run_id, name in labels.items() if name == text.lower()}
    return ids or {run.id for run in named(text, [run.plan for run in suite.runs])}


def groups_of(board: pd.DataFrame) -> pd.Series:
    """What the rows of a leaderboard are grouped by: the backbone, if it has several."""
    several = len(set(board["backbone"]) - {NO_BACKBONE.name}) > 1
    names = board["backbone"].replace(NO_BACKBONE.name, "no backbone")
    return names if several else names.mask(names != "", "")


def _is_best(board: pd.DataFrame, task: str) -> pd.Series:
    """Whether a mean is the highest of its group, as it is shown. None is where all are equal,
    and where the highest has few seeds, a seed that diverged, or is of a control."""
    means = board[task].round(2).mask(board["labelled"])
    groups = means.groupby(groups_of(board))
    has_seeds = (board[f"{task} n"] >= FEWEST_SEEDS) | (board["corpus"] == "")
    certain = has_seeds & ~board["remark"].str.contains("diverged")
    return (means == groups.transform("max")) & (groups.transform("nunique") > 1) & certain


def shown_leaderboard(
    suite: SuiteResults, name: str, board: pd.DataFrame, *, short: bool = False
) -> pd.DataFrame:
    """A leaderboard as texts. Names have a corpus where they would be the same without. A short one
    has no spreads of single tasks, and settings only where names would be the same without."""
    tasks = columns(suite, name)
    whole = (board["name"] + ", " + board["corpus"]).str.removesuffix(", ")
    names = board["name"].mask(board.duplicated(["backbone", "name"], keep=False), whole)
    if short:
        labels = board["label"].str.removesuffix(OUTSIDE)
        names = labels.mask(board.duplicated(["backbone", "label"], keep=False), names)
    shown = pd.DataFrame({"Backbone": board["backbone"], "Method": names})
    shown["n"] = board["n"].astype(str)
    for task in tasks:
        numbers = board[[task, f"{task} sd", f"{task} n", "n"]].assign(best=_is_best(board, task))
        has_spread = task == "Avg" or not short or "Avg" not in tasks
        texts = []
        for mean, sd, n, row_n, best in numbers.itertuples(index=False):
            text = score_text(mean, sd if has_spread else nan) + seeds_text(n, row_n)
            texts.append(Bold(text) if best else text)
        shown[task] = pd.Series(texts, board.index, dtype=object)
    if "verdict" in board:
        marks = {word: f" {symbol} {word}" for word, symbol in COMPARISON_SYMBOLS.items()}
        shown[DIFFERENCE] = list(map(difference_text, board["difference"], board["half_width"]))
        shown[DIFFERENCE] += board["verdict"].map(marks).fillna("")
        shown[DIFFERENCE] = shown[DIFFERENCE].mask(board["verdict"] == "baseline", "baseline")
    if board["remark"].any():
        shown["Remark"] = board["remark"]
    is_one = short and board["backbone"].nunique() == 1
    return shown.drop(columns="Backbone") if is_one else shown


def about(suite: SuiteResults, name: str, board: pd.DataFrame) -> str:
    """What a leaderboard holds, in sentences."""
    text = f"{suite.planned(name).title}, mean ± standard deviation over n seeds"
    if METRICS[suite.boards[name].metric].kind == SHARE and suite.plan.mode != "test":
        text += f", classifiers of mode {suite.plan.mode}"
    if "verdict" in board:
        words = ", ".join(f"{symbol} {word}" for word, symbol in COMPARISON_SYMBOLS.items())
        text += (
            f". {DIFFERENCE}: {columns(suite, name)[-1]} minus that of "
            f"{find(suite, suite.plan.baseline).name}, mean over the seeds that both have with its "
            f"95 % interval; {words}, after Holm's correction for all rows"
        )
    if board["labelled"].any():
        text += ". Systems that are trained with labels are controls, and come last"
    return f"{text}."


def caption(suite: SuiteResults, name: str, board: pd.DataFrame) -> str:
    """The caption of a leaderboard."""
    backbones = set(board["backbone"]) - {NO_BACKBONE.name}
    where = f" on {backbones.pop()}" if len(backbones) == 1 else ""
    text = f"Suite {suite.plan.suite}{where}: {about(suite, name, board)}"
    return f"{text} {suite.remark_on(board['backbone'])}".strip()


def in_format(suite: SuiteResults, name: str, board: pd.DataFrame, form: str) -> str:
    """A leaderboard in one of `LEADERBOARD_FORMATS`: as text and in LaTeX a short one, as CSV its
    numbers."""
    if form == "csv":
        return csv(board)
    text = caption(suite, name, board)
    if form == "markdown":
        return markdown(shown_leaderboard(suite, name, board), text, BOLD)
    shown = shown_leaderboard(suite, name, board, short=True)
    if form == "text":
        shown["Method"] = [fill(text, NAME_WIDTH) for text in shown["Method"]]
        return plain(shown, text)
    shown = shown.drop(columns=["Backbone", "Remark"], errors="ignore")
    if DIFFERENCE in shown:  # its words are in the caption
        shown[DIFFERENCE] = shown[DIFFERENCE].str.replace("(?<=[↑↓?]) .*", "", regex=True)
    headings = groups_of(board).mask(board["labelled"], "trained with labels")
    groups = dict(list(shown.groupby(headings, sort=False)))
    unscored = board[board["remark"] != ""]
    notes = [BOLD, *(unscored["name"] + ": " + unscored["remark"] + ".")]
    return latex(shown, text, slug(f"{suite.plan.suite}-{name}"), " ".join(notes), groups)


def show_leaderboards(suite_dir: Path, form: str = "text", rows: Sequence[str] = ()) -> str:
    """The leaderboards of a suite in one of `LEADERBOARD_FORMATS`; with `rows`, only the rows that
    these texts name (`runs_of`), in their order."""
    suite = read_suite(suite_dir)
    compared = with_baseline(suite)
    chosen = [runs_of(suite, text) for text in rows]
    texts = []
    for name, board in leaderboards(suite, compared and compared[0]).items():
        first_runs = board["run_ids"].str[0]
        places = [place for ids in chosen for place in board.index[first_runs.isin(ids)]]
        board = board.loc[list(dict.fromkeys(places))] if rows else board
        if len(board):
            texts.append(in_format(suite, name, board, form).rstrip())
    return "\n\n".join(texts)


def write_leaderboards(suite: SuiteResults, boards: Mapping[str, pd.DataFrame], out: Path) -> None:
    """Write leaderboards in three formats."""
    for name, board in boards.items():
        shown, text = shown_leaderboard(suite, name, board), caption(suite, name, board)
        tex = in_format(suite, name, board, "latex")
        write_table(out, suite.plan.suite, name, board, shown, text, BOLD, tex)
