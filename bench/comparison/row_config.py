"""A configuration of its own for printed rows, with the runs that they are compared with.

The runs are those that the papers' suites plan (`bench.runs.config.PAPERS`), so their results are
equal whichever suite makes them.
"""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

from bench.datasets.tasks import DEV_AVERAGE, GROUPS
from bench.registry.backbones import NO_BACKBONE
from bench.reported.address import slug
from bench.reported.number import Number
from bench.runs import config
from bench.runs.config import LONGEST_NAME, Suite
from bench.runs.run import PlannedRun
from bench.utils.errors import UserError, listed


def row_config(
    numbers: Sequence[Number], seeds: int | None = None, tasks: Sequence[str] = ()
) -> Suite:
    """The configuration of a suite that makes nothing but the rows of some numbers of one table, by
    default with as many seeds as the papers' suite has, and the tasks that the rows print."""
    compared = [number for number in numbers if number.run and number.is_measurement]
    if not compared:
        first = numbers[0]
        why = first.reason or "hyper-parameter, not a score"
        where = f"{first.source}, {first.table}, {first.method}"
        raise UserError(f"{where} cannot be run: {why}; python -m bench coverage lists all such")
    paper_suite, runs = _planned(compared)
    entries = _entries(runs, {number.our_metric.analysis for number in compared}, seeds)
    all_seeds = [seed for entry in entries for seed in entry.get("seeds", ())]
    suite_seeds = list(dict.fromkeys(all_seeds)) or paper_suite.seeds
    for entry in entries:
        if entry.get("seeds") == suite_seeds:
            del entry["seeds"]
    return paper_suite.changed(
        suite=_name(numbers),
        tasks=list(tasks) or _tasks(compared) or paper_suite.tasks,
        seeds=suite_seeds,
        backbones={name: {} for entry in entries for name in entry["backbones"]},
        methods=entries,
        compare=None,
    )


def _planned(numbers: Iterable[Number]) -> tuple[Suite, list[tuple[PlannedRun, str]]]:
    """The suite that plans all runs of some numbers, and these, each with a backbone to list."""
    listed_backbones: dict[tuple[str, str], str] = {}
    for number in numbers:
        backbone = number.our_backbone
        for text in filter(None, (number.run, number.minus)):
            free = backbone == NO_BACKBONE.name
            listed_backbones[text, backbone] = number.backbone if free else backbone
    for path in config.PAPERS:
        suite = config.load(path)
        runs = []
        for run in config.planned(suite):
            key = run.text, run.backbone
            if key in listed_backbones:
                runs.append((run, listed_backbones[key]))
        if runs:
            return suite, runs
    names = listed(f"{text} on {backbone}" for text, backbone in listed_backbones)
    raise UserError(f"no suite plans {names}; write a configuration (config/README.md)")


def _entries(
    runs: Iterable[tuple[PlannedRun, str]], analyses: set[str], seeds: int | None
) -> list[dict[str, Any]]:
    """The entries of a configuration: one for each method and the seeds that it has."""
    run_seeds: dict[tuple[str, str], list[int]] = {}
    run_analyses: dict[str, dict[str, None]] = {}
    for run, backbone in runs:
        drawn = run_seeds.setdefault((run.text, backbone), [])
        if run.seed is not None:
            drawn.append(run.seed)
        names = dict.fromkeys(name for name in run.analyses if name in analyses)
        run_analyses.setdefault(run.text, {}).update(names)
    entries: dict[tuple[str, tuple[int, ...]], dict[str, Any]] = {}
    for (text, backbone), drawn in run_seeds.items():
        if drawn and seeds:
            drawn = list(range(drawn[0], drawn[0] + seeds))
        entry = {"method": text, "backbones": [], "seeds": drawn, "analyses": [*run_analyses[text]]}
        entries.setdefault((text, tuple(drawn)), entry)["backbones"].append(backbone)
    return [{key: value for key, value in entry.items() if value} for entry in entries.values()]


def _tasks(numbers: Iterable[Number]) -> list[str]:
    """The tasks that printed scores need, as a group's name where they are a whole group."""
    tasks: dict[str, None] = {}
    for number in numbers:
        if number.task == "Avg":
            average = GROUPS[number.our_metric.average]
            tasks |= dict.fromkeys(DEV_AVERAGE if number.our_split == "dev" else average)
        elif number.our_metric.tasks:
            tasks[number.task] = None
    groups = [name for name in ("sts", "transfer", "probing") if set(GROUPS[name]) <= set(tasks)]
    covered = {task for name in groups for task in GROUPS[name]}
    return [*groups, *(task for task in tasks if task not in covered)]


def _name(numbers: Iterable[Number]) -> str:
    """The suite of some rows, named by what they have in common."""
    parts: list[str] = []
    for field in ("source", "table", "method", "variant", "backbone"):
        values = {getattr(number, field) for number in numbers}
        if len(values) == 1:
            parts += values
    name = slug("-".join(parts)).replace(".", "-")
    if len(name) <= LONGEST_NAME:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{name[: LONGEST_NAME - 9].rstrip('-')}-{digest}"
