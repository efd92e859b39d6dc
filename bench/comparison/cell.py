"""A printed number with our scores beside it, and how both stand in a row of `cells.csv`."""

from collections.abc import Callable, Iterable, Mapping
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
class Ours(Line):
    """The scores that a printed number is compared with.

    Attributes:
        measured_on: backbone of our runs; empty without runs.
        deterministic: whether they have no seed.
        tolerance: if judged, in points.
        half_width: if tested, that of the 95 % prediction interval.
        mean_half_width: if tested, that of the mean's interval: 90 % if within the tolerance, else
            95 %.
        spread_known: whether `verdict.seeds` is estimated from a spread.
    """

    measured_on: str
    deterministic: bool
    tolerance: float | None = None
    half_width: float | None = None
    mean_half_width: float | None = None
    spread_known: bool = False


@dataclass(frozen=True)
class Cell:
    """A printed number and ours, those of the method's other setting, and those of the published
    checkpoint that print quotes. Scores of differences are paired differences."""

    number: Number
    ours: Ours
    other: Line | None
    checkpoint: Line | None

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


def _row(cell: Cell) -> dict[str, Any]:
    """A cell as a row of cells.csv."""
    number, ours, other, checkpoint = cell.number, cell.ours, cell.other, cell.checkpoint
    verdict = ours.verdict
    return {
        "source": number.source,
        "table": number.table,
        "method": number.method,
        "backbone": number.backbone,
        "variant": number.variant,
        "task": number.task,
        "split": number.split,
        "metric": number.metric,
        "quoted_from": number.quoted_from,
        "note": number.note,
        "aggregation": number.aggregation,
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
        "other_setting": other.setting if other else "",
        "other": other.scores if other else (),
        "other_n": other.n if other else 0,
        "other_mean": other.mean if other else nan,
        "other_sd": other.sd if other else nan,
        "checkpoint": number.checkpoint,
        "checkpoint_mean": checkpoint.mean if checkpoint else nan,
        "tolerance": ours.tolerance,
        "half_width": ours.half_width,
        "mean_half_width": ours.mean_half_width,
        "verdict": verdict.kind,
        "mark": verdict.mark,
        "reason": verdict.reason,
        "seeds": verdict.seeds,
        "spread_known": ours.spread_known,
        "within": verdict.within,
        "p": verdict.p,
        "p_adjusted": verdict.p_adjusted,
        "other_verdict": other.verdict.kind if other else "",
        "other_mark": other.verdict.mark if other else "",
        "other_reason": other.verdict.reason if other else "",
        "checkpoint_verdict": checkpoint.verdict.kind if checkpoint else "",
        "checkpoint_mark": checkpoint.verdict.mark if checkpoint else "",
        "checkpoint_reason": checkpoint.verdict.reason if checkpoint else "",
    }


# Types of columns of which some cells have no value.
_FLOATS = ("tolerance", "half_width", "mean_half_width", "p", "p_adjusted")
_TYPES = dict.fromkeys(_FLOATS, "float") | {"within": "object", "seeds": "Int64", "rank": "Int64"}


def frame(cells: Iterable[Cell]) -> pd.DataFrame:
    """The rows of cells.csv: for files, and for what pandas groups."""
    return pd.DataFrame(map(_row, cells)).astype(_TYPES)


def cell_of(number: Number, row: Mapping[str, str]) -> Cell:
    """The cell of a printed number, from its row of cells.csv."""
    values = {name: float(row[name]) if row[name] else None for name in _FLOATS}
    ours = Ours(
        number.run.partition("@")[2],
        _scores(row["ours"]),
        _verdict(
            row,
            within={"True": True, "False": False}.get(row["within"]),
            p=values.pop("p"),
            p_adjusted=values.pop("p_adjusted"),
        ),
        row["measured_on"],
        row["deterministic"] == "True",
        **values,
        spread_known=row["spread_known"] == "True",
    )
    other = checkpoint = None
    if row["other_verdict"]:
        other = Line(row["other_setting"], _scores(row["other"]), _verdict(row, "other_"))
    if number.checkpoint:
        verdict = _verdict(row, "checkpoint_")
        scores = _scores(row["checkpoint_mean"])  # a checkpoint has one score
        checkpoint = Line(number.checkpoint.partition("@")[2], scores, verdict)
    return Cell(number, ours, other, checkpoint)


def _scores(text: str) -> tuple[float, ...]:
    return tuple(map(float, text.split()))


def _verdict(row: Mapping[str, Any], prefix: str = "", **tested: Any) -> Verdict:
    """The verdict of a line in a row of cells.csv."""
    count = row[f"{prefix}mark"].partition(" ")[2]  # as in `Verdict.mark`
    if count.startswith("1/"):
        tested["one_in"] = int(count.removeprefix("1/"))
    elif count:
        tested["seeds"] = int(count)
    return Verdict(row[f"{prefix}verdict"], row[f"{prefix}reason"], **tested)
