"""Which seeds to add to a suite: those that decide the most open verdicts per device hour.

Seeds that are added after a look at the verdicts are judged more strictly (docs/statistics.md).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from bench.judge.heading import heading
from bench.judge.numbers import Side, judge_numbers
from bench.judged.rows import grouped
from bench.judged.words import MOST_SEEDS
from bench.registry.backbones import backbone
from bench.results.suite_results import SuiteResults, read_results
from bench.runs import config as configurations
from bench.runs.config import Suite
from bench.runs.plan import in_order
from bench.runs.run import PlannedRun, Run
from bench.stages.cost import ALL, Measured, predict, work_of
from bench.utils.errors import UserError

Experiment = tuple[str, str]  # a method with its setting, and a backbone
Runs = frozenset[tuple[Experiment, int]]  # with their seeds


class _Step(NamedTuple):
    """Runs that are added together, the open verdicts that get their seeds, and their hours."""

    runs: Runs
    verdicts: int
    hours: float


@dataclass(frozen=True)
class Growth:
    """The next runs of a suite, and its configuration with them."""

    steps: list[_Step]
    open: int  # open verdicts in the suite, each printed number once
    first: int  # those of `steps` without a known spread, which their first seeds may not decide
    config: Suite


def greedy(
    questions: Mapping[Runs, int], hours: Mapping[Experiment, float], budget: float
) -> list[_Step]:
    """Choose runs, again and again those with the most verdicts per hour that the budget allows.
    `questions` says how many open verdicts each set of runs decides, `hours` what a run takes."""
    steps: list[_Step] = []
    while True:
        # What is decided by a part of the runs is decided by them, too.
        affordable = []
        for runs in questions:
            verdicts = sum(count for needed, count in questions.items() if needed <= runs)
            step = _Step(runs, verdicts, _total(runs, hours))
            if step.hours <= budget:
                affordable.append(step)
        if not affordable:
            return steps
        best = min(affordable, key=lambda step: step.hours / step.verdicts)
        steps.append(best)
        budget -= best.hours
        remaining: Counter[Runs] = Counter()
        for runs, count in questions.items():
            remaining[runs - best.runs] += count
        del remaining[frozenset()]
        questions = remaining


def _total(runs: Runs, hours: Mapping[Experiment, float]) -> float:
    return sum(hours[experiment] for experiment, _ in runs)


def open_questions(suite: SuiteResults) -> list[Side]:
    """Our sides of printed numbers with an open verdict; each question once."""
    sides = [compared["ours"] for compared in judge_numbers(suite)]
    return list({x.question: x for x in sides if x.verdict.kind == "inconclusive"}.values())


def runs_to_decide(side: Side) -> Runs:
    """The runs without a score yet with which an open verdict has the seeds that decide it: planned
    seeds, then the numbers after them; the same on both sides of a difference."""
    has_score: dict[tuple[Experiment, int], bool] = {}  # of planned runs
    for result in side.results:
        if result.run.seed is not None:  # one side may be untrained
            seeded = _experiment(result.run), result.run.seed
            has_score[seeded] = side.number.key in result.scores
    experiments = {experiment for experiment, _ in has_score}
    scores = Counter(seed for (_, seed), scored in has_score.items() if scored)
    # Seeds for which the fewest runs are missing come first.
    seeds = sorted({seed for _, seed in has_score}, key=lambda seed: (-scores[seed], seed))
    seeds += range(max(seeds) + 1, max(seeds) + 1 + MOST_SEEDS)
    chosen = product(experiments, seeds[: side.verdict.seeds])
    return frozenset(seeded for seeded in chosen if not has_score.get(seeded))


def grow(suite_dir: Path, config: Suite, hours: float, device: str) -> Growth:
    """The runs to add within some hours on one device: a new seed does what is planned for any seed
    of its method, and brings the runs that it needs."""
    suite = read_results(suite_dir)
    planned = _planned(suite, config)
    questions = open_questions(suite)
    decisive = _decisive(suite, planned, questions)
    if not decisive:
        why = f"each of the {len(questions)} open ones needs more than {MOST_SEEDS:,} seeds"
        if not questions:
            why = f"none on a printed number is open. {heading(suite).remark}".strip()
        raise UserError(f"no seed would decide a verdict of suite '{suite.plan.suite}': {why}")

    # Seeds of an experiment take equally long, so one of its runs is estimated for all.
    measured = Measured(suite_dir.parent, device)
    run_hours: dict[Experiment, float] = {}
    for experiment in {experiment for runs in decisive.values() for experiment, _ in runs}:
        prediction = predict(work_of([planned[experiment]]), config.mode, device, measured)
        run_hours[experiment] = float(prediction[ALL][-1])
    steps = greedy(Counter(decisive.values()), run_hours, hours)
    if not steps:
        cheapest = min(_total(runs, run_hours) for runs in decisive.values())
        raise UserError(
            f"no open verdict can be decided in {hours:g} hours; the cheapest takes "
            f"{cheapest:.2f}, so allow more"
        )
    added: Runs = frozenset().union(*(step.runs for step in steps))
    return Growth(
        steps,
        open=len(questions),
        first=sum(x <= added for side, x in decisive.items() if not side.verdict.spread_known),
        config=config.changed(methods=[*config.methods, *_entries(config, planned, added)]),
    )


def _planned(suite: SuiteResults, config: Suite) -> dict[Experiment, PlannedRun]:
    """A planned run of each experiment, with the tasks of all its seeds."""
    runs = configurations.planned(config)
    if {result.run.id for result in suite.runs} - {run.id for run in runs}:
        raise UserError(
            f"the plan of suite '{suite.plan.suite}' has runs that its configuration lacks; "
            "name the configuration that the suite was made from"
        )
    planned: dict[Experiment, PlannedRun] = {}
    for run in runs:
        experiment = _experiment(run)
        tasks = dict.fromkeys(planned.get(experiment, run).tasks + run.tasks)
        planned[experiment] = run.model_copy(update={"tasks": tuple(tasks)})
    return planned


def _decisive(
    suite: SuiteResults, planned: Mapping[Experiment, PlannedRun], questions: Iterable[Side]
) -> dict[Side, Runs]:
    """The runs that decide each question, with those that they need and that were not made; without
    questions that no number of seeds decides."""
    made = {(_experiment(x.run), x.run.seed) for x in suite.runs if x.status != "missing"}
    decisive: dict[Side, Runs] = {}
    for side in questions:
        if side.verdict.seeds is not None:
            runs = runs_to_decide(side)
            for experiment, seed in runs:
                needs = in_order(planned[experiment].needs.values())
                runs |= {(_experiment(needed), seed) for needed in needs} - made
            decisive[side] = runs
    return decisive


def _entries(
    config: Suite, planned: Mapping[Experiment, PlannedRun], added: Runs
) -> Iterator[dict[str, Any]]:
    """The entries of a configuration for added runs."""
    names = {backbone(name).name: name for name in config.backbones}
    for group in grouped(sorted(added), itemgetter(0)):
        run = planned[group[0][0]]
        if run.backbone in names:  # else only needed by a run, which plans it
            entry = {"method": run.text, "seeds": [seed for _, seed in group], "added": True}
            entry |= {"backbones": [names[run.backbone]], "tasks": [*run.tasks]}
            if run.analyses:
                entry["analyses"] = [*run.analyses]
            yield entry


def _experiment(run: Run) -> Experiment:
    return run.text, run.backbone
