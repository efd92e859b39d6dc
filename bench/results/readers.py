"""Typed and validated readers of the JSON files of a suite: its plan, trainings and analyses.

Scores are read by `bench.results.records`. Each file is validated once, when it is read; the code
that uses it relies on the types here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from bench.utils.errors import UserError
from bench.utils.files import read_json

STATUSES = ("finished", "diverged", "skipped")

# What code raises that reads a file whose form differs from what the suite writes.
DAMAGE = (KeyError, TypeError, ValueError, AttributeError, IndexError)


class PlanEntry(TypedDict):
    """A run of a plan, see `bench.runs.config.Planned.describe`."""

    id: str
    method: str
    setting: str
    seed: int | None
    recipe_changes: NotRequired[dict[str, Any] | None]
    tasks: NotRequired[list[str] | None]
    analyses: NotRequired[list[str] | None]
    label: NotRequired[str]
    backbone: NotRequired[str]
    reference: NotRequired[str]
    corpus: NotRequired[str | None]
    own_corpus: NotRequired[bool]


class Plan(TypedDict):
    """The content of plan.json (`bench.runs.config.plan`), or the part of it that a job does."""

    runs: list[PlanEntry]
    data: str
    suite: NotRequired[str]
    corpus: NotRequired[str]
    mode: NotRequired[str]
    stand_ins: NotRequired[dict[str, str]]


class Outcome(TypedDict):
    """How a training ended, see `bench.training.loop.train`."""

    status: str
    reason: NotRequired[str | None]
    steps: NotRequired[int]
    best_step: NotRequired[int | None]
    curve: NotRequired[list[dict[str, float | None]]]


class Trained(TypedDict):
    """The content of trained/RUN.json: how a training ended, and where."""

    outcome: Outcome
    run: NotRequired[dict[str, Any]]
    provenance: NotRequired[dict[str, Any]]


def describe_damage(error: Exception) -> str:
    """What one of `DAMAGE` says about a file, as a clause."""
    if isinstance(error, KeyError):
        return f"it lacks '{error.args[0]}'"
    return str(error) if isinstance(error, ValueError) else "a part of it has another form"


@contextmanager
def report_damage(file: Path | str, kind: str, remedy: str) -> Iterator[None]:
    """Turn one of `DAMAGE` into a `UserError` that says which file is not of a kind, why, and what
    to do.
    """
    try:
        yield
    except DAMAGE as error:
        raise UserError(f"{file} is not {kind} ({describe_damage(error)}); {remedy}") from None


def check_plan(content: Any, keys: tuple[str, ...], entry_keys: tuple[str, ...]) -> Plan:
    """Validate a plan.

    Args:
        content: parsed JSON.
        keys: strings that the plan must have.
        entry_keys: strings that each run must have besides id, method and setting.

    Raises:
        One of `DAMAGE`; see `report_damage`.
    """
    ids: set[str] = set()
    for run in content["runs"]:
        texts = [run[name] for name in ("id", "method", "setting")]
        lists = [run.get(name) or [] for name in ("tasks", "analyses")]
        if not all(
            isinstance(text, str) for text in (*texts, *(text for names in lists for text in names))
        ):
            raise ValueError("the names of a run must be strings")
        if type(run["seed"]) not in (int, type(None)) or not isinstance(
            run.get("recipe_changes") or {}, dict
        ):
            raise ValueError("a run has another form")
        if not all(isinstance(run[name], str) for name in entry_keys):
            raise ValueError(f"{' and '.join(entry_keys)} of a run must be strings")
        if run["id"] in ids:
            raise ValueError(f"the run '{run['id']}' is in it twice")
        if set(run["id"]) & {"/", "\0"} or run["id"] in ("", ".", ".."):
            raise ValueError(f"'{run['id']}' is not the id of a run")
        ids.add(run["id"])
    if not all(
        isinstance(name, str) for pair in (content.get("stand_ins") or {}).items() for name in pair
    ):
        raise ValueError("stand_ins must map strings to strings")
    if not all(isinstance(content[key], str) for key in keys):
        raise ValueError(f"{' and '.join(keys)} must be strings")
    return content


def read_plan(path: Path) -> Plan:
    """Read the `plan.json` of a suite.

    Raises:
        UserError: the file is missing or is not a plan.
    """
    content = read_json(path)
    with report_damage(
        path, "a plan", f"write it again with: python -m bench plan --config FILE --out {path}"
    ):
        return check_plan(content, ("suite", "data"), ("label", "backbone"))


def read_analyses(path: Path) -> dict[str, Any]:
    """Results of `bench.stages.analyse` by name; empty if the file does not exist.

    Raises:
        UserError: the file has another form.
    """
    if not path.is_file():
        return {}
    content = read_json(path)
    analyses = content.get("analyses") if isinstance(content, dict) else None
    if not isinstance(analyses, dict) or not all(
        isinstance(result, dict) for result in analyses.values()
    ):
        raise no_analyses(path, "it has no results by name")
    return analyses


def no_analyses(path: Path, why: str) -> UserError:
    """The error for a file of analyses that has another form."""
    return UserError(f"{path} does not hold analyses ({why}); move it away and analyse again")


def read_trained(path: Path) -> Trained:
    """Read what a training left.

    Raises:
        UserError: the file is missing or has another form.
    """
    content = read_json(path)
    with report_damage(path, "the outcome of a training", "move it away and train again"):
        check_outcome(content["outcome"])
        return content


def check_outcome(outcome: Mapping[str, Any]) -> None:
    """Raise one of `DAMAGE` if an outcome has another form than `Outcome`."""
    if outcome["status"] not in STATUSES:
        raise ValueError(f"a training cannot end as '{outcome['status']}'")
    for point in outcome.get("curve") or []:
        if not isinstance(point["step"], int) or not all(
            isinstance(x, int | float | None) for x in point.values()
        ):
            raise ValueError("its training curve holds more than numbers")
