"""The verdict on a printed number, given our seeds. docs/statistics.md states the rule and what it costs."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import fsum, inf, sqrt
from statistics import fmean
from typing import Literal

import numpy as np
from scipy.special import stdtr, stdtrit

from bench.utils.errors import UserError, did_you_mean

Kind = Literal["reproduced", "consistent", "lower", "higher", "inconclusive", "diverged", "not comparable", "not run"]

SYMBOLS: dict[Kind, str] = {
    "reproduced": "=",
    "consistent": "≈",
    "lower": "↓",
    "higher": "↑",
    "inconclusive": "?",
    "diverged": "×",
    "not comparable": "≠",
    "not run": "–",
}

MEANINGS: dict[Kind, str] = {
    "reproduced": "our mean is within the tolerance of print, and print within the spread of our seeds",
    "consistent": "print is within the spread of our seeds, our mean further away than the tolerance",
    "lower": "ours is below print by more than the spread of our seeds explains",
    "higher": "ours is above print by more than the spread of our seeds explains",
    "inconclusive": "too few seeds, or too wide a spread, to say",
    "diverged": "a training of ours diverged",
    "not comparable": "ours was measured on another backbone, corpus, data set or recipe",
    "not run": "there is no score of ours",
}

LEVEL = 0.05  # two-sided; family-wise over a table
FEWEST_SEEDS = 3
# What the prior spread weighs, in degrees of freedom. It comes from another code base and from SimCSE alone, so it is
# worth a few seeds and no more: docs/statistics.md shows the error rates that led to 5.
PRIOR_DF = 5
ROUNDING = 1e-9  # |77.63 - 77.65| is not above 0.02, whatever binary fractions say


@dataclass(frozen=True)
class Tolerance:
    """How far from print a mean may be and still be `reproduced`, in points.

    The tolerance of a cell is `points`, or `spreads` prior standard deviations of that cell where that is more.
    """

    average: float
    task: float
    spreads_average: float
    spreads_task: float
    reason: str


TOLERANCES = {
    "checkpoint": Tolerance(0.02, 0.03, 0, 0, "the same weights: rounding, and float32 on other hardware"),
    "untrained": Tolerance(0.02, 0.03, 0, 0, "the same weights: rounding, and float32 on other hardware"),
    "whitening": Tolerance(0.1, 0.1, 0, 0, "a decomposition of few sentences: order of summation, float32 or float64"),
    "flow": Tolerance(
        1.0, 1.0, 0, 0, "fitted by gradient from a random start, of which there is one: as a trained model"
    ),
    "transfer": Tolerance(0.3, 0.3, 0, 0, "the same vectors, a classifier trained by stochastic gradient"),
    "transfer, small test": Tolerance(1.0, 1.0, 0, 0, "as transfer, on 500 (TREC) or 1,725 (MRPC) items"),
    "trained base": Tolerance(
        1.0, 1.0, 0, 2, "the mean of 5 or more seeds; a single task varies more than the average"
    ),
    "trained large": Tolerance(1.0, 1.0, 2, 2, "two standard deviations over public seeds, 1 point at least"),
    # Of differences no prior is known: how much of a method's spread pairing takes out depends on the two methods.
    "difference": Tolerance(
        0.5, 1.0, 0, 0, "seeds are paired; the printed gains begin at 0.28, so with more a loss would pass for a gain"
    ),
    # These two are in units of their own, not in points.
    "uniformity": Tolerance(
        0.1, 0.1, 0, 0, "between the two printed differences, 0.04 and 0.31, so that it tells them apart"
    ),
    "best step": Tolerance(
        3125, 3125, 0, 0, "a fifth of an epoch of 15,625 steps; 50 public seeds on bert-base spread by 2,730 steps"
    ),
}


def tolerance(kind: str, task: str, prior_sd: float | None = None) -> float:
    """The tolerance of a cell in points, for a key of `TOLERANCES` and the cell's prior standard deviation.

    Raises:
        UserError: there is no such kind.
    """
    if kind not in TOLERANCES:
        raise UserError(f"no tolerance is stated for {kind!r}{did_you_mean(kind, TOLERANCES)}")
    stated = TOLERANCES[kind]
    points, spreads = (stated.average, stated.spreads_average) if task == "Avg" else (stated.task, stated.spreads_task)
    return max(points, spreads * (prior_sd or 0.0))


@dataclass(frozen=True)
class Prediction:
    """What one further draw would be: a t distribution around `mean` with scale `scale` and `df` degrees of freedom."""

    mean: float
    scale: float
    df: int

    @property
    def half_width(self) -> float:
        """Half the width of the 95 % prediction interval, in points."""
        return quantile(self.df, 1 - LEVEL / 2) * self.scale

    def p_value(self, value: float) -> float:
        """Two-sided probability of a draw at least as far from the mean as `value`."""
        if self.scale == 0:
            return float(value == self.mean)
        return 2 * float(stdtr(self.df, -abs(value - self.mean) / self.scale))


@cache
def quantile(df: int, probability: float) -> float:
    """Of Student's t distribution with `df` degrees of freedom."""
    return float(stdtrit(df, probability))


def holm(p_values: Sequence[float]) -> list[float]:
    """P values adjusted by Holm (1979), in their order: those below a level keep the family-wise error below it."""
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    steps = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(steps, 1)
    return adjusted.tolist()


