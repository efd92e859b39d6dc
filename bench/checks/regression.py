"""The smoke suite's regression test: every score lies within an interval, on any CPU.

* The interval of a score is the 99.9 % prediction interval of the seeds of its run, or one value
  for a deterministic run.
* It is widened on both sides by twice the largest change of any score of this metric in this run
  between arithmetics, measured on one machine.
* The widening is at least that of nine in ten runs, and at least two test samples (for a
  correlation, 0.01 points).
* The correlations of a run are also compared with those of the same seed in the reference. A change
  of the code that stays within the seeds' intervals, such as training without dropout, moves most
  runs by more than ten times what arithmetic does. One run may do so: its model selection can tip
  over.

docs/portability.md describes how arithmetics are measured, and the results.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.comparison.statistics import predict
from bench.results.readers import read_plan
from bench.results.records import read_scores
from bench.utils.errors import UserError
from bench.utils.files import read_json, write_json

COVERAGE = 0.999
ROOM = 2.0  # factor on measured changes
SAME_SEED_ROOM = 10.0  # factor on measured changes where the seed is the same
MAX_APART = 1  # runs that may exceed it
SHARE = 0.9  # share of the runs whose widening every run has at least
PLAIN = "plain"  # the default arithmetic of the CPU, which the others are compared with
# Minimal widening in points: the second decimal, as printed in papers; two of the 150 samples of
# the world's smallest test split.
LEAST = {"spearman": 0.01, "accuracy": 200 / 150, "accuracy_mlp": 200 / 150, "f1": 200 / 150}
LISTED = 8  # scores listed in a message
# Parts of the provenance.
KEPT = ("code", "versions", "device", "arithmetic", "date", "data", "corpora")

# run -> "task metric" -> one value per seed, in the plan's order
Cells = dict[str, dict[str, list[float]]]
Arithmetics = Mapping[str, Mapping[str, Any]]


def interval(
    values: Sequence[float], widening: float = 0.0, coverage: float = COVERAGE
) -> tuple[float, float]:
    """Return the widened prediction interval of one further draw from the normal distribution of
    `values`.

    It is m -+ (t s sqrt(1 + 1/n) + widening), with t the quantile of Student's distribution with
    n - 1 degrees of freedom; for one value m -+ widening.
    """
    mean, half = values[0], widening
    if len(values) > 1:
        prediction = predict(values)
        mean = prediction.mean
        half += prediction.half_width(1 - coverage)
    return mean - half, mean + half


def metric_of(cell: str) -> str:
    return cell.rpartition(" ")[2]


def movements(arithmetics: Arithmetics) -> Iterator[tuple[str, str, str, float]]:
    """Yield (arithmetic, run, cell, points): the distance of a score from that under `PLAIN`."""
    for name, measured in arithmetics.items():
        for run, cells in measured["cells"].items():
            for cell, values in cells.items():
                plain = arithmetics[PLAIN]["cells"][run][cell]
                for value, same in zip(values, plain, strict=True):
                    yield name, run, cell, abs(value - same)


def widenings(arithmetics: Arithmetics) -> dict[str, dict[str, float]]:
    """Return the points by which intervals are widened on both sides, by metric and run."""
    largest: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for _, run, cell, points in movements(arithmetics):
        of_runs = largest[metric_of(cell)]
        of_runs[run] = max(of_runs[run], points)
    widened = {}
    for metric, of_runs in largest.items():
        usual = sorted(of_runs.values())[int(SHARE * (len(of_runs) - 1))]
        least = max(ROOM * usual, LEAST[metric])
        widened[metric] = {run: max(ROOM * points, least) for run, points in of_runs.items()}
    return widened


def cells_of(suite: Path) -> tuple[Cells, dict[str, Any], list[str]]:
    """Return test scores by run and cell, the last run's provenance, and the unfinished runs."""
    cells: Cells = defaultdict(lambda: defaultdict(list))
    provenance: dict[str, Any] = {}
    unfinished = []
    for run in read_plan(suite / "plan.json")["runs"]:
        provenance, records = read_scores(suite / "scores" / f"{run['id']}.json")
        name = f"{run['method']}@{run['setting']} on {run['backbone']}"
        if provenance["outcome"]["status"] != "finished":
            unfinished.append(name)
        for record in records:
            if (record["split"], record["aggregation"]) == ("test", "all"):
                cells[name][f"{record['task']} {record['metric']}"].append(record["value"])
    return cells, {key: provenance[key] for key in KEPT if key in provenance}, unfinished


def _measured(suite: Path) -> dict[str, Any]:
    cells, provenance, _ = cells_of(suite)
    rounded = {
        run: {cell: [round(value, 3) for value in values] for cell, values in of_run.items()}
        for run, of_run in cells.items()
    }
    return {"provenance": provenance, "cells": rounded}


