"""Printed numbers as rows, exactly: what every check of the audit reads, and what it hands back."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import pandas as pd

from bench.reported import COLUMNS

SCORES = ("spearman", "accuracy")  # metrics of printed scores
DIFFERENCE = "_delta"  # ends the metric of a printed difference "A minus B"
ANONYMOUS = ("", "unknown")  # in quoted_from: an own result, or a source that print does not name

# What is not trained by the papers' recipes. Of these a hyper-parameter of training is no part of the label.
UNTRAINED = ("GloVe", "BERT", "RoBERTa")
# Hyper-parameters of training as variants of rows write them, before the "=".
TRAINING = ("bs", "batch_size", "lr", "learning_rate", "tau", "temperature", "epochs", "steps", "seed")


@dataclass(frozen=True)
class Finding:
    """Something that printed numbers say against themselves or each other.

    Attributes:
        kind: a key of `KINDS`.
        source, table: where it stands, that of the first of its rows.
        rows: the rows concerned, as `Row.name` gives them.
        text: what it is, in one sentence.
    """

    kind: str
    source: str
    table: str
    rows: tuple[str, ...]
    text: str


@dataclass(frozen=True, eq=False)
class Row:
    """A printed row: the figures of one label, split and metric in one table or place of the text."""

    order: int
    source: str
    table: str
    method: str
    backbone: str
    variant: str
    split: str
    metric: str
    quoted_from: str
    cells: Mapping[str, Fraction]  # by task, in points

    @property
    def place(self) -> str:
        return f"{self.source} {self.table}"

    @property
    def who(self) -> str:
        variant = f" ({self.variant.strip('()')})" if self.variant else ""
        return f"{self.method}{variant}, {self.backbone}"

    @property
    def name(self) -> str:
        return f"{self.place}: {self.who}"

    @property
    def model(self) -> tuple[str, str]:
        return self.method, self.backbone

    @cached_property
    def words(self) -> frozenset[str]:
        """The parts of its variant: `bs=64, cls` has two."""
        return frozenset(filter(None, (word.strip() for word in self.variant.strip("()").split(","))))

    @property
    def training_words(self) -> frozenset[str]:
        """Those of its words that set a hyper-parameter of training, for a model that is not trained; else none."""
        if self.method not in UNTRAINED:
            return frozenset()
        return frozenset(word for word in self.words if word.partition("=")[0].strip() in TRAINING)

    @property
    def paper(self) -> str:
        """Its source, whichever version."""
        return re.sub(r"-v\d+$", "", self.source)

    @property
    def label(self) -> tuple[str, str, frozenset[str], str]:
        """What its figures should depend on: rows of one label say the same.

        A paper's own run of a trained method is another one than what others quote or have run.
        """
        origin = "" if self.method in UNTRAINED else "quoted" if self.quoted_from else self.paper
        return (*self.model, self.words - self.training_words, origin)

    @property
    def in_text(self) -> bool:
        """Whether it stands in running text or a caption and not in a table or figure itself."""
        return not re.fullmatch(r"(Table|Figure) \w+", self.table)

    @cached_property
    def tasks(self) -> tuple[str, ...]:
        """Those of its cells, without the average; in one order for all rows, however they are printed."""
        return tuple(sorted(self.cells.keys() - {"Avg"}))

    @cached_property
    def figures(self) -> tuple[Fraction, ...]:
        """The cells of its tasks."""
        return tuple(self.cells[task] for task in self.tasks)

    @cached_property
    def unit(self) -> Fraction:
        """The last decimal place that is printed, judged from all of its tasks: one figure may end in a zero.

        So a row of seven figures with one decimal each, quoted from a work that printed one, is held to one.
        """
        return Fraction(1, 10 ** max(map(decimals, self.figures or self.cells.values())))

    def quotes(self, other: Row) -> bool:
        """Whether it names the paper of another row as its source."""
        return bool(re.search(rf"(?<![\w-]){re.escape(other.paper)}(?![\w-])", self.quoted_from.lower()))


def exact(value: float) -> Fraction:
    """The decimal number that was printed, not the binary one next to it."""
    return Fraction(repr(float(value)))


def decimals(value: Fraction) -> int:
    """Decimal places of a finite decimal number: 2 for 76.25, 0 for 21."""
    places = 0
    while (value * 10**places).denominator != 1:
        places += 1
    return places


def shown(value: Fraction) -> str:
    return f"{float(value):.2f}"


def mean(values: Iterable[Fraction]) -> Fraction:
    values = list(values)
    return sum(values, Fraction(0)) / len(values)


def listed(parts: Iterable[str]) -> str:
    """`a`, `a and b`, `a, b and c`; each once."""
    *most, last = dict.fromkeys(parts)
    return f"{', '.join(most)} and {last}" if most else last


def finding(kind: str, rows: Sequence[Row], text: str) -> Finding:
    """A finding that stands where the first of its rows does."""
    return Finding(kind, rows[0].source, rows[0].table, tuple(dict.fromkeys(row.name for row in rows)), text)


def read_rows(printed: pd.DataFrame) -> list[Row]:
    """The rows of scores and of differences of scores, in the order of print. Other metrics are no scores."""
    metrics = [*SCORES, *(f"{metric}{DIFFERENCE}" for metric in SCORES)]
    fields = [name for name in COLUMNS if name not in ("task", "value")]
    rows: list[Row] = []
    for label, cells in printed[printed["metric"].isin(metrics)].groupby(fields, sort=False):
        values = dict(zip(cells["task"], map(exact, cells["value"]), strict=True))
        rows.append(Row(len(rows), **dict(zip(fields, label, strict=True)), cells=values))
    return rows
