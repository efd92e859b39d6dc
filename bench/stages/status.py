"""How far a suite is: done, running, failed and left, from its files alone.

Nothing is written and no workflow is asked, so it works while one runs.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench.results.readers import Plan, read_plan
from bench.results.records import STAGES, read_scores
from bench.results.suite_results import read_run
from bench.runs import paths
from bench.runs.cost import PEAKS, Measured, estimate, steps
from bench.runs.resolve import run_of
from bench.runs.run import Run
from bench.stages.activity import last_failure, stage_at_work
from bench.utils.errors import UserError

TAIL = 8192  # bytes at the end of a log that are read
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


@dataclass(frozen=True)
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

    def count(self, state: str) -> int:
        return sum(run.state == state for run in self.open)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def status(suite: Path) -> SuiteStatus:
    """Read how far a suite is.

    Raises:
        UserError: the suite has no plan, or a damaged one.
    """
    plan = read_plan(suite / "plan.json")
    done: Counter[str] = Counter()
    found: list[RunStatus] = []
    logs = {
        stage: {path.stem for path in (suite / "logs" / stage).glob("*.log")} for stage in STAGES
    }
    started = dict.fromkeys(STAGES, "")  # the run that names the log of the current job
    for entry in plan["runs"]:
        name = entry["id"]
        started |= {stage: name for stage in STAGES if name in logs[stage]}
        if not (stage := _next_stage(suite, entry)):
            try:
                done[read_run(entry, suite, plan.get("mode")).status] += 1
            except UserError as error:
                found.append(RunStatus(name, "failed", "score", error=str(error), final=True))
            continue
        found.append(_open_run(suite, name, stage, started))
    left = _hours_left(suite, plan, found) if found else None
    return SuiteStatus(
        plan.get("suite", ""), len(plan["runs"]), dict(done), found, _steps(suite), left
    )


def _stages(entry: Mapping[str, Any]) -> list[str]:
    """The stages of a planned run."""
    trained = entry.get("trained", entry["seed"] is not None)
    has = {"train": trained, "score": True, "analyse": bool(entry.get("analyses"))}
    return [stage for stage in STAGES if has[stage]]


def _next_stage(suite: Path, entry: Mapping[str, Any]) -> str:
    """The first stage of a run without a result; empty if it is done."""
    files = {
        "train": paths.trained_file,
        "score": paths.scores_file,
        "analyse": paths.analyses_file,
    }
    # Scores may be shared without the outcome of the training, which their provenance has.
    stages = [stage for stage in _stages(entry) if not files[stage](suite, entry["id"]).is_file()]
    scored = files["score"](suite, entry["id"]).is_file()
    return next((stage for stage in stages if not (stage == "train" and scored)), "")


def _open_run(suite: Path, name: str, stage: str, started: Mapping[str, str]) -> RunStatus:
    step = _last_step(paths.run_folder(suite, name) / "log.jsonl") if stage == "train" else None

    def log(of: str) -> str:
        return str(suite / "logs" / of / f"{started[of]}.log") if started[of] else ""

    if at := stage_at_work(suite, name):
        return RunStatus(name, "running", at, step if at == "train" else None, log=log(at))
    if failure := last_failure(suite, name, stage):
        told, attempts, final = failure.error, failure.attempts, failure.final
        return RunStatus(name, "failed", stage, step, told, log(stage), attempts, final)
    # A job may fail before it reaches a run.
    if error := _error(Path(log(stage))) if started[stage] == name else "":
        return RunStatus(name, "failed", stage, step, error, log(stage), 1)
    return RunStatus(name, "left", stage, step)


def _tail(path: Path) -> list[str]:
    """The last lines of a file; the first of them may be cut."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, file.seek(0, 2) - TAIL))
            return file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return []


def _last_step(log: Path) -> int | None:
    for line in reversed(_tail(log)):
        with suppress(ValueError):  # the line is being written
            return int(json.loads(line)["step"])
    return None


def _error(log: Path) -> str:
    """The error with which a job ended; empty if it did not end with one."""
    lines = [line for line in _tail(log) if line.strip()]
    crashed = any(line.startswith("Traceback ") for line in lines)
    failed = bool(lines) and (crashed or lines[-1].startswith(ERROR))
    return lines[-1].removeprefix(ERROR) if failed else ""


def _steps(suite: Path) -> list[dict[str, str]]:
    """The steps of the workflow that belong to no run and failed."""
    logs = sorted((suite / "logs").glob("*.log"))
    errors = {path: error for path in logs if (error := _error(path))}
    return [{"step": path.stem, "error": error, "log": str(path)} for path, error in errors.items()]


