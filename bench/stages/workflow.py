"""Start the workflow of this project for a configuration, and divide a suite into its jobs."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from bench.runs.config import SNAKEFILE
from bench.runs.paths import result_file
from bench.runs.plan import Plan
from bench.runs.run import Run
from bench.utils.files import slug
from bench.utils.interrupts import Stopped, defer_signals


def run_workflow(config: Path, options: Iterable[str]) -> int:
    """Let Snakemake run a configuration in the working folder, with options and targets; its exit
    status. A signal does not end this process before Snakemake, which would go on alone; `Stopped`
    if Snakemake was killed."""
    words = ["--snakefile", str(SNAKEFILE), *options, "--configfile", str(config)]
    process = None
    try:
        # A signal that comes while the process starts is raised after that: no process is lost.
        with defer_signals():
            # The working folder may have other folders with the names `bench` and `methods`.
            process = subprocess.Popen(
                [sys.executable, "-m", "snakemake", *words],
                env=os.environ | {"PYTHONSAFEPATH": "1"},
            )
        status = process.wait()
    except BaseException as stop:
        if process:
            # A terminal sends an interrupt to Snakemake, too, which lets its jobs save their state.
            if not isinstance(stop, KeyboardInterrupt):
                process.terminate()
            if process.wait() == 0:  # its last job had ended
                return 0
        raise
    if status < 0:
        jobs = "its jobs go on without Snakemake; wait until pgrep -af 'bench job' shows none"
        raise Stopped(signal.Signals(-status).name, jobs)
    return status


@dataclass(frozen=True)
class Jobs:
    """The jobs of a workflow: the runs of each, the files that it reads, and what it does.

    Args:
        folder: results of the suite, as the workflow names it.
        older: for each result that is older than its inputs, whether it was made from them; the
            second result of `bench.stages.inputs.compare`.
    """

    plan: Plan[Run]
    runs_per_job: int
    folder: Path
    older: Mapping[str, bool]

    @cached_property
    def runs(self) -> dict[str, Run]:
        return {run.id: run for run in self.plan.runs}

    @cached_property
    def _order(self) -> list[str]:
        """The ids in the order in which jobs of one run start: by seed."""
        return [run.id for run in self.plan.chosen()]

    def with_stage(self, stage: str, ids: Iterable[str]) -> list[str]:
        """The runs with a stage, out of the runs with these ids."""
        return [run for run in ids if stage in self.runs[run].stages]

    def rules(self, stage: str) -> dict[str, list[str]]:
        """The runs of each job by the name of its rule; with one run a job, one rule for all."""
        size = self.runs_per_job
        if size == 1:
            return {stage: ["{run}"]}
        rules = {}
        for number, start in enumerate(range(0, len(self.runs), size)):
            # Cut before the runs without the stage leave: job N of every stage has the same runs.
            ids = self.with_stage(stage, [*self.runs][start : start + size])
            if ids:
                rules[f"{stage}_{number}"] = ids
        return rules

    def inputs(self, stage: str, ids: Sequence[str]) -> dict[str, bool]:
        """The files that a job reads, each with whether the job is done again if it is newer."""
        runs = [self.runs[run] for run in ids]
        # Some analyses read the training corpus, even of encoders that are not trained here.
        corpora = {name for run in runs for name in run.corpora}
        if stage == "analyse":
            corpora |= {run.corpus or self.plan.corpus for run in runs}
        names = {f"corpus-{slug(name)}" for name in corpora}
        names |= {f"backbone-{slug(run.backbone)}" for run in runs if run.backbone != "none"}
        files = [self.folder / "inputs" / f"{name}.json" for name in ("data", *sorted(names))]
        # A job trains its runs in the order of the plan, each after the runs that it needs.
        needs = [need.id for run in runs for need in run.needs.values() if need.id not in ids]
        trainings = needs if stage == "train" else self.with_stage("train", ids)
        files += [result_file(self.folder, run, "train") for run in trainings]
        # The times of a copied suite say nothing, so `older` decides. A change of a training's
        # inputs changes the id of its run.
        older = [self.older.get(str(result_file(self.folder, run, stage))) for run in ids]
        repeats = stage != "train" and (True not in older or False in older)
        inputs = {str(file): repeats for file in files}
        if stage == "analyse":
            # Later, since two processes never work on one run. Other scores change no analysis.
            inputs |= {str(result_file(self.folder, run, "score")): False for run in ids}
        return inputs

    def content(self, stage: str, ids: Sequence[str]) -> str:
        """The work of a job that the ids of its runs do not determine. If it changes, the job is
        done again. It is a text, since Snakemake compares no nested parameters."""
        field = {"train": "", "score": "tasks", "analyse": "analyses"}[stage]
        work = {run: getattr(self.runs[run], field) for run in ids if field}
        return json.dumps([self.plan.mode if stage == "score" else "", work])

    def priority(self, stage: str, ids: Sequence[str]) -> int:
        """The job with the largest starts first."""
        if self.runs_per_job == 1:
            # By seed, and a run is scored before the next one is trained: each row can be read
            # early, with its first seeds.
            return 2 * (len(self.runs) - self._order.index(ids[0])) + (stage != "train")
        # Jobs of several runs are long: trainings first, in the order of the configuration, so that
        # none is left to the end while other cores are idle.
        level = 1 + (stage == "train")
        return level * len(self.runs) - list(self.runs).index(ids[0])

    def threads(self, stage: str, ids: Sequence[str]) -> int:
        return max(self.runs[run].recipe.threads for run in ids) if stage == "train" else 1
