"""The smoke suite's regression test: every score against the distribution of many seeds of the same suite."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, variance
from typing import Any

from bench.errors import UserError
from bench.files import read_json, write_json
from bench.finished import read_plan
from bench.records import Record, read_scores

COVERAGE = 0.999

# Standard deviation, in points, that other arithmetic adds to a score. Another code path of the matrix library, through
# pre-training and scoring, moved no score of toy-bert with two poolers; pre-training in bfloat16, far coarser, moved
# correlations by at most 0.3. An accuracy moves by whole samples, of which the smallest test parts have 150.
ROUNDING = {"spearman": 0.25, "accuracy": 0.5, "accuracy_mlp": 0.5, "f1": 0.5}

Cells = dict[str, dict[str, list[float]]]


def interval(values: Sequence[float], floor: float, coverage: float = COVERAGE) -> tuple[float, float]:
    """Prediction interval of one further draw from the normal distribution that `values` come from.

    m -+ q sqrt(s^2 (1 + 1/n) + floor^2), q the quantile of Student's t with n - 1 degrees of freedom, or of the normal
    distribution where n is 1 (nothing is drawn). `floor` is the standard deviation that other rounding adds.
    """
    from scipy.stats import norm, t

    count, mean = len(values), fmean(values)
    spread = variance(values) if count > 1 else 0.0
    level = (1 + coverage) / 2
    quantile = t.ppf(level, count - 1) if count > 1 else norm.ppf(level)
    half = quantile * math.sqrt(spread * (1 + 1 / count) + floor**2)
    return mean - half, mean + half


def _cells(suite: Path) -> tuple[Cells, dict[str, Any]]:
    """Test scores of a suite by run text and backbone, then by task and metric; and the provenance of the last run."""
    cells: Cells = defaultdict(lambda: defaultdict(list))
    provenance: dict[str, Any] = {}
    for run in read_plan(suite / "plan.json")["runs"]:
        provenance, records = read_scores(suite / "scores" / f"{run['id']}.json")
        name = f"{run['method']}@{run['setting']} on {run['backbone']}"
        cells[name]["status"].append(float(provenance["outcome"]["status"] == "finished"))
        for record in records:
            if _counts(record):
                cells[name][f"{record['task']} {record['metric']}"].append(record["value"])
    return cells, provenance


def _counts(record: Record) -> bool:
    return record["split"] == "test" and record["aggregation"] == "all"


def write(suite: Path, reference: Path) -> None:
    """Write the reference distribution of a suite's scores.

    Raises:
        UserError: scores are missing.
    """
    cells, provenance = _cells(suite)
    kept = {
        key: provenance[key]
        for key in ("code", "versions", "device", "arithmetic", "date", "data", "corpora")
        if key in provenance
    }
    rounded = {
        name: {task: [round(value, 3) for value in values] for task, values in tasks.items() if task != "status"}
        for name, tasks in cells.items()
    }
    write_json(reference, {"provenance": [kept | {"cells": sorted(rounded)}], "cells": rounded})


def check(suite: Path, reference: Path) -> str:
    """Compare every test score of a suite with the 99.9 % interval of the reference; one line that says how it went.

    Raises:
        UserError: a score left its interval, a run did not finish, or the reference does not know a run.
    """
    known = read_json(reference)
    cells, _ = _cells(suite)
    compared, faults = 0, []
    for name, tasks in cells.items():
        if name not in known["cells"]:
            raise UserError(f"{reference} has no scores of {name}; write it anew with make reference")
        if not all(tasks.pop("status")):
            faults.append(f"{name} did not finish")
        for task, values in tasks.items():
            low, high = interval(known["cells"][name][task], ROUNDING[task.rpartition(" ")[2]])
            for value in values:
                compared += 1
                if not low <= value <= high:
                    faults.append(f"{name}, {task}: {value:.2f} is outside {low:.2f} to {high:.2f}")
    if faults:
        raise UserError(f"{len(faults)} of {compared} scores left their 99.9 % interval: " + "; ".join(faults[:8]))
    return f"reference: {compared} scores, each within the 99.9 % interval of {reference}"
