"""Printed tables with our scores and verdicts: rows of texts, from which files, terminal and page
are made."""

import shlex
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from statistics import fmean
from typing import Literal

from bench.judged.rows import Heading, Judged, NumberRow
from bench.judged.verdicts import FEWEST_SEEDS, VERDICT_SYMBOLS, PrintedVerdict
from bench.report.formats import (
    Bold,
    TextTable,
    paragraphs,
    plain,
    reasons,
    running_text,
    score_text,
    seeds_text,
    stated,
)
from bench.utils.documents import document
from bench.utils.errors import UserError
from bench.utils.groups import grouped


@dataclass(frozen=True)
class ShownCell:
    """A printed number and our score beside it as texts, each `Bold` if it is the best of its
    column."""

    number: NumberRow
    printed: str
    ours: str  # empty without a score


@dataclass(frozen=True)
class ShownRow:
    """A row of a printed table."""

    name: str  # as printed, with the split if the table has several; of a sweep its line
    backbone: str  # as printed
    task: str  # of a row of a sweep; else empty
    cells: dict[str, ShownCell]  # by column, in the order of print
    decisive: NumberRow  # its verdict is the verdict of the row

    @property
    def origin(self) -> str:
        """ "quoted", "origin unknown", or empty for the paper's own numbers."""
        sources = {cell.number.quoted_from for cell in self.cells.values()}
        if sources == {"unknown"}:
            return "origin unknown"
        if "" in sources:
            return ""
        return "quoted"


@dataclass(frozen=True)
class ShownTable:
    """A printed table as texts."""

    numbers: Sequence[NumberRow]  # in the order of print
    columns: list[str]  # its tasks, but their average last; of a sweep the swept values
    rows: list[ShownRow]
    is_sweep: bool  # whether its rows vary one quantity

    @property
    def is_comparable(self) -> bool:
        """Whether ours can be compared with any of its numbers."""
        return any(number.is_comparable for number in self.numbers)

    @property
    def verdicts(self) -> str:
        return verdicts_text(self.numbers)


def verdict_counts(numbers: Iterable[NumberRow]) -> dict[PrintedVerdict, int]:
    """How many numbers have each verdict, in the order of `VERDICT_SYMBOLS`, without zeros."""
    counts = Counter(number.ours.verdict.kind for number in numbers)
    return {kind: counts[kind] for kind in VERDICT_SYMBOLS if counts[kind]}


def verdicts_text(numbers: Iterable[NumberRow]) -> str:
    """How many numbers have each verdict: `2 lower; 1 not run`."""
    return "; ".join(f"{count} {kind}" for kind, count in verdict_counts(numbers).items())


def printed_tables(numbers: Sequence[NumberRow]) -> dict[str, ShownTable]:
    """The printed tables of a suite, by the stem of their file names."""
    return {rows[0].stem: shown_table(rows) for rows in grouped(numbers, "source", "table")}


def shown_table(numbers: Sequence[NumberRow]) -> ShownTable:
    """A printed table as texts: a row per printed row and a column per task, of a sweep a row per
    line and a column per value."""
    values = {number.variant for number in numbers}
    # One or two rows of a sweep, as `reproduce` shows them, are rows.
    is_sweep = all(number.line for number in numbers) and len(values) > 2
    # Bold is of a column of the whole table, so cells are made before rows.
    cell_of = _cells(numbers)

    # The fields that numbers of a row have in common, and the one that names their columns.
    fields, column_of = ["method", "backbone", "variant", "split"], attrgetter("task")
    if is_sweep:
        fields, column_of = ["line", "backbone", "task"], attrgetter("variant")
    columns = sorted(dict.fromkeys(map(column_of, numbers)), key=lambda column: column == "Avg")
    several_splits = len({number.split for number in numbers}) > 1
    several_directions = len({number.form.direction for number in numbers} - {""}) > 1
    rows = []
    for row in grouped(numbers, *fields):
        cells = {column_of(number): cell_of[number.place] for number in row}
        # The average decides, or the last value of a sweep; where it is not printed, the last one.
        decisive = cells[columns[-1]].number if columns[-1] in cells else row[-1]
        name, task = (decisive.line, decisive.task) if is_sweep else (decisive.row, "")
        if several_splits and not is_sweep and decisive.split:
            name += f" {decisive.split}"
        if several_directions and decisive.form.direction:
            name += f", {decisive.form.direction}"
        rows.append(ShownRow(name, decisive.backbone, task, cells, decisive))
    return ShownTable(numbers, columns, rows, is_sweep)


