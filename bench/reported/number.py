"""A printed number with its place in the papers and the run that it is compared with
(mapping.yaml)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

import pandas as pd
from pydantic import BeforeValidator, model_validator

from bench.datasets.metrics import AGGREGATIONS, PRINTED, Cell, OfMetric
from bench.datasets.tasks import WITH_SUBSETS
from bench.reported import COLUMNS, FOLDER, ROW_COLUMNS, SOURCES, read_yaml
from bench.utils.errors import UserError, errors_of
from bench.utils.validation import StrictModel, validated


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


Texts = Annotated[list[str], BeforeValidator(as_list)]  # one or several


# Why a printed row is compared with no run.
REASONS = (
    "printed model not in the suite",
    "measurement not described",
    "hyper-parameter, not a score",
)


class Entry(StrictModel):
    """An entry of mapping.yaml: the run that printed rows are compared with, or why there is
    none."""

    # A row belongs to the entry if it has one of the values of each of these fields. An empty field
    # takes any value.
    source: Texts = []
    table: Texts = []
    method: Texts = []
    backbone: Texts = []
    variant: Texts = []
    run: str = ""  # such as simcse@official
    minus: str = ""  # the run whose scores are subtracted
    suite_backbone: str = ""  # the name in a suite, where the paper has another one
    suite_split: str = ""
    checkpoint: dict[str, str] = {}  # printed backbone -> run of the published checkpoint
    reason: Literal["", *REASONS] = ""  # type: ignore[valid-type]
    deviation: str = ""  # a clause: why the run does not measure what is printed
    note: str = ""  # a sentence for the caption of the table
    # How the paper joins the subsets of a task, if not by one correlation over all pairs.
    aggregation: Literal["", *AGGREGATIONS] = ""  # type: ignore[valid-type]

    @model_validator(mode="after")
    def _run_or_reason(self) -> Entry:
        if bool(self.run) == bool(self.reason):
            raise ValueError("an entry must have either 'run' or 'reason'")
        return self

    def matches(self, row: Mapping[str, str]) -> bool:
        return all(row[name] in (getattr(self, name) or [row[name]]) for name in ROW_COLUMNS)


class Sweep(StrictModel):
    """A printed table whose rows vary one quantity, which is their `variant`."""

    source: str
    table: str
    line: str = ""  # the name of all rows; by default each method is a line


class PrintedMapping(StrictModel):
    """The content of mapping.yaml."""

    checkpoints: list[dict[str, str]] = []  # anchors of the entries
    sweeps: list[Sweep] = []
    entries: list[Entry]


@cache
def load_mapping(path: Path = FOLDER / "mapping.yaml") -> PrintedMapping:
    """Read mapping.yaml."""
    with errors_of(path.name):
        return validated(PrintedMapping, read_yaml(path))


@dataclass(frozen=True)
class Number(OfMetric):
    """A printed number. Its fields are `bench.reported.COLUMNS` and the fields of its `Entry`."""

    source: str
    table: str
    method: str
    backbone: str
    variant: str
    task: str
    split: str
    metric: str
    value: float  # scores in points
    text: str  # `value` with the decimals that are printed, such as `46.70`
    quoted_from: str
    run: str
    minus: str
    our_backbone: str  # as in a suite
    our_split: str
    checkpoint: str  # the run of the published checkpoint on the row's backbone
    reason: str
    deviation: str
    note: str
    aggregation: str  # empty for tasks without subsets

    @property
    def is_own(self) -> bool:
        """Whether a suite's configuration has it, and mapping.yaml has not."""
        return self.source not in SOURCES

    @property
    def is_measurement(self) -> bool:
        """Whether it measures something: others are hyper-parameters."""
        return self.metric in PRINTED

    @property
    def label(self) -> tuple[str, ...]:
        """The printed row, as in `bench.reported.ROW_COLUMNS`."""
        return self.source, self.table, self.method, self.backbone, self.variant

    @property
    def cell(self) -> Cell:
        """The cell of our score that it is compared with."""
        metric, _ = PRINTED[self.metric]
        return Cell(self.task, self.our_split, metric, self.aggregation or "all")


@cache
def numbers() -> tuple[Number, ...]:
    """Every printed number, in the order of print.

    Exactly one entry of mapping.yaml must match a row: with several the order of the file would
    decide, silently, which run a paper is compared with.
    """
    # The files of printed tables have names that start with their paper.
    paths = [path for path in sorted(FOLDER.glob("*.csv")) if path.stem.split("_")[0] in SOURCES]
    # As texts, since `Number.text` has the decimals that are printed: 46.70, and not 46.7.
    tables = [pd.read_csv(path, dtype=str, keep_default_na=False) for path in paths]
    entries, rows = load_mapping().entries, []
    for row in pd.concat(tables)[COLUMNS].to_dict("records"):
        matches = [entry for entry in entries if entry.matches(row)]
        if len(matches) != 1:
            label = {name: row[name] for name in ROW_COLUMNS}
            raise UserError(
                f"mapping.yaml: {len(matches)} entries match {label}; exactly one must match"
            )
        (entry,) = matches
        row |= entry.model_dump(exclude={*ROW_COLUMNS, "suite_backbone", "suite_split"})
        row["our_backbone"] = entry.suite_backbone or row["backbone"]
        row["our_split"] = entry.suite_split or row["split"]
        row["checkpoint"] = entry.checkpoint.get(row["backbone"], "")
        # STS-B and SICK-R have no subsets, so their one correlation stands for every aggregation.
        if row["task"] not in (*WITH_SUBSETS, "Avg"):
            row["aggregation"] = ""
        rows.append(Number(**row | {"text": row["value"], "value": float(row["value"])}))
    return tuple(rows)


def own_numbers(planned: Iterable[Any]) -> list[Number]:
    """The printed numbers of a suite's own, from the `bench.runs.plan.PlannedNumber` of its
    plan."""
    empty = dict.fromkeys(Number.__dataclass_fields__, "")
    numbers = []
    for number in planned:
        row = empty | number.model_dump()
        row |= {"value": float(number.value), "text": str(number.value)}
        row |= {"our_backbone": number.backbone, "our_split": number.split}
        numbers.append(Number(**row))
    return numbers


@cache
def sweep_lines() -> dict[Number, str]:
    """The line of its sweep to which each number of a sweep belongs."""
    lines: dict[Number, str] = {}
    for sweep in load_mapping().sweeps:
        for number in numbers():
            if number.label[:2] == (sweep.source, sweep.table):
                lines[number] = sweep.line or number.method
    return lines
