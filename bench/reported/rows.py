"""Printed rows, and findings about them."""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import mean
from typing import Any

import pandas as pd
import yaml

from bench.datasets.metrics import METRICS
from bench.reported import COLUMNS, FOLDER
from bench.reported.address import row_name
from bench.utils.errors import listed

_KINDS = yaml.safe_load((FOLDER / "findings.yaml").read_text(encoding="utf-8"))
FINDING_KINDS = {kind: entry["title"] for kind, entry in _KINDS.items()}
DIFFERENCE = "_delta"  # suffix of the metric of a printed difference "A minus B"

# Models that the papers do not train: hyper-parameters of training are not part of their label.
UNTRAINED = ("GloVe", "BERT", "RoBERTa")
TRAINING = re.compile("(bs|batch_size|lr|learning_rate|tau|temperature|epochs|steps|seed)=")


Row = Any  # of `read`
Rows = Sequence[Row]


@dataclass(frozen=True)
class Finding:
    """An inconsistency of printed numbers; `source` and `table` are those of the first row."""

    kind: str
    source: str
    table: str
    rows: tuple[str, ...]  # those concerned, by name
    text: str  # one sentence


def finding(kind: str, rows: Rows, **facts: Any) -> Finding:
    names = tuple(dict.fromkeys(row.name for row in rows))
    text = _KINDS[kind]["text"].format(row=rows[0], **facts)
    return Finding(kind, rows[0].source, rows[0].table, names, text)


def read(printed: pd.DataFrame) -> Rows:
    """The printed rows of scores and of their differences, with their points by task in `cells`."""
    main = [name for name, metric in METRICS.items() if metric.is_main]
    scores = printed[printed["metric"].str.removesuffix(DIFFERENCE).isin(main)]
    fields = [name for name in COLUMNS if name not in ("task", "value")]
    labels, groups = zip(*scores.groupby(fields, sort=False), strict=True)
    rows = pd.DataFrame(labels, columns=fields)
    # The decimal number that is printed, rather than the nearest binary fraction.
    rows["cells"] = [
        {cell.task: Fraction(repr(cell.value)) for cell in group.itertuples()} for group in groups
    ]
    rows["tasks"] = [tuple(sorted(cells.keys() - {"Avg"})) or ("Avg",) for cells in rows["cells"]]
    rows["figures"] = [tuple(row.cells[task] for task in row.tasks) for row in rows.itertuples()]
    # The unit of a row is that of all its tasks, because single numbers may end in a zero.
    rows["unit"] = [min(map(last_place, figures)) for figures in rows["figures"]]
    variants = rows["variant"].str.strip("()").str.split(",")  # such as `bs=64, cls`
    rows["words"] = [frozenset(map(str.strip, words)) - {""} for words in variants]
    names = map(row_name, rows["method"], rows["variant"])
    rows["who"] = [f"{name}, {on}" for name, on in zip(names, rows["backbone"], strict=True)]
    rows["place"] = rows["source"] + " " + rows["table"]
    rows["name"] = rows["place"] + ": " + rows["who"]
    rows["paper"] = rows["source"].str.replace(r"-v\d+$", "", regex=True)
    rows["in_text"] = ~rows["table"].str.fullmatch(r"(Table|Figure) \w+")
    rows["label"] = [label(row) for row in rows.itertuples()]
    return [*rows.itertuples()]


def label(row: Row) -> tuple[Any, ...]:
    """What determines a row's numbers: a paper's own run of a trained method is distinct from
    quoted numbers and from other papers' runs."""
    words, origin = row.words, "quoted" if row.quoted_from else row.paper
    if row.method in UNTRAINED:
        words, origin = frozenset(word for word in words if not TRAINING.match(word)), ""
    return words, origin, row.method, row.backbone, row.metric, row.split


def misfit(row: Row) -> Fraction:
    """How far the printed average is above the mean of the row."""
    return row.cells["Avg"] - mean(row.figures)


def last_place(value: Fraction) -> Fraction:
    """The last decimal place of a finite decimal number: 0.01 for 76.25, 1 for 21."""
    return Fraction(1, 10 ** len(repr(float(value)).partition(".")[2].rstrip("0")))


def shown(value: Fraction) -> str:
    return f"{float(value):.2f}"


def cells_of(rows: Iterable[Row]) -> list[tuple[Row, str, Fraction]]:
    return [(row, task, value) for row in rows for task, value in row.cells.items()]


def same(first: Row, second: Row, *fields: str) -> bool:
    return all(getattr(first, field) == getattr(second, field) for field in fields)


def nested(first: Row, second: Row) -> bool:
    """Whether one variant abbreviates the other."""
    return first.words <= second.words or second.words <= first.words


def described(rows: Rows) -> str:
    """Rows by label, each with its places: `BERT (cls), bert-base-uncased [sscl Table 2]`."""
    places = defaultdict(list)
    for row in rows:
        places[row.who].append(row.place)
    return " and ".join(f"{who} [{listed(tables)}]" for who, tables in places.items())
