"""The numbers of the toy data: the scores of its reference runs, and the verdicts on a suite.

They say whether the code computes the same as before, on any processor.
docs/explanation/toy-data.md#reference-scores has the rule:

* A score must be within the tolerance of its run, seed and task. Tolerances are several times the
  difference that other arithmetics made.
* One run may be apart, because its model selection can tip over, but only within the intervals that
  its seeds give.

`world.csv` has a row for each run and task and a column for each seed; runs without a seed have one
score. `world_runs.csv` says how and where they were measured. `make world-numbers` writes both.
"""

import json
from math import nan
from typing import Any

import pandas as pd

from bench.datasets.metrics import METRICS, SHARE, Cell
from bench.datasets.tasks import expand_tasks, scored_cells
from bench.judge.sample import Sample
from bench.judge.statistics import estimate
from bench.judge.verdict import VerdictInput, verdicts_of
from bench.judged.rows import Verdict, WorldRow
from bench.reported import FOLDER
from bench.results.suite_results import SuiteResults
from bench.results.system import RunResults
from bench.runs.plan import NEUTRAL_CHANGES, PlannedRun
from bench.utils.files import sha256_text

SCORES, RUNS = FOLDER / "world.csv", FOLDER / "world_runs.csv"
BACKBONE_RUN = ["run", "backbone"]  # the columns that name a run, whatever its seed
SEEDS = [f"seed {seed}" for seed in range(1, 9)]
MODE = "dev"  # of the classifiers behind the accuracies of world.csv

# The constants of the rule of docs/explanation/toy-data.md#reference-scores.
SAME_SEED = 5.0  # tolerance of a run with a seed, in tolerances of a run without one
COVERAGE = 0.999  # coverage of the prediction interval that the seeds of a run give
MAX_APART = 1  # runs that may be apart


def seedless_identity(run: PlannedRun) -> str:
    """A hash of all that determines the scores of a planned run on a CPU, besides its seed."""
    identity = {key: value for key, value in run.identity.items() if key != "seed"}
    if "recipe" in identity:
        recipe = identity["recipe"].items()
        identity["recipe"] = {key: value for key, value in recipe if key not in NEUTRAL_CHANGES}
    return sha256_text(json.dumps(identity, sort_keys=True))[:16]


def judge_world(suite: SuiteResults) -> list[WorldRow]:
    """A row for each number of the runs of a suite; none if the suite is not of the toy data."""
    if suite.plan.data != "world":
        return []
    numbers = pd.read_csv(SCORES).merge(
        pd.read_csv(RUNS)[[*BACKBONE_RUN, "identity"]], on=BACKBONE_RUN
    )
    rows: list[WorldRow] = []
    places: list[int] = []  # of the rows outside their tolerance and within their seeds
    outside: set[str] = set()  # ids of runs with a score outside its tolerance
    for result in suite.runs:
        run = result.run
        planned = scored_cells(expand_tasks(run.tasks))
        of_run = (numbers.run == run.text) & (numbers.backbone == run.backbone)
        for _, entry in numbers[of_run].iterrows():
            cell = Cell(entry.task, "test", entry.metric)
            # world.csv has the score of a run without a seed in the column of seed 1.
            number = entry.get(f"seed {run.seed or 1}", nan)
            if cell not in planned or pd.isna(number):
                continue
            score = result.scores.get(cell, nan)
            verdict = _verdict(suite, result, entry, number, score)
            rows.append(
                WorldRow(
                    run=run.text,
                    backbone=run.backbone,
                    seed=run.seed,
                    task=entry.task,
                    metric=entry.metric,
                    number=number,
                    score=score,
                    tolerance=entry.tolerance,
                    verdict=verdict,
                )
            )
            if verdict.kind in ("lower", "higher"):
                # Runs are counted, not scores: one selection that tips over moves all scores of its
                # run.
                outside.add(run.id)
                if _is_within_seeds(score, entry):
                    places.append(len(rows) - 1)
    # Only here it is known how many runs are apart.
    if len(outside) <= MAX_APART:
        for place in places:
            reason = f"{rows[place].verdict.reason}; within the interval of the seeds"
            change = {"verdict": Verdict(kind="consistent", reason=reason)}
            rows[place] = rows[place].model_copy(update=change)
    return rows


def _verdict(
    suite: SuiteResults, result: RunResults, entry: Any, number: float, score: float
) -> Verdict:
    """The verdict on a score by the tolerance of its number, or why they cannot be compared."""
    if result.status == "diverged":
        return Verdict(kind="diverged", reason=result.reason)
    if not result.scores:
        return Verdict(kind="not run", reason=result.reason)
    reason = ""
    if result.provenance.device.kind != "cpu":
        reason = "measured on a GPU"
    elif METRICS[entry.metric].kind == SHARE and suite.plan.mode != MODE:
        reason = f"classifiers of mode {suite.plan.mode}"
    elif entry.identity != seedless_identity(result.run):
        reason = "the method or its settings changed since; measure again with: make world-numbers"
    if reason:
        return Verdict(kind="not comparable", reason=reason)
    # Judged like a deterministic score: each seed has a number of its own, so nothing is averaged.
    basis = VerdictInput(number, Sample({None: score}, [], 0), entry.tolerance)
    return verdicts_of([basis])[0]


def _is_within_seeds(score: float, entry: Any) -> bool:
    """Whether a score is within the prediction interval that the seeds of its run give, widened by
    what the tolerance allows a run without a seed."""
    scores = entry[SEEDS].dropna().tolist()
    # A run without a seed has one score, from which no interval follows.
    if len(scores) == 1:
        return False
    further = estimate(scores).further
    reach = further.half_width(1 - COVERAGE) + entry.tolerance / SAME_SEED
    return abs(score - further.mean) <= reach
