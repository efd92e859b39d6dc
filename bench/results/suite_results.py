"""A suite's folder, read and checked: its plan, and the scores and analyses of every planned run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any

from bench.datasets.tasks import Board, boards_of, expand_tasks
from bench.results.records import Record, no_scores, read_scores
from bench.utils.errors import UserError
from bench.utils.files import read_json

NEUTRAL_CHANGES = {"threads", "precision"}  # recipe fields that change an experiment's cost, not the experiment
DEV_AVERAGE = ("STS-B", "SICK-R")  # what "Avg. STS" on dev sets is: `avg_sts` of SimCSE's trainer
STATUSES = ("finished", "diverged", "skipped")

Key = tuple[str, str, str]  # task, split, metric

# What is raised where a file has another form than the code that wrote it gave it.
DAMAGE = (KeyError, TypeError, ValueError, AttributeError, IndexError)


def fault(error: Exception) -> str:
    """What one of `DAMAGE` says of a file, as a clause."""
    if isinstance(error, KeyError):
        return f"it lacks '{error.args[0]}'"
    return str(error) if isinstance(error, ValueError) else "a part of it has another form"


def _no_plan(path: Path, error: Exception) -> UserError:
    """What to say of a plan's file in which there is one of `DAMAGE`."""
    remedy = f"write it again with: python -m bench plan --config FILE --out {path}"
    return UserError(f"{path} is not a plan ({fault(error)}); {remedy}")


@dataclass(frozen=True)
class Scored:
    """A planned run with what became of it.

    Attributes:
        plan: the run as plan.json has it.
        status: "finished", "diverged", "skipped", or "missing" where nothing was scored yet.
        data: the evaluation data it was scored on.
        scores: points by (task, split, metric), aggregated over a task's parts as one list ("all"); besides, the mean
            of the dev sets ("Avg", "dev", "spearman"), ("STS-B", "dev", "best_step") of a training, and ("uniformity",
            "", "uniformity") on all sentences of STS-B where it was analysed.
        provenance: of its scores; empty where there are none.
        analyses: what `bench.stages.analyse` measured, by name.
    """

    plan: Mapping[str, Any]
    status: str
    reason: str
    data: str
    scores: Mapping[Key, float]
    provenance: Mapping[str, Any] = field(default_factory=dict)
    analyses: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Suite:
    """A suite's folder, read."""

    name: str
    data: str
    stand_ins: Mapping[str, str]
    runs: list[Scored]

    @cached_property
    def boards(self) -> dict[str, Board]:
        """Its own tables by name; some may hold nothing."""
        return boards_of(expand_tasks([task for run in self.runs for task in run.plan.get("tasks") or []]))

    @property
    def remark(self) -> str:
        """What the suite's numbers cannot be compared with, as a sentence; empty where they can."""
        return self.remark_on(self.stand_ins.values())

    def remark_on(self, backbones: Iterable[str]) -> str:
        """`remark` of numbers that were measured on some of the suite's backbones."""
        foreign = []
        if measured := sorted(set(self.stand_ins.values()) & set(backbones)):
            foreign.append("measured on " + " and ".join(measured))
        if self.data != "senteval":
            foreign.append(
                "scored on " + ("the embedded world" if self.data == "world" else f"the data set {self.data}")
            )
        else:
            trained = [run.plan for run in self.runs if run.plan["seed"] is not None]
            if corpora := {plan["corpus"] for plan in trained if not plan.get("own_corpus")} - {"wiki1m"}:
                foreign.append("trained on " + " and ".join(sorted(corpora)))
            if changed := {key for plan in trained for key in plan.get("recipe_changes") or {}} - NEUTRAL_CHANGES:
                foreign.append(f"recipe changed ({', '.join(sorted(changed))})")
        text = ", ".join(foreign)
        return f"{text[0].upper()}{text[1:]}: comparable with each other, with no paper." if text else ""


def _derived(
    scores: Mapping[Key, float], outcome: Mapping[str, Any], analyses: Mapping[str, Any]
) -> Iterator[tuple[Key, float]]:
    """What papers print beside scores, taken from what a run left."""
    dev = [scores.get((task, "dev", "spearman")) for task in DEV_AVERAGE]
    present = [value for value in dev if value is not None]
    if len(present) == len(dev):
        yield ("Avg", "dev", "spearman"), fmean(present)
    if outcome.get("best_step") is not None:
        yield ("STS-B", "dev", "best_step"), float(outcome["best_step"])
    if "STS-B" in analyses.get("alignment", {}):  # else the reason why it was not measured
        yield ("uniformity", "", "uniformity"), float(analyses["alignment"]["STS-B"]["all"]["uniformity"])


