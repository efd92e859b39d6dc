"""The printed numbers that a configuration adds: the rows of a CSV file, each with the run of the
suite that it is compared with."""

import csv
from collections.abc import Sequence
from pathlib import Path

from bench.datasets.metrics import Cell
from bench.datasets.tasks import expand_tasks, scored_cells
from bench.runs.naming import find_run
from bench.runs.plan import PlannedNumber, PlannedRun, PrintedRow
from bench.utils.documents import document
from bench.utils.errors import UserError, did_you_mean, errors_of, library_errors
from bench.utils.validation import validated


def printed_numbers(path: Path, runs: Sequence[PlannedRun]) -> list[PlannedNumber]:
    """The numbers of a CSV file, in order. `UserError` names the line."""
    rows = {}
    problem = library_errors(
        f"{path} cannot be read", f"{document('reference/configuration')} shows such a file"
    )
    # Spreadsheets write a byte-order mark. Without `strict` a quote that is never closed would
    # swallow the rows behind it, silently.
    with problem, open(path, encoding="utf-8-sig", newline="") as file:
        table = csv.DictReader(file, restkey="without a heading", strict=True)
        for row in table:
            rows[table.line_num] = {name: cell for name, cell in row.items() if cell}
    numbers = []
    lines: dict[PlannedNumber, int] = {}  # by all that has no second spelling
    for line, row in rows.items():
        with errors_of(f"{path}, line {line}"):
            number = _planned(validated(PrintedRow, row), runs)
            place = number.model_copy(update={"value": 0, "method": ""})
            if lines.setdefault(place, line) != line:
                raise UserError(f"it repeats line {lines[place]}; keep one")
        numbers.append(number)
    return numbers


def _planned(row: PrintedRow, runs: Sequence[PlannedRun]) -> PlannedNumber:
    from bench.reported import SOURCES  # imports pandas, which other configurations do not need

    if row.source in SOURCES:
        raise UserError(f"'{row.source}' has numbers in the project; choose another 'source'")
    with errors_of(f"backbone '{row.backbone}'"):
        run = find_run(row.method, [run for run in runs if run.backbone == row.backbone])
    cells = scored_cells(expand_tasks(run.tasks))
    if Cell(row.task, row.split, row.metric) not in cells:
        hint = did_you_mean(row.task, {cell.task for cell in cells if cell.metric == row.metric})
        raise UserError(f"no {row.split} {row.metric} of '{row.task}' is planned{hint}")
    return PlannedNumber(**row.model_dump(), run=run.text)
