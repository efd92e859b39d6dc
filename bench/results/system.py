"""A system: the runs of one method that differ in their draws alone, and their scores."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from math import nan
from statistics import fmean
from typing import Any

import numpy as np

from bench.datasets.metrics import (
    CLASSIFIER_SEED,
    FURTHER_SEEDS,
    METRICS,
    REST,
    SHARE,
    UNSEEN,
    Cell,
    probe_seed,
)
from bench.datasets.tasks import Leaderboard, expand_tasks, scored_cells
from bench.results.records import Provenance
from bench.runs.plan import PlannedRun

# From this share of test items with a sentence in a corpus on, tables mark the score. A choice of
# this project: less changes an average by little.
REMARKABLE = 0.05

# Why a run is missing.
NOT_SCORED = "no scores in this suite"
FAILED = "its last attempt failed"

# The seed of a training. Else the seed of the classifiers, the template, or None.
Draw = int | str | None
ByDraw = Mapping[Draw, float]


def draws_of(
    run: PlannedRun, cells: Iterable[Cell], seeds: Sequence[int] = FURTHER_SEEDS
) -> dict[Draw, str]:
    """The draws of a run's scores, each with the aggregation of its records. A draw is the run's
    seed or template. A run without one has the seeds of its classifiers, or a single draw, None,
    where no classifier is trained."""
    if run.draw is None and {METRICS[cell.metric].kind for cell in cells} == {SHARE}:
        return {seed: probe_seed(seed) for seed in (CLASSIFIER_SEED, *seeds)}
    return {run.draw: "all"}


# --- A run ---


@dataclass(frozen=True)
class RunResults:
    """A planned run and its results."""

    run: PlannedRun
    status: str = "missing"  # or "finished", "diverged" or "skipped" if it was scored
    reason: str = NOT_SCORED  # why it did not finish; empty if it did
    # Points: of tasks, their means over subsets and averages, and
    # `bench.datasets.metrics.quantities`.
    scores: Mapping[Cell, float] = field(default_factory=dict)
    provenance: Provenance = field(default_factory=Provenance)  # of its scores; empty if missing
    analyses: Mapping[str, Any] = field(default_factory=dict)  # of `bench.stages.analyse`, by name
    analysed: Provenance = field(default_factory=Provenance)  # of the analyses
    # Of a run without a seed, by task (`bench.evaluation.scoring.EncoderScores`).
    items: Mapping[str, np.ndarray] = field(default_factory=dict)

    @property
    def fate(self) -> str:
        """Why a run has no scores, in a few words."""
        if self.reason == FAILED:
            return "failed"
        return "missing" if self.status == "missing" else f"{self.status}: {self.reason}"

    @property
    def probe_seeds(self) -> Sequence[int]:
        """The further seeds of its classifiers, where it has any."""
        return self.provenance.probe_seeds or FURTHER_SEEDS

    def draws(self, cells: Sequence[Cell]) -> dict[Draw, float]:
        """The mean points of `scores` in these cells, such as `Leaderboard.cells`, by draw. Empty
        where a score is missing."""
        means = {}
        for draw, aggregation in draws_of(self.run, cells, self.probe_seeds).items():
            of_draw = cells
            if aggregation != "all":  # classifiers with a further seed
                of_draw = [cell._replace(aggregation=aggregation) for cell in cells]
            if self.scores.keys() >= {*of_draw}:
                means[draw] = fmean(self.scores[cell] for cell in of_draw)
        return means

    def points(self, leaderboard: Leaderboard, task: str, aggregation: str = "all") -> float | None:
        """Points on a task of a leaderboard or on its `Avg`; None if there is no score.
        `aggregation` is "all" for all test items, or `UNSEEN` or `REST` for items that were not
        read before."""
        if task == "Avg":
            # Averages of different tasks are not comparable, so there is none without all tasks.
            # Tasks are not rounded here: rounding could decide which of two systems is better.
            values = [self.points(leaderboard, name, aggregation) for name in leaderboard.tasks]
            scores = [value for value in values if value is not None]
            return fmean(scores) if len(scores) == len(values) else None
        if aggregation in (UNSEEN, REST):
            counts = self.provenance.contamination.get(task)
            # Nobody knows which items are unseen where they were not counted.
            if counts is None:
                return None
            # No such record is written where no item was read before: the score over all items is
            # the score over the others.
            if not (counts.seen or (aggregation == REST and counts.in_dev)):
                aggregation = "all"
        return self.scores.get(Cell(task, "test", leaderboard.metric, aggregation))

    def share(self, part: str, tasks: Iterable[str]) -> float:
        """The share of the test items of tasks that are `seen` or `in_dev`
        (`bench.results.records.Counts`); NaN if that was not counted."""
        by_task = self.provenance.contamination
        counts = [by_task[task] for task in tasks if task in by_task]
        items = sum(count.items for count in counts)
        return sum(getattr(count, part) for count in counts) / items if items else nan

    def contaminated(self, tasks: Iterable[str]) -> list[str]:
        """The tasks of whose test items a share of `REMARKABLE` has a sentence in a corpus."""
        return [task for task in tasks if self.share("seen", [task]) >= REMARKABLE]


def first_scored(results: Sequence[RunResults]) -> RunResults:
    """The first finished run, else the first run. Only a finished run says what it has read."""
    return min(results, key=lambda result: result.status != "finished")


def diverged(results: Iterable[RunResults], whose: str = "") -> str:
    """How many seeds diverged, as a clause; empty if none did."""
    statuses = [result.status for result in results if result.status != "missing"]
    count = statuses.count("diverged")
    seeds = f"seeds of {whose}" if whose else "seeds"
    return f"{count} of {len(statuses)} {seeds} diverged" if count else ""


# --- What is planned ---


@cache
def _cells(tasks: tuple[str, ...]) -> set[Cell]:
    return scored_cells(expand_tasks(tasks))


def planned_scores(run: PlannedRun, tasks: tuple[str, ...] | None = None) -> set[Cell]:
    """The cells of `RunResults.scores` that a planned run will have, given data sets with their
    usual splits; by default of all its tasks."""
    if run.skip:
        return set()
    analyses = {*run.analyses}
    if run.seed is not None:
        analyses.add("")  # the training
    return _cells(run.tasks if tasks is None else tasks) | {
        Cell(*metric.cell, name)
        for name, metric in METRICS.items()
        if metric.value and metric.analysis in analyses
    }


def _addition(
    run: PlannedRun, additions: Mapping[str, int | None], cells: Collection[Cell]
) -> int | None:
    """The number of the addition with which all cells are planned, from the `additions` of single
    tasks; None if a cell is not planned, or its addition is lost."""
    numbers = {task: number for task, number in additions.items() if number is not None}
    # The first addition that completes the cells is the one with which the draw was planned.
    for latest in sorted({0, *numbers.values()}):
        tasks = tuple(task for task, number in numbers.items() if number <= latest)
        if planned_scores(run, tasks) >= {*cells}:
            return latest
    return None


# --- A system ---


@dataclass(frozen=True)
class Scores:
    """The points of a system by draw, each a mean over the same cells."""

    values: ByDraw
    additions: Mapping[Draw, int]  # the planned draws, each with the number of its addition
    diverged: Collection[Draw]
    has_seeds: bool  # whether each draw is the seed of a training


@dataclass(frozen=True, eq=False)
class System:
    """A method in a setting on a backbone, with one corpus and recipe. In verdicts, comparisons and
    tables a system has one score per draw."""

    runs: Sequence[RunResults]  # in the order of the plan; without runs, it is not planned
    # Runs that were planned when the system had a score, and are not any more.
    dropped: Sequence[PlannedRun] = ()

    def __bool__(self) -> bool:
        return bool(self.runs)

    @property
    def first(self) -> PlannedRun:
        """The first run, for what all runs of a system have in common."""
        return self.runs[0].run

    @property
    def has_seeds(self) -> bool:
        """Whether its runs are trainings with a seed each."""
        return any(result.run.seed is not None for result in self.runs)

    def is_planned(self, cell: Cell) -> bool:
        """Whether a run is planned to have a score in a cell."""
        return any(cell in planned_scores(result.run) for result in self.runs)

    @cached_property
    def _planned(self) -> list[tuple[PlannedRun, dict[str, int | None]]]:
        """Its runs, dropped ones too, each with the additions of its tasks."""
        runs = [*(result.run for result in self.runs), *self.dropped]
        return [(run, run.additions) for run in runs]

    def scores(self, cells: Sequence[Cell]) -> Scores:
        """Its scores in some cells, of which each draw has the mean."""
        values: dict[Draw, float] = {}
        for result in self.runs:
            values |= result.draws(cells)
        additions: dict[Draw, int] = {}
        for run, of_tasks in self._planned:
            number = _addition(run, of_tasks, cells)
            if number is not None:
                # A run with further seeds is the only one of its system.
                for draw in draws_of(run, cells, self.runs[0].probe_seeds):
                    # Dropped runs are last: a draw that is planned again keeps the number of the
                    # planned run.
                    additions.setdefault(draw, number)
        gone = {result.run.draw for result in self.runs if result.status == "diverged"}
        return Scores(values, additions, gone, self.has_seeds)
