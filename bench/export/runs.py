"""The runs in a suite's folder: planned, trained or scored, with or without a plan."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.results.readers import read_trained
from bench.results.records import Record, read_scores
from bench.runs.plan import read_plan
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
    def label(self) -> str:
        return str(self.description.get("label") or self.description["method"])

    def part(self, name: str) -> Mapping[str, Any]:
        """A part of the provenance, such as "code" or "outcome"; empty of a run that is missing."""
        part: Mapping[str, Any] = self.provenance.get(name) or {}
        return part


def read_runs(suite_dir: Path, only: Sequence[str] = ()) -> list[ExportedRun]:
    """The runs of a suite, planned ones first; `only` names some by their ids.

    Raises:
        UserError: there are no runs, an id is unknown, or a file is damaged.
    """
    plan = suite_dir / "plan.json"
    entries = read_plan(plan).runs if plan.is_file() else []
    runs = {entry.id: ExportedRun(entry.describe(), "missing") for entry in entries}
    for path in sorted((suite_dir / "runs").glob("*/outcome.json")):
        content = read_trained(path)
        provenance = content["provenance"] | {"outcome": content["outcome"]}
        status = content["outcome"]["status"]
        runs[path.parent.name] = ExportedRun(content["run"], status, provenance)
    for path in sorted((suite_dir / "scores").glob("*.json")):
        provenance, records = read_scores(path)
        status = provenance["outcome"]["status"]
        runs[path.stem] = ExportedRun(provenance["run"], status, provenance, records)
    if not runs:
        raise UserError(f"{suite_dir} has no runs; pass the folder of a suite, results/<suite>")
    for name in only:
        if name not in runs:
            raise UserError(f"{suite_dir} has no run '{name}'{did_you_mean(name, runs)}")
    return [runs[name] for name in dict.fromkeys(only or runs)]