def _best(numbers: Iterable[NumberRow], value_of: Callable[[NumberRow], float]) -> set[int]:
    """The numbers with the highest value of their column, by `place`; none of a column whose values
    are all equal. The column is of a backbone, in a sweep of a line."""
    best = set()
    for column in grouped(numbers, "backbone", "task", "split", "metric", "line"):
        values = [*map(value_of, column)]
        for number, value in zip(column, values, strict=True):
            if min(values) < value == max(values):
                best.add(number.place)
    return best


def _cells(numbers: Sequence[NumberRow]) -> dict[int, ShownCell]:
    """The numbers of a table and ours as texts, by `place`."""
    scores = [number for number in numbers if number.is_score]
    # A mean over the seeds that did not diverge is no best.
    measured = [
        number for number in scores if number.ours.n and number.ours.verdict.kind != "diverged"
    ]
    best_printed = _best(scores, attrgetter("value"))
    # Rounded as the table shows them, so that of two equal texts both are bold.
    best_ours = _best(measured, lambda number: round(fmean(number.ours.scores), 2))
    cells = {}
    for number in numbers:
        printed, ours, text = number.text, number.ours, ""
        if ours.n:
            text = score_text(ours.mean, ours.sd, number.our_metric.digits)
        if number.place in best_printed:
            printed = Bold(printed)
        # Which mean of fewer seeds is best would be chance.
        if number.place in best_ours and (ours.deterministic or ours.n >= FEWEST_SEEDS):
            text = Bold(text)
        cells[number.place] = ShownCell(number, printed, text)
    return cells


# --- As lines, for files and the terminal ---


def in_lines(table: ShownTable, *, print_alone: bool = False) -> TextTable:
    """A printed table as texts: a line per printed row, followed by a line per setting of ours and
    a line of the published checkpoint, if the row quotes one; or a line per printed row alone."""
    lines: list[dict[str, str]] = []
    for row in table.rows:
        printed = {"Backbone": row.backbone, "Method": row.name, "Task": row.task, "": row.origin}
        printed |= {column: cell.printed for column, cell in row.cells.items()}
        # It stands before our lines, which may still write a verdict into it.
        lines.append(printed)
        if not print_alone:
            printed[""] = ", ".join(filter(None, ["printed", row.origin]))
            lines += _our_lines(table, row, printed)
    # Whether a column is aligned right. Columns in which all lines are alike or empty are left out.
    columns = {"Backbone": False, "Method": False}
    if len({row.task for row in table.rows}) > 1:
        columns["Task"] = False
    if any(line[""] for line in lines):
        columns[""] = False
    columns |= dict.fromkeys(table.columns, True)
    if not (table.is_sweep or print_alone):
        columns[_verdict_heading(table)] = False
    return TextTable(columns, lines)


def _verdict_heading(table: ShownTable) -> str:
    return f"Verdict ({table.columns[-1]})" if len(table.columns) > 1 else "Verdict"


def _our_lines(table: ShownTable, row: ShownRow, printed: dict[str, str]) -> list[dict[str, str]]:
    """The lines below a printed row. Where nothing was run, the `printed` line says so instead."""
    lines: list[dict[str, str]] = []
    heading, decisive = _verdict_heading(table), row.decisive
    numbers = [cell.number for cell in row.cells.values()]
    verdict = decisive.ours.verdict
    text = stated(verdict.kind)
    if verdict.kind in ("not run", "diverged"):  # scores cannot explain these verdicts
        text += f": {verdict.reason}"
    if any(number.ours.verdict.kind != "not run" for number in numbers):
        lines.append(_line(row, "ours", in_sweep=table.is_sweep) | {heading: text})
    elif table.is_sweep:
        printed[""] += f"; {stated('not run')}"
    else:
        printed[heading] = text
    if any(number.other for number in numbers):
        lines.append(_line(row, "other", in_sweep=table.is_sweep))
        if decisive.other:
            lines[-1][heading] = stated(decisive.other.verdict.kind)
    checkpoint = {}
    for column, cell in row.cells.items():
        side = cell.number.checkpoint
        if side and side.n:
            checkpoint[column] = f"{score_text(side.mean)} {side.verdict.mark}"
    if checkpoint:
        checkpoint[""] = "published checkpoint"
        if decisive.checkpoint:
            checkpoint[heading] = stated(decisive.checkpoint.verdict.kind)
        lines.append(checkpoint)
    return lines


