"""The results of a suite: its plan, and the scores and analyses of every planned run, validated."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from bench.datasets.metrics import METRICS, SHARE, quantities
from bench.datasets.tasks import averages
from bench.results.records import (
    AGAIN,
    FAILURE,
    ScoreDocument,
    read_analyses,
    read_items,
    read_scores,
)
from bench.results.system import FAILED, RunResults, System
from bench.runs.plan import Plan, PlannedRun, deviations, plan_command, read_plan
from bench.utils.errors import UserError
from bench.utils.groups import grouped


@dataclass(frozen=True, eq=False)
class SuiteResults:
    """A plan, and the results of its runs in their order."""

    plan: Plan
    runs: Sequence[RunResults]

    def __post_init__(self) -> None:
        """Check that all scores and analyses read the same sentences and labels of a task, and the
        same text of a corpus."""
        sums: dict[str, tuple[str, str]] = {}  # by input, each with the first result that read it
        for result in self.runs:
            for noun, provenance in (("scores", result.provenance), ("analyses", result.analysed)):
                name = f"the {noun} of {result.run.id} ({provenance.date})"
                for part, digest in provenance.sums(result.run.corpus):
                    first_digest, earlier = sums.setdefault(part, (digest, name))
                    if first_digest != digest:
                        raise UserError(
                            f"{earlier} and {name} in suite {self.plan.suite} are of different "
                            f"data ({part} has the checksums {first_digest} and {digest}); "
                            "move the older away, and run the suite again"
                        )

    @property
    def backbones(self) -> list[str]:
        """The backbones of its runs, in their order."""
        return list(dict.fromkeys(result.run.backbone for result in self.runs))

    @cached_property
    def systems(self) -> list[System]:
        """The systems, in the order of their first planned runs."""
        systems = []
        for runs in grouped(self.runs, "run.row"):
            row = runs[0].run.row
            systems.append(System(runs, [run for run in self.plan.dropped if run.row == row]))
        return systems

    def system(self, text: str, *backbones: str) -> System:
        """The system that stands for a method in a setting in all tables, on the first of some
        backbones that has it. Of several corpora or recipes this is the first that is comparable
        with the papers, else the first; without runs if none is planned."""
        for name in backbones:
            systems = [
                candidate
                for candidate in self.systems
                if (candidate.first.text, candidate.first.backbone) == (text, name)
            ]
            if systems:
                # `min` takes the first of several that differ equally, in the order of the plan.
                return min(systems, key=lambda system: bool(deviations([system.first])))
        return System(())

    @cached_property
    def baseline(self) -> str:
        """Method and setting of the plan's baseline; empty without one."""
        name = self.plan.baseline
        # Earlier plans have the text of the configuration, mostly without a setting: `min` then
        # takes the official setting where that is planned.
        texts = {result.run.text for result in self.runs} & {
            name,
            f"{name}@official",
            f"{name}@paper",
        }
        if name and not texts:
            again = plan_command(Path("results", self.plan.suite, "plan.json"))
            raise UserError(
                f"the baseline '{name}' of suite {self.plan.suite} is no run of its plan; write it "
                f"again with: {again}"
            )
        return min(texts, default="")


def read_run(run: PlannedRun, suite_dir: Path, mode: str) -> RunResults:
    """Read the results of a planned run; `mode` is the mode of the plan's classifiers.
    `UserError`: a file is damaged, or holds results of another run or mode."""
    path = suite_dir / "scores" / f"{run.id}.json"
    if not path.exists():
        if (suite_dir / "runs" / run.id / FAILURE).is_file():
            return RunResults(run, reason=FAILED)
        return RunResults(run)
    document = read_scores(path)
    fault = _fault(document, run, mode)
    if fault:
        raise UserError(f"{path} does not fit the plan: {fault}; {AGAIN}")
    scores = {record.cell: record.value for record in document.records}
    analysed = read_analyses(suite_dir / "analyses" / path.name)
    outcome = document.provenance.outcome
    return RunResults(
        run,
        outcome.status,
        outcome.reason or "",
        # Where a file has an average of its own, the recorded value stays.
        averages(scores) | scores | quantities(outcome, analysed.analyses),
        document.provenance,
        analysed.analyses,
        analysed.provenance,
        items=read_items(suite_dir / "items" / f"{run.id}.npz"),
    )


def _fault(scores: ScoreDocument, run: PlannedRun, mode: str) -> str:
    """The reason why scores do not belong to a planned run; empty if they do."""
    scored_run, scored_mode = scores.provenance.run, scores.provenance.mode
    # A file that was copied has the id of another run. If the plan was edited, the id is the same,
    # and another field differs.
    if scored_run.id != run.id:
        return f"it holds the scores of {scored_run.id or 'a model outside the suite'}"
    for name in ("identity", "method", "setting", "backbone", "seed"):
        if getattr(scored_run, name) != getattr(run, name):
            return f"the {name} of its run is another"
    # STS is the same in both modes, so its scores fit either plan.
    if scored_mode != mode and any(
        METRICS[record.metric].kind == SHARE for record in scores.records
    ):
        return f"its classifiers have mode '{scored_mode}', which is '{mode}' in the plan"
    return ""


def read_results(suite_dir: Path) -> SuiteResults:
    """Read the plan of a suite, and the scores and analyses of every planned run; `UserError` if
    there is no plan, or a file is damaged."""
    plan = read_plan(suite_dir / "plan.json")
    return SuiteResults(plan, [read_run(run, suite_dir, plan.mode) for run in plan.runs])
