"""Typed and validated readers of the JSON files of a suite: its plan, trainings and analyses.

Scores are read by `bench.results.records`. Each file is validated once, when it is read; the code
that uses it relies on the types here.
"""

from __future__ import annotations

import json
import typing
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache, partial
from pathlib import Path
from types import UnionType
from typing import Any, Literal, NotRequired, TypedDict, Union

from bench.datasets.tasks import expand_tasks
from bench.utils.errors import UserError, errors_of
from bench.utils.files import read_json

# What code raises that reads a file whose form differs from what the suite writes.
DAMAGE = (KeyError, TypeError, ValueError, AttributeError, IndexError)


class PlanEntry(TypedDict):
    """A run of a plan, see `bench.runs.config.Planned.describe`."""

    id: str
    method: str
    setting: str
    seed: int | None
    recipe_changes: NotRequired[dict[str, Any] | None]
    overridden: NotRequired[dict[str, Any]]
    tasks: NotRequired[list[str] | None]
    analyses: NotRequired[list[str] | None]
    label: NotRequired[str]
    backbone: NotRequired[str]
    reference: NotRequired[str]
    corpus: NotRequired[str | None]
    own_corpus: NotRequired[bool]
    identity: NotRequired[dict[str, Any]]
    needs: NotRequired[dict[str, str]]


class Plan(TypedDict):
    """The content of plan.json (`bench.runs.config.plan`), or the part of it that a job does."""

    runs: list[PlanEntry]
    data: str
    suite: NotRequired[str]
    corpus: NotRequired[str]
    mode: NotRequired[str]
    stand_ins: NotRequired[dict[str, str] | None]
    grown: NotRequired[bool]
    baseline: NotRequired[str]


class CurvePoint(TypedDict):
    """A selection during a training."""

    step: int
    loss: NotRequired[float | None]
    dev: NotRequired[float | None]
    alignment: NotRequired[float | None]
    uniformity: NotRequired[float | None]


class Outcome(TypedDict):
    """How a training ended, see `bench.training.loop.train`."""

    status: Literal["finished", "diverged", "skipped"]
    reason: NotRequired[str | None]
    steps: NotRequired[int]
    best_step: NotRequired[int | None]
    curve: NotRequired[list[CurvePoint] | None]


class Trained(TypedDict):
    """The content of trained/RUN.json: how a training ended, and where."""

    outcome: Outcome
    run: NotRequired[dict[str, Any]]
    provenance: NotRequired[dict[str, Any]]


class Corpus(TypedDict):
    """A corpus that was read."""

    name: str
    sha256: str


class Provenance(TypedDict):
    """The parts of a result's provenance that are looked into: what it read (sums of tasks by
    split, and corpora), what computed it, and the mode of its classifiers."""

    tasks: NotRequired[dict[str, dict[str, str]]]
    corpora: NotRequired[list[Corpus]]
    code: NotRequired[dict[str, Any]]
    device: NotRequired[dict[str, Any]]
    versions: NotRequired[dict[str, Any]]
    mode: NotRequired[str]


_hints = cache(partial(typing.get_type_hints, include_extras=True))


def check_form(value: Any, form: Any, name: str = "a part of it") -> None:
    """Check that a JSON value has the form of a type: a TypedDict, a union with None, a list, ...

    A dict of types by key stands for a TypedDict. Both may have further keys.

    Raises:
        KeyError: a key is missing.
        ValueError: a part has another form; the message names it.
    """
    kind, parts = typing.get_origin(form) or form, typing.get_args(form)
    keys = _hints(form) if typing.is_typeddict(form) else form if isinstance(form, dict) else {}
    if kind in (Union, UnionType):
        if value is not None:
            check_form(value, parts[0], name)
        return
    if kind is Literal:
        fits = value in parts
    elif keys:
        fits = isinstance(value, dict)
    else:
        fits = kind is Any or type(value) in ((int, float) if kind is float else (kind,))
    if not fits:
        shown = f"is {value!r}" if isinstance(value, str | int | float) else "has another form"
        raise ValueError(f"{name} {shown}")
    if kind is list and parts:
        for item in value:
            check_form(item, parts[0], name)
    elif kind is dict and parts:
        for key, item in value.items():
            check_form(item, parts[1], f"'{key}'")
    for key, part in keys.items():
        optional = typing.get_origin(part) is NotRequired
        if key in value or not optional:
            check_form(value[key], typing.get_args(part)[0] if optional else part, f"'{key}'")


