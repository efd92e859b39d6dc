"""Printed tables with our scores and verdicts: rows of texts, from which files, terminal and page
are made."""

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import nan
from pathlib import Path
from typing import Literal

import pandas as pd

from bench.datasets.metrics import AGGREGATIONS, PRINTED
from bench.judge.reproduction import Cell, grouped, judge
from bench.judge.statistics import FEWEST_SEEDS
from bench.judge.verdict import VERDICT_MEANINGS, VERDICT_SYMBOLS, Verdict
from bench.report.formats import Bold, plain, score_text, seeds_text, templates
from bench.report.hyperparameters import CAPTION, hyperparameters, note, shown_hyperparameters
from bench.reported import SOURCES
from bench.reported.address import printed_names, row_name, slug
from bench.reported.number import Number
from bench.results.suite_results import SuiteResults, read_suite
from bench.runs.plan import Plan
from bench.utils.errors import listed

NOTHING_RUN = SuiteResults(Plan(suite="", data="senteval", runs=[]), [])


@dataclass(frozen=True)
class ShownCell:
    """A printed number and our score beside it as texts, each `Bold` if it is the best of its
    column."""

    cell: Cell
    printed: str
    ours: str  # empty without a score


@dataclass(frozen=True)
class ShownRow:
    """A row of a printed table."""

    name: str  # as printed, with the split if the table has several
    backbone: str  # as printed
    task: str  # of a row of a sweep; else empty
    cells: dict[str, ShownCell]  # by column, in the order of print
    decisive: Cell  # whose verdict is that of the row

    @property
    def origin(self) -> str:
        """ "quoted", "origin unknown", or empty for the paper's own numbers."""
        sources = {shown.cell.number.quoted_from for shown in self.cells.values()}
        if sources == {"unknown"}:
            return "origin unknown"
        return "" if "" in sources else "quoted"


@dataclass(frozen=True)
class ShownTable:
    """A printed table as texts."""

    cells: Sequence[Cell]  # in the order of print
    columns: list[str]  # its tasks, but their average last; of a sweep the swept values
    rows: list[ShownRow]
    is_sweep: bool  # whether its rows vary one quantity

    @property
    def source(self) -> str:
        return self.cells[0].number.source

    @property
    def name(self) -> str:
        return self.cells[0].number.table

    @property
    def is_comparable(self) -> bool:
        """Whether ours can be compared with any of its numbers."""
        return any(cell.is_comparable for cell in self.cells)


def printed_tables(cells: Sequence[Cell]) -> dict[str, ShownTable]:
    """The printed tables of a suite's cells, by the stem of their file names."""
    tables = grouped(cells, lambda cell: (cell.number.source, cell.number.table))
    return {f"{source}_{slug(name)}": shown_table(own) for (source, name), own in tables.items()}


def shown_table(cells: Sequence[Cell]) -> ShownTable:
    """The cells of a printed table as texts: a row per printed row and a column per task, of a
    sweep a row per line and a column per value."""
    lines = _sweep_lines(cells)
    best = _best(cells, lines)
    shown: dict[Number, ShownCell] = {}
    for cell in cells:
        number, line = cell.number, cell.ours
        printed = number.text
        ours = score_text(line.mean, line.sd, number.our_metric.digits) if line.n else ""
        if best.at[number, "printed"]:
            printed = Bold(printed)
        # Which mean of fewer seeds is best would be chance.
        if best.at[number, "ours"] and (line.deterministic or line.n >= FEWEST_SEEDS):
            ours = Bold(ours)
        shown[number] = ShownCell(cell, printed, ours)

    def row_of(cell: Cell) -> tuple[str, ...]:
        number = cell.number
        if lines:
            return lines[number], number.backbone, number.task
        return *number.label, number.split

    def column_of(cell: Cell) -> str:
        return cell.number.variant if lines else cell.number.task

    columns = sorted(dict.fromkeys(map(column_of, cells)), key=lambda column: column == "Avg")
    several_splits = len({cell.number.split for cell in cells}) > 1
    several_directions = len({cell.number.form.direction for cell in cells} - {""}) > 1
    rows = []
    for row in grouped(cells, row_of).values():
        number = row[0].number
        texts = {column_of(cell): shown[cell.number] for cell in row}
        decisive = texts[columns[-1]].cell if columns[-1] in texts else row[-1]
        if lines:
            rows.append(ShownRow(lines[number], number.backbone, number.task, texts, decisive))
            continue
        name = printed_names().get(number.label) or row_name(number.method, number.variant)
        name += f" {number.split}" if several_splits and number.split else ""
        if several_directions and decisive.number.form.direction:
            name += f", {decisive.number.form.direction}"
        rows.append(ShownRow(name, number.backbone, "", texts, decisive))
    return ShownTable(cells, columns, rows, is_sweep=bool(lines))


