"""A printed number with our scores beside it, and how both stand in a row of `cells.csv`."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from math import nan
from typing import Any

import pandas as pd

from bench.comparison.statistics import coefficient_of_variation, expected_best, mean_and_sd
from bench.comparison.verdict import Verdict
from bench.reported.number import Number


@dataclass(frozen=True)
class Line:
    """Our scores beside a printed number, in points, one per seed, and the verdict on it."""

    setting: str
    scores: tuple[float, ...]
    verdict: Verdict
    measured_on: str = ""  # backbone of our runs; empty without runs
    deterministic: bool = False  # whether they have no seed

    @property
    def n(self) -> int:
        return len(self.scores)

    @cached_property
    def mean(self) -> float:
        """NaN without scores."""
        return mean_and_sd(self.scores)[0]

    @cached_property
    def sd(self) -> float:
        """NaN with fewer than two scores."""
        return mean_and_sd(self.scores)[1]


@dataclass(frozen=True)
class Cell:
    """A printed number with our scores. Those of a printed difference are paired differences."""

    number: Number
    ours: Line  # that it is compared with
    other: Line | None  # of the method's other setting
    checkpoint: Line | None  # of the published checkpoint that print quotes

    @property
    def difference(self) -> float:
        """Our mean - print; NaN without scores."""
        return self.ours.mean - self.number.value

    @property
    def rank(self) -> int | None:
        """The rank of print among our scores, 1 if none is higher; None with fewer than two."""
        higher = sum(score > self.number.value for score in self.ours.scores)
        return 1 + higher if self.ours.n > 1 else None

    @property
    def best_of_five(self) -> float:
        """The expected best of five of our scores; NaN with fewer."""
        return expected_best(self.ours.scores, 5)

    @property
    def cv(self) -> float:
        """CV* of print and our scores in percent; NaN for a difference."""
        if self.number.minus:
            return nan
        return coefficient_of_variation([self.number.value, *self.ours.scores])

    @property
    def is_measured(self) -> bool:
        """Whether it has any score of ours, or a training that diverged."""
        lines = (self.ours, self.other, self.checkpoint)
        scored = any(line is not None and line.n for line in lines)
        return scored or self.ours.verdict.kind == "diverged"


def grouped(cells: Iterable[Cell], key: Callable[[Cell], Any]) -> dict[Any, list[Cell]]:
    """Cells by a key, in the order in which keys come first."""
    groups: dict[Any, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(key(cell), []).append(cell)
    return groups


_COPIED = (
    "source", "table", "method", "backbone", "variant", "task", "split", "metric", "quoted_from",
    "note", "aggregation",
)  # fmt: skip
_BASIS = ("seeds", "spread_known", "within", "p", "p_adjusted")


def _row(cell: Cell) -> dict[str, Any]:
    """A cell as a row of cells.csv."""
    number, ours, verdict = cell.number, cell.ours, cell.ours.verdict
    nothing = Line("", (), verdict)
    other, checkpoint = cell.other or nothing, cell.checkpoint or nothing
    row = {name: getattr(number, name) for name in _COPIED} | {
        "ours_split": number.our_split,
        "printed": number.value,
        "run": number.run,
        "minus": number.minus,
        "ours": ours.scores,
        "n": ours.n,
        "measured_on": ours.measured_on,
        "deterministic": ours.deterministic,
        "mean": ours.mean,
        "sd": ours.sd,
        "difference": cell.difference,
        "rank": cell.rank,
        "best_of_five": cell.best_of_five,
        "cv": cell.cv,
        "other_setting": other.setting,
        "other": other.scores,
        "other_n": other.n,
        "other_mean": other.mean,
        "other_sd": other.sd,
        "checkpoint": number.checkpoint,
        "checkpoint_mean": checkpoint.mean,
        "tolerance": verdict.tolerance,
        "half_width": verdict.half_width,
        "mean_half_width": verdict.mean_half_width,
        "verdict": verdict.kind,
        "mark": verdict.mark,
        "reason": verdict.reason,
    }
    row |= {name: getattr(verdict, name) for name in _BASIS}
    for name, line in (("other", cell.other), ("checkpoint", cell.checkpoint)):
        row[f"{name}_verdict"] = line.verdict.kind if line else ""
        row[f"{name}_mark"] = line.verdict.mark if line else ""
        row[f"{name}_reason"] = line.verdict.reason if line else ""
    return row


# Types of columns of which some cells have no value.
_FLOATS = ("tolerance", "half_width", "mean_half_width", "p", "p_adjusted")
_TYPES = dict.fromkeys(_FLOATS, "float") | {"within": "object", "seeds": "Int64", "rank": "Int64"}


def frame(cells: Iterable[Cell]) -> pd.DataFrame:
    """The rows of cells.csv: for files, and for what pandas groups."""
    return pd.DataFrame(map(_row, cells)).astype(_TYPES)
