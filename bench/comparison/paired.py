"""Does A beat B? Statistics of two methods' scores, paired by seed. docs/statistics.md states the rule and its costs.

Two runs with one seed see the same batches from the same start, so what a seed is worth falls out of their difference.
The verdict rests on the paired t test. The permutation test, which flips signs, is shown beside it and decides nothing:
of n differences its smallest two-sided p is 2 / 2^n, so with 5 seeds (0.0625) it can never reject at 5 %.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import nan, sqrt
from statistics import fmean
from typing import Literal

import numpy as np
from scipy.special import ndtri, stdtr
from scipy.stats import permutation_test

from bench.comparison.verdict import FEWEST_SEEDS, LEVEL, ROUNDING, holm, quantile, standard_deviation

Word = Literal["better", "worse", "undecided"]

SYMBOLS: dict[Word, str] = {"better": "↑", "worse": "↓", "undecided": "?"}

# Signs are enumerated where that is no more work than this (up to 13 differences), else so many patterns are drawn.
PATTERNS = 9999
MOST_SEEDS = 1000  # the search for a number of seeds ends here

Scores = Mapping[int | None, float]  # points by seed; the one score of an untrained method has the seed None


@dataclass(frozen=True)
class Paired:
    """The differences A - B in points, one a seed that both have, in the order of the seeds.

    Attributes:
        kind: "paired"; "one-sample" where one side is untrained, so that its one score stands against every seed of the
            other; "deterministic" where both are, so that there is one difference and no spread.
        tolerance: of a deterministic pair: what rounding and other hardware may change, in points.
        prior_sd: standard deviation of one run over seeds where it is known from elsewhere, in points; it only serves
            to say how many seeds would decide while there are fewer than 3.
    """

    kind: Literal["paired", "one-sample", "deterministic"]
    differences: tuple[float, ...]
    tolerance: float = 0.0
    prior_sd: float | None = None

    @property
    def n(self) -> int:
        return len(self.differences)

    @property
    def tested(self) -> bool:
        """Whether there are seeds enough for an interval and a test."""
        return self.kind != "deterministic" and self.n >= FEWEST_SEEDS

    @cached_property
    def mean(self) -> float:
        """Mean difference in points; NaN without pairs."""
        return fmean(self.differences) if self.n else nan

    @cached_property
    def sd(self) -> float:
        """Standard deviation of the differences in points; NaN for fewer than 2."""
        return standard_deviation(self.differences) if self.n > 1 else nan

    @property
    def half_width(self) -> float:
        """Half the width of the mean's 95 % t interval in points; NaN for fewer than 3 pairs."""
        return half_width(self.sd, self.n) if self.tested else nan

    @property
    def p_value(self) -> float:
        """Two-sided p of the paired (one-sample) t test of mean 0; NaN for fewer than 3 pairs."""
        if not self.tested:
            return nan
        if self.sd <= ROUNDING:  # the same difference at every seed
            return float(abs(self.mean) <= ROUNDING)
        return 2 * float(stdtr(self.n - 1, -abs(self.mean) / self.sd * sqrt(self.n)))

    @cached_property
    def permutation_p(self) -> float:
        """Two-sided p of the test that flips the signs of the differences; NaN without any.

        Exact up to 13 differences, 2 / 2^n at least. Beyond, of `PATTERNS` seeded draws, counting the observed signs
        as one more draw, so that it is never 0.
        """
        if not self.n or self.kind == "deterministic":
            return nan
        if self.n == 1:
            return 1.0
        # In an order that neither the names of the seeds nor the direction of the comparison changes.
        ordered = sorted(self.differences, key=abs)
        found = permutation_test((ordered,), np.mean, permutation_type="samples", n_resamples=PATTERNS, rng=0)
        return float(found.pvalue)

    @property
    def improvement(self) -> float:
        """Share of the seeds at which A scores more than B, a tie counting half; NaN without pairs."""
        return float(np.mean(np.sign(self.differences)) + 1) / 2 if self.n else nan

    @property
    def improvement_interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval of the probability that A scores more than B at a seed."""
        if not self.n or self.kind == "deterministic":
            return nan, nan
        return wilson(self.improvement, self.n)

    def seeds_for(self, gain: float, level: float = LEVEL) -> int | None:
        """How many seeds would show a mean difference of `gain` points; None where that is unknown or above 1,000.

        The spread is that of the differences; below 3 pairs it is sqrt(2) `prior_sd` where that is known, as of runs
        that share nothing.
        """
        spread = self.sd if self.tested or self.prior_sd is None else sqrt(2) * self.prior_sd
        return None if self.kind == "deterministic" else seeds_to_decide(gain, spread, level)


def wilson(share: float, n: int) -> tuple[float, float]:
    """Wilson's 95 % interval (1927) of a probability, of which n draws show `share`; ties may count half."""
    z = float(ndtri(1 - LEVEL / 2))
    centre = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    return centre - half, centre + half


