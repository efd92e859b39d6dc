"""The suite's own tables: every system with its seeds, and its difference from the baseline."""

from collections.abc import Mapping, Sequence
from math import nan
from pathlib import Path
from textwrap import fill

import pandas as pd

from bench.datasets.metrics import METRICS, SHARE
from bench.judge.against_baseline import COMPARISON_SYMBOLS, find, with_baseline
from bench.judge.reproduction import leaderboard
from bench.judge.statistics import FEWEST_SEEDS
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


def overall(suite: SuiteResults, name: str) -> str:
    """The column of a leaderboard that sums it up: its average, else its first task."""
    return min(columns(suite, name), key=lambda task: task != "Avg")


def difference_title(suite: SuiteResults, name: str) -> str:
    """The heading of the column with differences from the baseline."""
    task = overall(suite, name)
    return "Minus baseline" if task == "Avg" else f"{task} minus baseline"


def on_overall(suite: SuiteResults, name: str, compared: pd.DataFrame) -> pd.DataFrame:
    """The comparisons, of the first frame of `with_baseline`, on what sums up a leaderboard."""
    return compared[(compared["board"] == name) & (compared["task"] == overall(suite, name))]


def leaderboards(suite: SuiteResults, compared: pd.DataFrame | None) -> dict[str, pd.DataFrame]:
    """The leaderboards that hold any score, by name; that of STS in any case.

    With the first frame of `with_baseline`, they have the columns `difference` and `half_width` of
    their `overall`, and `verdict`: "baseline" for the baseline, empty where nothing is compared.
    """
    boards = {}
    for name, about in suite.boards.items():
        board = leaderboard(suite, name)
        if name != "sts" and board[list(about.tasks)].isna().all(axis=None):
            continue
        if compared is not None:
            first_runs, baseline = board["run_ids"].str[0], find(suite, suite.plan.baseline)
            by_run = on_overall(suite, name, compared).explode("run_ids").set_index("run_ids")
            # A method without a backbone is compared on each, and shown beside a single one.
            by_run = by_run[~by_run.index.duplicated(keep=False)].reindex(first_runs)
            for column in ("difference", "half_width", "verdict"):
                board[column] = by_run[column].to_numpy()
            ids = [run.plan.id for runs in baseline.runs.values() for run in runs]
            board["verdict"] = board["verdict"].fillna("").mask(first_runs.isin(ids), "baseline")
        boards[name] = board
    return boards


def runs_of(suite: SuiteResults, text: str) -> set[str]:
    """The ids of the runs that a text names: a label, or a method as in configurations."""
    labels = {run.plan.id: run.plan.label.removesuffix(OUTSIDE).lower() for run in suite.runs}
    ids = {run_id for run_id, name in labels.items() if name == text.lower()}
    return ids or {run.id for run in named(text, [run.plan for run in suite.runs])}


def groups_of(board: pd.DataFrame) -> pd.Series:
    """What the rows of a leaderboard are grouped by: the backbone, if it has several, and whether
    they are trained with labels."""
    several = len(set(board["backbone"]) - {NO_BACKBONE.name}) > 1
    names = board["backbone"].replace(NO_BACKBONE.name, "no backbone")
    names = names.where([several] * len(board), "")
    with_labels = (names + ", trained with labels").str.removeprefix(", ")
    return names.mask(board["labelled"], with_labels)


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
        scores = []
        for mean, sd, n, row_n, best in numbers.itertuples(index=False):
            text = score_text(mean, sd if has_spread else nan) + seeds_text(n, row_n)
            scores.append(Bold(text) if best else text)
        shown[task] = pd.Series(scores, board.index, dtype=object)
    if "verdict" in board:
        marks = {word: f" {symbol} {word}" for word, symbol in COMPARISON_SYMBOLS.items()}
        differences = list(map(difference_text, board["difference"], board["half_width"]))
        texts = pd.Series(differences, board.index) + board["verdict"].map(marks).fillna("")
        title = difference_title(suite, name)
        shown[title] = texts.mask(board["verdict"] == "baseline", "baseline")
    if board["remark"].any():
        shown["Remark"] = board["remark"]
    return shown.drop(columns="Backbone") if short and board["backbone"].nunique() == 1 else shown


def about(suite: SuiteResults, name: str, board: pd.DataFrame) -> str:
    """What a leaderboard holds, in sentences."""
    text = f"{suite.planned(name).title}, mean ± standard deviation over n seeds"
    if METRICS[suite.boards[name].metric].kind == SHARE and suite.plan.mode != "test":
        text += f", classifiers of mode {suite.plan.mode}"
    if "verdict" in board:
        words = ", ".join(f"{symbol} {word}" for word, symbol in COMPARISON_SYMBOLS.items())
        baseline = find(suite, suite.plan.baseline)
        over = "mean over the seeds that both have with its 95 % interval"
        if all(run.plan.seed is None for runs in baseline.runs.values() for run in runs):
            over += ", which the test items give where neither has seeds"
        text += (
            f". {difference_title(suite, name)}: {overall(suite, name)} minus that of "
            f"{baseline.name}, {over}; {words}, after Holm's correction for all rows of the suite "
            "(docs/statistics.md, A against B)"
        )
    if board["labelled"].any():
        text += ". Systems that are trained with labels are controls"
    return f"{text}."


def caption(suite: SuiteResults, name: str, board: pd.DataFrame) -> str:
    """The caption of a leaderboard."""
    backbones = set(board["backbone"]) - {NO_BACKBONE.name}
    where = f" on {backbones.pop()}" if len(backbones) == 1 else ""
    text = f"Suite {suite.plan.suite}{where}: {about(suite, name, board)}"
    return f"{text} {suite.remark_on(board['backbone'])}".strip()


def in_format(suite: SuiteResults, name: str, board: pd.DataFrame, form: str) -> str:
    """A leaderboard in one of `LEADERBOARD_FORMATS`; as text and in LaTeX a short one."""
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
    title = difference_title(suite, name)
    if title in shown:  # its words are in the caption
        shown[title] = shown[title].str.replace("(?<=[↑↓?]) .*", "", regex=True)
    groups = dict(list(shown.groupby(groups_of(board), sort=False)))
    unscored = board[board["remark"] != ""]
    notes = " ".join([BOLD, *(unscored["name"] + ": " + unscored["remark"] + ".")])
    return latex(shown, text, slug(f"{suite.plan.suite}-{name}"), notes, groups)


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
