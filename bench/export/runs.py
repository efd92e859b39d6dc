"""The runs in a suite's folder: planned, trained or scored, with or without a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.results.readers import read_plan, read_trained
from bench.results.records import Record, read_scores
from bench.runs import paths
from bench.utils.errors import UserError, did_you_mean


@dataclass(frozen=True)
class ExportedRun:
    """A run of a suite.

    Attributes:
        description: the run as in plans and provenances.
        status: "finished", "diverged", "skipped", or "missing" if nothing has run.
        provenance: of its scores, else of its training; empty if there is neither.
        records: its scores.
    """

    description: Mapping[str, Any]
    status: str
    provenance: Mapping[str, Any] = field(default_factory=dict)
    records: Sequence[Record] = ()

    @property
    def id(self) -> str:
        return str(self.description["id"])

    @property
    def outcome(self) -> Mapping[str, Any]:
        """How the training ended; empty if unknown."""
        outcome: Mapping[str, Any] = self.provenance.get("outcome") or {}
        return outcome

    @property
    def title(self) -> str:
        """Method, backbone and seed, as text for readers."""
        seed = "" if self.description["seed"] is None else f", seed {self.description['seed']}"
        method = self.description.get("label") or self.description["method"]
        return f"{method} on {self.description['backbone']}{seed}"


def read_runs(suite_dir: Path, only: Sequence[str] = ()) -> list[ExportedRun]:
    """The runs of a suite, planned ones first; `only` names some by their ids.

    Raises:
        UserError: there are no runs, an id is unknown, or a file is damaged.
    """
    plan = suite_dir / "plan.json"
    planned = {entry["id"]: entry for entry in read_plan(plan)["runs"]} if plan.is_file() else {}
    scored = sorted(path.stem for path in (suite_dir / "scores").glob("*.json"))
    trained = sorted(path.parent.name for path in (suite_dir / "runs").glob("*/outcome.json"))
    ids = list(dict.fromkeys([*planned, *scored, *trained]))
    if not ids:
        raise UserError(f"{suite_dir} has no runs; pass the folder of a suite, results/<suite>")
    for name in only:
        if name not in ids:
            raise UserError(f"{suite_dir} has no run '{name}'{did_you_mean(name, ids)}")
    return [_read(suite_dir, name, planned.get(name)) for name in dict.fromkeys(only or ids)]


def _read(suite_dir: Path, name: str, planned: Mapping[str, Any] | None) -> ExportedRun:
    scores = paths.scores_file(suite_dir, name)
    outcome = paths.run_folder(suite_dir, name) / "outcome.json"
    path = scores if scores.exists() else outcome
    records: Sequence[Record] = ()
    provenance: Mapping[str, Any] = {}
    description: Mapping[str, Any] = planned or {}
    if scores.exists():
        provenance, records = read_scores(scores)
        description = provenance.get("run", {})
    elif outcome.is_file():
        content = read_trained(outcome)
        provenance = content["provenance"] | {"outcome": content["outcome"]}
        description = content["run"]
    if description.get("id") != name:
        raise UserError(f"{path} is not of the run {name}; move it away and create it again")
    status = provenance["outcome"]["status"] if provenance else "missing"
    return ExportedRun(description, status, provenance, records)