def half_width(sd: float, n: int, level: float = LEVEL) -> float:
    """Half the width of the t interval (1 - level) of a mean of n draws with standard deviation `sd`."""
    return quantile(n - 1, 1 - level / 2) * sd / sqrt(n)


def seeds_to_decide(gain: float, sd: float, level: float = LEVEL) -> int | None:
    """The fewest seeds at which a mean difference of `gain` with this spread has an interval without 0.

    None where `sd` is NaN, `gain` is 0, or more than 1,000 would be needed.
    """
    numbers = range(FEWEST_SEEDS, MOST_SEEDS + 1)  # the interval only gets narrower with n
    found = bisect_left(numbers, True, key=lambda n: half_width(sd, n, level) < abs(gain))
    return numbers[found] if found < len(numbers) else None


def compare_pairs(ours: Scores, theirs: Scores, *, tolerance: float = 0.0, prior_sd: float | None = None) -> Paired:
    """Pair two methods' scores by seed, for the seeds that both have.

    An untrained method has one score, under None: it is compared with every seed of the other one (one-sample). The
    rest is as in `Paired`.
    """
    if None in ours and None in theirs:
        return Paired("deterministic", (ours[None] - theirs[None],), tolerance, prior_sd)
    if None in ours or None in theirs:
        trained = theirs if None in ours else ours
        pairs = [(ours.get(None, trained[seed]), theirs.get(None, trained[seed])) for seed in _seeds(trained)]
        return Paired("one-sample", tuple(a - b for a, b in pairs), tolerance, prior_sd)
    common = [seed for seed in _seeds(ours) if seed in theirs]
    return Paired("paired", tuple(ours[seed] - theirs[seed] for seed in common), tolerance, prior_sd)


def _seeds(scores: Scores) -> list[int]:
    return sorted(seed for seed in scores if seed is not None)


@dataclass(frozen=True)
class Decision:
    """The verdict on a comparison: the word, why, Holm's adjusted p; for `undecided` the seeds that would decide."""

    word: Word
    reason: str
    p_adjusted: float = nan
    seeds: int | None = None


def _decide(pair: Paired, p_adjusted: float, level: float) -> Decision:
    word: Word = "better" if pair.mean > 0 else "worse"
    if pair.kind == "deterministic":
        apart = abs(pair.mean) > pair.tolerance + ROUNDING
        return Decision(word if apart else "undecided", f"deterministic; tolerance {pair.tolerance:.2f}")
    if p_adjusted < LEVEL:
        return Decision(word, f"adjusted p = {p_adjusted:.2g}", p_adjusted)
    if not pair.n:
        return Decision("undecided", "no seed in common")
    if all(abs(difference) <= ROUNDING for difference in pair.differences):
        return Decision("undecided", "the same scores at every seed", p_adjusted)
    why = "" if pair.tested else f"n = {pair.n}; "
    needed = pair.seeds_for(pair.mean, level)
    if needed:
        remedy = f"about {needed} seeds would decide"
    elif pair.n == 1 and pair.prior_sd is None:
        remedy = f"at least {FEWEST_SEEDS} seeds are needed"
    else:
        remedy = f"{MOST_SEEDS} seeds would not decide"
    return Decision("undecided", why + remedy, p_adjusted, needed)


def strictest_level(family: Sequence[Paired]) -> float:
    """What p must stay below for a verdict whatever the rest of a family gives: 5 % over its number of comparisons."""
    return LEVEL / max(1, sum(pair.kind != "deterministic" for pair in family))


def decide(family: Sequence[Paired]) -> list[Decision]:
    """The verdicts on the comparisons of one family, with Holm's correction over those that have at least 3 pairs.

    `better` or `worse` where the adjusted p of the t test is below 5 %, else `undecided`. The number of seeds that
    would decide assumes that mean and spread stay as they are, and suffices whatever the others in the family give. Two
    untrained methods differ where they differ by more than the tolerance. Comparisons with a diverged seed do not
    belong in the family.
    """
    adjusted = iter(holm([pair.p_value for pair in family if pair.tested]))
    level = strictest_level(family)
    return [_decide(pair, next(adjusted) if pair.tested else nan, level) for pair in family]