# Hours


def _device(suite: Path) -> str:
    """The device of most of a suite's scores; empty if there are none."""
    names: Counter[str] = Counter()
    for path in (suite / "scores").glob("*.json"):
        with suppress(UserError, KeyError):
            names[str(read_scores(path)[0]["device"]["name"])] += 1
    return names.most_common(1)[0][0] if names else ""


def _hours_left(suite: Path, plan: Plan, found: Sequence[RunStatus]) -> HoursLeft | None:
    if not (device := _device(suite)):
        return None
    known = next((name for name in PEAKS if name in device.lower()), "")
    measured = Measured.read(suite.parent, device, plan["data"] == "world")
    entries = {entry["id"]: entry for entry in plan["runs"]}
    seconds, counts = 0.0, Counter[str]()
    for one in found:
        entry, run = entries[one.id], _resolved(entries[one.id], plan)
        stages = [stage for stage in _stages(entry) if stage != "analyse"]
        if one.stage not in stages or (run and run.skip):
            continue
        for stage in stages[stages.index(one.stage) :]:
            took, how = _seconds(entry, run, stage, plan, measured, known)
            counts[how] += 1
            seconds += took * (_share_left(run, one) if stage == one.stage else 1.0)
    return HoursLeft(device, seconds / 3600, **counts)


def _resolved(entry: Mapping[str, Any], plan: Plan) -> Run | None:
    """A planned run; None if it is of another version, or of a method that is not here."""
    with suppress(UserError, KeyError):
        return run_of(entry, corpus=plan.get("corpus"), data=plan["data"])
    return None


def _seconds(
    entry: Mapping[str, Any],
    run: Run | None,
    stage: str,
    plan: Plan,
    measured: Measured,
    device: str,
) -> tuple[float, str]:
    """Seconds of a run at a stage, and how they are known; `device`: a key of `PEAKS`, or empty."""
    found = measured.of_experiment(entry.get("identity", {})) if stage == "train" else None
    tasks = list(entry.get("tasks") or ["sts"])
    with suppress(UserError):  # the size of the corpus is unknown
        if found is None and run:
            found = measured.seconds(run, stage, tasks)
        if found is None and run and device and plan["data"] != "world":
            mode = plan.get("mode", "test")
            return estimate(run, stage, tasks, mode, device, measured), "estimated"
    return (0.0, "unknown") if found is None else (found, "measured")


def _share_left(run: Run | None, one: RunStatus) -> float:
    """The share of a training that is left, by its steps; early stopping is not foreseen."""
    if run is None or not one.step:
        return 1.0
    with suppress(UserError):
        return max(0.0, 1.0 - one.step / steps(run))
    return 1.0


# Text


def report(found: SuiteStatus) -> str:
    """The status of a suite as text."""
    ended = ", ".join(f"{n} {kind}" for kind, n in found.done.items() if kind != "finished")
    counts = [
        f"{sum(found.done.values())} of {found.planned} runs done" + f" ({ended})" * bool(ended)
    ]
    counts += [f"{found.count(state)} {state}" for state in ("running", "failed", "left")]
    lines = [f"{found.suite}: {', '.join(counts)}"]
    lines += [_hours_text(found)] if found.open else []
    for state in ("running", "failed"):
        runs = [run for run in found.open if run.state == state]
        lines += ["", f"{state}:"] if runs else []
        for run in runs:
            step = f", step {run.step}" if run.step and run.stage == "train" else ""
            tried = f", {run.attempts} {'attempts' if run.attempts > 1 else 'attempt'}"
            tried = (tried + ", final" * run.final) * bool(run.attempts)
            error = f": {run.error}" if run.error else ""
            lines.append(f"  {run.id}, {run.stage}{step}{tried}{error}")
            lines += [f"    {run.log}"] if run.log and run.error else []
    lines += ["", "failed steps:"] if found.steps else []
    for one in found.steps:
        lines += [f"  {one['step']}: {one['error']}", f"    {one['log']}"]
    return "\n".join(lines)


def _hours_text(found: SuiteStatus) -> str:
    left, running = found.left, max(1, found.count("running"))
    if left is None:
        return "hours left: unknown until a run is done"
    parts = [(left.measured, "measured"), (left.estimated, "estimated by the peak rate")]
    told = [f"{n} {how}" for n, how in [*parts, (left.unknown, "unknown and not counted")] if n]
    hours = f"{left.hours:.2f} on one {left.device}"
    hours += f", {left.hours / running:.2f} with {running} runs at once" if running > 1 else ""
    return f"hours left: {hours} (trainings and scorings: {', '.join(told)})"
