"""What a reference of the smoke suite lacks, and its update from what was measured."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.checks.regression import (
    LEAST,
    PLAIN,
    by_name,
    cells_of,
    identity_of,
    name_of,
    processor_of,
)
from bench.datasets.tasks import expand_tasks, scored_cells
from bench.runs.plan import Plan, read_plan
from bench.runs.run import PlannedRun
from bench.utils.errors import UserError
from bench.utils.files import read_json, write_json


def lacking(plan: Plan, reference: Path) -> set[str]:
    """The names of a plan's runs that a reference has to measure: it does not have them, or with
    another identity, other tasks, or another number of seeds. All of them if there is no file."""
    known = _known(reference)
    names = set()
    for name, runs in by_name(plan).items():
        wanted = {
            f"{task} {metric}": len(runs)
            for task, split, metric in scored_cells(expand_tasks(runs[0].tasks))
            if split == "test" and metric in LEAST
        }
        measured = {cell: len(values) for cell, values in known["cells"].get(name, {}).items()}
        identity = known["runs"].get(name, {}).get("identity")
        if (identity, measured) != (identity_of(runs[0]), wanted):
            names.add(name)
    return names


def _known(reference: Path) -> dict[str, Any]:
    """A reference; without a file an empty one."""
    if reference.is_file():
        return read_json(reference)
    return {"runs": {}, "cells": {}, "arithmetics": {}}


def write(suite: Path, arithmetics: Sequence[Path], reference: Path) -> None:
    """Update the reference of a suite with many seeds, and of suites with a few seeds, each named
    after its arithmetic.

    Runs that the reference lacks are read from the suites. The others stay as they are, and runs
    that are no longer planned are removed.
    """
    if PLAIN not in [folder.name for folder in arithmetics]:
        raise UserError(f"--only has no arithmetic '{PLAIN}', which the others are compared with")
    plan, known = read_plan(suite / "plan.json"), _known(reference)
    planned, measured = by_name(plan), lacking(plan, reference)

    def joined(fresh: dict[str, Any], old: Mapping[str, Any]) -> dict[str, Any]:
        """The measured runs and the others, in the order of the plan."""
        whole = {name: value for name, value in old.items() if name not in measured} | fresh
        return {name: whole[name] for name in planned if name in whole}

    def measured_runs(folder: Path) -> list[PlannedRun]:
        runs = read_plan(folder / "plan.json").runs
        return [run for run in runs if name_of(run) in measured]

    def scores(folder: Path, old: Mapping[str, Any]) -> dict[str, Any]:
        fresh, _ = cells_of(folder, measured_runs(folder))
        rounded = {
            name: {cell: [round(value, 3) for value in values] for cell, values in cells.items()}
            for name, cells in fresh.items()
        }
        return joined(rounded, old)

    _, provenances = cells_of(suite, measured_runs(suite))
    origins = {
        name: {
            "identity": identity_of(planned[name][0]),
            "code": provenance["code"],
            "processor": processor_of(provenance),
            "torch": provenance["versions"]["torch"],
            "date": provenance["date"],
        }
        for name, provenance in provenances.items()
    }
    old = {name: measure["cells"] for name, measure in known["arithmetics"].items()}
    content = {
        "runs": joined(origins, known["runs"]),
        "cells": scores(suite, known["cells"]),
        "arithmetics": {
            folder.name: {"cells": scores(folder, old.get(folder.name, {}))}
            for folder in arithmetics
        },
    }
    write_json(reference, content)
