"""Which seeds to add to a suite: those that decide the most open verdicts per device hour.

docs/statistics.md states what adding seeds until a verdict is decided costs in error rates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import count, islice
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from bench.comparison.reproduction import cells, key_of, select
from bench.comparison.statistics import FEWEST_SEEDS, MOST_SEEDS
from bench.registry.backbones import backbone
from bench.results.suite_results import SuiteResults, read_suite
from bench.runs import config as configurations
from bench.runs.config import Planned, mode_of
from bench.runs.cost import Measured, predict
from bench.utils.errors import UserError


class Experiment(NamedTuple):
    """The runs of a method on a backbone, which differ in their seeds."""

    method: str  # with its setting, such as simcse@official
    backbone: str


SeededRun = tuple[Experiment, int]


@dataclass(frozen=True)
class Step:
    """Runs that are added together, the open verdicts that get their seeds, and their hours."""

    runs: frozenset[SeededRun]
    verdicts: int
    hours: float

    @property
    def seeds(self) -> dict[Experiment, list[int]]:
        """The seeds of each experiment, in order."""
        found: dict[Experiment, list[int]] = {}
        for experiment, seed in sorted(self.runs):
            found.setdefault(experiment, []).append(seed)
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
        config: the suite's configuration with the new seeds.
    """

    steps: list[Step]
    open: int
    first: int
    at_edge: int
    config: dict[str, Any]


def greedy(
    questions: Mapping[frozenset[SeededRun], int], hours: Mapping[Experiment, float], budget: float
) -> list[Step]:
    """Choose runs, again and again those with the most verdicts per hour that the budget allows.

    Args:
        questions: how many open verdicts each set of runs decides.
        hours: of one run of each experiment.
        budget: in hours.
    """
    steps: list[Step] = []
    remaining = Counter(dict(questions))
    while True:
        offers = [_offer(runs, remaining, hours) for runs in remaining]
        offers = [step for step in offers if step.hours <= budget]
        if not offers:
            return steps
        best = max(offers, key=lambda step: step.verdicts / step.hours if step.hours else inf)
        steps.append(best)
        budget -= best.hours
        left: Counter[frozenset[SeededRun]] = Counter()
        for runs, number in remaining.items():
            if rest := runs - best.runs:
                left[rest] += number
        remaining = left


def _offer(
    runs: frozenset[SeededRun],
    questions: Mapping[frozenset[SeededRun], int],
    hours: Mapping[Experiment, float],
) -> Step:
    decided = sum(number for other, number in questions.items() if other <= runs)
    return Step(runs, decided, sum(hours[experiment] for experiment, _ in runs))


def open_questions(suite: SuiteResults) -> pd.DataFrame:
    """The open verdicts of a suite, as rows of `cells`; each printed number once."""
    found = cells(suite).query("verdict == 'inconclusive'")
    number = ["printed", "run", "minus", "measured_on", "task", "ours_split", "metric"]
    return found.drop_duplicates([*number, "aggregation"])


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


def _plan(config: Mapping[str, Any], suite: SuiteResults) -> dict[Experiment, Planned]:
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
        experiment = Experiment(f"{one.run.text}@{one.run.setting}", one.run.backbone.name)
        known = found.get(experiment, one)
        tasks = tuple(dict.fromkeys((*known.tasks, *one.tasks)))
        analyses = tuple(name for name in known.analyses if name in one.analyses)
        found[experiment] = Planned(known.run, tasks, analyses)
    return found


def with_seeds(
    config: Mapping[str, Any], plan: Mapping[Experiment, Planned], steps: Iterable[Step]
) -> dict[str, Any]:
    """A copy of a configuration that also plans the runs of `steps`, and says that it was grown."""
    seeds: dict[Experiment, set[int]] = {}
    for experiment, seed in (run for step in steps for run in step.runs):
        seeds.setdefault(experiment, set()).add(seed)
    names = {backbone(name).name: name for name in config["backbones"]}
    entries = []
    for experiment, numbers in sorted(seeds.items()):
        entry: dict[str, Any] = {"method": experiment.method}
        entry |= {"backbones": [names[experiment.backbone]], "seeds": sorted(numbers)}
        entry["tasks"] = list(plan[experiment].tasks)
        if plan[experiment].analyses:
            entry["analyses"] = list(plan[experiment].analyses)
        entries.append(entry)
    return {**config, "grown": True, "methods": [*config["methods"], *entries]}


def grow(suite_dir: Path, config: Mapping[str, Any], hours: float, device: str) -> Growth:
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
        raise UserError(f"no verdict of suite '{suite.name}' is open, so no seed would decide one")
    within_reach = found[found["seeds"].notna()]
    wanted = [
        (runs_to_decide(suite, cell), cell.spread_known) for cell in within_reach.itertuples()
    ]
    questions = Counter(runs for runs, _ in wanted)
    if not questions:
        raise UserError(
            f"more than {MOST_SEEDS:,} seeds would be needed for each of the {len(found)} open "
            f"verdicts of suite '{suite.name}': our means are at the edges of their tolerances"
        )
    measured, mode = Measured.read(suite_dir.parent, device), mode_of(config)
    price = {
        experiment: sum(x.seconds for x in predict([plan[experiment]], mode, device, measured))
        / 3600
        for experiment in {experiment for runs in questions for experiment, _ in runs}
    }
    if not (steps := greedy(questions, price, hours)):
        cheapest = min(_offer(runs, questions, price).hours for runs in questions)
        raise UserError(
            f"no open verdict can be decided in {hours:g} hours; the cheapest takes "
            f"{cheapest:.2f}, so raise --hours"
        )
    at_edge = len(found) - len(within_reach)
    added = {run for step in steps for run in step.runs}
    first = sum(runs <= added for runs, spread_known in wanted if not spread_known)
    return Growth(steps, len(found), first, at_edge, with_seeds(config, plan, steps))


def report(growth: Growth) -> str:
    """The next runs of a suite as text: a line per step, and what all of them decide."""
    rows = [
        {
            "Verdicts": step.verdicts,
            "Hours": f"{step.hours:.2f}",
            "New runs": " and ".join(
                f"{method} on {name}, {_spans(seeds)}"
                for (method, name), seeds in step.seeds.items()
            ),
        }
        for step in growth.steps
    ]
    table = pd.DataFrame(rows)
    table["New runs"] = table["New runs"].str.ljust(table["New runs"].str.len().max())
    lines = table.to_string(index=False, justify="left").splitlines()
    decided = sum(step.verdicts for step in growth.steps) - growth.first
    hours = sum(step.hours for step in growth.steps)
    runs = sum(len(step.runs) for step in growth.steps)
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
    return "\n".join([*map(str.rstrip, lines), "", text])


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
