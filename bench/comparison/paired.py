"""Whether method A beats method B: statistics of scores paired by seed. docs/statistics.md states
the rule.

Two runs with the same seed see the same batches from the same initialisation, so the effect of the
seed cancels in their difference. The paired t test decides. The sign-flip permutation test is shown
beside it and decides nothing: with n differences its smallest two-sided p is 2 / 2^n, so with 5
seeds (0.0625) it can never reject at 5 %.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import nan, sqrt
from statistics import fmean
from typing import Literal

import numpy as np
from scipy.stats import permutation_test

from bench.comparison import statistics
from bench.comparison.statistics import AT_LEAST, FEWEST_SEEDS, LEVEL, MOST_SEEDS, ROUNDING

Kind = Literal["paired", "one-sample", "deterministic"]
Word = Literal["better", "worse", "undecided"]

COMPARISON_SYMBOLS: dict[Word, str] = {"better": "↑", "worse": "↓", "undecided": "?"}

# All sign patterns are enumerated if they are at most this many (up to 13 differences); otherwise
# this many are drawn.
PATTERNS = 9999

# Points by seed; the single score of an untrained method has the seed None.
Scores = Mapping[int | None, float]


@dataclass(frozen=True)
class PairedDifferences:
    """The differences A - B in points, and the statistics of them. If one side is untrained, its
    single score is compared with every seed of the other ("one-sample"); if both are, there is one
    difference and no spread ("deterministic")."""

    kind: Kind
    differences: tuple[float, ...]  # one per seed that both sides have, in the order of the seeds
    tolerance: float = 0.0  # for a deterministic pair: rounding, and other hardware
    # Of one run, known from elsewhere: only estimates how many seeds are needed, below 3 pairs.
    prior_sd: float | None = None

    @property
    def n(self) -> int:
        return len(self.differences)

    @property
    def tested(self) -> bool:
        """Whether there are enough seeds for an interval and a test."""
        return self.kind != "deterministic" and self.n >= FEWEST_SEEDS

    @cached_property
    def mean(self) -> float:
        """Mean difference in points; NaN without pairs."""
        return fmean(self.differences) if self.n else nan

    @cached_property
    def sd(self) -> float:
        """Standard deviation of the differences in points; NaN with fewer than 2 pairs."""
        return statistics.standard_deviation(self.differences) if self.n > 1 else nan

    @property
    def half_width(self) -> float:
        """Half the width of the 95 % t interval of the mean in points; NaN if not tested."""
        return statistics.mean_half_width(self.sd, self.n) if self.tested else nan

    @property
    def p_value(self) -> float:
        """Two-sided p of the paired (one-sample) t test against mean 0; NaN if not tested."""
        if not self.tested:
            return nan
        if self.sd <= ROUNDING:  # the same difference at every seed
            return float(abs(self.mean) <= ROUNDING)
        return statistics.t_p_value(self.mean / self.sd * sqrt(self.n), self.n - 1)

    @cached_property
    def permutation_p(self) -> float:
        """Two-sided p of the test that flips the signs of the differences; NaN without pairs.
        Beyond 13 differences the observed signs count as one more draw, so that p is never 0."""
        if not self.n or self.kind == "deterministic":
            return nan
        if self.n == 1:
            return 1.0
        # Sorted, so that neither the seeds' names nor the direction of the comparison changes the
        # draws.
        ordered = sorted(self.differences, key=abs)
        result = permutation_test(
            (ordered,), np.mean, permutation_type="samples", n_resamples=PATTERNS, rng=0
        )
        return float(result.pvalue)

    @property
    def improvement(self) -> float:
        """Share of the seeds at which A scores higher; a tie counts half. NaN without pairs."""
        return float(np.mean(np.sign(self.differences)) + 1) / 2 if self.n else nan

    @property
    def improvement_interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval of the probability that A scores higher than B at a seed."""
        if not self.n or self.kind == "deterministic":
            return nan, nan
        return statistics.wilson_interval(self.improvement, self.n)

    def part_of(self, gain: float) -> tuple[float, float, float]:
        """The mean difference divided by a printed gain in points, which has no spread of its own,
        and the ends of its 95 % interval; NaN if the gain is 0 or there are fewer than 3 pairs. The
        part of two untrained methods has no interval."""
        if not gain or not (self.tested or self.kind == "deterministic"):
            return nan, nan, nan
        ends = (self.mean - self.half_width) / gain, (self.mean + self.half_width) / gain
        return self.mean / gain, min(ends), max(ends)

    def seeds_for(self, gain: float, level: float = LEVEL) -> int | None:
        """The number of seeds that would show a mean difference of `gain` points, as in
        `seeds_to_show`. With fewer than 3 pairs the spread is sqrt(2) `prior_sd` if that is known,
        as for independent runs."""
        spread = self.sd if self.tested or self.prior_sd is None else sqrt(2) * self.prior_sd
        return None if self.kind == "deterministic" else seeds_to_show(gain, spread, level)


