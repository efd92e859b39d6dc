"""The runs of a suite's folder as far as they are there: planned, trained, scored; with or without a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.results.records import Record, read_scores
from bench.results.suite_results import DAMAGE, fault, read_plan
from bench.runs import paths
from bench.utils.errors import UserError, did_you_mean
from bench.utils.files import read_json


@dataclass(frozen=True)
class Exported:
    """A run of a suite.

    Attributes:
        told: the run as plans and provenances hold it.
        status: "finished", "diverged", "skipped", or "missing" where nothing is there yet.
        provenance: of its scores, else of its training; empty where there is neither.
        scored: its file of scores, or None.
    """

    told: Mapping[str, Any]
    status: str
    provenance: Mapping[str, Any] = field(default_factory=dict)
    records: Sequence[Record] = ()
    scored: Path | None = None

    @property
    def id(self) -> str:
        return str(self.told["id"])

    @property
    def outcome(self) -> Mapping[str, Any]:
        """How its training ended."""
        found: Mapping[str, Any] = self.provenance.get("outcome") or {}
        return found

    @property
    def title(self) -> str:
        """For people: method, backbone and seed."""
        seed = "" if self.told["seed"] is None else f", seed {self.told['seed']}"
        return f"{self.told.get('label') or self.told['method']} on {self.told['backbone']}{seed}"


def read_runs(suite: Path, only: Sequence[str] = ()) -> list[Exported]:
    """The runs of a suite, planned ones first, or those that are named.

    Raises:
        UserError: there is none, or none of a name; or a file is damaged.
    """
    plan = suite / "plan.json"
    planned = {entry["id"]: entry for entry in read_plan(plan)["runs"]} if plan.is_file() else {}
    scored = sorted(path.stem for path in (suite / "scores").glob("*.json"))
    trained = sorted(path.parent.name for path in (suite / "runs").glob("*/outcome.json"))
    known = list(dict.fromkeys([*planned, *scored, *trained]))
    if not known:
        raise UserError(f"{suite} holds no runs; name a suite's folder, results/<suite>")
    for name in only:
        if name not in known:
            raise UserError(f"{suite} has no run '{name}'{did_you_mean(name, known)}")
    return [_read(suite, name, planned.get(name)) for name in dict.fromkeys(only or known)]


def _read(suite: Path, name: str, planned: Mapping[str, Any] | None) -> Exported:
    scores, outcome = paths.scores_file(suite, name), paths.run_folder(suite, name) / "outcome.json"
    path = scores if scores.is_file() else outcome
    try:
        if scores.is_file():
            provenance, records = read_scores(scores)
            run = Exported(provenance["run"], provenance["outcome"]["status"], provenance, records, scores)
        elif outcome.is_file():
            left = read_json(outcome)
            run = Exported(left["run"], left["outcome"]["status"], left["provenance"] | {"outcome": left["outcome"]})
        else:
            path = suite / "plan.json"
            run = Exported(planned or {}, "missing")
        if run.id != name or not {"method", "backbone", "seed", "trained"} <= run.told.keys():
            raise ValueError(f"it is of the run {run.id}")
    except DAMAGE as error:
        raise UserError(f"{path} is damaged ({fault(error)}); move it away and make it again") from None
    return run
