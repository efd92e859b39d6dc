"""How far a suite is: done, running, failed and left, from its files alone.

Nothing is written and no workflow is asked, so it works while one runs.
"""

import json
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from bench.results.suite_results import read_run
from bench.runs import paths
from bench.runs.plan import read_plan
from bench.runs.run import PlannedRun
from bench.stages.activity import Failure, last_failure, stage_at_work
from bench.stages.cost import Measured, by_plan, steps
from bench.utils.errors import UserError

ERROR = "error: "  # how the last line of a log begins if its job failed


@dataclass(frozen=True)
class OpenRun:
    """A run that is not done."""

    id: str
    state: str  # "running", "failed" or "left"
    stage: str  # the one that it is at, that failed, or that comes next
    step: int | None = None  # optimiser steps of its training so far
    failure: Failure | None = None  # of the last attempt, if it failed
    log: str = ""  # messages of its job; empty without a workflow


@dataclass
class SuiteStatus:
    """How far a suite is."""

    suite: str
    # Number of finished runs by how they ended: "finished", "diverged", "skipped".
    done: dict[str, int] = field(default_factory=dict)
    open: list[OpenRun] = field(default_factory=list)  # the other runs, in the order of the plan
    # Errors of other steps of the workflow (inputs, tables) by their logs.
    steps: dict[str, str] = field(default_factory=dict)
    device: str = ""  # on which the suite was scored; empty before that
    hours: float = 0.0  # on it, of the open trainings and scorings that are like measured ones
    unknown: int = 0  # number of trainings and scorings that are not
    estimate: str = ""  # hours of these by the plan, on each kind of device


def status(suite: Path) -> SuiteStatus:
    """Read how far a suite is; `UserError` if it has no plan, or a damaged one."""
    plan = read_plan(suite / "plan.json")
    read = SuiteStatus(plan.suite)
    devices: Counter[str] = Counter()
    left: list[tuple[PlannedRun, str, int | None]] = []  # runs, their stages left, their steps
    for run in plan.runs:
        stages = _stages_left(suite, run)
        if stages:
            open_run = _open_run(suite, run.id, stages[0])
            read.open.append(open_run)
            if not run.skip:
                left += [(run, stage, open_run.step) for stage in stages if stage != "analyse"]
            continue
        try:
            results = read_run(run, suite, plan.mode)
        except UserError as damage:
            failure = Failure("score", str(damage), final=True)
            read.open.append(OpenRun(run.id, "failed", "score", failure=failure))
            continue
        read.done[results.status] = read.done.get(results.status, 0) + 1
        devices[results.provenance.device.name] += 1
    errors = {str(log): _error(log) for log in sorted((suite / "logs").glob("*.log"))}
    read.steps = {log: error for log, error in errors.items() if error}
    read.device = next(iter(devices.most_common(1)), ("",))[0]
    measured, hours, unlike = Measured(suite.parent, read.device), 0.0, []
    with suppress(UserError):  # a corpus that is not here
        for run, stage, step in left:
            # Early stopping is not foreseen.
            part = max(0.0, 1 - step / steps(run)) if stage == "train" and step else 1.0
            expected = measured.seconds(run, stage)
            if expected is None:
                unlike.append((run, stage, part))
            else:
                hours += part * expected / 3600
        read.hours, read.unknown, read.estimate = hours, len(unlike), by_plan(unlike, plan.mode)
    return read


def _stages_left(suite: Path, run: PlannedRun) -> list[str]:
    """The stages of a planned run without a result."""
    left = [stage for stage in run.stages if not paths.result_file(suite, run.id, stage).is_file()]
    # Scores may be shared without the outcome of the training, which their provenance has.
    return left if "score" in left else [stage for stage in left if stage != "train"]


def _open_run(suite: Path, run_id: str, stage: str) -> OpenRun:
    """The state of a run whose next stage is `stage`."""
    current, failure = stage_at_work(suite, run_id), last_failure(suite, run_id)
    file = suite / "logs" / (current or stage) / f"{run_id}.log"
    log = str(file) if file.is_file() else ""
    step = _last_step(suite, run_id) if stage == "train" else None
    if current:
        return OpenRun(run_id, "running", current, step, log=log)
    if failure is None or failure.stage != stage:
        # A job may fail before it reaches a run.
        error = _error(file)
        failure = Failure(stage, error) if error else None
    return OpenRun(run_id, "failed" if failure else "left", stage, step, failure, log)


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


def report(suite_status: SuiteStatus) -> str:
    """The status of a suite as text."""
    done, left = suite_status.done, suite_status.open
    count, states = sum(done.values()), Counter(run.state for run in left)
    ended = ", ".join(f"{number} {kind}" for kind, number in done.items() if kind != "finished")
    counts = [f"{count} of {count + len(left)} runs done" + (ended and f" ({ended})")]
    counts += [f"{states[state]} {state}" for state in ("running", "failed", "left")]
    lines = [f"{suite_status.suite}: {', '.join(counts)}"]
    if left:
        hours = f"{suite_status.hours:.2f} on one {suite_status.device}"
        unlike = (
            f"; for {suite_status.unknown} trainings and scorings like none before, estimated from "
            f"the plan: {suite_status.estimate}"
        )
        lines.append(
            f"hours left: {hours if suite_status.hours else 'unknown'}"
            f"{unlike if suite_status.unknown else ''}"
        )
    for state in ("running", "failed"):
        runs = [run for run in left if run.state == state]
        lines += ["", f"{state}:"] if runs else []
        for run in runs:
            step = f", step {run.step}" if run.step else ""
            failure = f", {run.failure}" if run.failure else ""
            lines.append(f"  {run.id}, {run.stage}{step}{failure}")
            lines += [f"    {run.log}"] if run.log else []
    lines += ["", "failed steps:"] if suite_status.steps else []
    for log, error in suite_status.steps.items():
        lines += [f"  {error}", f"    {log}"]
    return "\n".join(lines)