def seeds_to_show(gain: float, sd: float, level: float = LEVEL) -> int | None:
    """The fewest seeds at which the interval of a mean difference of `gain` points, with coverage
    `1 - level`, excludes 0, if the differences have this sd; None if it is NaN, if `gain` is 0, or
    if more than 1,000 would be needed."""
    return statistics.fewest_seeds(lambda n: statistics.mean_half_width(sd, n, level) < abs(gain))


def pairs(a: Scores, b: Scores) -> list[tuple[float, float]]:
    """Scores of both at the seeds that both have, in the order of `a`; the single score of an
    untrained method is paired with every seed of the other."""
    if b.keys() == {None}:
        b = dict.fromkeys(a, b[None])
    elif a.keys() == {None}:
        a = dict.fromkeys(b, a[None])
    return [(score, b[seed]) for seed, score in a.items() if seed in b]


def pair_scores(
    a: Scores, b: Scores, *, tolerance: float = 0.0, prior_sd: float | None = None
) -> PairedDifferences:
    """The differences of two methods, in the order of the seeds; the rest as in
    `PairedDifferences`."""
    kinds: list[Kind] = ["paired", "one-sample", "deterministic"]
    kind = kinds[(None in a) + (None in b)]
    both = pairs(dict(sorted(a.items())), dict(sorted(b.items())))
    differences = tuple(score_a - score_b for score_a, score_b in both)
    return PairedDifferences(kind, differences, tolerance, prior_sd)


@dataclass(frozen=True)
class Decision:
    """The verdict on a comparison and why, as a clause."""

    word: Word
    reason: str
    p_adjusted: float = nan  # p after Holm's correction; NaN without a test
    seeds: int | None = None  # the number that would decide an `undecided` pair, if any would


def _decide(pair: PairedDifferences, p_adjusted: float, level: float) -> Decision:
    word: Word = "better" if pair.mean > 0 else "worse"
    if pair.kind == "deterministic":
        differ = abs(pair.mean) > pair.tolerance + ROUNDING
        reason = f"deterministic; tolerance {pair.tolerance:.2f}"
        return Decision(word if differ else "undecided", reason)
    if p_adjusted < LEVEL:
        return Decision(word, f"adjusted p = {p_adjusted:.2g}", p_adjusted)
    if not pair.n:
        return Decision("undecided", "no seed in common")
    if all(abs(difference) <= ROUNDING for difference in pair.differences):
        return Decision("undecided", "the same scores at every seed", p_adjusted)
    needed = pair.seeds_for(pair.mean, level)
    if needed:
        remedy = f"about {needed} seeds would decide"
    elif pair.n == 1 and pair.prior_sd is None:
        remedy = AT_LEAST
    else:
        remedy = f"{MOST_SEEDS} seeds would not decide"
    why = "" if pair.tested else f"n = {pair.n}; "
    return Decision("undecided", why + remedy, p_adjusted, needed)


def strictest_level(family: Sequence[PairedDifferences]) -> float:
    """The Bonferroni level of a family: a p below it rejects whatever the others give."""
    return LEVEL / max(1, sum(pair.kind != "deterministic" for pair in family))


def decide(family: Sequence[PairedDifferences]) -> list[Decision]:
    """The verdicts on the comparisons of one family, with Holm's correction over the tested ones;
    those with a diverged seed must be left out. The number of seeds that would decide holds
    whatever the rest of the family gives."""
    adjusted = iter(statistics.holm([pair.p_value for pair in family if pair.tested]))
    level = strictest_level(family)
    return [_decide(pair, next(adjusted) if pair.tested else nan, level) for pair in family]
