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
* A run whose method or settings changed since the reference was measured fails.

docs/portability.md describes how arithmetics are measured, and the results.
"""

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.comparison.statistics import Prediction
from bench.datasets.metrics import METRICS
from bench.results.records import read_scores
from bench.results.suite_results import NEUTRAL_CHANGES
from bench.runs.plan import Plan, read_plan
from bench.runs.run import PlannedRun
from bench.utils.errors import UserError, counted
from bench.utils.files import read_json, sha256_text

COVERAGE = 0.999
ROOM = 2.0  # factor on measured changes
SAME_SEED_ROOM = 10.0  # factor on measured changes where the seed is the same
MAX_APART = 1  # runs that may exceed it
SHARE = 0.9  # share of the runs whose widening every run has at least
PLAIN = "plain"  # the default arithmetic of the CPU, which the others are compared with
# Minimal widening in points of the metrics of scores.
LEAST = {name: metric.least for name, metric in METRICS.items() if metric.least}
LISTED = 8  # scores listed in a message

# run -> "task metric" -> one value per seed, in the plan's order
Cells = dict[str, dict[str, list[float]]]
Arithmetics = Mapping[str, Mapping[str, Any]]


def interval(
    values: Sequence[float], widening: float = 0.0, coverage: float = COVERAGE
) -> tuple[float, float]:
    """The prediction interval of one further draw from the normal distribution of `values`, widened
    on both sides; of one value, which nothing was drawn for, the widening alone."""
    if len(values) == 1:
        return values[0] - widening, values[0] + widening
    prediction = Prediction(values)
    half = prediction.half_width(1 - coverage) + widening
    return prediction.mean - half, prediction.mean + half


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
    """The points by which intervals are widened on both sides, by metric and run."""
    largest: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for _, run, cell, points in movements(arithmetics):
        of_runs = largest[metric_of(cell)]
        of_runs[run] = max(of_runs[run], points)
    for metric, of_runs in largest.items():
        usual = sorted(of_runs.values())[int(SHARE * (len(of_runs) - 1))]
        least = max(ROOM * usual, LEAST[metric])
        largest[metric] = {run: max(ROOM * points, least) for run, points in of_runs.items()}
    return largest


def name_of(run: PlannedRun) -> str:
    """The name of a planned run in a reference, for all its seeds."""
    return f"{run.text} on {run.backbone}"


def identity_of(run: PlannedRun) -> str:
    """A hash of what determines the scores of a planned run on a CPU, whatever its seed."""
    identity = {key: value for key, value in run.identity.items() if key != "seed"}
    if "recipe" in identity:
        recipe = identity["recipe"].items()
        identity["recipe"] = {key: value for key, value in recipe if key not in NEUTRAL_CHANGES}
    return sha256_text(json.dumps(identity, sort_keys=True))[:16]


def by_name(plan: Plan) -> dict[str, list[PlannedRun]]:
    grouped: dict[str, list[PlannedRun]] = defaultdict(list)
    for run in plan.runs:
        grouped[name_of(run)].append(run)
    return grouped


def cells_of(suite: Path, runs: Iterable[PlannedRun]) -> tuple[Cells, dict[str, dict[str, Any]]]:
    """Test scores of runs by name and cell, and the provenance of a seed of each, of one that did
    not finish if there is one."""
    cells: Cells = defaultdict(lambda: defaultdict(list))
    provenances: dict[str, dict[str, Any]] = {}
    for run in runs:
        name = name_of(run)
        provenance, records = read_scores(suite / "scores" / f"{run.id}.json")
        known = provenances.setdefault(name, provenance)
        if known["outcome"]["status"] == "finished":
            provenances[name] = provenance
        for record in records:
            if (record["split"], record["aggregation"]) == ("test", "all"):
                cells[name][f"{record['task']} {record['metric']}"].append(record["value"])
    return cells, provenances


def check(suite: Path, reference: Path) -> str:
    """Compare every test score of a suite with its interval in the reference. Returns a summary, or
    raises UserError."""
    known, plan = read_json(reference), read_plan(suite / "plan.json")
    changed = [
        name
        for name, runs in by_name(plan).items()
        if name in known["runs"] and known["runs"][name]["identity"] != identity_of(runs[0])
    ]
    if changed:
        head = f"methods or settings changed since {reference} was measured; run make reference:"
        raise UserError(_listed(head, changed))
    cells, provenances = cells_of(suite, plan.runs)
    scores = list(judged(cells, known, reference))
    faults = [
        (math.inf, f"{run} did not finish")
        for run, provenance in provenances.items()
        if provenance["outcome"]["status"] != "finished"
    ]
    for run, cell, value, low, high in scores:
        beyond = max(low - value, value - high)
        if beyond > 0:
            message = f"{run}, {cell}: {value:.2f} is {beyond:.2f} outside {low:.2f} to {high:.2f}"
            faults.append((beyond, message))
    head = f"{len(faults)} of {len(scores)} scores are outside their intervals of {reference}:"
    apart = runs_apart(cells, known["arithmetics"])
    if not faults and len(apart) > MAX_APART:
        head = f"{len(apart)} of {len(cells)} runs differ from the same seeds in {reference}:"
        faults = apart
    if faults:
        faults.sort(key=lambda fault: -fault[0])
        made = {run["processor"] for name, run in known["runs"].items() if name in provenances}
        raise UserError(
            _listed(head, [text for _, text in faults])
            + f"\nThe reference was made on {' and '.join(sorted(made))}, this is "
            f"{processor_of(next(iter(provenances.values())))}."
            "\nIf the change of scores is intended, update the reference with make reference; if "
            "nothing was changed, report this with the table that make portable writes "
            "(docs/portability.md)"
        )
    return f"reference: {len(scores)} scores, each within its interval of {reference}"


def _listed(head: str, texts: Sequence[str]) -> str:
    more = [f"and {len(texts) - LISTED} more"] if len(texts) > LISTED else []
    return "\n  ".join([head, *texts[:LISTED], *more])


def runs_apart(cells: Cells, arithmetics: Arithmetics) -> list[tuple[float, str]]:
    """Points and a message for runs with a correlation too far from the same seed's in `PLAIN`; a
    run with more seeds than there is skipped."""
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
    """Yield (run, cell, value, low, high) of every score."""
    widened = widenings(known["arithmetics"])
    for run, of_run in cells.items():
        for cell, values in of_run.items():
            if cell not in known["cells"].get(run, {}):
                raise UserError(
                    f"{reference} has no {cell} of {run}; update it with make reference"
                )
            low, high = interval(known["cells"][run][cell], widened[metric_of(cell)][run])
            yield from ((run, cell, value, low, high) for value in values)


def processor_of(provenance: Mapping[str, Any]) -> str:
    """The CPU of a result, with the settings that determine the last bits."""
    device, chosen = provenance["device"], provenance["arithmetic"]["cpu_capability"]
    return f"{device['name']} ({chosen}, {counted(device['threads'], 'thread')})"
