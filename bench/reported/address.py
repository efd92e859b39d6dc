"""Printed numbers by name: their addresses, and papers, tables and rows as a user names them."""

import shlex
from functools import cache
from typing import Any

import yaml

from bench.reported import FOLDER, SOURCES, paper_name
from bench.reported.number import Number, numbers
from bench.utils.errors import UserError, did_you_mean
from bench.utils.files import stem

# The fields of an address, in its order. No two printed numbers agree in all of them.
PLACE = ["source", "table", "method", "variant", "backbone", "task", "split", "metric"]


def address(number: Any) -> str:
    """The address of a printed number: `gs-infonce-v2/table-2/simcse/roberta-base/avg/test/...`.

    It depends on nothing but the number's own labels, so it stays when others are added.
    """
    return "/".join(filter(None, (stem(getattr(number, name)) for name in PLACE)))


def row_name(method: str, variant: str) -> str:
    """Label of a printed row: its method, with its variant in parentheses."""
    if variant.startswith("(") and variant.endswith(")"):
        variant = variant[1:-1]
    return f"{method} ({variant})" if variant else method


def _labels(source: str, table: str) -> list[tuple[str, ...]]:
    """The rows of a table by `ROW_COLUMNS`, in the order of print."""
    labels = dict.fromkeys(number.label for number in numbers())
    return [label for label in labels if label[:2] == (source, table)]


@cache
def printed_names() -> dict[tuple[str, ...], str]:
    """The names of rows as printed, by `ROW_COLUMNS`; not of tables whose labels are enough."""
    names: dict[tuple[str, ...], str] = {}
    content = yaml.safe_load((FOLDER / "names.yaml").read_text(encoding="utf-8"))
    for source, tables in content.items():
        for table, rows in tables.items():
            names |= zip(_labels(source, table), rows, strict=True)
    return names


def find_paper(word: str) -> str:
    """The key of `SOURCES` that a word means: the key itself or the paper's short name."""
    names = {stem(name): key for key in SOURCES for name in (key, paper_name(key))}
    if stem(word) not in names:
        raise UserError(f"unknown paper '{word}'{did_you_mean(word, SOURCES)}")
    return names[stem(word)]


def find_table(source: str, word: str) -> str:
    """The name of a paper's table, as printed, that a word means: its name, or its number."""
    names = list(dict.fromkeys(row.table for row in numbers() if row.source == source))
    meant = stem(word).replace("-", "")
    tables = [name for name in names if stem(name).replace("-", "") in (meant, f"table{meant}")]
    if not tables:
        raise UserError(f"{source} has no table '{word}'{did_you_mean(word, names)}")
    return tables[0]


def find_rows(source: str, table: str, row: str, backbone: str | None = None) -> list[Number]:
    """The numbers of a table's rows.

    `row` is the name of a row, as printed or as `row_name`, or a method, which means all its rows.
    """
    named, of_method, alike, known = [], [], [], set()
    for label in _labels(source, table):
        name = row_name(label[2], label[4])
        names = {name, printed_names().get(label, name)}
        if row.lower() in map(str.lower, names):
            named.append(label)
        if row.lower() == label[2].lower():
            of_method.append(label)
        if stem(row) in map(stem, names):
            alike.append(label)
        known |= {*names, label[2]}
    # IS-CSE prints a row `DCLR` and a row `+ DCLR`, so a name that differs in signs counts only if
    # no row and no method has just this name.
    matching = named or of_method or alike
    if not matching:
        raise UserError(f"{source}, {table} has no row '{row}'{did_you_mean(row, known)}")
    backbones = {label[3] for label in matching}
    if backbone is not None and backbone not in backbones:
        problem = f"{source}, {table} prints no '{row}' on '{backbone}'"
        raise UserError(f"{problem}{did_you_mean(backbone, backbones)}")
    chosen = [label for label in matching if backbone in (None, label[3])]
    return [number for number in numbers() if number.label in chosen]


def reproduce_command(number: Any) -> str:
    """The shell command that runs a printed number's row."""
    words = [number.source, number.table, "--row", row_name(number.method, number.variant)]
    words += ["--backbone", number.backbone]
    return f"python -m bench reproduce {shlex.join(words)}"
