"""The t interval behind every verdict, and corrections of p values.

The t distribution comes from scipy.special: every command that judges needs it, and scipy.stats
takes half a second to load.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, stdev

import numpy as np
from scipy.special import stdtr, stdtrit

from bench.judged.verdicts import LEVEL

ROUNDING = 1e-9  # slack for binary fractions: |77.63 - 77.65| must not exceed 0.02


@dataclass(frozen=True)
class Estimate:
    """A mean in points with its standard error, which has `df` degrees of freedom."""

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
        """The prediction of one further score. Its variance is the variance of the mean plus the
        variance of one score, (1 / n + 1) sd² = (n + 1) error²."""
        return Estimate(self.mean, self.error * sqrt(self.n + 1), self.df, self.n)


def estimate(values: Sequence[float]) -> Estimate:
    """The mean of at least two scores or differences, one per seed."""
    n = len(values)
    return Estimate(fmean(values), stdev(values) / sqrt(n), n - 1, n)


def welch(a: Sequence[float], b: Sequence[float]) -> Estimate:
    """The difference of two means whose scores are not paired (Welch 1947)."""
    of_a, of_b = estimate(a), estimate(b)
    # The two variances may differ, so the degrees of freedom are no whole number.
    parts = of_a.error**2, of_b.error**2
    shares = parts[0] ** 2 / of_a.df + parts[1] ** 2 / of_b.df
    df = sum(parts) ** 2 / shares if shares else of_a.df  # equal scores on both sides have no df
    # n counts the seeds of a training, which are in `a`. The classifier seeds in `b` are not
    # trainings.
    return Estimate(of_a.mean - of_b.mean, sqrt(sum(parts)), df, of_a.n)


def holm(p_values: Sequence[float]) -> list[float]:
    """P values adjusted by Holm (1979), in the order given."""
    # scipy.stats corrects by Benjamini and Hochberg or by Yekutieli, not by Holm.
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    adjusted = np.empty_like(p)
    adjusted[order] = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    return np.minimum(adjusted, 1).tolist()


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """P values adjusted by Benjamini and Hochberg (1995), in the order given."""
    if not p_values:  # scipy refuses an empty family
        return []
    # scipy.stats takes half a second to load, and most suites are not compared with print.
    from scipy.stats import false_discovery_control

    return false_discovery_control(p_values).tolist()
