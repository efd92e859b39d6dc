"""Runs in memory with chosen points, for comparisons with a baseline."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from bench.datasets.metrics import Cell
from bench.datasets.tasks import STS_TASKS
from bench.results.records import Provenance
from bench.results.suite_results import SuiteResults
from bench.results.system import RunResults
from bench.runs.plan import Claim, Plan, PlannedRun

BASE = "bert-base-uncased"


def scored(
    method: str, seed: int | None, points: float | Mapping[str, float] | None, **more: Any
) -> RunResults:
    """A run with these points on every STS task, or by task; `None` means that it diverged."""
    metric, made = more.pop("metric", "spearman"), more.pop("provenance", Provenance())
    plan: dict[str, Any] = {
        "id": re.sub(r"[^\w.-]+", "-", f"{method}-{seed}"), "method": method, "setting": "official",
        "seed": seed, "label": method.upper(), "backbone": BASE,
        "corpus": "" if seed is None else "wiki1m", "tasks": ("all",), "recipe_changes": {},
    }  # fmt: skip
    by_task = points if isinstance(points, Mapping) else dict.fromkeys(STS_TASKS, points)
    scores = {
        Cell(task, "test", metric): value for task, value in by_task.items() if value is not None
    }
    status = "finished" if scores else "diverged"
    return RunResults(PlannedRun(**plan | more), status, "", scores, made)


def claim(method: str, **more: Any) -> Claim:
    """That a method gains a point over SimCSE on BERT."""
    values: dict[str, Any] = {"backbone": BASE, "baseline": "simcse@official", "margin": 1.0}
    return Claim(method=f"{method}@official", **values | more)


def suite(
    *runs: RunResults,
    claims: Sequence[Claim] = (),
    stand_ins: dict[str, str] | None = None,
    baseline: str = "",
) -> SuiteResults:
    plan = Plan(
        suite="paper", data="senteval", stand_ins=stand_ins or {}, runs=[], claims=claims,
        baseline=baseline,
    )  # fmt: skip
    return SuiteResults(plan, list(runs))
