"""How far a suite is: done, running, failed and left, from its files alone.

Nothing is written and no workflow is asked, so it works while one runs.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from bench.results.records import read_scores
from bench.results.suite_results import read_run
from bench.runs import STAGES, paths
from bench.runs.plan import Plan, read_plan
from bench.runs.run import PlannedRun
from bench.stages.activity import last_failure, stage_at_work
from bench.stages.cost import PEAKS, Measured, estimate, steps
from bench.utils.errors import UserError
from bench.utils.text import counted

ERROR = "error: "  # how the last line of a log begins if its job failed


@dataclass(frozen=True)
class RunStatus:
    """What a run that is not done is waiting for.

    Attributes:
        id: the run.
        state: "running", "failed" or "left".
        stage: the stage that it is at, that failed, or that comes next.
        step: optimiser steps of its training so far; None if there are none.
        error: of the last attempt, if it failed.
        attempts: how many have failed.
        final: whether another attempt would fail in the same way.
        log: file with the messages of that job; empty without a workflow.
    """

    id: str
    state: str
    stage: str
    step: int | None = None
    error: str = ""
    log: str = ""
    attempts: int = 0
    final: bool = False


@dataclass
class HoursLeft:
    """Device hours of the runs that are not done.

    Attributes:
        device: name of the device on which the suite's runs were measured.
        hours: of all that could be predicted.
        measured, estimated, unknown: number of trainings and scorings predicted from times of
            similar ones, by the device's peak rate, and not at all.
    """

    device: str
    hours: float = 0.0
    measured: int = 0
    estimated: int = 0
    unknown: int = 0


@dataclass(frozen=True)
class SuiteStatus:
    """How far a suite is.

    Attributes:
        suite: its name.
        planned: number of its runs.
        done: number of those by how they ended: "finished", "diverged", "skipped".
        open: the others, in the order of the plan.
        steps: other steps of the workflow that failed (inputs, tables), with error and log.
        left: hours of the open runs; None before anything was measured.
    """

    suite: str
    planned: int
    done: dict[str, int]
    open: list[RunStatus] = field(default_factory=list)
    steps: list[dict[str, str]] = field(default_factory=list)
    left: HoursLeft | None = None

    def of_state(self, state: str) -> list[RunStatus]:
        return [run for run in self.open if run.state == state]


def status(suite: Path) -> SuiteStatus:
    """Read how far a suite is.

    Raises:
        UserError: the suite has no plan, or a damaged one.
    """
    plan = read_plan(suite / "plan.json")
    done: Counter[str] = Counter()
    open_runs: list[RunStatus] = []
    logs = dict.fromkeys(STAGES, "")  # of the current job, which is named after its first run
    for run in plan.runs:
        for stage in STAGES:
            log = suite / "logs" / stage / f"{run.id}.log"
            if log.is_file():
                logs[stage] = str(log)
        stages = _stages_left(suite, run)
        if stages:
            open_runs.append(_open_run(suite, run.id, stages[0], logs))
            continue
        try:
            done[read_run(run, suite, plan.mode).status] += 1
        except UserError as damage:
            open_runs.append(RunStatus(run.id, "failed", "score", error=str(damage), final=True))
    failed_steps = []
    for path in sorted((suite / "logs").glob("*.log")):
        error = _error(path)
        if error:
            failed_steps.append({"step": path.stem, "error": error, "log": str(path)})
    left = _hours_left(suite, plan, open_runs)
    return SuiteStatus(plan.suite, len(plan.runs), dict(done), open_runs, failed_steps, left)


def _stages_left(suite: Path, run: PlannedRun) -> list[str]:
    """The stages of a planned run without a result."""
    left = []
    is_scored = paths.scores_file(suite, run.id).is_file()
    # Scores may be shared without the outcome of the training, which their provenance has.
    if run.trained and not is_scored:
        left += [] if paths.trained_file(suite, run.id).is_file() else ["train"]
    if not is_scored:
        left.append("score")
    if run.analyses and not paths.analyses_file(suite, run.id).is_file():
        left.append("analyse")
    return left


def _open_run(suite: Path, name: str, stage: str, logs: Mapping[str, str]) -> RunStatus:
    current, failure = stage_at_work(suite, name), last_failure(suite, name)
    step = _last_step(paths.run_folder(suite, name) / "log.jsonl") if stage == "train" else None
    run = RunStatus(name, "left", stage, step, log=logs[stage])
    if current:
        return replace(run, state="running", stage=current, log=logs[current])
    if failure and failure.stage == stage:
        told = {key: getattr(failure, key) for key in ("error", "attempts", "final")}
        return replace(run, state="failed", **told)
    # A job may fail before it reaches a run.
    error = _error(Path(run.log)) if Path(run.log).stem == name else ""
    if error:
        return replace(run, state="failed", error=error, attempts=1)
    return replace(run, log="")


def _lines(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    return text.splitlines()


def _last_step(log: Path) -> int | None:
    for line in reversed(_lines(log)):
        with suppress(ValueError):  # the line is being written
            return int(json.loads(line)["step"])
    return None


def _error(log: Path) -> str:
    """The error with which a job ended; empty if it did not end with one."""
    lines = [line for line in _lines(log) if line.strip()]
    crashed = any(line.startswith("Traceback ") for line in lines)
    if lines and (crashed or lines[-1].startswith(ERROR)):
        return lines[-1].removeprefix(ERROR)
    return ""


def _hours_left(suite: Path, plan: Plan, open_runs: Sequence[RunStatus]) -> HoursLeft | None:
    """The hours of the runs that are not done, on the device of most of the suite's scores; None
    without scores."""
    names: Counter[str] = Counter()
    for path in (suite / "scores").glob("*.json"):
        with suppress(UserError, KeyError):
            names[str(read_scores(path)[0]["device"]["name"])] += 1
    if not names or not open_runs:
        return None
    left = HoursLeft(names.most_common(1)[0][0])
    peak = next((name for name in PEAKS if name in left.device.lower()), None)
    measured = Measured(suite.parent, left.device)
    runs = {run.id: run for run in plan.runs}
    for open_run in open_runs:
        run = runs[open_run.id]
        if run.skip:
            continue
        for stage in _stages_left(suite, run):
            if stage == "analyse":
                continue
            seconds = None
            with suppress(UserError):  # a method that is not here, or a corpus of unknown size
                seconds = measured.seconds(run, stage, run.tasks)
                left.measured += seconds is not None
                if peak and seconds is None and run.data != "world":
                    seconds = estimate(run, stage, run.tasks, plan.mode, peak)
                    left.estimated += 1
                if seconds and stage == "train" and open_run.step:
                    # Early stopping is not foreseen.
                    seconds *= max(0.0, 1 - open_run.step / steps(run))
            left.unknown += seconds is None
            left.hours += (seconds or 0) / 3600
    return left


def report(suite_status: SuiteStatus) -> str:
    """The status of a suite as text."""
    done = suite_status.done
    ended = ", ".join(f"{count} {kind}" for kind, count in done.items() if kind != "finished")
    states = {state: suite_status.of_state(state) for state in ("running", "failed", "left")}
    counts = [f"{sum(done.values())} of {suite_status.planned} runs done"]
    counts[0] += f" ({ended})" if ended else ""
    counts += [f"{len(runs)} {state}" for state, runs in states.items()]
    lines = [f"{suite_status.suite}: {', '.join(counts)}"]
    if suite_status.open:
        lines.append(f"hours left: {_hours_text(suite_status.left, len(states['running']))}")
    for state in ("running", "failed"):
        lines += ["", f"{state}:"] if states[state] else []
        for run in states[state]:
            parts = [f"  {run.id}", run.stage]
            if run.step and run.stage == "train":
                parts.append(f"step {run.step}")
            if run.attempts:
                parts.append(counted(run.attempts, "attempt"))
            if run.attempts and run.final:
                parts.append("final")
            lines.append(", ".join(parts) + (f": {run.error}" if run.error else ""))
            lines += [f"    {run.log}"] if run.log and run.error else []
    lines += ["", "failed steps:"] if suite_status.steps else []
    for step in suite_status.steps:
        lines += [f"  {step['step']}: {step['error']}", f"    {step['log']}"]
    return "\n".join(lines)


def _hours_text(left: HoursLeft | None, running: int) -> str:
    if left is None:
        return "unknown until a run is done"
    hours = f"{left.hours:.2f} on one {left.device}"
    if running > 1:
        hours += f", {left.hours / running:.2f} with {running} runs at once"
    counts = {
        "measured": left.measured,
        "estimated by the peak rate": left.estimated,
        "unknown and not counted": left.unknown,
    }
    known = ", ".join(f"{count} {how}" for how, count in counts.items() if count)
    return f"{hours} (trainings and scorings: {known})"