def _line(row: ShownRow, whose: Literal["ours", "other"], *, in_sweep: bool) -> dict[str, str]:
    """A line of ours below a printed row: scores with the marks of their verdicts."""
    # Columns of a row may have different settings and numbers of seeds: the line names all
    # settings, and the seeds of the number that decides.
    sides = {column: getattr(cell.number, whose) for column, cell in row.cells.items()}
    of_row = [side for side in sides.values() if side]
    settings = dict.fromkeys(side.setting for side in of_row)
    n = max(side.n for side in of_row)
    decisive = getattr(row.decisive, whose)
    if decisive and decisive.n and not in_sweep:  # the average may be missing
        n = decisive.n
    texts = {"": f"ours, {' or '.join(filter(None, settings))}, n = {n}"}
    is_swept = in_sweep and whose == "ours"
    for column, cell in row.cells.items():
        side = sides[column]
        if side is None:
            texts[column] = "–"
        elif is_swept and not side.n:
            texts[column] = VERDICT_SYMBOLS[side.verdict.kind]
        else:
            score = score_text(side.mean, side.sd, cell.number.our_metric.digits)
            seeds = seeds_text(side.n, n) if is_swept else ""
            texts[column] = f"{score}{seeds} {side.verdict.mark}"
            if whose == "ours" and isinstance(cell.ours, Bold):
                texts[column] = Bold(texts[column])
    return texts


# --- Captions ---


def legend(table: ShownTable, *, has_bold: bool = True) -> str:
    """The text below a printed table: the meanings of symbols, and of bold type if there is any."""
    texts = []
    for row in table.rows:
        for cell in row.cells.values():
            texts += [cell.printed, cell.ours]
    group = "line" if table.is_sweep else "backbone"
    if not has_bold or not any(isinstance(text, Bold) for text in texts):
        group = ""
    return running_text("legend.txt", numbers=table.numbers, group=group)


def captioned(heading: Heading, table: ShownTable, *, print_alone: bool = False) -> list[str]:
    """The caption of a printed table, and its notes."""
    elsewhere = [number for number in table.numbers if number.split != number.our_split]
    return paragraphs(
        "printed.txt", suite=heading, numbers=table.numbers, elsewhere=elsewhere,
        print_alone=print_alone,
    )  # fmt: skip


# --- For the terminal ---


def printed_table(
    judged: Judged,
    source: str,
    name: str,
    addresses: Collection[str] = (),
    *,
    print_alone: bool = False,
) -> str:
    """A printed table as text: below each row our scores and their verdicts, or the printed values
    alone.

    Args:
        addresses: of the numbers to show, with the reasons of their verdicts; by default all
            numbers, without reasons unless they are the suite's own.
    """
    numbers = [
        number
        for number in judged.numbers
        if (number.source, number.table) == (source, name)
        and (not addresses or number.address in addresses)
    ]
    if not numbers:
        raise UserError(
            f"{source}, {name} prints hyper-parameters alone; "
            f"{document('reference/methods')} has them"
        )
    table = shown_table(numbers)
    below = "" if print_alone else legend(table, has_bold=False)
    captions = captioned(judged.suite, table, print_alone=print_alone)
    text = plain(in_lines(table, print_alone=print_alone), *captions, below)
    if addresses or numbers[0].is_own:
        text = "\n\n".join([text, *reasons(numbers=numbers)])
    elif any(number.run for number in numbers):
        words = shlex.join([source, name])
        text += f"\n\nRun a row yourself: sentbench reproduce {words} --row ROW"
    return text