def write(suite: Path, arithmetics: Path, reference: Path) -> None:
    """Write the reference of a suite: its scores over many seeds, and those of a few seeds per
    arithmetic.

    Args:
        suite: a suite with many seeds.
        arithmetics: a folder with one suite per arithmetic, named after it; one of them is `PLAIN`.
        reference: the file to write.

    Raises:
        UserError: scores are missing.
    """
    suites = {path.parent.name: path.parent for path in sorted(arithmetics.glob("*/plan.json"))}
    if PLAIN not in suites:
        raise UserError(f"{arithmetics} has no suite '{PLAIN}'; create it with make portable")
    measured = {name: _measured(folder) for name, folder in suites.items()}
    write_json(reference, _measured(suite) | {"arithmetics": measured})


def check(suite: Path, reference: Path) -> str:
    """Compare every test score of a suite with its interval in the reference and return a one-line
    summary.

    Raises:
        UserError: a score is outside its interval or missing in the reference, or a run did not
            finish.
    """
    known = read_json(reference)
    cells, provenance, unfinished = cells_of(suite)
    compared, faults = 0, [(math.inf, f"{run} did not finish") for run in unfinished]
    for run, cell, value, low, high in judged(cells, known, reference):
        compared += 1
        if not low <= value <= high:
            beyond = max(low - value, value - high)
            message = f"{run}, {cell}: {value:.2f} is {beyond:.2f} outside {low:.2f} to {high:.2f}"
            faults.append((beyond, message))
    head = f"{len(faults)} of {compared} scores are outside their intervals of {reference}:"
    if not faults and len(apart := runs_apart(cells, known["arithmetics"])) > MAX_APART:
        head = f"{len(apart)} of {len(cells)} runs differ from the same seeds in {reference}:"
        faults = apart
    if faults:
        texts = [text for _, text in sorted(faults, key=lambda fault: -fault[0])]
        more = [f"and {len(texts) - LISTED} more"] if len(texts) > LISTED else []
        then, now = _machine(known["provenance"]), _machine(provenance)
        raise UserError(
            "\n  ".join([head, *texts[:LISTED], *more])
            + f"\nThe reference was made on {then}, this is {now}."
            "\nIf the change of scores is intended, update the reference with make reference; if "
            "nothing was changed, report this with the table that make portable writes "
            "(docs/portability.md)"
        )
    return f"reference: {compared} scores, each within its interval of {reference}"


def runs_apart(cells: Cells, arithmetics: Arithmetics) -> list[tuple[float, str]]:
    """Return (points, message) for runs with a correlation too far from the same seed's in `PLAIN`.

    Values are compared in the plan's order of seeds; a run with more seeds than there is skipped.
    """
    widened = widenings(arithmetics)["spearman"]
    apart = []
    for run, of_run in cells.items():
        plain = arithmetics[PLAIN]["cells"].get(run, {})
        distances = [
            (abs(value - same), cell)
            for cell, values in of_run.items()
            if metric_of(cell) == "spearman" and len(values) <= len(plain.get(cell, ()))
            for value, same in zip(values, plain[cell], strict=False)
        ]
        points, cell = max(distances, default=(0.0, ""))
        limit = SAME_SEED_ROOM / ROOM * widened.get(run, 0.0)
        if points > limit:
            message = f"{points:.2f} points from the same seed, more than {limit:.2f}"
            apart.append((points, f"{run}, {cell}: {message}"))
    return apart


def judged(
    cells: Cells, known: Mapping[str, Any], reference: Path
) -> Iterator[tuple[str, str, float, float, float]]:
    """Yield (run, cell, value, low, high) of every score.

    Raises:
        UserError: a score is missing in the reference.
    """
    if "arithmetics" not in known:
        raise UserError(f"{reference} is of an earlier version; update it with make reference")
    widened = widenings(known["arithmetics"])
    for run, of_run in cells.items():
        for cell, values in of_run.items():
            try:
                low, high = interval(known["cells"][run][cell], widened[metric_of(cell)][run])
            except KeyError:
                raise UserError(
                    f"{reference} has no {cell} of {run}; update it with make reference"
                ) from None
            yield from ((run, cell, value, low, high) for value in values)


def _machine(provenance: Mapping[str, Any]) -> str:
    """Return the CPU of a result, with the settings that determine the last bits."""
    device, chosen = provenance["device"], provenance["arithmetic"]["cpu_capability"]
    return f"{device['name']} ({chosen}, {device['threads']} thread{'s' * (device['threads'] > 1)})"
