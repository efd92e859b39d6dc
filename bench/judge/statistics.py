"""Intervals, quantiles and corrections behind the verdicts, derived in docs/error-rates.md."""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from math import comb, exp, fsum, lgamma, nan, sqrt
from statistics import fmean

import numpy as np
from scipy.optimize import brentq
from scipy.special import digamma, polygamma, stdtr, stdtrit

from bench.judged.words import FEWEST_SEEDS, LEVEL, MOST_SEEDS

ROUNDING = 1e-9  # slack for binary fractions: |77.63 - 77.65| must not exceed 0.02
# Weight of the prior standard deviation, in degrees of freedom. The prior comes from another code
# base and from SimCSE alone, so it counts as a few seeds and no more; docs/error-rates.md shows the
# error rates that led to 3.
PRIOR_DF = 3
# How much smaller the level is before and after the planned seeds (docs/statistics.md).
OTHER_LOOKS = 20
# The prior that is estimated from the comparisons of a suite: the fewest of them, and its greatest
# weight in degrees of freedom. They keep the rates of docs/error-rates.md.
FEWEST_SPREADS = 15
MOST_ESTIMATED_DF = 4

# A standard deviation in points, and its weight in degrees of freedom.
Prior = tuple[float | None, float]


def level_of(n: int, planned: int) -> float:
    """The level of an answer of n seeds where `planned` were planned before the first score: 5 % at
    those, little before and after, so that all looks together add at most one percent to its error
    rates however one looks (docs/statistics.md#however-one-looks)."""
    if n == planned:
        return LEVEL
    return LEVEL / OTHER_LOOKS * min(n, planned) / max(n, planned)


def of_planned(n: int, planned: int) -> str:
    """`3 of 8 planned seeds; `, as long as there are fewer than planned."""
    return f"{n} of {planned} planned seeds; " if n < planned else ""


@cache
def t_quantile(df: float, probability: float) -> float:
    """Quantile of Student's t distribution with `df` degrees of freedom."""
    return float(stdtrit(df, probability))


def t_p_value(difference: float, error: float, df: float) -> float:
    """Two-sided p value of a t test of a difference with a standard error."""
    if error <= ROUNDING:  # the same score at every seed
        return float(abs(difference) <= ROUNDING)
    return 2 * float(stdtr(df, -abs(difference / error)))


def holm(p_values: Sequence[float]) -> list[float]:
    """P values adjusted by Holm (1979), in the order given."""
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    steps = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(steps, 1)
    return adjusted.tolist()


def standard_deviation(scores: Sequence[float]) -> float:
    """Sample standard deviation (n - 1) of at least two scores: `statistics.stdev` up to the last
    bit, 20 times as fast, since the simulations behind docs/error-rates.md call it per cell."""
    mean = fmean(scores)
    return sqrt(fsum((score - mean) ** 2 for score in scores) / (len(scores) - 1))


def expected_best(scores: Sequence[float], of: int) -> float:
    """The expected best of `of` scores drawn without replacement; NaN if there are too few."""
    draws = comb(len(scores), of)
    ranked = enumerate(sorted(scores))
    return fsum(comb(below, of - 1) * score for below, score in ranked) / draws if draws else nan


def coefficient_of_variation(scores: Sequence[float]) -> float:
    """CV* in percent (Belz et al. 2022, ACL, section 3): the unbiased standard deviation in percent
    of the mean, corrected for few scores. NaN with fewer than two."""
    n = len(scores)
    mean = fmean(scores) if scores else 0.0
    if n < 2 or not mean:
        return nan
    unbiased = sqrt(2 / (n - 1)) * exp(lgamma(n / 2) - lgamma((n - 1) / 2))
    return (1 + 1 / (4 * n)) * 100 * standard_deviation(scores) / unbiased / abs(mean)


def degrees_of_freedom(n: int, prior_sd: float | None, prior_df: float = PRIOR_DF) -> float:
    """Degrees of freedom of `pooled_sd`."""
    return n - 1 + (0 if prior_sd is None else prior_df)


def pooled_sd(sd: float, n: int, prior_sd: float | None, prior_df: float = PRIOR_DF) -> float:
    """Standard deviation of n seeds pooled with the prior; never smaller than `sd` itself."""
    if prior_sd is None:
        return sd
    pooled = sqrt((prior_df * prior_sd**2 + (n - 1) * sd**2) / (prior_df + n - 1))
    return max(sd, pooled)


def estimated_prior(spreads: Sequence[tuple[float, int]]) -> Prior:
    """The prior that standard deviations have in common, by the moments of their log variances
    (Smyth 2004); without weight if there are too few. Each is given with its number of scores. A
    standard deviation of 0 has no logarithm and is left out."""
    positive = [(sd, (n - 1) / 2) for sd, n in spreads if sd > ROUNDING]
    if len(positive) < FEWEST_SPREADS:
        return None, 0
    sds, halves = np.array(positive).T
    logs = 2 * np.log(sds) - digamma(halves) + np.log(halves)
    most = MOST_ESTIMATED_DF / 2
    # What the variances differ by beyond the chance of few scores.
    excess = max(logs.var(ddof=1) - polygamma(1, halves).mean(), polygamma(1, most))
    half = brentq(lambda half: polygamma(1, half) - excess, excess**-0.5, most)
    return exp((logs.mean() + digamma(half)) / 2) / sqrt(half), 2 * half


@dataclass(frozen=True)
class Prediction:
    """Predictive t distribution of one further score, given at least two scores in points, or one
    and a standard deviation over seeds known from elsewhere."""

    scores: Sequence[float]
    prior_sd: float | None = None

    @property
    def mean(self) -> float:
        return fmean(self.scores)

    @property
    def df(self) -> float:
        return degrees_of_freedom(len(self.scores), self.prior_sd)

    @property
    def scale(self) -> float:
        n = len(self.scores)
        sd = standard_deviation(self.scores) if n > 1 else 0.0
        return pooled_sd(sd, n, self.prior_sd) * sqrt(1 + 1 / n)

    def half_width(self, level: float = LEVEL) -> float:
        """Half the width of the prediction interval with coverage `1 - level`, in points."""
        return t_quantile(self.df, 1 - level / 2) * self.scale

    def p_value(self, value: float) -> float:
        """Two-sided probability of a score at least as far from the mean as `value`."""
        return t_p_value(value - self.mean, self.scale, self.df)


def mean_half_width(
    sd: float,
    n: int,
    level: float = LEVEL,
    prior_sd: float | None = None,
    prior_df: float = PRIOR_DF,
) -> float:
    """Half the width of the t interval with coverage `1 - level` of a mean of n scores."""
    quantile = t_quantile(degrees_of_freedom(n, prior_sd, prior_df), 1 - level / 2)
    return quantile * pooled_sd(sd, n, prior_sd, prior_df) / sqrt(n)


def fewest_seeds(
    suffices: Callable[[int], bool], n: int = 0, planned: int = MOST_SEEDS
) -> int | None:
    """The smallest number of seeds that suffices if there are n now; None if more than `MOST_SEEDS`
    would be needed. `suffices` must be monotone up to the planned seeds and again after them, as
    intervals of `level_of` only get narrower there."""
    parts = [range(FEWEST_SEEDS, planned + 1), range(planned + 1, MOST_SEEDS + 1)]
    for numbers in parts[n > planned :]:
        first = bisect_left(numbers, True, key=suffices)
        if first < len(numbers):
            return numbers[first]
    return None
