"""Printed tables with our scores and verdicts: rows of texts, from which files, terminal and page
are made."""

import shlex
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from bench.comparison.reproduction import Cell, grouped, judge
from bench.comparison.statistics import FEWEST_SEEDS
from bench.comparison.verdict import VERDICT_MEANINGS, VERDICT_SYMBOLS, Verdict
from bench.datasets.metrics import AGGREGATIONS, PRINTED
from bench.report.formats import Bold, plain, score_text
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
    def is_measured(self) -> bool:
        """Whether any number has ours beside it, or a training that diverged."""
        return any(cell.is_measured for cell in self.cells)


def printed_tables(cells: Sequence[Cell]) -> dict[str, ShownTable]:
    """The printed tables of a suite's cells, by the stem of their file names."""
    tables = grouped(cells, lambda cell: (cell.number.source, cell.number.table))
    return {f"{source}_{slug(name)}": shown_table(own) for (source, name), own in tables.items()}


def shown_table(cells: Sequence[Cell]) -> ShownTable:
    """The cells of a printed table as texts: a row per printed row, of a sweep one per line."""
    lines = _sweep_lines(cells)
    printed = _best(cells, lambda cell: cell.number.value, lines)
    ours = _best(cells, _shown_mean, lines)
    shown: dict[Number, ShownCell] = {}
    for cell in cells:
        number, line = cell.number, cell.ours
        score = score_text(line.mean, line.sd, number.our_metric.digits) if line.n else ""
        # Which mean of fewer seeds is best would be chance.
        enough = line.deterministic or line.n >= FEWEST_SEEDS
        shown[number] = ShownCell(
            cell,
            _text(number.text, number in printed),
            _text(score, enough and number in ours),
        )
    if lines:
        return _sweep(cells, lines, shown)

    tasks = dict.fromkeys(cell.number.task for cell in cells)
    columns = sorted(tasks, key=lambda task: task == "Avg")
    splits = {cell.number.split for cell in cells}
    directions = {cell.number.form.direction for cell in cells} - {""}
    rows = []
    for row in grouped(cells, lambda cell: (cell.number.label, cell.number.split)).values():
        number = row[0].number
        name = printed_names().get(number.label) or row_name(number.method, number.variant)
        name += f" {number.split}" if len(splits) > 1 and number.split else ""
        by_task = {cell.number.task: cell for cell in row}
        decisive = by_task.get(columns[-1], row[-1])
        if len(directions) > 1 and decisive.number.form.direction:
            name += f", {decisive.number.form.direction}"
        texts = {task: shown[cell.number] for task, cell in by_task.items()}
        rows.append(ShownRow(name, number.backbone, "", texts, decisive))
    return ShownTable(cells, columns, rows, is_sweep=False)


def _sweep(
    cells: Sequence[Cell], lines: Mapping[Number, str], shown: Mapping[Number, ShownCell]
) -> ShownTable:
    """A table that varies one quantity as a grid: a column per value."""
    columns = list(dict.fromkeys(cell.number.variant for cell in cells))
    groups = grouped(
        cells, lambda cell: (lines[cell.number], cell.number.backbone, cell.number.task)
    )
    rows = []
    for (line, backbone, task), row in groups.items():
        texts = {cell.number.variant: shown[cell.number] for cell in row}
        rows.append(ShownRow(line, backbone, task, texts, row[-1]))
    return ShownTable(cells, columns, rows, is_sweep=True)


def _text(text: str, is_best: bool) -> str:
    return Bold(text) if is_best else text


def _shown_mean(cell: Cell) -> float | None:
    """Our mean as it is shown; none over the seeds that did not diverge."""
    ours = cell.ours
    return round(ours.mean, 2) if ours.n and ours.verdict.kind != "diverged" else None


def _best(
    cells: Sequence[Cell], value: Callable[[Cell], float | None], lines: Mapping[Number, str]
) -> set[Number]:
    """The numbers with the highest value of their column, among the rows of their backbone, in a
    sweep of their line. Where all are equal, none is."""

    def column(cell: Cell) -> tuple[str, ...]:
        number = cell.number
        line = lines.get(number, "")
        return number.backbone, number.task, number.split, number.metric, line

    best: set[Number] = set()
    for group in grouped([cell for cell in cells if cell.number.is_score], column).values():
        values = [value(cell) for cell in group]
        known = {number for number in values if number is not None}
        if len(known) > 1:
            pairs = zip(group, values, strict=True)
            best |= {cell.number for cell, number in pairs if number == max(known)}
    return best


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
    counts = Counter(line for line, _ in values)
    return lines if min(counts.values()) > 2 else {}


# --- As lines, for files and the terminal ---

Line = dict[str, str]  # column -> text


