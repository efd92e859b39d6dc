"""What is exported: the runs in a suite's folder, with or without a plan."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.registry.backbones import BUILT_IN, NO_BACKBONE
from bench.results.records import Provenance, Score, Scores, read_scores, read_trained
from bench.results.suite_results import deviations
from bench.runs.plan import read_plan
from bench.runs.run import PlannedRun
from bench.utils.errors import UserError, did_you_mean, warn
from bench.utils.files import atomic_folder


@dataclass(frozen=True)
class ExportedRun:
    """A run of a suite, and its scores."""

    run: PlannedRun
    status: str  # "finished", "diverged", "skipped", or "missing" if nothing was computed
    # Of its scores, else its training; empty if it is missing.
    provenance: Provenance = field(default_factory=Provenance)
    records: Sequence[Score] = ()

    @property
    def hub_id(self) -> str:
        """The name of the backbone on the hub; empty if it is not from there."""
        known = BUILT_IN.get(self.run.backbone, NO_BACKBONE)
        identified = self.run.identity.get("backbone", "")
        location = known.location if known.source == "hub" else identified
        return location.partition("@")[0] if "/" in location else ""

    @property
    def deviations(self) -> list[str]:
        """Why the scores cannot be compared with a paper's, as clauses; empty if they can."""
        data = self.provenance.data.name
        is_printed = self.run.backbone in BUILT_IN and self.hub_id
        return [
            *([] if is_printed else [f"on the backbone {self.run.backbone}"]),
            *deviations([self.run]),
            *([] if data == "senteval" else [f"scored on {data}"]),
        ]


def read_runs(suite_dir: Path, only: Sequence[str] = ()) -> list[ExportedRun]:
    """The runs of a suite, planned ones first; `only` names some by their ids. Damaged scores are
    left out with a note on stderr."""
    plan = suite_dir / "plan.json"
    planned = {run.id: run for run in read_plan(plan).runs} if plan.is_file() else {}
    results: dict[str, Scores] = {}
    for path in sorted((suite_dir / "runs").glob("*/outcome.json")):
        ended = read_trained(path)
        origin = ended.provenance.model_copy(update={"run": ended.run, "outcome": ended.outcome})
        results[path.parent.name] = Scores(provenance=origin, records=[])
    for path in sorted((suite_dir / "scores").glob("*.json")):
        try:
            results[path.stem] = read_scores(path)
        except UserError as error:
            warn(f"note: {error}")
    runs = {name: ExportedRun(run, "missing") for name, run in planned.items()}
    for name, read in results.items():
        origin = read.provenance
        run = planned.get(name) or PlannedRun.model_validate(origin.run.as_written())
        runs[name] = ExportedRun(run, origin.outcome.status, origin, read.records)
    if not runs:
        raise UserError(f"{suite_dir} has no runs; pass the folder of a suite, results/<suite>")
    for name in only:
        if name not in runs:
            raise UserError(f"{suite_dir} has no run '{name}'{did_you_mean(name, runs)}")
    return [runs[name] for name in dict.fromkeys(only or runs)]


def export(suite_dir: Path, form: str, out: Path, only: Sequence[str] = ()) -> list[str]:
    """Write results of a suite to the folder `out`, whole or not at all; an earlier export there is
    replaced.

    Args:
        form: one of `EXPORT_FORMATS`.
        only: ids of runs; empty takes all that can be exported.

    Returns one sentence on each run that was left out. `UserError`: a named run or no run can be
    exported, or `out` holds other files.
    """
    from bench.export import folders, scores

    runs = read_runs(suite_dir, only)
    remarks: list[str] = []
    with atomic_folder(out, keep_others=True) as folder:
        if form == "table":
            scores.write_tables(suite_dir, runs, folder)
            return []
        write = scores.write_mteb if form == "mteb" else folders.write
        for exported in runs:
            try:
                write(suite_dir, exported, folder)
            except Exception as error:  # of a library, too: the others are exported
                if only:
                    raise
                remarks.append(
                    str(error) if isinstance(error, UserError) else f"{exported.run.id}: {error!r}"
                )
                shutil.rmtree(folder / exported.run.id, ignore_errors=True)
        if len(remarks) == len(runs):
            raise UserError(f"{suite_dir} has nothing to export; its first run: {remarks[0]}")
    return remarks
