"""The JSON files of a suite: their models, and readers that validate a file once.

The readers return the parsed JSON as it is; the code that uses it relies on the models here.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, Field, ValidationError, model_validator

from bench.utils.errors import UserError
from bench.utils.files import read_json
from bench.utils.validation import Document, explain

Content = dict[str, Any]
# A run of a plan (`PlannedRun`), and a plan or the part of it that a job does, as parsed.
PlanEntry = Content
Plan = Content


class _Written(Document):
    model_config = ConfigDict(strict=True)


class PlannedRun(_Written):
    """A run of a plan, see `bench.runs.config.Planned.describe`."""

    id: str = Field(pattern=r"^[\w+-][\w.+-]*$")  # files are named after it
    method: str
    setting: str
    label: str
    backbone: str
    seed: int | None
    corpus: str | None = None
    recipe_changes: dict[str, Any] | None = None
    tasks: list[str] | None = None
    analyses: list[str] | None = None
    identity: dict[str, Any] = {}


class SuitePlan(_Written):
    """The content of plan.json (`bench.runs.config.plan`)."""

    suite: str
    data: str
    corpus: str | None = None
    mode: Literal["test", "dev"] = "test"
    stand_ins: dict[str, str] | None = None
    grown: bool = False
    baseline: str = ""
    runs: list[PlannedRun]

    @model_validator(mode="after")
    def _distinct_runs(self) -> SuitePlan:
        """A run or seed that is planned twice would count once or twice by where one looks."""
        known: dict[str, str] = {}
        for run in self.runs:
            # Identities are not compared: two versions of a method are one experiment in tables.
            experiment = (run.method, run.setting, run.backbone, run.corpus, run.recipe_changes)
            key = json.dumps([*experiment, run.seed], sort_keys=True)
            if key in known:
                raise ValueError(
                    f"'{known[key]}' and '{run.id}' are one experiment with one seed, {run.seed}"
                )
            known[key] = run.id
        return self


class Outcome(_Written):
    """How a training ended, see `bench.training.loop.train`."""

    status: Literal["finished", "diverged", "skipped"]
    reason: str | None = None
    best_step: int | None = None
    curve: list[dict[str, float | None]] | None = None  # a point a selection


class Trained(_Written):
    """The content of trained/RUN.json."""

    outcome: Outcome
    run: dict[str, Any] = {}
    provenance: dict[str, Any] = {}


class Provenance(_Written):
    """What a result was computed from. Only that of a suite has a run and an outcome."""

    run: dict[str, Any] = {}
    outcome: Outcome = Outcome(status="finished")
    data: dict[str, Any] = {}  # name and sums of the files
    mode: Literal["test", "dev"] = "test"
    tasks: dict[str, dict[str, str]] = {}  # sums by task and split
    corpora: list[dict[str, Any]] = []  # name and sum


class Score(_Written):
    """A record of a file of scores."""

    task: str
    split: str
    metric: str
    aggregation: str
    value: float = Field(ge=-100, le=100)  # points


class Scores(_Written):
    """The content of scores/RUN.json, and of what `evaluate` writes."""

    provenance: Provenance
    records: list[Score]


class Analyses(_Written):
    """The content of analyses/RUN.json: results of `bench.stages.analyse` by name."""

    analyses: dict[str, dict[str, Any]]
    provenance: Provenance = Provenance()


def read(path: Path, model: type[Document], noun: str, remedy: str) -> Content:
    """Read a JSON file.

    Args:
        path: the file.
        model: what it must fit.
        noun: what the file should be, for the message.
        remedy: what to do if it is not.

    Raises:
        UserError: the file is missing or does not fit; the message names the field.
    """
    content: Content = read_json(path)
    try:
        model.model_validate(content)
    except ValidationError as error:
        raise UserError(f"{path} is not {noun} ({explain(error)}); {remedy}") from None
    return content


def read_plan(path: Path) -> Plan:
    """Read the `plan.json` of a suite, a `SuitePlan`."""
    if not path.exists():
        raise UserError(
            f"{path} does not exist; name another folder, or run the suite with: "
            "snakemake --cores N --configfile FILE.yaml"
        )
    remedy = f"write it again with: python -m bench plan --config FILE --out {path}"
    return read(path, SuitePlan, "a plan", remedy)


def read_analyses(path: Path) -> tuple[Content, Content]:
    """The results of a file of `Analyses` and their provenance; empty if it does not exist."""
    if not path.exists():
        return {}, {}
    content = read(path, Analyses, "a file of analyses", "move it away and analyse again")
    return content["analyses"], content.get("provenance", {})


def read_trained(path: Path) -> Content:
    """Read what a training left, `Trained`."""
    return read(path, Trained, "the outcome of a training", "move it away and train again")
