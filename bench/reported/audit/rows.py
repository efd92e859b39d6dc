"""Printed numbers as rows of exact fractions, the input of every check, and findings, their
output."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import pandas as pd

from bench.reported import COLUMNS, SCORES

DIFFERENCE = "_delta"  # suffix of the metric of a printed difference "A minus B"
ANONYMOUS = ("", "unknown")  # values of quoted_from: the paper's own result, or an unnamed source

# Models that the papers do not train: hyper-parameters of training are not part of their label.
UNTRAINED = ("GloVe", "BERT", "RoBERTa")
# Hyper-parameters of training, as variants spell them before the "=".
TRAINING = {
    "bs", "batch_size", "lr", "learning_rate", "tau", "temperature", "epochs", "steps", "seed"
}  # fmt: skip


@dataclass(frozen=True)
class Finding:
    """An inconsistency of printed numbers."""

    kind: str  # a key of `FINDING_KINDS`
    source: str  # of the first row, as the table
    table: str
    rows: tuple[str, ...]  # those concerned, by `Row.name`
    text: str  # one sentence


@dataclass(frozen=True, eq=False)
class Row:
    """A printed row: the numbers of one label, split and metric in one table or place of the text.

    `cells` maps tasks to numbers in points; other attributes are columns of `printed`.
    """

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
        return frozenset(map(str.strip, self.variant.strip("()").split(","))) - {""}

    @cached_property
    def training_words(self) -> frozenset[str]:
        """The words that set a hyper-parameter of training, of models that are not trained."""
        words = self.words if self.method in UNTRAINED else ()
        return frozenset(word for word in words if word.partition("=")[0].strip() in TRAINING)

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
        origin = "quoted" if self.quoted_from else self.paper
        if self.method in UNTRAINED:
            origin = ""
        return (*self.model, self.words - self.training_words, origin)

    @cached_property
    def in_text(self) -> bool:
        """Whether the row is from running text or a caption, not from a table or figure."""
        return not re.fullmatch(r"(Table|Figure) \w+", self.table)

    @cached_property
    def tasks(self) -> tuple[str, ...]:
        """The tasks without the average, sorted, so that rows can be compared."""
        return tuple(sorted(self.cells.keys() - {"Avg"}))

    @cached_property
    def figures(self) -> tuple[Fraction, ...]:
        """The numbers of `tasks`."""
        return tuple(self.cells[task] for task in self.tasks)

    @cached_property
    def unit(self) -> Fraction:
        """The last printed decimal place, taken over all tasks because single numbers may end in a
        zero: 0.1 in a row quoted from a paper that prints one decimal."""
        return min(map(last_place, self.figures or self.cells.values()))

    @property
    def misfit(self) -> Fraction:
        """How far the printed average is from the mean of the row."""
        return abs(self.cells["Avg"] - mean(self.figures))

    def quotes(self, other: Row) -> bool:
        """Whether the row names the paper of another row as its source."""
        name = rf"(?<![\w-]){re.escape(other.paper)}(?![\w-])"
        return re.search(name, self.quoted_from.lower()) is not None

    def agrees(self, other: Row) -> bool:
        """Whether another row has the same numbers, as far as both have some."""
        shared = self.cells.keys() & other.cells.keys()
        return bool(shared) and all(self.cells[task] == other.cells[task] for task in shared)

    def elsewhere(self, rows: Iterable[Row]) -> list[Row]:
        """The rows of the paper's other tables that have the same numbers for the same model."""
        label = (self.source, self.model, self.metric)
        like = [row for row in rows if (row.source, row.model, row.metric) == label]
        return [row for row in like if row.table != self.table and self.agrees(row)]


def last_place(value: Fraction) -> Fraction:
    """The last decimal place of a finite decimal number: 0.01 for 76.25, 1 for 21."""
    place = Fraction(1)
    while value % place:
        place /= 10
    return place


def shown(value: Fraction) -> str:
    return f"{float(value):.2f}"


def mean(values: Iterable[Fraction]) -> Fraction:
    values = list(values)
    return sum(values, Fraction(0)) / len(values)


def finding(kind: str, rows: Sequence[Row], text: str) -> Finding:
    """A finding about `rows`, reported for the first of them."""
    names = tuple(dict.fromkeys(row.name for row in rows))
    return Finding(kind, rows[0].source, rows[0].table, names, text)


def read_rows(printed: pd.DataFrame) -> list[Row]:
    """The rows of scores and of differences of scores, in the order of print; other metrics are
    left out."""
    scores = printed[printed["metric"].str.removesuffix(DIFFERENCE).isin(SCORES)]
    fields = [name for name in COLUMNS if name not in ("task", "value")]
    rows = []
    for label, cells in scores.groupby(fields, sort=False):
        # The decimal number that is printed, rather than the nearest binary fraction.
        values = [Fraction(repr(float(value))) for value in cells["value"]]
        cells_by_task = dict(zip(cells["task"], values, strict=True))
        rows.append(Row(**dict(zip(fields, label, strict=True)), cells=cells_by_task))
    return rows
