"""Printed numbers as rows of exact fractions, the input of every check, and findings, their
output."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import pandas as pd

from bench.reported import COLUMNS

SCORES = ("spearman", "accuracy")  # metrics of printed scores
DIFFERENCE = "_delta"  # suffix of the metric of a printed difference "A minus B"
ANONYMOUS = ("", "unknown")  # values of quoted_from: the paper's own result, or an unnamed source

# Models that the papers do not train, so that hyper-parameters of training are not part of their
# label.
UNTRAINED = ("GloVe", "BERT", "RoBERTa")
# Hyper-parameters of training, as variants spell them before the "=".
TRAINING = (
    "bs",
    "batch_size",
    "lr",
    "learning_rate",
    "tau",
    "temperature",
    "epochs",
    "steps",
    "seed",
)


@dataclass(frozen=True)
class Finding:
    """An inconsistency of printed numbers.

    Attributes:
        kind: a key of `FINDING_KINDS`.
        source, table: those of the first row.
        rows: the rows concerned, by `Row.name`.
        text: the finding in one sentence.
    """

    kind: str
    source: str
    table: str
    rows: tuple[str, ...]
    text: str


@dataclass(frozen=True, eq=False)
class Row:
    """A printed row: the numbers of one label, split and metric in one table or place of the text.

    Attributes:
        order: position in print.
        cells: task -> number, in points. The other attributes are columns of
            `bench.reported.printed`.
    """

    order: int
    source: str
    table: str
    method: str
    backbone: str
    variant: str
    split: str
    metric: str
    quoted_from: str
    cells: Mapping[str, Fraction]

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
        """The parts of the variant: `bs=64, cls` has two."""
        return frozenset(
            filter(None, (word.strip() for word in self.variant.strip("()").split(",")))
        )

    @property
    def training_words(self) -> frozenset[str]:
        """For untrained models, the words that set a hyper-parameter of training; empty for
        others."""
        if self.method not in UNTRAINED:
            return frozenset()
        return frozenset(word for word in self.words if word.partition("=")[0].strip() in TRAINING)

    @property
    def paper(self) -> str:
        """The source without its version."""
        return re.sub(r"-v\d+$", "", self.source)

    @property
    def label(self) -> tuple[str, str, frozenset[str], str]:
        """What determines the numbers: rows with equal labels should have equal numbers.

        A paper's own run of a trained method is distinct from quoted numbers and from other papers'
        runs.
        """
        origin = "" if self.method in UNTRAINED else "quoted" if self.quoted_from else self.paper
        return (*self.model, self.words - self.training_words, origin)

    @property
    def in_text(self) -> bool:
        """Whether the row is from running text or a caption, not from a table or figure."""
        return not re.fullmatch(r"(Table|Figure) \w+", self.table)

    @cached_property
    def tasks(self) -> tuple[str, ...]:
        """The tasks without the average, sorted, so that rows can be compared whatever their order
        in print."""
        return tuple(sorted(self.cells.keys() - {"Avg"}))

    @cached_property
    def figures(self) -> tuple[Fraction, ...]:
        """The numbers of `tasks`."""
        return tuple(self.cells[task] for task in self.tasks)

    @cached_property
    def unit(self) -> Fraction:
        """The last printed decimal place, taken over all tasks because single numbers may end in a
        zero.

        A row quoted from a paper that prints one decimal therefore has the unit 0.1.
        """
        return Fraction(1, 10 ** max(map(decimals, self.figures or self.cells.values())))

    def quotes(self, other: Row) -> bool:
        """Whether the row names the paper of another row as its source."""
        return bool(
            re.search(rf"(?<![\w-]){re.escape(other.paper)}(?![\w-])", self.quoted_from.lower())
        )


def exact(value: float) -> Fraction:
    """The decimal number that is printed, rather than the nearest binary fraction."""
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
    """An enumeration without repetitions: `a`, `a and b`, `a, b and c`."""
    *most, last = dict.fromkeys(parts)
    return f"{', '.join(most)} and {last}" if most else last


def finding(kind: str, rows: Sequence[Row], text: str) -> Finding:
    """A finding about `rows`, reported for the first of them."""
    return Finding(
        kind, rows[0].source, rows[0].table, tuple(dict.fromkeys(row.name for row in rows)), text
    )


def read_rows(printed: pd.DataFrame) -> list[Row]:
    """The rows of scores and of differences of scores, in the order of print; other metrics are
    left out."""
    metrics = [*SCORES, *(f"{metric}{DIFFERENCE}" for metric in SCORES)]
    fields = [name for name in COLUMNS if name not in ("task", "value")]
    rows: list[Row] = []
    for label, cells in printed[printed["metric"].isin(metrics)].groupby(fields, sort=False):
        values = dict(zip(cells["task"], map(exact, cells["value"]), strict=True))
        rows.append(Row(len(rows), **dict(zip(fields, label, strict=True)), cells=values))
    return rows
