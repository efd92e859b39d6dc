"""The runs in a suite's folder, with or without a plan, as exports take them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.registry.backbones import BUILT_IN, NO_BACKBONE
from bench.results.records import Provenance, read_scores, read_trained
from bench.runs.plan import read_plan
from bench.runs.run import PlannedRun
from bench.utils.errors import UserError, did_you_mean, warn


@dataclass(frozen=True)
class ExportedRun:
    """A run of a suite."""

    run: PlannedRun
    status: str  # "finished", "diverged", "skipped", or "missing" if nothing was computed
    # Of its scores, else its training; empty if it is missing.
    provenance: Provenance = field(default_factory=Provenance)

    @property
    def hub_id(self) -> str:
        """The name of the backbone on the hub; empty if it is not from there."""
        known = BUILT_IN.get(self.run.backbone, NO_BACKBONE)
        identified = self.run.identity.get("backbone", "")
        location = known.location if known.source == "hub" else identified
        return location.partition("@")[0] if "/" in location else ""


def read_runs(suite_dir: Path, only: Sequence[str] = ()) -> list[ExportedRun]:
    """The runs of a suite, planned ones first; `only` names some by their ids. Damaged scores are
    left out with a note on stderr."""
    plan = suite_dir / "plan.json"
    planned = {run.id: run for run in read_plan(plan).runs} if plan.is_file() else {}
    origins: dict[str, Provenance] = {}
    for path in sorted((suite_dir / "runs").glob("*/outcome.json")):
        ended = read_trained(path)
        of_run = {"run": ended.run, "outcome": ended.outcome}
        origins[path.parent.name] = ended.provenance.model_copy(update=of_run)
    for path in sorted((suite_dir / "scores").glob("*.json")):
        try:
            origins[path.stem] = read_scores(path).provenance
        except UserError as error:
            warn(f"note: {error}")
    runs = {name: ExportedRun(run, "missing") for name, run in planned.items()}
    for name, origin in origins.items():
        run = planned.get(name) or PlannedRun.model_validate(origin.run.as_written())
        runs[name] = ExportedRun(run, origin.outcome.status, origin)
    if not runs:
        raise UserError(f"{suite_dir} has no runs; pass the folder of a suite, results/<suite>")
    for name in only:
        if name not in runs:
            raise UserError(f"{suite_dir} has no run '{name}'{did_you_mean(name, runs)}")
    return [runs[name] for name in dict.fromkeys(only or runs)]