def _best(cells: Sequence[Cell], lines: Mapping[Number, str]) -> pd.DataFrame:
    """Whether `printed` and `ours` are the highest of their column, among the rows of their
    backbone, in a sweep of their line, by number. Where all are equal, none is."""
    columns, values = [], []
    for cell in cells:
        number, ours = cell.number, cell.ours
        columns.append(
            (number.backbone, number.task, number.split, number.metric, lines.get(number))
        )
        # As it is shown; none over the seeds that did not diverge.
        has_mean = ours.n and ours.verdict.kind != "diverged"
        values.append((number.value, round(ours.mean, 2) if has_mean else nan))
    numbers = [cell.number for cell in cells]
    table = pd.DataFrame(values, numbers, ["printed", "ours"])
    groups = table.groupby(pd.Series(columns, table.index))
    is_best = (table == groups.transform("max")) & (groups.transform("nunique") > 1)
    return is_best.mul([number.is_score for number in numbers], axis=0)


def _sweep_lines(cells: Sequence[Cell]) -> dict[Number, str]:
    """The line of a sweep to which each number belongs, named by its method; empty if the table is
    no sweep: its rows vary one quantity, named by `variant`, in at least three values of each line,
    and are scored on one or two tasks. Methods without a variant in common make up one line."""
    numbers = [cell.number for cell in cells]
    tasks, metrics = ({getattr(number, name) for number in numbers} for name in ("task", "metric"))
    if not all(number.variant for number in numbers) or len(tasks) > 2 or len(metrics) > 1:
        return {}
    lines = {number: number.method for number in numbers}
    methods = list(lines.values())
    rows = dict.fromkeys((number.variant, number.method) for number in numbers)
    if len(set(methods)) > 1 and len({variant for variant, _ in rows}) == len(rows):
        most = max(methods, key=methods.count)  # in print, the others are this one at zero
        notes = ", ".join(f"{variant}: {method}" for variant, method in rows if method != most)
        lines = dict.fromkeys(numbers, f"{most} ({notes})")
    values = {(line, number.variant) for number, line in lines.items()}
    return lines if min(Counter(line for line, _ in values).values()) > 2 else {}


# --- As lines, for files and the terminal ---


def in_lines(table: ShownTable, *, print_alone: bool = False) -> pd.DataFrame:
    """A printed table as texts: a line per printed row, followed by ours, one per setting, and by
    the published checkpoint's, if the row quotes one; or a line per printed row alone."""
    lines: list[dict[str, str]] = []
    for row in table.rows:
        names = {"Backbone": row.backbone, "Method": row.name, "Task": row.task, "Line": row.origin}
        lines.append(names | {column: shown.printed for column, shown in row.cells.items()})
        if print_alone:
            continue
        lines[-1]["Line"] = ", ".join(filter(None, ["printed", row.origin]))
        verdict, cells = row.decisive.ours.verdict, [shown.cell for shown in row.cells.values()]
        if any(cell.ours.verdict.kind != "not run" for cell in cells):
            lines.append(_line(row, "ours", in_sweep=table.is_sweep))
        elif table.is_sweep:
            lines[-1]["Line"] += f"; {VERDICT_SYMBOLS['not run']} not run"
        else:
            lines[-1]["Verdict"] = _stated(verdict)
        if verdict.kind in ("not run", "inconclusive", "diverged"):
            lines[-1]["Verdict"] = f"{_stated(verdict)}: {verdict.reason}"
        if any(cell.other for cell in cells):
            lines.append(_line(row, "other", in_sweep=table.is_sweep))
        checkpoint = {
            column: f"{shown.cell.checkpoint.mean:.2f} {shown.cell.checkpoint.verdict.mark}"
            for column, shown in row.cells.items()
            if shown.cell.checkpoint and shown.cell.checkpoint.n
        }
        if checkpoint:
            decisive = row.decisive.checkpoint
            stated = _stated(decisive.verdict) if decisive else ""
            lines.append(checkpoint | {"Line": "published checkpoint", "Verdict": stated})
    several_tasks = len({row.task for row in table.rows}) > 1
    columns = ["Backbone", "Method", *["Task"] * several_tasks, "Line", *table.columns]
    columns += [] if table.is_sweep or print_alone else ["Verdict"]
    verdict_name = f"Verdict ({table.columns[-1]})" if len(table.columns) > 1 else "Verdict"
    shown = pd.DataFrame(lines, columns=columns, dtype=object).fillna("")
    if print_alone and not shown["Line"].any():
        shown = shown.drop(columns="Line")
    return shown.rename(columns={"Line": "", "Verdict": verdict_name})


def _line(row: ShownRow, whose: Literal["ours", "other"], *, in_sweep: bool) -> dict[str, str]:
    """A line of ours below a printed row: scores with the marks of their verdicts."""
    sides = {column: getattr(shown.cell, whose) for column, shown in row.cells.items()}
    known, decisive = list(filter(None, sides.values())), getattr(row.decisive, whose)
    n = max(line.n for line in known)
    if decisive and decisive.n and not in_sweep:  # the average may be missing
        n = decisive.n
    settings = dict.fromkeys(line.setting for line in known if line.setting)
    texts = {
        **dict.fromkeys(row.cells, "–"),
        "Line": f"ours, {' or '.join(settings)}, n = {n}",
        "Verdict": _stated(decisive.verdict) if decisive else "",
    }
    for column, shown in row.cells.items():
        line = sides[column]
        if line and whose == "ours" and in_sweep and not line.n:
            texts[column] = VERDICT_SYMBOLS[line.verdict.kind]
        elif line:
            score = score_text(line.mean, line.sd, shown.cell.number.our_metric.digits)
            if whose == "ours" and in_sweep:
                score += seeds_text(line.n, n)
            text = f"{score} {line.verdict.mark}"
            texts[column] = Bold(text) if whose == "ours" and isinstance(shown.ours, Bold) else text
    return texts


