"""Printed tables with our scores and verdicts, as texts for files and for the terminal."""

import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from bench.comparison.reproduction import cells
from bench.comparison.statistics import FEWEST_SEEDS
from bench.comparison.verdict import VERDICT_MEANINGS, VERDICT_SYMBOLS
from bench.report.formats import Bold, plain, score_text
from bench.report.hyperparameters import CAPTION, hyperparameters, note, shown_hyperparameters
from bench.reported import LABEL, SCORES, SOURCES, printed_names, printed_text
from bench.reported.address import row_name, slug
from bench.results.suite_results import SuiteResults, read_suite
from bench.utils.text import listed

NOTHING_RUN = SuiteResults("", "senteval", {}, [])

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

Cells = dict[str, Any]  # a printed row: task, or swept value -> row of `cells`
Line = dict[str, str]  # column -> text


def printed_tables(all_cells: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The cells of each printed table, by the stem of its file names."""
    groups = all_cells.groupby(["source", "table"], sort=False)
    return {f"{source}_{slug(name)}": table for (source, name), table in groups}


def is_measured(table: pd.DataFrame) -> bool:
    """Whether a printed table has any number of ours beside it, or a training that diverged."""
    scored = (table["n"] > 0) | (table["other_n"] > 0) | table["checkpoint_mean"].notna()
    return bool((scored | (table["verdict"] == "diverged")).any())


def tasks_of(table: pd.DataFrame) -> list[str]:
    """The tasks of a printed table in the order of print, but their average last: its verdict is
    that of the row."""
    return sorted(table["task"].unique(), key=lambda task: task == "Avg")


def printed_rows(table: pd.DataFrame) -> Iterator[tuple[str, Cells]]:
    """The rows of a printed table: name, with the split if there are several, and cells by task."""
    splits = table["split"].nunique() > 1
    for (*label, split), row in table.groupby([*LABEL, "split"], sort=False, dropna=False):
        name = printed_names().get(tuple(label)) or row_name(label[2], label[4])
        cells = {cell.task: cell for cell in row.itertuples(index=False)}
        yield f"{name} {split}" if splits and split else name, cells


def origin(quoted_from: Iterable[str]) -> str:
    """Origin of a printed row: "quoted", "origin unknown", or empty for the paper's own numbers."""
    sources = set(quoted_from)
    if sources == {"unknown"}:
        return "origin unknown"
    return "" if "" in sources else "quoted"


def digits_of(cell: Any) -> int:
    return 0 if cell.metric == "best_step" else 2


# --- The best values, which print shows in bold ---


def with_best(table: pd.DataFrame, lines: pd.Series | None = None) -> pd.DataFrame:
    """The cells of a printed table with the columns `best_printed` and `best_ours`: whether a
    number, or our mean, is the highest of its task, among the rows of its backbone.

    Values that are equal as shown are all best. Where all are equal, none is. A mean over the seeds
    that did not diverge is no candidate. A mean of fewer than 3 seeds is never marked: which row is
    best would be chance.

    Args:
        table: rows of `bench.comparison.reproduction.cells`.
        lines: what is compared beside the backbone; None: all rows.
    """
    keys = [table[name] for name in ("backbone", "task", "split", "metric")]
    keys += [] if lines is None else [lines]
    scores = table["metric"].isin(SCORES)  # a difference or a step has no best value

    def best(values: pd.Series) -> pd.Series:
        candidates = values.where(scores).groupby(keys)
        several = candidates.transform("nunique") > 1
        return several & values.eq(candidates.transform("max"))

    means = table["mean"].where(table["verdict"] != "diverged").round(2)
    enough = table["deterministic"] | (table["n"] >= FEWEST_SEEDS)
    return table.assign(best_printed=best(table["printed"]), best_ours=best(means) & enough)


def marked(table: pd.DataFrame) -> pd.DataFrame:
    """A printed table with the columns of `with_best`: of each column and backbone, in a sweep of
    each line."""
    return with_best(table, sweep_lines(table) if is_sweep(table) else None)


# --- Tables of texts ---


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
    for name, row in printed_rows(table):
        # The verdict of the row is that of its average.
        decisive = row.get(tasks[-1]) or [*row.values()][-1]
        if both_ways and decisive.metric in DIRECTIONS:
            name += f", {DIRECTIONS[decisive.metric]}"
        lines += _row_lines({"Backbone": decisive.backbone, "Method": name}, row, decisive)
    verdict = f"Verdict ({tasks[-1]})" if len(tasks) > 1 else "Verdict"
    columns = ["Backbone", "Method", "Line", *tasks, "Verdict"]
    shown = pd.DataFrame(lines, columns=columns, dtype=object)
    return shown.fillna("").rename(columns={"Line": "", "Verdict": verdict})


def _row_lines(head: Line, row: Cells, decisive: Any) -> list[Line]:
    """The lines of one printed row, with the verdict of its `decisive` cell: printed numbers, ours,
    ours in the other setting, and those of the published checkpoint."""
    lines = [head | _printed_line(row)]
    verdict = f"{VERDICT_SYMBOLS[decisive.verdict]} {decisive.verdict}"
    if decisive.verdict in ("not run", "inconclusive", "diverged"):
        verdict += f": {decisive.reason}"
    n = decisive.n or max(cell.n for cell in row.values())  # the average may be missing
    if n or decisive.verdict == "diverged":
        line = {"Line": f"ours, {decisive.run.partition('@')[2]}, n = {n}", "Verdict": verdict}
        lines.append(line | {task: _our_score(cell) for task, cell in row.items()})
    else:
        lines[0]["Verdict"] = verdict
    others = [cell for cell in row.values() if cell.other_n]
    if others:
        most = max(others, key=lambda cell: (cell is decisive, cell.other_n))
        verdict = f"{VERDICT_SYMBOLS.get(decisive.other_verdict, '')} {decisive.other_verdict}"
        line = {"Line": f"ours, {most.other_setting}, n = {most.other_n}"}
        line["Verdict"] = verdict.strip()
        lines.append(line | {task: _other_score(cell) for task, cell in row.items()})
    return lines + _checkpoint_line(row, decisive)


def _printed_line(row: Cells) -> Line:
    """The printed numbers, the best of each column bold, and whether they are quoted."""
    quoted = origin(cell.quoted_from for cell in row.values())
    line = {"Line": ", ".join(filter(None, ["printed", quoted]))}
    for column, cell in row.items():
        text = printed_text(cell)
        line[column] = Bold(text) if cell.best_printed else text
    return line


def _our_score(cell: Any, seeds: str = "") -> str:
    """Our score of a printed number with its verdict, bold if it is the best of its column."""
    text = f"{score_text(cell.mean, cell.sd, digits_of(cell))}{seeds} {cell.mark}"
    return Bold(text) if cell.best_ours else text


def _other_score(cell: Any) -> str:
    score = score_text(cell.other_mean, cell.other_sd, digits_of(cell))
    return f"{score} {cell.other_mark}".strip()


def _checkpoint_line(row: Cells, decisive: Any) -> list[Line]:
    """The scores of the published checkpoint that a row quotes; no line if there are none."""
    scored = {column: cell for column, cell in row.items() if pd.notna(cell.checkpoint_mean)}
    if not scored:
        return []
    symbol = VERDICT_SYMBOLS.get(decisive.checkpoint_verdict, "")
    line = {"Line": "published checkpoint", "Verdict": f"{symbol} {decisive.checkpoint_verdict}"}
    for column, cell in scored.items():
        line[column] = f"{cell.checkpoint_mean:.2f} {cell.checkpoint_mark}"
    return [line]


# --- Sweeps ---


def is_sweep(table: pd.DataFrame) -> bool:
    """Whether the rows of a printed table vary one quantity, named by `variant`, in at least three
    values of each line, and are scored on one or two tasks."""
    variants = table["variant"]
    if "" in set(variants) or table["task"].nunique() > 2 or table["metric"].nunique() > 1:
        return False
    return bool((variants.groupby(sweep_lines(table)).nunique() > 2).all())


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
    for (name, backbone, task), numbers in groups:
        head = {"Backbone": backbone, "Method": name, "Task": task}
        lines += _grid_lines(head, {cell.variant: cell for cell in numbers.itertuples(index=False)})
    columns = ["Backbone", "Method", "Task", "Line", *table["variant"].unique()]
    shown = pd.DataFrame(lines, columns=columns, dtype=object).fillna("")
    shown = shown.drop(columns="Task") if table["task"].nunique() == 1 else shown
    return shown.rename(columns={"Line": ""})


def _grid_lines(head: Line, row: Cells) -> list[Line]:
    """The lines of one line of a sweep (cells by variant): print, ours, ours in the other setting,
    and those of the published checkpoint."""
    cells = row.values()
    lines = [head | _printed_line(row)]
    n, other_n = max(cell.n for cell in cells), max(cell.other_n for cell in cells)
    if n or any(cell.verdict != "not run" for cell in cells):
        settings = dict.fromkeys(cell.run.partition("@")[2] for cell in cells if cell.run)
        line = {"Line": f"ours, {' or '.join(settings)}, n = {n}"}
        for value, cell in row.items():
            seeds = seeds_text(cell.n, n)
            line[value] = _our_score(cell, seeds) if cell.n else VERDICT_SYMBOLS[cell.verdict]
        lines.append(line)
        if other_n:
            settings = dict.fromkeys(cell.other_setting for cell in cells if cell.other_n)
            line = {"Line": f"ours, {' or '.join(settings)}, n = {other_n}"}
            lines.append(line | {value: _other_score(cell) for value, cell in row.items()})
    else:
        lines[0]["Line"] += f"; {VERDICT_SYMBOLS['not run']} not run"
    return lines + _checkpoint_line(row, [*cells][-1])


def seeds_text(count: int, row_count: int) -> str:
    """The number of seeds of a score as ` (n = 1)`; empty if it is that of its row."""
    return f" (n = {count})" if 0 < count < row_count else ""


# --- Captions ---


def metrics_of(table: pd.DataFrame) -> str:
    return listed(METRICS[metric] for metric in table["metric"].unique())


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
    group = "line" if is_sweep(table) else "backbone"
    return (
        f"{symbols(table)} Bold: the best printed value of a column for each {group}, and our "
        f"best, unless it has fewer than {FEWEST_SEEDS} seeds."
    )


def captioned(suite: SuiteResults, table: pd.DataFrame) -> str:
    """The caption of a printed table; `legend` is what stands below it."""
    source, name = table.iloc[0][["source", "table"]]
    parts = [
        f"{SOURCES[source]}, {name}: {metrics_of(table)}, printed and measured "
        f"(mean ± standard deviation over n seeds)."
    ]
    other = table[table["split"] != table["ours_split"]]
    for stated, rows in other.groupby("split", sort=False):
        printed = "Printed" if len(rows) == len(table) else "Some are printed"
        where = f"as of the {stated} sets" if stated else "without the name of a set"
        parts.append(f"{printed} {where}; ours are of the {listed(rows['ours_split'])} sets.")
    if other.empty and set(table["split"]) == {"dev"}:
        averaged = "; Avg is of two, STS-B and SICK-R" if "Avg" in set(table["task"]) else ""
        parts.append(f"All scores are of dev sets{averaged}.")
    parts += [*notes(table), suite.remark_on(table["measured_on"]), suite.growth]
    return " ".join(filter(None, parts))


def notes(table: pd.DataFrame) -> list[str]:
    """What to know about the rows of a printed table: their notes in recipes.yaml, each once, what
    our differences are, and where subsets are aggregated otherwise than in the other rows."""
    texts = [note for note in table["note"].unique() if note]
    if "spearman_delta" in set(table["metric"]):
        texts.append("Our differences are between runs with the same seed.")
    aggregated = table[table["aggregation"] != ""]
    for (aggregation, backbone), rows in aggregated.groupby(
        ["aggregation", "backbone"], sort=False
    ):
        texts.append(
            f"On {backbone}, STS12 to STS16 of {listed(rows['method'])} are "
            f"{AGGREGATED[aggregation]}, printed and ours; in all other rows they are correlations "
            f"over all pairs."
        )
    return texts


# --- For the terminal ---


def printed_table(
    source: str, name: str, suite_dir: Path | None = None, rows: pd.DataFrame | None = None
) -> str:
    """A printed table as text: its numbers, and below each row ours and their verdicts.

    Args:
        source: a key of `SOURCES`.
        name: the table, as printed.
        suite_dir: folder of the suite with our scores; by default print alone is shown.
        rows: only the rows of these numbers, which have the columns `LABEL`; by default all.

    Raises:
        UserError: a file of the suite is missing or damaged.
    """
    suite = read_suite(suite_dir) if suite_dir else NOTHING_RUN
    judged = cells(suite).query("source == @source and table == @name")
    stated = hyperparameters().query("source == @source and table == @name")
    if rows is not None:
        labels = set(rows[LABEL].itertuples(index=False, name=None))
        judged = judged[judged[LABEL].apply(tuple, axis=1).isin(labels)]
        stated = stated[:0]
    parts = []
    if len(judged):
        shown = shown_table(judged)
        if suite_dir:
            parts.append(plain(shown, captioned(suite, judged), symbols(judged)))
        else:
            title = f"{SOURCES[source]}, {name}: {metrics_of(judged)}, as printed."
            parts.append(plain(_only_print(shown), " ".join([title, *notes(judged)])))
        if (judged["run"] != "").any() and rows is None:
            words = shlex.join([source, name])
            parts.append(f"Run a row yourself: python -m bench reproduce {words} --row ROW")
    if len(stated):
        caption = f"{SOURCES[source]}, {name}: {CAPTION}."
        shown = shown_hyperparameters(stated)
        parts.append(plain(shown, caption, note(shown, suite)))
    return "\n\n".join(parts)


def _only_print(shown: pd.DataFrame) -> pd.DataFrame:
    """The printed lines of `shown_table`, without what it says of ours."""
    verdicts = [column for column in shown if str(column).startswith("Verdict")]
    shown = shown.drop(columns=verdicts)
    shown[""] = shown[""].str.partition(";")[0].str.removeprefix("printed").str.removeprefix(", ")
    return shown if shown[""].any() else shown.drop(columns="")
