"""Printed rows, and findings about them."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from statistics import mean
from typing import Any

import pandas as pd
from jinja2 import Environment, StrictUndefined

from bench.datasets.metrics import METRICS
from bench.reported import FOLDER, ROW_COLUMNS, read_yaml
from bench.reported.address import row_name
from bench.utils.errors import listed
from bench.utils.groups import grouped

_KINDS = read_yaml(FOLDER / "findings.yaml")
FINDING_KINDS = {kind: entry["title"] for kind, entry in _KINDS.items()}
DIFFERENCE = "_delta"  # suffix of the metric of a printed difference "A minus B"

# Models that the papers do not train: hyper-parameters of training do not change their numbers, so
# they are no part of their label.
UNTRAINED = ("GloVe", "BERT", "RoBERTa")
OF_TRAINING = ("bs=", "lr=", "tau=", "epochs=", "steps=", "seed=")


@dataclass(eq=False)
class PrintedRow:
    """A printed row of scores or of their differences, with its points by task."""

    cells: dict[str, Fraction]
    source: str
    table: str
    method: str
    backbone: str
    variant: str
    split: str
    metric: str
    quoted_from: str

    @cached_property
    def tasks(self) -> tuple[str, ...]:
        """The tasks without their average, if there are others."""
        return tuple(sorted(self.cells.keys() - {"Avg"})) or ("Avg",)

    @cached_property
    def numbers(self) -> tuple[Fraction, ...]:
        """The points of `tasks`."""
        return tuple(map(self.cells.__getitem__, self.tasks))

    @property
    def gap(self) -> Fraction:
        """The printed average minus the mean of `numbers`; 0 without an average."""
        average = mean(self.numbers)
        return self.cells.get("Avg", average) - average

    @cached_property
    def unit(self) -> Fraction:
        """The last decimal place of all tasks, because single numbers may end in a zero: 0.01 for
        76.25, 1 for 21."""
        decimals = [len(str(float(value)).partition(".")[2].rstrip("0")) for value in self.numbers]
        return Fraction(1, 10 ** max(decimals))

    @cached_property
    def words(self) -> frozenset[str]:
        """The parts of the variant, such as `bs=64` and `cls`."""
        # The pieces between commas, without the spaces around them.
        return frozenset(re.findall(r"[^,\s](?:[^,]*[^,\s])?", self.variant.strip("()")))

    @property
    def who(self) -> str:
        return f"{row_name(self.method, self.variant)}, {self.backbone}"

    @property
    def place(self) -> str:
        return f"{self.source} {self.table}"

    @property
    def name(self) -> str:
        return f"{self.place}: {self.who}"

    @property
    def paper(self) -> str:
        """The source without its version."""
        return re.sub(r"-v\d+$", "", self.source)

    @property
    def scale(self) -> tuple[str, ...]:
        """The fields that rows of a table with comparable figures have in common."""
        return self.place, self.backbone, self.metric, self.split

    @property
    def label(self) -> tuple[Any, ...]:
        """The fields that determine the numbers: a paper's own run is distinct from quoted
        numbers and from other papers' runs."""
        words, origin = self.words, "quoted" if self.quoted_from else self.paper
        if self.method in UNTRAINED:
            words = frozenset(word for word in words if not word.startswith(OF_TRAINING))
        return words, origin, self.method, self.backbone, self.metric, self.split


PrintedRows = Sequence[PrintedRow]


@dataclass(frozen=True)
class Finding:
    """An inconsistency of printed numbers, filed under `source` and `table` of its first row."""

    kind: str
    source: str
    table: str
    rows: tuple[str, ...]  # the names of the rows concerned
    text: str  # one sentence


def finding(kind: str, rows: PrintedRows, **facts: Any) -> Finding:
    names = tuple(dict.fromkeys(row.name for row in rows))
    template = _ENVIRONMENT.from_string(_KINDS[kind]["text"])
    text = template.render(row=rows[0], rows=rows, **facts)
    return Finding(kind, rows[0].source, rows[0].table, names, text)


def read(printed: pd.DataFrame) -> PrintedRows:
    """The printed rows of scores and of their differences."""
    main = [name for name, metric in METRICS.items() if metric.is_main]
    scores = printed[printed["metric"].str.removesuffix(DIFFERENCE).isin(main)]
    rows = []
    labels = [*ROW_COLUMNS, "split", "metric", "quoted_from"]
    # In the order of print, which `groupby` would sort.
    for texts, group in scores.groupby(labels, sort=False):
        # The decimal number that is printed, rather than the nearest binary fraction.
        values = group.set_index("task")["value"].map(str).map(Fraction)
        rows.append(PrintedRow(values.to_dict(), *texts))
    return rows


def points(value: Fraction) -> str:
    return f"{float(value):.2f}"


def cells_of(rows: Iterable[PrintedRow]) -> Iterator[tuple[PrintedRow, str, Fraction]]:
    """Every cell: its row, task and points."""
    for row in rows:
        for task, value in row.cells.items():
            yield row, task, value


def is_nested(a: PrintedRow, b: PrintedRow) -> bool:
    """Whether one variant abbreviates the other."""
    return a.words <= b.words or b.words <= a.words


def described(rows: PrintedRows) -> str:
    """Rows by label, each with its places: `BERT (cls), bert-base-uncased [sscl Table 2]`."""
    return " and ".join(
        f"{same[0].who} [{listed(row.place for row in same)}]" for same in grouped(rows, "who")
    )


def share_average(rows: PrintedRows) -> bool:
    """Whether all rows have an average, and the same."""
    # A row without an average has its name instead, which equals no number.
    return len({row.cells.get("Avg", row.name) for row in rows}) == 1


_ENVIRONMENT = Environment(undefined=StrictUndefined)  # noqa: S701 (no HTML)
_ENVIRONMENT.filters |= {
    "points": points, "listed": listed, "described": described, "share_average": share_average,
}  # fmt: skip
