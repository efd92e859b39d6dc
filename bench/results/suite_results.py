"""The results of a suite: its plan, and the scores and analyses of every planned run, validated."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import nan
from pathlib import Path
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
    aggregated,
    metric_of,
    probe_seed,
    quantities,
)
from bench.datasets.tasks import Board, Key, averages
from bench.results.records import (
    AGAIN,
    FAILURE,
    Provenance,
    ScoreDocument,
    read_analyses,
    read_items,
    read_scores,
)
from bench.runs.paths import items_file
from bench.runs.plan import Plan, read_plan
from bench.runs.run import PlannedRun
from bench.utils.errors import UserError, listed

# Recipe fields that change the cost of an experiment, not its scores.
NEUTRAL_CHANGES = {"threads", "precision"}

# The share of a task's test items with a sentence in a corpus from which on names and rows say so.
REMARKABLE = 0.05

# Why a run is missing.
NOT_SCORED = "no scores in this suite"
FAILED = "its last attempt failed"


# A seed; of a run without one the seed of its classifiers, its template, or None.
Draw = int | str | None


def draws_of(run: PlannedRun, keys: Iterable[Key]) -> dict[Draw, str]:
    """What is drawn for scores of a run, each with the aggregation of its records: its seed or
    template; of a run without, on classifiers their seeds, elsewhere nothing."""
    if run.draw is None and {metric_of(metric).kind for *_, metric in keys} == {SHARE}:
        return {CLASSIFIER_SEED: "all", **{seed: probe_seed(seed) for seed in FURTHER_SEEDS}}
    return {run.draw: "all"}


@dataclass(frozen=True)
class RunResults:
    """A planned run and its results."""

    run: PlannedRun
    status: str = "missing"  # or "finished", "diverged" or "skipped" if it was scored
    reason: str = NOT_SCORED  # why it did not finish; empty if it did
    # Points: of tasks, their means over subsets and averages, and
    # `bench.datasets.metrics.quantities`.
    scores: Mapping[Key, float] = field(default_factory=dict)
    provenance: Provenance = field(default_factory=Provenance)  # of its scores; empty if missing
    analyses: Mapping[str, Any] = field(default_factory=dict)  # of `bench.stages.analyse`, by name
    analysed: Provenance = field(default_factory=Provenance)  # of the analyses
    # Of a run without a seed, by task (`bench.evaluation.scoring.EncoderScores`).
    items: Mapping[str, np.ndarray] = field(default_factory=dict)
    # All runs of its row that are planned, or were when a score was there; by default itself.
    row: Sequence[PlannedRun] = ()

    @property
    def experiment(self) -> tuple[Any, Any]:
        """Corpus and recipe; scores of different ones are not averaged."""
        return self.run.corpus, self.run.recipe_changes

    @property
    def fate(self) -> str:
        """Why a run has no scores, in a few words."""
        if self.reason == FAILED:
            return "failed"
        return "missing" if self.status == "missing" else f"{self.status}: {self.reason}"

    def draws(self, *keys: Key) -> dict[Draw, float]:
        """The mean points of `scores` with these keys, such as `Board.keys`, by draw. Empty where a
        score is missing."""
        found = {}
        for draw, name in draws_of(self.run, keys).items():
            cells = [(task, split, aggregated(metric, name)) for task, split, metric in keys]
            if self.scores.keys() >= {*cells}:
                found[draw] = fmean(self.scores[cell] for cell in cells)
        return found

    def points(self, board: Board, task: str, aggregation: str = "all") -> float | None:
        """Points on a task of a board or on its `Avg`: on all test items, or on those that were not
        read before, `UNSEEN` in a corpus or the `REST`; None if that is not known."""
        if task == "Avg":
            # Averages of different tasks are not comparable. Not rounded: rounding could decide.
            values = [self.points(board, name, aggregation) for name in board.tasks]
            present = [value for value in values if value is not None]
            return fmean(present) if len(present) == len(values) else None
        if aggregation in (UNSEEN, REST):
            counted = self.provenance.contamination.get(task)
            if counted is None:
                return None
            if not (counted.seen or (aggregation == REST and counted.in_dev)):
                aggregation = "all"
        return self.scores.get((task, "test", aggregated(board.metric, aggregation)))

    def share(self, part: str, tasks: Iterable[str]) -> float:
        """The share of the test items of tasks that are `seen` or `in_dev`
        (`bench.results.records.Counts`); NaN if that was not counted."""
        counted = self.provenance.contamination
        counts = [counted[task] for task in tasks if task in counted]
        items = sum(count.items for count in counts)
        return sum(getattr(count, part) for count in counts) / items if items else nan

    def contaminated(self, tasks: Iterable[str]) -> list[str]:
        """The tasks of whose test items a share of `REMARKABLE` has a sentence in a corpus."""
        return [task for task in tasks if self.share("seen", [task]) >= REMARKABLE]


def planned_row(results: Sequence[RunResults]) -> Sequence[PlannedRun]:
    """All runs of the row of these results that are planned, or were when a score was there."""
    return (results[0].row if results else ()) or [result.run for result in results]


def deviations(runs: Iterable[PlannedRun]) -> list[str]:
    """How the trainings of planned runs differ from those of papers, as clauses."""
    trained = [run for run in runs if run.seed is not None]
    corpora = {run.corpus for run in trained if not run.own_corpus} - {"wiki1m"}
    changed = {key for run in trained for key in run.recipe_changes} - NEUTRAL_CHANGES
    clauses = []
    if corpora:
        clauses.append(f"trained on {listed(sorted(corpora))}")
    if changed:
        clauses.append(f"recipe changed ({', '.join(sorted(changed))})")
    return clauses


def diverged(runs: Iterable[RunResults], whose: str = "") -> str:
    """How many seeds diverged, as a clause; empty if none did."""
    statuses = [run.status for run in runs if run.status != "missing"]
    count = statuses.count("diverged")
    seeds = f"seeds of {whose}" if whose else "seeds"
    return f"{count} of {len(statuses)} {seeds} diverged" if count else ""


@dataclass(frozen=True)
class SuiteResults:
    """The results of a suite, and its plan, whose runs are those of the results."""

    plan: Plan
    runs: list[RunResults]

    def __post_init__(self) -> None:
        """Check that all scores and analyses read the same sentences and labels of a task, and the
        same text of a corpus."""
        seen: dict[str, tuple[str, str]] = {}
        for result in self.runs:
            for noun, provenance in (("scores", result.provenance), ("analyses", result.analysed)):
                name = f"the {noun} of {result.run.id} ({provenance.date})"
                for part, digest in provenance.sums(result.run.corpus):
                    first, earlier = seen.setdefault(part, (digest, name))
                    if first != digest:
                        raise UserError(
                            f"{earlier} and {name} in suite {self.plan.suite} are of different "
                            f"data ({part} has the checksums {first} and {digest}); "
                            "move the older away, and run the suite again"
                        )

    def results(self, text: str, backbone: str) -> list[RunResults]:
        """The results of a method in a setting on a backbone, of all corpora and recipes."""
        return [x for x in self.runs if (x.run.text, x.run.backbone) == (text, backbone)]


def read_run(run: PlannedRun, suite_dir: Path, mode: str) -> RunResults:
    """Read the results of a planned run; `mode` is that of the plan's classifiers. `UserError`: a
    file is damaged, or holds results of another run or mode."""
    path = suite_dir / "scores" / f"{run.id}.json"
    if not path.exists():
        if (suite_dir / "runs" / run.id / FAILURE).is_file():
            return RunResults(run, reason=FAILED)
        return RunResults(run)
    read = read_scores(path)
    fault = _fault(read, run, mode)
    if fault:
        raise UserError(f"{path} does not fit the plan: {fault}; {AGAIN}")
    scores = {
        (record.task, record.split, aggregated(record.metric, record.aggregation)): record.value
        for record in read.records
    }
    analysed = read_analyses(suite_dir / "analyses" / path.name)
    outcome = read.provenance.outcome
    return RunResults(
        run,
        outcome.status,
        outcome.reason or "",
        averages(scores) | scores | quantities(outcome, analysed.analyses),
        read.provenance,
        analysed.analyses,
        analysed.provenance,
        items=read_items(items_file(suite_dir, run.id)),
    )


def _fault(scores: ScoreDocument, run: PlannedRun, mode: str) -> str:
    """Why scores are not those of a planned run; empty if they are."""
    scored, scored_mode = scores.provenance.run, scores.provenance.mode
    # The id is of another run if the file was copied; the rest differs if the plan was edited.
    if scored.id != run.id:
        return f"it holds the scores of {scored.id or 'a model outside the suite'}"
    for name in ("identity", "method", "setting", "backbone", "seed"):
        if getattr(scored, name) != getattr(run, name):
            return f"the {name} of its run is another"
    if scored_mode != mode and any(METRICS[x.metric].kind == SHARE for x in scores.records):
        return f"its classifiers have mode '{scored_mode}', which is '{mode}' in the plan"
    return ""


def read_results(suite_dir: Path) -> SuiteResults:
    """Read the plan of a suite, and the scores and analyses of every planned run; `UserError` if
    there is no plan, or a file is damaged."""
    plan = read_plan(suite_dir / "plan.json")
    rows: dict[tuple[str, ...], list[PlannedRun]] = defaultdict(list)
    for run in (*plan.runs, *plan.dropped):
        rows[run.row].append(run)
    results = [read_run(run, suite_dir, plan.mode) for run in plan.runs]
    return SuiteResults(plan, [replace(result, row=rows[result.run.row]) for result in results])
