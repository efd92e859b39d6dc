"""How far a suite is: its runs that are done, running, failed or left.

Only files are read, and no workflow takes part, so it works while one runs.
"""

import json
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from bench.results.suite_results import read_run
from bench.runs import paths
from bench.runs.run import Run, read_runs
from bench.stages.activity import Failure, last_failure, stage_at_work
from bench.stages.cost import Measured, rough, steps
from bench.utils.errors import UserError

ERROR = "error: "  # how the last line of a log begins if its job failed


@dataclass
class OpenRun:
    """A run that is not done."""

    id: str
    state: str  # "running", "failed" or "left"
    stage: str  # the stage at work, the failed stage, or the next one
    step: int | None = None  # optimiser steps of its training so far
    failure: Failure | None = None  # of the last attempt, if it failed
    log: str = ""  # messages of its job; empty without a workflow


@dataclass
class SuiteStatus:
    """How far a suite is."""

    suite: str
    # Number of finished runs by how they ended: "finished", "diverged", "skipped".
    done: Counter[str] = field(default_factory=Counter)
    open: list[OpenRun] = field(default_factory=list)  # the other runs, in the order of the plan
    # Errors of other steps of the workflow (inputs, tables) by their logs.
    steps: dict[str, str] = field(default_factory=dict)
    device: str = ""  # on which the suite was scored; empty before that
    # Hours on the device of the open trainings and scorings that are like measured ones.
    hours: float = 0.0
    unknown: int = 0  # number of open trainings and scorings that are like no measured one
    estimate: str = ""  # the order of magnitude of the hours of the unknown ones


def status(suite: Path) -> SuiteStatus:
    """Read how far a suite is; `UserError` if it has no plan, or a damaged one."""
    plan = read_runs(suite / "plan.json")
    state = SuiteStatus(plan.suite)
    devices: Counter[str] = Counter()
    work: list[tuple[Run, str, int | None]] = []  # runs, each with a stage that is left, and steps
    for run in plan.runs:
        stages = stages_left(suite, run)
        if stages:
            open_run = _open_run(suite, run.id, stages[0])
            state.open.append(open_run)
            if not run.skip:
                work += [(run, stage, open_run.step) for stage in stages if stage != "analyse"]
            continue
        try:
            results = read_run(run, suite, plan.mode)
        except UserError as damage:
            # A damaged file of scores is shown like a failure: the other runs have to be listed all
            # the same.
            failure = Failure("score", str(damage), final=True)
            state.open.append(OpenRun(run.id, "failed", "score", failure=failure))
            continue
        state.done[results.status] += 1
        devices[results.provenance.device.name] += 1
    for log in sorted((suite / "logs").glob("*.log")):
        error = _error(log)
        if error:
            state.steps[str(log)] = error
    if devices:
        state.device = devices.most_common(1)[0][0]
    with suppress(UserError):  # a corpus that is not downloaded
        _predict(state, work, Measured(suite.parent, state.device))
    return state


def _predict(
    state: SuiteStatus, work: Iterable[tuple[Run, str, int | None]], measured: Measured
) -> None:
    """Write the hours that work takes into a status; `UserError` if a corpus is not here."""
    hours, unmeasured = 0.0, []
    for run, stage, step in work:
        part = 1.0
        if stage == "train" and step:  # early stopping is not foreseen
            part = max(0.0, 1 - step / steps(run))
        expected = measured.seconds(run, stage)
        hours += part * expected / 3600
        if not expected:
            unmeasured.append((run, stage))
    state.hours, state.unknown, state.estimate = hours, len(unmeasured), rough(unmeasured)


def stages_left(suite: Path, run: Run) -> list[str]:
    """The stages of a planned run without a result."""
    stages = [
        stage for stage in run.stages if not paths.result_file(suite, run.id, stage).is_file()
    ]
    # A training whose results are there is not repeated, although its own file may be gone.
    return stages if stages != ["train"] else []


def _open_run(suite: Path, run_id: str, stage: str) -> OpenRun:
    """The state of a run whose next stage is `stage`."""
    current = stage_at_work(suite, run_id)
    file = suite / "logs" / (current or stage) / f"{run_id}.log"
    failure = None if current else last_failure(suite, run_id)
    if not current and (failure is None or failure.stage != stage):
        # A job may fail before it reaches a run.
        error = _error(file)
        failure = Failure(stage, error) if error else None
    return OpenRun(
        run_id,
        "running" if current else "failed" if failure else "left",
        current or stage,
        step=_last_step(suite, run_id) if stage == "train" else None,
        failure=failure,
        log=str(file) if file.is_file() else "",
    )


def _lines(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    return [line for line in text.splitlines() if line.strip()]


def _last_step(suite: Path, run_id: str) -> int | None:
    for line in reversed(_lines(paths.run_folder(suite, run_id) / "log.jsonl")):
        with suppress(ValueError):  # the line is being written
            return int(json.loads(line)["step"])
    return None


def _error(log: Path) -> str:
    """The error with which a job ended; empty if it did not end with one."""
    lines = _lines(log)
    crashed = any(line.startswith("Traceback ") for line in lines)
    if lines and (crashed or lines[-1].startswith(ERROR)):
        return lines[-1].removeprefix(ERROR)
    return ""
