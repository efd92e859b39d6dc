"""The t interval behind every answer, Holm's correction, and summaries of scores."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb, exp, fsum, lgamma, nan, sqrt
from statistics import fmean, stdev

import numpy as np
from scipy.special import stdtr, stdtrit

from bench.judged.words import LEVEL

ROUNDING = 1e-9  # slack for binary fractions: |77.63 - 77.65| must not exceed 0.02


@dataclass(frozen=True)
class Estimate:
    """A mean in points with its standard error, of which `df` degrees of freedom estimate the
    spread."""

    mean: float
    error: float
    df: float
    n: int  # scores, or pairs

    def half_width(self, level: float = LEVEL) -> float:
        """Half the width of the t interval with coverage `1 - level`."""
        return float(stdtrit(self.df, 1 - level / 2)) * self.error

    def p_value(self, value: float = 0.0) -> float:
        """Two-sided p of the t test that the true mean is `value`."""
        difference = abs(self.mean - value)
        if self.error <= ROUNDING:  # the same score at every seed
            return float(difference <= ROUNDING)
        return 2 * float(stdtr(self.df, -difference / self.error))

    def p_below(self, value: float) -> float:
        """One-sided p of the t test that the true mean is `value` or more."""
        difference = self.mean - value
        if self.error <= ROUNDING:
            return float(difference >= -ROUNDING)
        return float(stdtr(self.df, difference / self.error))

    @property
    def further(self) -> "Estimate":
        """The prediction of one further score: as certain as the mean and one score together."""
        return Estimate(self.mean, self.error * sqrt(self.n + 1), self.df, self.n)


def estimate(values: Sequence[float]) -> Estimate:
    """The mean of at least two scores or differences, one per seed."""
    n = len(values)
    return Estimate(fmean(values), stdev(values) / sqrt(n), n - 1, n)


def welch(a: Sequence[float], b: Sequence[float]) -> Estimate:
    """The difference of two means whose scores are not paired (Welch 1947)."""
    first, second = estimate(a), estimate(b)
    parts = first.error**2, second.error**2
    shares = parts[0] ** 2 / first.df + parts[1] ** 2 / second.df
    df = sum(parts) ** 2 / shares if shares else first.df
    return Estimate(first.mean - second.mean, sqrt(sum(parts)), df, first.n)


def holm(p_values: Sequence[float]) -> list[float]:
    """P values adjusted by Holm (1979), in the order given."""
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    steps = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(steps, 1)
    return adjusted.tolist()


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
    return (1 + 1 / (4 * n)) * 100 * stdev(scores) / unbiased / abs(mean)