def standard_deviation(ours: Sequence[float]) -> float:
    """Of at least two draws, with n - 1 below."""
    mean = fmean(ours)
    return sqrt(fsum((score - mean) ** 2 for score in ours) / (len(ours) - 1))


def spread(sd: float, n: int, prior_sd: float | None) -> float:
    """The standard deviation to reckon with: that of n seeds, drawn towards the prior but never below their own."""
    if prior_sd is None:
        return sd
    pooled = sqrt((PRIOR_DF * prior_sd**2 + (n - 1) * sd**2) / (PRIOR_DF + n - 1))
    return max(sd, pooled)


def _prediction(mean: float, sd: float, n: int, prior_sd: float | None) -> Prediction:
    df = n - 1 + (0 if prior_sd is None else PRIOR_DF)
    return Prediction(mean, spread(sd, n, prior_sd) * sqrt(1 + 1 / n), df)


def predict(ours: Sequence[float], prior_sd: float | None = None) -> Prediction:
    """The predictive distribution of one further draw, from at least two scores in points (one, if there is a prior).

    Raises:
        ValueError: there are too few scores to predict anything.
    """
    n = len(ours)
    if n < (2 if prior_sd is None else 1):
        raise ValueError(f"{n} scores say nothing about their spread")
    return _prediction(fmean(ours), standard_deviation(ours) if n > 1 else 0.0, n, prior_sd)


def seeds_to_decide(ours: Sequence[float], tolerance: float, prior_sd: float | None = None) -> int | None:
    """The number of seeds at which the interval is narrow enough for a verdict, if their spread stays as it is.

    None where no number up to 1,000 is enough, or where nothing is known about the spread.
    """
    sd = standard_deviation(ours) if len(ours) > 1 else prior_sd
    if sd is None:
        return None

    def decides(n: int) -> bool:
        return _prediction(0.0, sd, n, prior_sd).half_width <= 2 * tolerance

    numbers = range(FEWEST_SEEDS, 1001)  # the interval only gets narrower with n
    return FEWEST_SEEDS + found if (found := bisect_left(numbers, True, key=decides)) < len(numbers) else None


@dataclass(frozen=True)
class Cell:
    """A printed number (points) and our scores of it, with what the rule needs to know about them."""

    printed: float
    ours: Sequence[float]
    tolerance: float
    deterministic: bool = False
    prior_sd: float | None = None

    @property
    def prediction(self) -> Prediction | None:
        """Of one further draw; None for deterministic cells and for fewer than 3 seeds."""
        if self.deterministic or len(self.ours) < FEWEST_SEEDS:
            return None
        return predict(self.ours, self.prior_sd)


@dataclass(frozen=True)
class Verdict:
    """The verdict in a word, why, and for `inconclusive` the number of seeds that would decide (None: no number)."""

    kind: Kind
    reason: str = ""
    seeds: int | None = None


def _judge(cell: Cell, prediction: Prediction | None, p_adjusted: float) -> Verdict:
    if not cell.ours:
        return Verdict("not run", "no scores in this suite")
    mean, n = fmean(cell.ours), len(cell.ours)
    near = abs(mean - cell.printed) <= cell.tolerance + ROUNDING
    direction: Kind = "lower" if mean < cell.printed else "higher"
    if cell.deterministic:
        kind = "reproduced" if near else direction
        return Verdict(kind, f"deterministic; tolerance {cell.tolerance:.2f}")

    half_width = prediction.half_width if prediction else inf
    if half_width > 2 * cell.tolerance:
        needed = seeds_to_decide(cell.ours, cell.tolerance, cell.prior_sd)
        remedy = f"about {needed} seeds would decide" if needed else "no number of seeds would decide"
        why = f"n = {n}" if n < FEWEST_SEEDS else f"interval ±{half_width:.2f} above 2 x {cell.tolerance:.2f}"
        return Verdict("inconclusive", f"{why}; {remedy}", needed)
    if p_adjusted < LEVEL:
        return Verdict(direction, f"interval ±{half_width:.2f}, adjusted p = {p_adjusted:.2g}")
    kind = "reproduced" if near else "consistent"
    return Verdict(kind, f"interval ±{half_width:.2f}, tolerance {cell.tolerance:.2f}")


def verdicts(table: Sequence[Cell]) -> list[Verdict]:
    """The verdicts on the cells of one table, with Holm's correction over those that have enough seeds.

    Cells that are not comparable, not run or diverged do not belong in `table`: they were settled before.
    """
    predictions = [cell.prediction for cell in table]
    tested = [found.p_value(cell.printed) for cell, found in zip(table, predictions, strict=True) if found]
    adjusted = iter(holm(tested))
    return [
        _judge(cell, prediction, next(adjusted) if prediction else 1.0)
        for cell, prediction in zip(table, predictions, strict=True)
    ]


def verdict(
    printed: float,
    ours: Sequence[float],
    *,
    tolerance: float,
    deterministic: bool = False,
    prior_sd: float | None = None,
) -> Verdict:
    """The verdict on a single cell, as in a table of one. All numbers in points."""
    return verdicts([Cell(printed, ours, tolerance, deterministic, prior_sd)])[0]
