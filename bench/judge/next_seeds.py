"""Which seeds to add to a suite: those that decide the most open verdicts per device hour.

Seeds that are added after a look at the verdicts are judged more strictly (docs/statistics.md).
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from math import inf
from pathlib import Path
from typing import NamedTuple

from bench.judge.heading import heading
from bench.judge.numbers import Cell, judge_numbers, select
from bench.judged.words import FEWEST_SEEDS, MOST_SEEDS
from bench.registry.backbones import backbone
from bench.results.suite_results import SuiteResults, read_suite
from bench.runs import config as configurations
from bench.runs.config import Suite
from bench.runs.plan import in_order
from bench.runs.run import PlannedRun, Run
from bench.stages.cost import NOT_COUNTED, Measured, predict
from bench.utils.errors import UserError

Experiment = tuple[str, str]  # a method with its setting, and a backbone
Seeded = tuple[Experiment, int]  # with its seed
Runs = frozenset[Seeded]


class Step(NamedTuple):
    """Runs that are added together, the open verdicts that get their seeds, and their hours."""

    runs: Runs
    verdicts: int
    hours: float


@dataclass(frozen=True)
class Growth:
    """The next runs of a suite, and its configuration with them."""

    steps: list[Step]
    open: int  # open verdicts in the suite, each printed number once
    first: int  # those of `steps` without a known spread, which their first seeds may not decide
    config: Suite


def greedy(
    questions: Mapping[Runs, int], hours: Mapping[Seeded, float], budget: float
) -> list[Step]:
    """Choose runs, again and again those with the most verdicts per hour that the budget allows.
    `questions` says how many open verdicts each set of runs decides."""
    steps: list[Step] = []
    while True:
        affordable = []
        for runs in questions:
            verdicts = sum(count for needed, count in questions.items() if needed <= runs)
            step = Step(runs, verdicts, sum(hours[run] for run in runs))
            if step.hours <= budget:
                affordable.append(step)
        if not affordable:
            return steps
        best = max(affordable, key=lambda step: step.verdicts / step.hours if step.hours else inf)
        steps.append(best)
        budget -= best.hours
        remaining: Counter[Runs] = Counter()
        for runs, count in questions.items():
            remaining[runs - best.runs] += count
        del remaining[frozenset()]
        questions = remaining


def open_questions(suite: SuiteResults) -> list[Cell]:
    """The cells of a suite with an open verdict; each printed number once."""
    cells = [cell for cell in judge_numbers(suite) if cell.ours.verdict.kind == "inconclusive"]
    return list({cell.ours.question: cell for cell in cells}.values())


def runs_to_decide(suite: SuiteResults, cell: Cell) -> Runs:
    """The runs without a score yet with which an open verdict has the seeds that decide it: planned
    seeds, then the numbers after them; the same on both sides of a difference."""
    number, backbone = cell.number, cell.ours.measured_on
    planned: dict[Seeded, bool] = {}  # whether it has a score
    for method in (number.run, number.minus):
        for run in select(suite, method, backbone):
            if run.run.seed is not None:  # one side may be untrained
                planned[(method, backbone), run.run.seed] = number.key in run.scores
    experiments = {experiment for experiment, _ in planned}
    scores = Counter(seed for (_, seed), has_score in planned.items() if has_score)
    # Those first for which the fewest runs are missing.
    seeds = sorted({seed for _, seed in planned}, key=lambda seed: (-scores[seed], seed))
    seeds += range(max(seeds) + 1, max(seeds) + 1 + MOST_SEEDS)
    chosen = product(experiments, seeds[: cell.ours.verdict.seeds])
    return frozenset(run for run in chosen if not planned.get(run))


def grow(suite_dir: Path, config: Suite, hours: float, device: str) -> Growth:
    """The runs to add within some hours on one device: a new seed does what is planned for any seed
    of its method, and brings the runs that it needs."""
    suite, planned = read_suite(suite_dir), configurations.planned(config)
    if {run.run.id for run in suite.runs} - {run.id for run in planned}:
        raise UserError(
            f"the plan of suite '{suite.plan.suite}' has runs that its configuration lacks; "
            "name the configuration that the suite was made from with --config"
        )
    plan: dict[Experiment, PlannedRun] = {}  # with the tasks of all seeds
    for run in planned:
        earlier = plan.get(_experiment(run), run)
        tasks = tuple(dict.fromkeys((*earlier.tasks, *run.tasks)))
        plan[_experiment(run)] = run.model_copy(update={"tasks": tasks})
    made = {
        (_experiment(result.run), result.run.seed)
        for result in suite.runs
        if result.status != "missing"
    }

    open_cells = open_questions(suite)
    questions: Counter[Runs] = Counter()
    without_spread: list[Runs] = []
    for cell in open_cells:
        if cell.ours.verdict.seeds is not None:
            runs = set(runs_to_decide(suite, cell))
            for experiment, seed in sorted(runs):
                needs = in_order(plan[experiment].needs.values())
                runs |= {(_experiment(needed), seed) for needed in needs} - made
            questions[frozenset(runs)] += 1
            without_spread += [] if cell.ours.verdict.spread_known else [frozenset(runs)]
    if not questions:
        why = (
            f"each of the {len(open_cells)} open ones needs more than {MOST_SEEDS:,} seeds"
            if open_cells
            else f"none on a printed number is open. {heading(suite, (), '', ()).remark}".strip()
        )
        raise UserError(f"no seed would decide a verdict of suite '{suite.plan.suite}': {why}")

    measured = Measured(suite_dir.parent, device)
    run_hours: dict[Seeded, float] = {}
    for experiment, seeds in _seeds(frozenset().union(*questions)).items():
        seconds = predict([plan[experiment]], config.mode, device, measured)["seconds"].sum()
        run_hours |= {(experiment, seed): float(seconds) / 3600 for seed in seeds}
    steps = greedy(questions, run_hours, hours)
    if not steps:
        cheapest = min(sum(run_hours[run] for run in runs) for runs in questions)
        raise UserError(
            f"no open verdict can be decided in {hours:g} hours; the cheapest takes "
            f"{cheapest:.2f}, so raise --hours"
        )
    added: Runs = frozenset().union(*(step.runs for step in steps))
    names = {backbone(name).name: name for name in config.backbones}
    entries = []
    for (method, name), seeds in _seeds(added).items():
        if name in names:  # else only needed by a run, which plans it
            run = plan[method, name]
            entry = {"backbones": [names[name]], "tasks": run.tasks, "analyses": run.analyses}
            given = {key: [*values] for key, values in entry.items() if values}
            entries.append({"method": method, "seeds": seeds, "added": True, **given})
    return Growth(
        steps,
        open=len(open_cells),
        first=sum(runs <= added for runs in without_spread),
        config=config.changed(methods=[*config.methods, *entries]),
    )


def report(growth: Growth) -> str:
    """The next runs of a suite as text: a line per step, and what all of them decide."""
    lines = ["Verdicts    Hours  Runs"]
    for step in growth.steps:
        runs = [
            f"{method} on {backbone}, seed {', '.join(map(str, seeds))}"
            for (method, backbone), seeds in _seeds(step.runs).items()
        ]
        lines.append(f"{step.verdicts:8}  {step.hours:7.2f}  {' and '.join(runs)}")
    count = sum(len(step.runs) for step in growth.steps)
    hours = sum(step.hours for step in growth.steps)
    decided = sum(step.verdicts for step in growth.steps) - growth.first
    lines.append(
        f"\n{count} runs in {hours:.2f} predicted hours decide {decided} of {growth.open} open "
        "verdicts if means and spreads stay as they are."
    )
    if growth.first:
        lines.append(
            f"{growth.first} without a known spread get their first {FEWEST_SEEDS} seeds, which "
            "may leave them open."
        )
    return "\n".join([*lines, f"{NOT_COUNTED} Nor are other planned runs that were not made yet."])


def _experiment(run: Run) -> Experiment:
    return run.text, run.backbone


def _seeds(runs: Iterable[Seeded]) -> dict[Experiment, list[int]]:
    """The seeds of each experiment, in order."""
    seeds: dict[Experiment, list[int]] = {}
    for experiment, seed in sorted(runs):
        seeds.setdefault(experiment, []).append(seed)
    return seeds