def in_lines(table: ShownTable, *, print_alone: bool = False) -> pd.DataFrame:
    """A printed table as texts: a line per printed row, followed by ours, one per setting, and by
    the published checkpoint's, if the row quotes one; or a line per printed row alone."""
    lines: list[Line] = []
    for row in table.rows:
        head = {"Backbone": row.backbone, "Method": row.name, "Task": row.task}
        printed = {column: shown.printed for column, shown in row.cells.items()}
        if print_alone:
            lines.append(head | printed | {"Line": row.origin})
        else:
            first, *further = _lines(row, printed, in_sweep=table.is_sweep)
            lines += [head | first, *further]
    several_tasks = len({row.task for row in table.rows}) > 1
    columns = ["Backbone", "Method", *["Task"] * several_tasks, "Line", *table.columns]
    verdict = "Verdict"
    if not table.is_sweep and not print_alone:
        columns.append(verdict)
        verdict += f" ({table.columns[-1]})" if len(table.columns) > 1 else ""
    shown = pd.DataFrame(lines, columns=columns, dtype=object).fillna("")
    if print_alone and not shown["Line"].any():
        shown = shown.drop(columns="Line")
    return shown.rename(columns={"Line": "", "Verdict": verdict})


def _lines(row: ShownRow, printed: Line, *, in_sweep: bool) -> list[Line]:
    """The lines of a row: print, ours, ours in the other setting, and the published checkpoint."""
    cells = {column: shown.cell for column, shown in row.cells.items()}
    decisive = row.decisive
    printed["Line"] = ", ".join(filter(None, ["printed", row.origin]))
    lines = [printed]
    most = max(cell.ours.n for cell in cells.values())
    n = most if in_sweep else decisive.ours.n or most  # the average may be missing
    verdict = decisive.ours.verdict
    stated = _stated(verdict)
    if verdict.kind in ("not run", "inconclusive", "diverged"):
        stated += f": {verdict.reason}"
    if any(cell.ours.verdict.kind != "not run" for cell in cells.values()):
        ours = {column: _ours(shown, n, in_sweep) for column, shown in row.cells.items()}
        settings = [cell.ours.setting for cell in cells.values() if cell.number.run]
        lines.append(ours | {"Line": _whose(settings, n), "Verdict": stated})
    elif in_sweep:
        printed["Line"] += f"; {VERDICT_SYMBOLS['not run']} not run"
    else:
        printed["Verdict"] = stated

    other = {column: cell.other for column, cell in cells.items() if cell.other}
    if other:
        most = max(line.n for line in other.values())
        n = decisive.other.n if decisive.other and not in_sweep else most
        texts = dict.fromkeys(cells, "–")
        for column, line in other.items():
            digits = cells[column].number.our_metric.digits
            texts[column] = f"{score_text(line.mean, line.sd, digits)} {line.verdict.mark}"
        stated = _stated(decisive.other.verdict) if decisive.other else ""
        whose = _whose([line.setting for line in other.values()], n)
        lines.append(texts | {"Line": whose, "Verdict": stated})

    checkpoint = {
        column: f"{cell.checkpoint.mean:.2f} {cell.checkpoint.verdict.mark}"
        for column, cell in cells.items()
        if cell.checkpoint and cell.checkpoint.n
    }
    if checkpoint:
        stated = _stated(decisive.checkpoint.verdict) if decisive.checkpoint else ""
        lines.append(checkpoint | {"Line": "published checkpoint", "Verdict": stated})
    return lines


def _stated(verdict: Verdict) -> str:
    return f"{VERDICT_SYMBOLS[verdict.kind]} {verdict.kind}"


def _whose(settings: Sequence[str], n: int) -> str:
    return f"ours, {' or '.join(dict.fromkeys(settings))}, n = {n}"


def _ours(shown: ShownCell, n: int, in_sweep: bool) -> str:
    """Our score with the mark of its verdict, in a sweep with its count of seeds if that is not
    the row's."""
    ours = shown.cell.ours
    if not ours.n:
        return VERDICT_SYMBOLS[ours.verdict.kind] if in_sweep else f"– {ours.verdict.mark}"
    seeds = seeds_text(ours.n, n) if in_sweep else ""
    text = f"{shown.ours}{seeds} {ours.verdict.mark}"
    return Bold(text) if isinstance(shown.ours, Bold) else text


def seeds_text(count: int, row_count: int) -> str:
    """The number of seeds of a score as ` (n = 1)`; empty if it is that of its row."""
    return f" (n = {count})" if 0 < count < row_count else ""


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
    cells = table.cells
    parts = [
        f"{SOURCES[table.source]}, {table.name}: {metrics_of(cells)}, printed and measured "
        f"(mean ± standard deviation over n seeds)."
    ]
    elsewhere = [cell for cell in cells if cell.number.split != cell.number.our_split]
    for stated, own in grouped(elsewhere, lambda cell: cell.number.split).items():
        printed = "Printed" if len(own) == len(cells) else "Some are printed"
        where = f"as of the {stated} sets" if stated else "without the name of a set"
        splits = listed(cell.number.our_split for cell in own)
        parts.append(f"{printed} {where}; ours are of the {splits} sets.")
    if not elsewhere and {cell.number.split for cell in cells} == {"dev"}:
        has_average = any(cell.number.task == "Avg" for cell in cells)
        averaged = "; Avg is of two, STS-B and SICK-R" if has_average else ""
        parts.append(f"All scores are of dev sets{averaged}.")
    remark = suite.remark_on(cell.ours.measured_on for cell in cells)
    return " ".join(filter(None, [*parts, *notes(cells), remark, suite.growth]))


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
