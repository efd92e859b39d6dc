"""A configuration of its own for printed rows, with the runs that they are compared with.

The runs are those that the papers' suites plan (`bench.runs.config.PAPERS`), so their results are
equal whichever suite makes them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd

from bench.datasets.tasks import AVERAGED, DEV_AVERAGE, GROUPS
from bench.registry.backbones import NO_BACKBONE
from bench.reported import LABEL, MEASURES
from bench.reported.address import PLACE, slug
from bench.runs import config
from bench.runs.config import Planned
from bench.utils.errors import UserError
from bench.utils.text import listed

LONGEST = 80  # letters in the name of a suite (config/schema.yaml)
# Our metric -> the analysis that measures it; scores and best steps need none.
ANALYSIS = {"uniformity": "alignment", "layer_similarity": "layers", "token_similarity": "layers"}


def row_config(
    numbers: pd.DataFrame, seeds: int | None = None, tasks: Sequence[str] = ()
) -> dict[str, Any]:
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
    base, runs = _planned(compared)
    wanted = {MEASURES[metric][0] for metric in compared["metric"]}
    analyses = {ANALYSIS[metric] for metric in wanted if metric in ANALYSIS}
    entries = _entries(runs, analyses, seeds)
    backbones = list(dict.fromkeys(name for entry in entries for name in entry["backbones"]))
    own_seeds = list(dict.fromkeys(seed for entry in entries for seed in entry.get("seeds", ())))
    made = {"suite": _name(numbers), "data": base["data"], "corpus": base["corpus"]}
    made |= {"tasks": list(tasks) or _tasks(compared) or base["tasks"]}
    made |= {"seeds": own_seeds or base["seeds"], "backbones": dict.fromkeys(backbones)}
    made |= {key: base[key] for key in ("recipe", "mode") if key in base}
    for entry in entries:
        if entry.get("seeds") == made["seeds"]:
            del entry["seeds"]
    config.validate(made := made | {"methods": entries})
    return made


def _planned(numbers: pd.DataFrame) -> tuple[dict[str, Any], list[tuple[Planned, str]]]:
    """The suite that plans all runs of some numbers, and these, each with a backbone to list."""
    wanted: dict[tuple[str, str], str] = {}
    for number in numbers.itertuples():
        backbone = number.suite_backbone or number.backbone
        for text in filter(None, (number.run, number.minus)):
            wanted[text, backbone] = number.backbone if backbone == NO_BACKBONE.name else backbone
    for path in config.PAPERS:
        base = config.load(path)
        found = [
            (one, wanted[key])
            for one in config.planned(base)
            if (key := (f"{one.run.text}@{one.run.setting}", one.run.backbone.name)) in wanted
        ]
        if found:
            return base, found
    names = listed(f"{text} on {backbone}" for text, backbone in wanted)
    raise UserError(f"no suite plans {names}; write a configuration (config/README.md)")


def _entries(
    runs: Iterable[tuple[Planned, str]], analyses: set[str], seeds: int | None
) -> list[dict[str, Any]]:
    """The entries of a configuration: one for each method and the seeds that it has."""
    own_seeds: dict[tuple[str, str], list[int]] = {}
    asked: dict[str, dict[str, None]] = {}
    for one, backbone in runs:
        text = f"{one.run.text}@{one.run.setting}"
        drawn = own_seeds.setdefault((text, backbone), [])
        drawn += [one.run.seed] if one.run.seed is not None else []
        asked.setdefault(text, {}).update((name, None) for name in one.analyses if name in analyses)
    entries: dict[tuple[str, tuple[int, ...]], list[str]] = {}
    for (text, backbone), drawn in own_seeds.items():
        if drawn and seeds:
            drawn = list(range(drawn[0], drawn[0] + seeds))
        entries.setdefault((text, tuple(drawn)), []).append(backbone)
    return [
        {"method": text, "backbones": backbones}
        | ({"seeds": list(drawn)} if drawn else {})
        | ({"analyses": list(asked[text])} if asked[text] else {})
        for (text, drawn), backbones in entries.items()
    ]


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
    common = [
        str(values[0])
        for name in PLACE
        if name in LABEL and len(values := numbers[name].unique()) == 1
    ]
    name = slug("-".join(common)).replace(".", "-")
    if len(name) <= LONGEST:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{name[: LONGEST - 9].rstrip('-')}-{digest}"
