"""The t interval behind every answer, corrections of p values, and summaries of scores.

scipy.special alone: scipy.stats takes half a second to load, which every command would wait for.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb, exp, fsum, lgamma, nan, prod, sqrt
from statistics import fmean, stdev

import numpy as np
from scipy.special import bdtr, stdtr, stdtrit

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
    return _placed(np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)), order)


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """P values adjusted by Benjamini and Hochberg (1995), in the order given."""
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(-p, kind="stable")
    return _placed(np.minimum.accumulate(p[order] * (len(p) / np.arange(len(p), 0, -1))), order)


def _placed(adjusted: np.ndarray, order: np.ndarray) -> list[float]:
    """Adjusted p values, at most 1, in the places that `order` sorted."""
    placed = np.empty_like(adjusted)
    placed[order] = np.minimum(adjusted, 1)
    return placed.tolist()


def mcnemar(only_a: int, only_b: int) -> float:
    """Two-sided p of McNemar's exact test, given the items that one of two encoders gets right."""
    return min(1.0, 2 * float(bdtr(min(only_a, only_b), only_a + only_b, 0.5)))


def kendall(a: Sequence[float], b: Sequence[float]) -> float:
    """Kendall's tau-b of two rankings; NaN if one ranks nothing."""
    orders = [np.sign(np.subtract.outer(values, values)) for values in (a, b)]
    pairs = prod(float((order**2).sum()) for order in orders)  # without ties, in each
    return float((orders[0] * orders[1]).sum()) / sqrt(pairs) if pairs else nan


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
