"""A configuration for rows of a printed table, with the runs that the rows are compared with.

The papers' suites (`bench.runs.config.PAPERS`) plan these runs, so their results are equal in every
suite. A run that no suite plans, as of a paper that was added, gets the data, corpus and seeds of
the suite that has its backbone.
"""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

from bench.datasets.tasks import DEV_AVERAGE, GROUPS
from bench.registry.backbones import NO_BACKBONE
from bench.reported.number import Number
from bench.runs import config
from bench.runs.suite import LONGEST_NAME, Suite
from bench.utils.errors import UserError
from bench.utils.files import stem


def row_config(
    numbers: Sequence[Number], seeds: int | None = None, tasks: Sequence[str] = ()
) -> Suite:
    """The configuration of a suite that makes only the rows of some numbers of one table. It has by
    default the seeds of the papers' suite, and the tasks that the rows print."""
    numbers_with_run = [number for number in numbers if number.run]
    if not numbers_with_run:
        number = numbers[0]
        raise UserError(
            f"{number.source}, {number.table}, {number.method} cannot be run: {number.reason}; "
            "list all such with: sentbench coverage"
        )
    # A run without a backbone is planned on the printed one, which selects its suite below.
    backbones: dict[tuple[str, str], str] = {}
    for number in numbers_with_run:
        name = number.our_backbone
        if name == NO_BACKBONE.name:
            name = number.backbone
        for text in (number.run, number.minus):
            backbones[text, number.our_backbone] = name
        backbones[number.checkpoint, NO_BACKBONE.name] = number.backbone
    # All runs of a table are in the suite that has their backbones, by default the first.
    suites, names = [config.load(path) for path in config.PAPERS], {name for _, name in backbones}
    sharing = (suite for suite in suites[1:] if names & suite.backbones.keys())
    paper_suite = next(sharing, suites[0])
    plan_runs = config.planned(paper_suite)
    analyses = {number.our_metric.analysis for number in numbers_with_run}
    entries: list[dict[str, Any]] = []
    all_seeds: dict[int, None] = {}
    for (text, backbone), name in backbones.items():
        runs = [run for run in plan_runs if (run.text, run.backbone) == (text, backbone)]
        entry: dict[str, Any] = {"method": text, "backbones": [name]}
        for run in runs:  # none of a paper that was added
            if run.seed is not None:
                entry.setdefault("seeds", []).append(run.seed)
                all_seeds[run.seed] = None
            row_analyses = [analysis for analysis in run.analyses if analysis in analyses]
            if row_analyses:
                entry["analyses"] = row_analyses
        if text:
            entries.append(entry)
    content = paper_suite.changed(
        suite=_name(numbers),
        tasks=tasks or _tasks(numbers_with_run) or paper_suite.tasks,
        seeds=[*all_seeds] or paper_suite.seeds,
        backbones={entry["backbones"][0]: {} for entry in entries},
        methods=entries,
        compare=None,
    )
    if seeds:
        content = config.reseeded(content, range(content.seeds[0], content.seeds[0] + seeds))
    return content


def _tasks(numbers: Iterable[Number]) -> list[str]:
    """The tasks that printed scores need."""
    tasks: dict[str, None] = {}
    for number in numbers:
        if number.task == "Avg":
            average = GROUPS[number.our_metric.average]
            if number.our_split == "dev":
                average = DEV_AVERAGE
            tasks |= dict.fromkeys(average)
        elif number.our_metric.tasks:
            tasks[number.task] = None
    return [*tasks]


def _name(numbers: Iterable[Number]) -> str:
    """A name of the suite: the fields that all its numbers have in common."""
    parts: list[str] = []
    for field in ("source", "table", "method", "variant", "backbone"):
        values = {getattr(number, field) for number in numbers}
        if len(values) == 1:
            parts += values
    name = stem("-".join(parts)).replace(".", "-")
    if len(name) <= LONGEST_NAME:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{name[: LONGEST_NAME - 9].rstrip('-')}-{digest}"
