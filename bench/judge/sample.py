"""Scores by seed, and the looks at which they are judged: the only path from systems to a verdict.

A look is at the first N, 2 N or 4 N planned seeds, in the order of the plan, so that nobody chooses
when to look, or at which seeds (docs/reference/rule.md#looks).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean
from typing import Any

from bench.judge.statistics import Estimate, estimate, welch
from bench.judged.verdicts import FEWEST_SEEDS, LOOKS
from bench.results.system import ByDraw, Draw, Scores


@dataclass(frozen=True)
class Sample:
    """Scores or differences in points by draw."""

    values: ByDraw
    planned: Sequence[Draw]  # in the order in which they were planned
    first_size: int  # N, how many were planned before the first score
    # Draws whose training diverged. They leave the pairs: `left_out` diverged in the baseline,
    # `diverged` in the method, whose remaining differences may be the lucky ones. To count
    # a diverged seed of the method as its lowest difference gave up to 28 % of simulated families a
    # false verdict, with a tenth of the seeds diverging.
    left_out: Collection[Draw] = ()
    diverged: Collection[Draw] = ()
    beside: Sequence[float] = ()  # classifier seeds of the other side, which are not paired
    looks: Sequence[int] = LOOKS

    def times(self, sign: int) -> "Sample":
        """The same with another sign."""
        values = {draw: sign * value for draw, value in self.values.items()}
        return replace(self, values=values, beside=[sign * value for value in self.beside])

    @property
    def sizes(self) -> list[int]:
        """The numbers of seeds at which there is a look."""
        return [factor * max(self.first_size, FEWEST_SEEDS) for factor in self.looks]

    def made(self, size: int) -> int:
        """How many of the first planned seeds have a result."""
        # A diverged seed is a result (docs/reference/rule.md#looks). It is not run again, so a look
        # must not wait for it.
        ended = {*self.values, *self.left_out, *self.diverged}
        return sum(draw in ended for draw in self.planned[:size])

    @cached_property
    def look(self) -> int:
        """The seeds of the last look that has all of them; 0 before the first."""
        return max((size for size in self.sizes if self.made(size) == size), default=0)

    @property
    def next_look(self) -> int | None:
        """The seeds of the next look; None after the last."""
        return next((size for size in self.sizes if size > self.look), None)

    @cached_property
    def draws(self) -> list[Draw]:
        """The draws of the look that have values; before the first all that have."""
        draws = self.planned[: self.look] if self.look else self.values
        return [draw for draw in draws if draw in self.values]

    @property
    def missing(self) -> int:
        """How many trainings of the method diverged in the look. With any, the method cannot be
        better."""
        # Where the baseline diverged as well, nothing is known of the method.
        diverged = {*self.diverged} - {*self.left_out}
        return sum(draw in diverged for draw in self.planned[: self.look])

    @cached_property
    def scores(self) -> tuple[float, ...]:
        """The values of `draws`."""
        return tuple(self.values[draw] for draw in self.draws)

    @cached_property
    def estimate(self) -> Estimate | None:
        """The mean of `scores`; None if there are too few, or too few beside them, for a standard
        deviation."""
        if len(self.scores) < 2 or len(self.beside) == 1:
            return None
        return welch(self.scores, self.beside) if self.beside else estimate(self.scores)

    @property
    def differences(self) -> tuple[float, ...]:
        """The `scores` minus the mean of the classifier seeds beside them."""
        mean = fmean(self.beside or [0.0])
        return tuple(score - mean for score in self.scores)

    @property
    def is_same(self) -> bool:
        """Whether there are differences, all of them 0."""
        return {*self.differences} == {0.0}

    @property
    def tested(self) -> Estimate | None:
        """The mean of a look with enough scores for a test."""
        return self.estimate if self.look and len(self.scores) >= FEWEST_SEEDS else None


# --- From systems to samples ---


def _sample(values: ByDraw, additions: Mapping[Draw, int], **more: Any) -> Sample:
    # Sorting is stable, so the seeds of one addition keep the order of the plan. Addition 0 was
    # planned before the first score: it is N.
    planned = sorted(additions, key=lambda draw: additions[draw])
    return Sample(values, planned, sum(number == 0 for number in additions.values()), **more)


def sample_of(scores: Scores) -> Sample:
    """The scores of a system. All classifier seeds exist at once, so they have a single look."""
    looks = LOOKS if scores.has_seeds else LOOKS[:1]
    return _sample(scores.values, scores.additions, looks=looks)


def differences_of(a: Scores, b: Scores) -> Sample:
    """The differences A - B of two systems.

    Two systems with seeds are paired by seed. Of two systems without seeds there is one difference
    of means. If one has seeds, the single score of the other is subtracted from each of its scores;
    classifier seeds of the other cannot be paired, and stand `beside` the scores.
    """
    values: ByDraw
    if a.has_seeds and b.has_seeds:
        values = {draw: a.values[draw] - b.values[draw] for draw in a.values if draw in b.values}
        # A pair was planned when its later side was.
        additions = {
            draw: max(a.additions[draw], b.additions[draw])
            for draw in a.additions
            if draw in b.additions
        }
        return _sample(values, additions, left_out=b.diverged, diverged=a.diverged)
    if not (a.has_seeds or b.has_seeds):
        # Several classifier seeds are averaged: they are no draws of a training.
        values = {}
        if a.values and b.values:
            values = {None: fmean(a.values.values()) - fmean(b.values.values())}
        return Sample(values, [], 0)
    if not a.has_seeds:
        # The seeds are the baseline's here. One that diverged leaves the pairs, and says nothing
        # against the method.
        reverse = differences_of(b, a).times(-1)
        return replace(reverse, left_out=reverse.diverged, diverged=())
    # The draw None is a score without any random draw, which has no spread of its own.
    if None in b.values:
        values = {draw: score - b.values[None] for draw, score in a.values.items()}
        return _sample(values, a.additions, diverged=a.diverged)
    values = a.values if b.values else {}
    return _sample(values, a.additions, beside=[*b.values.values()], diverged=a.diverged)
