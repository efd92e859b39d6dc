"""Which seeds to add to a suite: those that decide the most open verdicts per device hour.

docs/statistics.md states what adding seeds until a verdict is decided costs in error rates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import count, islice
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from bench.comparison.reproduction import cells, key_of, select
from bench.comparison.statistics import FEWEST_SEEDS, MOST_SEEDS
from bench.datasets.tasks import expand_tasks, scored_cells
from bench.registry.backbones import backbone
from bench.results.suite_results import Key, RunResults, SuiteResults, read_suite
from bench.runs import config as configurations
from bench.runs.config import Planned, Suite
from bench.runs.cost import NOT_COUNTED, Measured, predict
from bench.runs.run import Run
from bench.utils.errors import UserError


class Experiment(NamedTuple):
    """The runs of a method on a backbone, which differ in their seeds."""

    method: str  # with its setting, such as simcse@official
    backbone: str


SeededRun = tuple[Experiment, int]

TRAIN = "train"
MANY = 50  # a step of more seeds has a warning


class Job(NamedTuple):
    """A part of a run: its training (`TRAIN`), or its scoring on a planned task or group."""

    experiment: Experiment
    seed: int
    work: str


@dataclass(frozen=True)
class Step:
    """Jobs that are added together, the open verdicts that get their seeds, and their hours."""

    jobs: frozenset[Job]
    verdicts: int
    hours: float

    @property
    def seeds(self) -> dict[tuple[Experiment, tuple[str, ...]], list[int]]:
        """The seeds of each experiment that are scored on the same tasks, in order."""
        found: dict[tuple[Experiment, tuple[str, ...]], list[int]] = {}
        for (experiment, seed), tasks in sorted(_tasks_by_run(self.jobs).items()):
            found.setdefault((experiment, tasks), []).append(seed)
        return found


@dataclass(frozen=True)
class Growth:
    """The next runs of a suite.

    Attributes:
        steps: in the order of verdicts per hour.
        open: number of open verdicts in the suite, each printed number once.
        first: how many verdicts of `steps` have no known spread yet: they get their first seeds,
            which need not decide them.
        at_edge: how many of these not even `MOST_SEEDS` seeds decide.
        left: number of planned runs without scores beside those of the steps.
        config: the suite's configuration with the new seeds.
    """

    steps: list[Step]
    open: int
    first: int
    at_edge: int
    left: int
    config: Suite


def greedy(
    questions: Mapping[frozenset[Job], int], hours: Mapping[Job, float], budget: float
) -> list[Step]:
    """Choose jobs, again and again those with the most verdicts per hour that the budget allows.

    Args:
        questions: how many open verdicts each set of jobs decides.
        hours: of each job.
        budget: in hours.
    """
    steps: list[Step] = []
    remaining = Counter(dict(questions))
    while True:
        offers = [_offer(jobs, remaining, hours) for jobs in remaining]
        offers = [step for step in offers if step.hours <= budget]
        if not offers:
            return steps
        best = max(offers, key=lambda step: step.verdicts / step.hours if step.hours else inf)
        steps.append(best)
        budget -= best.hours
        left: Counter[frozenset[Job]] = Counter()
        for jobs, number in remaining.items():
            if rest := jobs - best.jobs:
                left[rest] += number
        remaining = left


def _offer(
    jobs: frozenset[Job], questions: Mapping[frozenset[Job], int], hours: Mapping[Job, float]
) -> Step:
    decided = sum(number for other, number in questions.items() if other <= jobs)
    return Step(jobs, decided, sum(hours[job] for job in jobs))


def _tasks_by_run(jobs: Iterable[Job]) -> dict[SeededRun, tuple[str, ...]]:
    """The tasks on which jobs score each run."""
    found: dict[SeededRun, tuple[str, ...]] = {}
    for experiment, seed, work in sorted(jobs):
        found[experiment, seed] = found.get((experiment, seed), ()) + (work,) * (work != TRAIN)
    return found


def open_questions(suite: SuiteResults) -> pd.DataFrame:
    """The open verdicts of a suite, as rows of `cells`; each printed number once."""
    return _once(cells(suite).query("verdict == 'inconclusive'"))


def _once(found: pd.DataFrame) -> pd.DataFrame:
    """Rows of `cells` without those that ask the same question again."""
    number = ["printed", "run", "minus", "measured_on", "task", "ours_split", "metric"]
    return found.drop_duplicates([*number, "aggregation"])


def _why_none(suite: SuiteResults) -> str:
    """Why no verdict is open."""
    scored = _once(cells(suite).query("verdict != 'not run'"))
    if scored.empty or set(scored["verdict"]) != {"not comparable"}:
        return f"no verdict of suite '{suite.name}' is open, so no seed would decide one"
    reasons = scored["reason"].value_counts().index
    mostly = "mostly: " if len(reasons) > 1 else ""
    return (
        f"none of the {len(scored)} numbers that suite '{suite.name}' measures is comparable with "
        f"print ({mostly}{reasons[0]}), so no seed would decide a verdict"
    )


def runs_to_decide(suite: SuiteResults, cell: Any) -> frozenset[SeededRun]:
    """The runs without a score yet with which an open verdict has the seeds that decide it.

    Seeds that are planned come first, then the numbers after them. Both sides of a difference get
    the same seeds.

    Args:
        suite: the suite.
        cell: a row of `open_questions` whose `seeds` is a number.
    """
    key = key_of(cell)
    planned, scored = {}, {}
    for text in filter(None, (cell.run, cell.minus)):
        runs = [
            run for run in select(suite, text, cell.measured_on) if run.plan["seed"] is not None
        ]
        if runs:  # the other side of a difference may be untrained
            experiment = Experiment(text, cell.measured_on)
            planned[experiment] = {run.plan["seed"] for run in runs}
            scored[experiment] = {run.plan["seed"] for run in runs if key in run.scores}
    known = set.union(*planned.values())
    # First those for which the fewest runs are missing.
    order = sorted(known, key=lambda seed: (sum(seed not in own for own in scored.values()), seed))
    seeds = islice(_continued(order, max(known) + 1), int(cell.seeds))
    return frozenset(
        (experiment, seed)
        for seed in seeds
        for experiment, own in scored.items()
        if seed not in own
    )


def _continued(seeds: Iterable[int], first: int) -> Iterable[int]:
    yield from seeds
    yield from count(first)


def _plan(config: Suite, suite: SuiteResults) -> dict[Experiment, Planned]:
    """One run of each experiment, with the tasks of all its seeds and the analyses that all have.

    Raises:
        UserError: the configuration lacks runs of the suite.
    """
    planned = configurations.planned(config)
    if {run.plan["id"] for run in suite.runs} - {one.run.id for one in planned}:
        raise UserError(
            f"the plan of suite '{suite.name}' has runs that its configuration lacks; name the "
            "configuration that the suite was made from with --config"
        )
    found: dict[Experiment, Planned] = {}
    for one in planned:
        experiment = _of(one.run)
        known = found.get(experiment, one)
        tasks = tuple(dict.fromkeys((*known.tasks, *one.tasks)))
        analyses = tuple(name for name in known.analyses if name in one.analyses)
        found[experiment] = Planned(known.run, tasks, analyses)
    return found


def _tasks_for(key: Key, planned: Sequence[str]) -> Sequence[str]:
    """The planned task or group that gives a score; all of them if it takes several, or none."""
    single = [task for task in planned if key in scored_cells(expand_tasks([task]))]
    return single[:1] or planned


def _of(run: Run) -> Experiment:
    return Experiment(f"{run.text}@{run.setting}", run.backbone.name)


def _experiment(run: RunResults) -> Experiment:
    return Experiment(f"{run.plan['method']}@{run.plan['setting']}", run.plan["backbone"])


def jobs_to_decide(
    suite: SuiteResults, plan: Mapping[Experiment, Planned], cell: Any
) -> frozenset[Job]:
    """The jobs of `runs_to_decide`. A run that was never scored does all that was planned for it,
    as do runs that it needs; others only what the verdict needs."""
    known = {(_experiment(run), run.plan["seed"]): run for run in suite.runs}
    jobs: set[Job] = set()

    def add(experiment: Experiment, seed: int, tasks: Sequence[str]) -> None:
        run, works = known.get((experiment, seed)), {*tasks}
        if _is_left(run):
            works |= {TRAIN, *(run.plan.get("tasks", ()) if run else ())}
            for needed in map(_of, plan[experiment].run.needs.values()):
                if _is_left(known.get((needed, seed))):
                    add(needed, seed, plan[needed].tasks)
        jobs.update(Job(experiment, seed, work) for work in works)

    for experiment, seed in runs_to_decide(suite, cell):
        add(experiment, seed, _tasks_for(key_of(cell), plan[experiment].tasks))
    return frozenset(jobs)


def _is_left(run: RunResults | None) -> bool:
    return run is None or run.status == "missing"


def with_seeds(config: Suite, plan: Mapping[Experiment, Planned], steps: Iterable[Step]) -> Suite:
    """A copy of a configuration that also plans the jobs of `steps`, and says that it was grown."""
    chosen = frozenset(job for step in steps for job in step.jobs)
    names = {backbone(name).name: name for name in config.backbones}
    entries = []
    for (experiment, tasks), seeds in Step(chosen, 0, 0.0).seeds.items():
        if experiment.backbone not in names:  # only needed by a run of another, which plans it
            continue
        entry: dict[str, Any] = {"method": experiment.method}
        entry |= {"backbones": [names[experiment.backbone]], "seeds": seeds, "tasks": list(tasks)}
        if plan[experiment].analyses:
            entry["analyses"] = list(plan[experiment].analyses)
        entries.append(entry)
    return config.changed(grown=True, methods=[*config.methods, *entries])


def grow(suite_dir: Path, config: Suite, hours: float, device: str) -> Growth:
    """The runs to add to a suite, within a number of device hours.

    Args:
        suite_dir: the suite's folder.
        config: its validated configuration.
        hours: on one device, predicted as by `bench.runs.cost`.
        device: as in `bench.runs.cost.predict`.

    Raises:
        UserError: the suite cannot be read or is of another configuration, no verdict is open, or
            none can be decided within the hours.
    """
    suite = read_suite(suite_dir)
    plan = _plan(config, suite)
    found = open_questions(suite)
    if found.empty:
        raise UserError(_why_none(suite))
    within_reach = found[found["seeds"].notna()]
    wanted = [
        (jobs_to_decide(suite, plan, cell), cell.spread_known) for cell in within_reach.itertuples()
    ]
    questions = Counter(jobs for jobs, _ in wanted)
    if not questions:
        raise UserError(
            f"more than {MOST_SEEDS:,} seeds would be needed for each of the {len(found)} open "
            f"verdicts of suite '{suite.name}': our means are at the edges of their tolerances"
        )
    measured, mode = Measured.read(suite_dir.parent, device), config.mode

    @cache
    def hours_of(experiment: Experiment, work: str) -> float:
        stage, tasks = (TRAIN, ()) if work == TRAIN else ("score", (work,))
        one = Planned(plan[experiment].run, tasks, ())
        lines = predict([one], mode, device, measured)
        return sum(line.seconds for line in lines if line.stage == stage) / 3600

    price = {job: hours_of(job.experiment, job.work) for jobs in questions for job in jobs}
    if not (steps := greedy(questions, price, hours)):
        cheapest = min(_offer(jobs, questions, price).hours for jobs in questions)
        raise UserError(
            f"no open verdict can be decided in {hours:g} hours; the cheapest takes "
            f"{cheapest:.2f}, so raise --hours"
        )
    at_edge = len(found) - len(within_reach)
    added = frozenset(job for step in steps for job in step.jobs)
    first = sum(jobs <= added for jobs, spread_known in wanted if not spread_known)
    chosen = _tasks_by_run(added)
    left = [
        run
        for run in suite.runs
        if run.status == "missing" and (_experiment(run), run.plan["seed"]) not in chosen
    ]
    grown = with_seeds(config, plan, steps)
    return Growth(steps, len(found), first, at_edge, len(left), grown)


def report(growth: Growth) -> str:
    """The next runs of a suite as text: a line per step, and what all of them decide."""
    rows = [
        {
            "Verdicts": step.verdicts,
            "Hours": f"{step.hours:.2f}",
            "Runs to score": " and ".join(
                f"{experiment.method} on {experiment.backbone}, {_spans(seeds)}: {', '.join(tasks)}"
                for (experiment, tasks), seeds in step.seeds.items()
            )
            + _warning(step),
        }
        for step in growth.steps
    ]
    table = pd.DataFrame(rows)
    texts = table["Runs to score"].str
    table["Runs to score"] = texts.ljust(texts.len().max())
    lines = table.to_string(index=False, justify="left").splitlines()
    decided = sum(step.verdicts for step in growth.steps) - growth.first
    hours = sum(step.hours for step in growth.steps)
    runs = len(_tasks_by_run(job for step in growth.steps for job in step.jobs))
    text = (
        f"{runs} runs in {hours:.2f} predicted hours decide {decided} of {growth.open} open "
        "verdicts if means and spreads stay as they are."
    )
    if growth.first:
        text += (
            f"\n{growth.first} without a known spread get their first {FEWEST_SEEDS} seeds, which "
            "may leave them open."
        )
    if growth.at_edge:
        text += f"\n{growth.at_edge} would need more than {MOST_SEEDS:,} seeds."
    if growth.left:
        text += (
            f"\nThe configuration also has {growth.left} other planned runs without scores; their "
            "hours are not counted."
        )
    return "\n".join([*map(str.rstrip, lines), "", f"{text}\n{NOT_COUNTED}"])


def _warning(step: Step) -> str:
    """A warning if a step has many seeds."""
    seeds = max(map(len, step.seeds.values()))
    return f" ({seeds} seeds: a mean is near the edge of its tolerance)" if seeds > MANY else ""


def _spans(seeds: list[int]) -> str:
    """Sorted seeds as text: `seed 42`, or `seeds 42, 50 to 53`."""
    spans: list[list[int]] = []
    for seed in seeds:
        if spans and seed == spans[-1][-1] + 1:
            spans[-1].append(seed)
        else:
            spans.append([seed])
    text = ", ".join(f"{s[0]} to {s[-1]}" if len(s) > 1 else str(s[0]) for s in spans)
    return f"seed{'s' * (len(seeds) > 1)} {text}"
