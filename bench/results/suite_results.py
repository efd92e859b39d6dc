"""The results of a suite: its plan, and the scores and analyses of every planned run, validated."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any

from bench.datasets.tasks import DEV_AVERAGE, Board, boards_of, expand_tasks
from bench.results.readers import (
    DAMAGE,
    Outcome,
    PlanEntry,
    check_outcome,
    describe_damage,
    no_analyses,
    read_analyses,
    read_plan,
)
from bench.results.records import Record, no_scores, read_scores

NEUTRAL_CHANGES = {
    "threads",
    "precision",
}  # recipe fields that change the cost of an experiment, not its scores

Key = tuple[str, str, str]  # task, split, metric


@dataclass(frozen=True)
class RunResults:
    """A planned run and its results.

    Attributes:
        plan: the run's entry in plan.json.
        status: "finished", "diverged", "skipped", or "missing" if it was not scored yet.
        reason: why it did not finish; empty if it did.
        data: the evaluation data it was scored on.
        scores: points by (task, split, metric), with the subsets of a task as one list ("all").
            Also the mean of the dev sets ("Avg", "dev", "spearman"), the best step of a training
            ("STS-B", "dev", "best_step"), and the uniformity on all sentences of STS-B
            ("uniformity", "", "uniformity") if it was analysed.
        provenance: of its scores; empty if there are none.
        analyses: results of `bench.stages.analyse`, by name.
    """

    plan: Mapping[str, Any]  # a `PlanEntry`
    status: str
    reason: str
    data: str
    scores: Mapping[Key, float]
    provenance: Mapping[str, Any] = field(default_factory=dict)
    analyses: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class SuiteResults:
    """The results of a suite."""

    name: str
    data: str
    stand_ins: Mapping[str, str]
    runs: list[RunResults]

    @cached_property
    def boards(self) -> dict[str, Board]:
        """The tables of the suite's tasks, by name. Some may be empty."""
        return boards_of(
            expand_tasks([task for run in self.runs for task in run.plan.get("tasks") or []])
        )

    @property
    def remark(self) -> str:
        """Why the suite's scores are not comparable with papers, as a sentence; empty if they
        are."""
        return self.remark_on(self.stand_ins.values())

    def remark_on(self, backbones: Iterable[str]) -> str:
        """`remark` for scores of some of the suite's backbones."""
        deviations = []
        if measured := sorted(set(self.stand_ins.values()) & set(backbones)):
            deviations.append("measured on " + " and ".join(measured))
        if self.data != "senteval":
            data = "the embedded world" if self.data == "world" else f"the data set {self.data}"
            deviations.append(f"scored on {data}")
        else:
            trained = [run.plan for run in self.runs if run.plan["seed"] is not None]
            if corpora := {
                str(plan["corpus"]) for plan in trained if not plan.get("own_corpus")
            } - {"wiki1m"}:
                deviations.append("trained on " + " and ".join(sorted(corpora)))
            if (
                changed := {key for plan in trained for key in plan.get("recipe_changes") or {}}
                - NEUTRAL_CHANGES
            ):
                deviations.append(f"recipe changed ({', '.join(sorted(changed))})")
        text = ", ".join(deviations)
        return (
            f"{text[0].upper()}{text[1:]}: comparable with each other, with no paper."
            if text
            else ""
        )


def _derived(
    scores: Mapping[Key, float], outcome: Outcome, analyses: Mapping[str, Any]
) -> Iterator[tuple[Key, float]]:
    """Numbers that papers report beside scores, from a run's scores, outcome and analyses."""
    dev = [(task, "dev", "spearman") for task in DEV_AVERAGE]
    if all(key in scores for key in dev):
        yield ("Avg", "dev", "spearman"), fmean(scores[key] for key in dev)
    if (step := outcome.get("best_step")) is not None:
        yield ("STS-B", "dev", "best_step"), float(step)
    if "STS-B" in analyses.get(
        "alignment", {}
    ):  # otherwise the analysis holds why it was not possible
        yield (
            ("uniformity", "", "uniformity"),
            float(analyses["alignment"]["STS-B"]["all"]["uniformity"]),
        )


def _scores(records: list[Record]) -> dict[Key, float]:
    """Points by task, split and metric, with the subsets of a task as one list."""
    scores: dict[Key, float] = {}
    for record in records:
        if record["aggregation"] in ("mean", "wmean"):
            continue
        key = (record["task"], record["split"], record["metric"])
        if key in scores:
            raise ValueError(f"{' '.join(key)} is in it twice")
        scores[key] = float(record["value"])
    return scores


def _read_run(plan: PlanEntry, suite_dir: Path) -> RunResults:
    path, analysed = (
        suite_dir / "scores" / f"{plan['id']}.json",
        suite_dir / "analyses" / f"{plan['id']}.json",
    )
    if not path.is_file():
        return RunResults(plan, "missing", "no scores in this suite", "", {})
    provenance, records = read_scores(path)
    try:
        outcome, data = provenance["outcome"], provenance["data"]["name"]
        _check_same_run(provenance["run"], plan)
        check_outcome(outcome)
        scores = _scores(records)
    except DAMAGE as error:
        raise no_scores(path, describe_damage(error)) from None
    analyses = read_analyses(analysed)
    try:
        scores |= dict(_derived(scores, outcome, analyses))
    except DAMAGE as error:
        raise no_analyses(analysed, describe_damage(error)) from None
    return RunResults(
        plan, outcome["status"], outcome.get("reason") or "", data, scores, provenance, analyses
    )


def _check_same_run(scored: Mapping[str, Any], plan: PlanEntry) -> None:
    if scored["id"] != plan["id"]:
        raise ValueError(f"it holds those of {scored['id']}")
    planned: Mapping[str, Any] = plan
    for name in ("method", "setting", "backbone", "seed"):
        if name in scored and scored[name] != planned[name]:
            raise ValueError(
                f"it says that its {name} is {scored[name]!r}, which is {planned[name]!r} in the plan"
            )


def read_suite(suite_dir: Path) -> SuiteResults:
    """Read the plan of a suite, and the scores and analyses of every planned run.

    Raises:
        UserError: there is no plan, or a file is damaged.
    """
    plan = read_plan(Path(suite_dir) / "plan.json")
    runs = [_read_run(run, Path(suite_dir)) for run in plan["runs"]]
    return SuiteResults(plan["suite"], plan["data"], plan.get("stand_ins") or {}, runs)
