"""Printed numbers by name: their addresses, and papers, tables and rows as a user names them."""

import shlex
from functools import cache
from typing import Any

from bench.reported import FOLDER, SOURCES, paper_name, read_yaml
from bench.reported.number import Number, numbers
from bench.utils.errors import UserError, did_you_mean
from bench.utils.files import stem

# The fields of an address, in its order. No two printed numbers agree in all of them.
PLACE = ["source", "table", "method", "variant", "backbone", "task", "split", "metric"]


def address(number: Any) -> str:
    """The address of a printed number: `gs-infonce-v2/table-2/simcse/roberta-base/avg/test/...`.

    It depends on the labels of the number alone, so it stays when other numbers are added.
    """
    return "/".join(filter(None, (stem(getattr(number, name)) for name in PLACE)))


def row_name(method: str, variant: str) -> str:
    """Label of a printed row: its method, with its variant in parentheses."""
    if variant.startswith("(") and variant.endswith(")"):
        variant = variant[1:-1]
    return f"{method} ({variant})" if variant else method


@cache
def printed_names() -> dict[tuple[str, ...], str]:
    """The names of rows as printed, by `ROW_COLUMNS`. Tables whose labels are enough have none."""
    names: dict[tuple[str, ...], str] = {}
    labels = dict.fromkeys(number.label for number in numbers())  # in the order of print
    for source, tables in read_yaml(FOLDER / "names.yaml").items():
        for table, rows in tables.items():
            of_table = [label for label in labels if label[:2] == (source, table)]
            # names.yaml has a name for each row, in the order of print. `strict` refuses a table
            # with a name too few, which would shift all names behind it.
            names |= zip(of_table, rows, strict=True)
    return names


def find_paper(word: str) -> str:
    """The key of `SOURCES` that a word means: the key itself or the paper's short name."""
    names = {stem(name): key for key in SOURCES for name in (key, paper_name(key))}
    if stem(word) not in names:
        raise UserError(f"unknown paper '{word}'{did_you_mean(word, SOURCES)}")
    return names[stem(word)]


def tables_of(source: str) -> dict[str, list[str]]:
    """What the numbers of a paper's tables are, by the name of the table, in the order of print."""
    tables: dict[str, list[str]] = {}
    for number in numbers():
        if number.source == source:
            title = number.form.title if number.is_measurement else "hyper-parameters"
            tables.setdefault(number.table, []).append(title)
    return tables


def find_table(source: str, word: str) -> str:
    """The name of a paper's table, as printed, that a word means: its name, or its number."""
    tables = {_key(table): table for table in tables_of(source)}
    if _key(word) not in tables:
        raise UserError(f"{source} has no table '{word}'{did_you_mean(word, tables.values())}")
    return tables[_key(word)]


def _key(table: str) -> str:
    return stem(table).removeprefix("table-")


def find_rows(source: str, table: str, row: str, backbone: str | None = None) -> list[Number]:
    """The numbers of a table's rows.

    Args:
        row: the name of a row, as printed or as `row_name`, or a method, which means all its rows.
            A name comes first: the method "SimCSE" may have a row of its own name.
    """
    of_name, of_method, names = [], [], set()
    for number in numbers():
        if number.label[:2] == (source, table):
            name = row_name(number.method, number.variant)
            names_of_row = {name, printed_names().get(number.label, name)}
            if row.lower() in map(str.lower, names_of_row):
                of_name.append(number)
            if row.lower() == number.method.lower():
                of_method.append(number)
            names |= {*names_of_row, number.method}
    rows = of_name or of_method
    if not rows:
        raise UserError(f"{source}, {table} has no row '{row}'{did_you_mean(row, names)}")
    backbones = {number.backbone for number in rows}
    if backbone not in (None, *backbones):
        hint = did_you_mean(str(backbone), backbones)
        raise UserError(f"{source}, {table} prints no '{row}' on '{backbone}'{hint}")
    return [number for number in rows if backbone in (None, number.backbone)]


def reproduce_command(number: Any) -> str:
    """The shell command that runs a printed number's row."""
    words = [number.source, number.table, "--row", row_name(number.method, number.variant)]
    words += ["--backbone", number.backbone]
    return f"sentbench reproduce {shlex.join(words)}"
