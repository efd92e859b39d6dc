"""A configuration of its own for printed rows, with the runs that they are compared with.

The runs are those that the papers' suites plan (`bench.runs.config.PAPERS`), so their results are
equal whichever suite makes them.
"""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd

from bench.datasets.tasks import AVERAGED, DEV_AVERAGE, GROUPS
from bench.registry.backbones import NO_BACKBONE
from bench.reported import LABEL, MEASURES
from bench.reported.address import PLACE, slug
from bench.runs import config
from bench.runs.config import LONGEST_NAME, Suite
from bench.runs.run import PlannedRun
from bench.utils.errors import UserError
from bench.utils.text import listed

# Our metric -> the analysis that measures it; scores and best steps need none.
ANALYSIS = {"uniformity": "alignment", "layer_similarity": "layers", "token_similarity": "layers"}


def row_config(numbers: pd.DataFrame, seeds: int | None = None, tasks: Sequence[str] = ()) -> Suite:
    """The configuration of a suite that makes nothing but some printed rows.

    Args:
        numbers: rows of `mapped`, of one table.
        seeds: how many, from the first that the papers' suite has; by default as many as that.
        tasks: names of tasks and groups; by default those that the rows print.

    Raises:
        UserError: none of the numbers is compared with a run, or no suite plans their runs.
    """
    compared = numbers[(numbers["run"] != "") & numbers["metric"].isin(MEASURES)]
    if compared.empty:
        first = numbers.iloc[0]
        why = first["reason"] or "hyper-parameter, not a score"
        where = f"{first['source']}, {first['table']}, {first['method']}"
        raise UserError(f"{where} cannot be run: {why}; python -m bench coverage lists all such")
    paper_suite, runs = _planned(compared)
    metrics = {MEASURES[metric][0] for metric in compared["metric"]}
    analyses = {ANALYSIS[metric] for metric in metrics if metric in ANALYSIS}
    entries = _entries(runs, analyses, seeds)
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


def _planned(numbers: pd.DataFrame) -> tuple[Suite, list[tuple[PlannedRun, str]]]:
    """The suite that plans all runs of some numbers, and these, each with a backbone to list."""
    listed_backbones: dict[tuple[str, str], str] = {}
    for number in numbers.itertuples():
        backbone = number.suite_backbone or number.backbone
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
        drawn += [run.seed] if run.seed is not None else []
        names = dict.fromkeys(name for name in run.analyses if name in analyses)
        run_analyses.setdefault(run.text, {}).update(names)
    backbones: dict[tuple[str, tuple[int, ...]], list[str]] = {}
    for (text, backbone), drawn in run_seeds.items():
        if drawn and seeds:
            drawn = list(range(drawn[0], drawn[0] + seeds))
        backbones.setdefault((text, tuple(drawn)), []).append(backbone)
    entries = []
    for (text, seeds_drawn), backbone_names in backbones.items():
        entry: dict[str, Any] = {"method": text, "backbones": backbone_names}
        if seeds_drawn:
            entry["seeds"] = list(seeds_drawn)
        if run_analyses[text]:
            entry["analyses"] = list(run_analyses[text])
        entries.append(entry)
    return entries


def _tasks(numbers: pd.DataFrame) -> list[str]:
    """The tasks that printed scores need, as a group's name where they are a whole group."""
    tasks: dict[str, None] = {}
    for number in numbers.itertuples():
        metric = MEASURES[number.metric][0]
        if number.task == "Avg":
            split = number.suite_split or number.split
            tasks |= dict.fromkeys(DEV_AVERAGE if split == "dev" else AVERAGED[metric])
        elif metric not in ANALYSIS and metric != "best_step":
            tasks[number.task] = None
    groups = [name for name in ("sts", "transfer", "probing") if set(GROUPS[name]) <= set(tasks)]
    covered = {task for name in groups for task in GROUPS[name]}
    return [*groups, *(task for task in tasks if task not in covered)]


def _name(numbers: pd.DataFrame) -> str:
    """The suite of some rows, named by what they have in common."""
    labels = [numbers[name].unique() for name in PLACE if name in LABEL]
    name = slug("-".join(str(values[0]) for values in labels if len(values) == 1))
    name = name.replace(".", "-")
    if len(name) <= LONGEST_NAME:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{name[: LONGEST_NAME - 9].rstrip('-')}-{digest}"