def _scores(records: list[Record]) -> dict[Key, float]:
    """Points by task, split and metric; of a task's parts those of all as one list."""
    scores: dict[Key, float] = {}
    for record in records:
        if record["aggregation"] in ("mean", "wmean"):
            continue
        key = (record["task"], record["split"], record["metric"])
        if key in scores:
            raise ValueError(f"{' '.join(key)} stands twice")
        scores[key] = float(record["value"])
    return scores


def _check_outcome(outcome: Mapping[str, Any]) -> None:
    if outcome["status"] not in STATUSES:
        raise ValueError(f"a training cannot end as '{outcome['status']}'")
    for point in outcome.get("curve") or []:
        if not isinstance(point["step"], int) or not all(isinstance(x, int | float | None) for x in point.values()):
            raise ValueError("its training curve holds more than numbers")


def read_analyses(path: Path) -> dict[str, Any]:
    """Results of `bench.stages.analyse` by name; none where the file is not there.

    Raises:
        UserError: the file holds something else.
    """
    if not path.is_file():
        return {}
    content = read_json(path)
    found = content.get("analyses") if isinstance(content, dict) else None
    if not isinstance(found, dict) or not all(isinstance(result, dict) for result in found.values()):
        raise UserError(f"{path} does not hold analyses; move it away and analyse again")
    return found


def _read_run(plan: Mapping[str, Any], folder: Path) -> Scored:
    path, analysed = folder / "scores" / f"{plan['id']}.json", folder / "analyses" / f"{plan['id']}.json"
    if not path.is_file():
        return Scored(plan, "missing", "no scores in this suite", "", {})
    provenance, records = read_scores(path)
    try:
        outcome, data = provenance["outcome"], provenance["data"]["name"]
        if (scored := provenance["run"])["id"] != plan["id"]:
            raise ValueError(f"it holds those of {scored['id']}")
        for name in ("method", "setting", "backbone", "seed"):
            if name in scored and scored[name] != plan[name]:
                raise ValueError(f"it says that its {name} is {scored[name]!r}, which is {plan[name]!r} in the plan")
        _check_outcome(outcome)
        scores = _scores(records)
    except DAMAGE as error:
        raise no_scores(path, fault(error)) from None
    found = read_analyses(analysed)
    try:
        scores |= dict(_derived(scores, outcome, found))
    except DAMAGE as error:
        raise UserError(f"{analysed} does not hold analyses ({fault(error)}); move it away and analyse again") from None
    return Scored(plan, outcome["status"], outcome.get("reason") or "", data, scores, provenance, found)


def check_runs(plan: Any) -> None:
    """Raise one of `DAMAGE` for a plan whose runs have not the form that `Run.describe` gives them."""
    known: set[str] = set()
    for run in plan["runs"]:
        texts = [run[name] for name in ("id", "method", "setting")]
        lists = [run.get(name) or [] for name in ("tasks", "analyses")]
        if not all(isinstance(text, str) for text in (*texts, *(text for names in lists for text in names))):
            raise ValueError("a run's names are texts")
        if type(run["seed"]) not in (int, type(None)) or not isinstance(run.get("recipe_changes") or {}, dict):
            raise ValueError("a run has another form")
        if run["id"] in known or set(run["id"]) & {"/", "\0"} or run["id"] in ("", ".", ".."):
            raise ValueError(f"'{run['id']}' stands twice" if run["id"] in known else f"'{run['id']}' names no run")
        known.add(run["id"])


def _check_plan(plan: Any) -> None:
    check_runs(plan)
    if not all(isinstance(run[name], str) for run in plan["runs"] for name in ("label", "backbone")):
        raise ValueError("a run's names are texts")
    named = (plan.get("stand_ins") or {}).items()
    if not all(isinstance(name, str) for pair in named for name in pair):
        raise ValueError("stand_ins map texts to texts")


def read_plan(path: Path) -> dict[str, Any]:
    """Read a suite's `plan.json`, as `bench.runs.config.plan` describes it.

    Raises:
        UserError: it is missing or something else.
    """
    plan = read_json(path)
    try:
        _check_plan(plan)
        _ = plan["suite"], plan["data"]
    except DAMAGE as error:
        raise _no_plan(path, error) from None
    return dict(plan)


def read_suite(folder: Path) -> Suite:
    """Read `plan.json`, and the scores and analyses of every planned run.

    Raises:
        UserError: there is no plan, or a file is not what it should be.
    """
    folder = Path(folder)
    plan = read_plan(folder / "plan.json")
    runs = [_read_run(run, folder) for run in plan["runs"]]
    return Suite(str(plan["suite"]), str(plan["data"]), plan.get("stand_ins") or {}, runs)