def describe_damage(error: Exception) -> str:
    """What one of `DAMAGE` says about a file, as a clause."""
    if isinstance(error, KeyError):
        return f"it lacks '{error.args[0]}'"
    return str(error) if isinstance(error, ValueError) else "a part of it has another form"


@contextmanager
def report_damage(file: Path | str, kind: str, remedy: str) -> Iterator[None]:
    """Turn one of `DAMAGE` into a `UserError` that names the file, the damage and the remedy."""
    try:
        yield
    except DAMAGE as error:
        raise UserError(f"{file} is not {kind} ({describe_damage(error)}); {remedy}") from None


def check_plan(content: Any, keys: tuple[str, ...], entry_keys: tuple[str, ...]) -> Plan:
    """Validate a plan.

    Args:
        content: parsed JSON.
        keys: optional keys of `Plan` that are needed.
        entry_keys: optional keys of `PlanEntry` that are needed.

    Raises:
        One of `DAMAGE`; see `report_damage`.
    """
    check_form(content, Plan)
    parts = [(content, keys), *((run, entry_keys) for run in content["runs"])]
    if missing := [key for part, needed in parts for key in needed if key not in part]:
        raise KeyError(missing[0])
    for name, count in Counter(run["id"] for run in content["runs"]).items():
        if set(name) & {"/", "\0"} or name in ("", ".", ".."):
            raise ValueError(f"'{name}' is not the id of a run")
        if count > 1:
            raise ValueError(f"the run '{name}' is in it twice")
    return content


def _check_seeds(runs: list[PlanEntry]) -> None:
    """Check that no experiment has a seed twice: it would count once or twice by where one looks.

    Raises:
        ValueError: one has.
    """
    known: dict[str, str] = {}
    for run in runs:
        recipe = run.get("recipe_changes") or {}
        experiment = [run["method"], run["setting"], run.get("backbone"), run.get("corpus"), recipe]
        name = json.dumps([*experiment, run["seed"]], sort_keys=True)
        if (other := known.setdefault(name, run["id"])) != run["id"]:
            raise ValueError(
                f"'{other}' and '{run['id']}' are one experiment with one seed, {run['seed']}"
            )


def read_plan(path: Path) -> Plan:
    """Read the `plan.json` of a suite.

    Raises:
        UserError: the file is missing or is not a plan.
    """
    remedy = f"write it again with: python -m bench plan --config FILE --out {path}"
    if not path.exists():
        raise UserError(
            f"{path} does not exist; name another folder, or run the suite with: "
            "snakemake --cores N --configfile FILE.yaml"
        )
    content = read_json(path)
    with report_damage(path, "a plan", remedy):
        plan = check_plan(content, ("suite",), ("label", "backbone"))
        _check_seeds(plan["runs"])
    with errors_of(str(path)):
        expand_tasks([task for run in plan["runs"] for task in run.get("tasks") or ()])
    return plan


def analyses_damage(path: Path) -> AbstractContextManager[None]:
    """`report_damage` of a file of analyses."""
    return report_damage(path, "a file of analyses", "move it away and analyse again")


def read_analyses(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Results of `bench.stages.analyse` by name, and their provenance; empty if the file does not
    exist.

    Raises:
        UserError: the file has another form.
    """
    if not path.exists():
        return {}, {}
    content = read_json(path)
    with analyses_damage(path):
        check_form(
            content, {"analyses": dict[str, dict[str, Any]], "provenance": NotRequired[Provenance]}
        )
        return content["analyses"], content.get("provenance", {})


def read_trained(path: Path) -> Trained:
    """Read what a training left.

    Raises:
        UserError: the file is missing or has another form.
    """
    content = read_json(path)
    with report_damage(path, "the outcome of a training", "move it away and train again"):
        check_form(content, Trained)
        return content
