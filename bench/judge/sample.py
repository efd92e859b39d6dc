"""Scores by seed, and the looks at which they are judged: the one path from runs to an answer.

A look is at the first N, 2 N or 4 N planned seeds, in the order of the plan, so that nobody chooses
when to look, or at which seeds (docs/statistics.md#looks).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from statistics import fmean
from typing import Any

from bench.datasets.metrics import METRICS
from bench.datasets.tasks import Key, expand_tasks, scored_cells
from bench.judge.statistics import Estimate, estimate, welch
from bench.judged.words import FEWEST_SEEDS, LOOKS
from bench.results.suite_results import Draw, RunResults, draws_of, planned_row
from bench.runs.run import PlannedRun

ByDraw = Mapping[Draw, float]


@dataclass(frozen=True)
class Sample:
    """Scores or differences in points by draw."""

    values: ByDraw
    planned: Sequence[Draw]  # in the order in which they were planned
    first: int  # N, how many were planned before the first score
    # Draws whose training diverged, which leave the pairs: those of the baseline, and those of the
    # method, whose other differences may be the lucky ones.
    left_out: Collection[Draw] = ()
    diverged: Collection[Draw] = ()
    beside: Sequence[float] = ()  # classifier seeds of the other side, which are not paired
    looks: Sequence[int] = LOOKS

    @property
    def sizes(self) -> list[int]:
        """The numbers of seeds at which it is looked at."""
        return [factor * max(self.first, FEWEST_SEEDS) for factor in self.looks]

    def made(self, size: int) -> int:
        """How many of the first planned seeds have a result."""
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
        """How many trainings of the method diverged in the look, which hence cannot be better."""
        diverged = {*self.diverged} - {*self.left_out}
        return sum(draw in diverged for draw in self.planned[: self.look])

    @cached_property
    def scores(self) -> tuple[float, ...]:
        """The values of `draws`."""
        return tuple(self.values[draw] for draw in self.draws)

    @cached_property
    def estimate(self) -> Estimate | None:
        """The mean of `scores`; None if their spread, or that beside them, is unknown."""
        if len(self.scores) < 2 or len(self.beside) == 1:
            return None
        return welch(self.scores, self.beside) if self.beside else estimate(self.scores)

    @property
    def differences(self) -> tuple[float, ...]:
        """The `scores`, minus the mean of what stands beside them."""
        mean = fmean(self.beside or [0.0])
        return tuple(score - mean for score in self.scores)

    @property
    def tested(self) -> Estimate | None:
        """The mean of a look with enough scores for a test."""
        return self.estimate if self.look and len(self.scores) >= FEWEST_SEEDS else None


# --- From runs to samples ---


@cache
def _cells(tasks: tuple[str, ...]) -> set[Key]:
    return scored_cells(expand_tasks(tasks))


def planned_scores(run: PlannedRun, tasks: tuple[str, ...] | None = None) -> set[Key]:
    """The keys of `RunResults.scores` that a planned run will have, given data sets with their
    usual splits; by default of all its tasks."""
    if run.skip:
        return set()
    measured = {*run.analyses}
    if run.seed is not None:
        measured.add("")  # the training
    return _cells(run.tasks if tasks is None else tasks) | {
        (*metric.cell, name)
        for name, metric in METRICS.items()
        if metric.value and metric.analysis in measured
    }


def _addition(run: PlannedRun, keys: Collection[Key]) -> int | None:
    """The addition with which all keys are planned; None if they are not, or if that is lost."""
    additions = run.additions
    for last in sorted({0, *filter(None, additions.values())}):
        tasks = [task for task, number in additions.items() if (number or 0) <= last]
        known = tuple(task for task in tasks if additions[task] is not None)
        if planned_scores(run, known) >= {*keys}:
            return last
    return None


def planned_draws(results: Sequence[RunResults], keys: Collection[Key]) -> dict[Draw, int]:
    """The planned draws of a row, each with the number of its addition."""
    found: dict[Draw, int] = {}
    for run in planned_row(results):
        number = _addition(run, keys)
        if number is not None:
            for draw in draws_of(run, keys):
                found.setdefault(draw, number)
    return found


def values_of(results: Sequence[RunResults], keys: Sequence[Key]) -> ByDraw:
    """The points of a row by draw, means over keys."""
    found: dict[Draw, float] = {}
    for result in results:
        found |= result.draws(*keys)
    return found


def has_seeds(results: Sequence[RunResults]) -> bool:
    """Whether the runs of a row are trainings with a seed each."""
    return any(result.run.seed is not None for result in results)


def _diverged(results: Sequence[RunResults]) -> set[Draw]:
    return {result.run.draw for result in results if result.status == "diverged"}


def _sample(values: ByDraw, numbers: Mapping[Draw, int], **more: Any) -> Sample:
    planned = sorted(numbers, key=lambda draw: numbers[draw])
    return Sample(values, planned, sum(number == 0 for number in numbers.values()), **more)


def scores_of(results: Sequence[RunResults], keys: Sequence[Key]) -> Sample:
    """The scores of a row, means over keys. Classifier seeds are all there are, so they have a
    single look."""
    looks = LOOKS if has_seeds(results) else LOOKS[:1]
    return _sample(values_of(results, keys), planned_draws(results, keys), looks=looks)


def differences_of(
    results_a: Sequence[RunResults], results_b: Sequence[RunResults], keys: Sequence[Key]
) -> Sample:
    """The differences A - B of two rows, paired by seed. A single score of one is subtracted from
    every score of the other, and its classifier seeds stand beside them."""
    a, b = values_of(results_a, keys), values_of(results_b, keys)
    numbers_a, numbers_b = planned_draws(results_a, keys), planned_draws(results_b, keys)
    gone = {"left_out": _diverged(results_b), "diverged": _diverged(results_a)}
    if has_seeds(results_a) and has_seeds(results_b):
        values = {draw: a[draw] - b[draw] for draw in a if draw in b}
        numbers = {
            draw: max(numbers_a[draw], numbers_b[draw]) for draw in numbers_a if draw in numbers_b
        }
        return _sample(values, numbers, **gone)
    if not (has_seeds(results_a) or has_seeds(results_b)):
        values = {None: fmean(a.values()) - fmean(b.values())} if a and b else {}
        return Sample(values, [], 0)
    sign, seeded, fixed = (1, a, b) if has_seeds(results_a) else (-1, b, a)
    numbers = numbers_a if seeded is a else numbers_b
    beside = [sign * score for score in fixed.values()]
    values = {draw: sign * score for draw, score in seeded.items()} if beside else {}
    if None in fixed:
        values = {draw: score - beside[0] for draw, score in values.items()}
        beside = []
    return _sample(values, numbers, beside=beside, **gone)