def _stated(verdict: Verdict) -> str:
    return f"{VERDICT_SYMBOLS[verdict.kind]} {verdict.kind}"


# --- Captions ---


def metrics_of(cells: Sequence[Cell]) -> str:
    return listed(PRINTED[cell.number.metric][1].title for cell in cells)


def symbols(cells: Sequence[Cell]) -> str:
    """What the symbols of a printed table mean."""
    lines = [line for cell in cells for line in (cell.ours, cell.other, cell.checkpoint) if line]
    seen = {line.verdict.kind for line in lines}
    kinds = [kind for kind in VERDICT_SYMBOLS if kind in seen]
    meanings = [f"{VERDICT_SYMBOLS[kind]} {kind}: {VERDICT_MEANINGS[kind]}" for kind in kinds]
    return f"{'; '.join(meanings)}."


def legend(table: ShownTable) -> str:
    """What the symbols and the bold type of a printed table mean, for below it."""
    shown = [cell for row in table.rows for cell in row.cells.values()]
    if not any(isinstance(text, Bold) for cell in shown for text in (cell.printed, cell.ours)):
        return symbols(table.cells)
    group = "line" if table.is_sweep else "backbone"
    return (
        f"{symbols(table.cells)} Bold: the best printed value of a column for each {group}, and "
        f"our best, unless it has fewer than {FEWEST_SEEDS} seeds."
    )


def captioned(suite: SuiteResults, table: ShownTable) -> str:
    """The caption of a printed table; `legend` is what stands below it."""
    cells, numbers = table.cells, [cell.number for cell in table.cells]
    elsewhere = [cell for cell in cells if cell.number.split != cell.number.our_split]
    remark = suite.remark_on(cell.ours.measured_on for cell in cells)
    text = templates().get_template("printed.txt").render(
        paper=SOURCES[table.source], table=table, metrics=metrics_of(cells), listed=listed,
        elsewhere=grouped(elsewhere, lambda cell: cell.number.split),
        has_average="Avg" in {number.task for number in numbers},
        only_dev=not elsewhere and {number.split for number in numbers} == {"dev"},
        notes=[*notes(cells), remark, suite.growth],
    )  # fmt: skip
    return " ".join(text.split())


def notes(cells: Sequence[Cell]) -> list[str]:
    """What to know about the rows of a printed table: their notes in recipes.yaml, each once, what
    our differences are, and where subsets are aggregated otherwise than in the other rows."""
    texts = list(dict.fromkeys(cell.number.note for cell in cells if cell.number.note))
    if "spearman_delta" in {cell.number.metric for cell in cells}:
        texts.append("Our differences are between runs with the same seed.")
    aggregated = [cell for cell in cells if cell.number.aggregation]
    for (aggregation, backbone), own in grouped(
        aggregated, lambda cell: (cell.number.aggregation, cell.number.backbone)
    ).items():
        texts.append(
            f"On {backbone}, STS12 to STS16 of {listed(cell.number.method for cell in own)} are "
            f"{AGGREGATIONS[aggregation]}, printed and ours; in all other rows they are "
            f"correlations over all pairs."
        )
    return texts


# --- For the terminal ---


def printed_table(
    source: str, name: str, suite_dir: Path | None = None, rows: Sequence[Number] = ()
) -> str:
    """A printed table as text: print alone, or with a suite below each row our scores and their
    verdicts; by default all rows, else those of the numbers `rows`."""
    suite = read_suite(suite_dir) if suite_dir else NOTHING_RUN
    cells = [cell for cell in judge(suite) if cell.number.label[:2] == (source, name)]
    stated = hyperparameters().query("source == @source and table == @name")
    if rows:
        labels = {number.label for number in rows}
        cells = [cell for cell in cells if cell.number.label in labels]
        stated = stated[:0]
    parts = []
    if cells:
        table = shown_table(cells)
        if suite_dir:
            parts.append(plain(in_lines(table), captioned(suite, table), symbols(cells)))
        else:
            title = f"{SOURCES[source]}, {name}: {metrics_of(cells)}, as printed."
            caption = " ".join([title, *notes(cells)])
            parts.append(plain(in_lines(table, print_alone=True), caption))
        if not rows and any(cell.number.run for cell in cells):
            words = shlex.join([source, name])
            parts.append(f"Run a row yourself: python -m bench reproduce {words} --row ROW")
    if len(stated):
        caption = f"{SOURCES[source]}, {name}: {CAPTION}."
        shown = shown_hyperparameters(stated)
        parts.append(plain(shown, caption, note(shown, suite)))
    return "\n\n".join(parts)
