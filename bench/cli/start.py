"""The start of a workflow: what it takes, and whether the user agrees."""

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.cli.parameters import RESULTS
from bench.runs.plan import Plan
from bench.utils.errors import warn

DEVICES = ["a100", "h100", "h200", "cpu"]  # whose hours are predicted
EXIT_NOT_STARTED = 3
# Snakemake's options with which it starts no job, and those that send jobs to other machines.
_NO_JOBS = re.compile(
    r"-\w*n\w*|--(dry-?run|unlock|touch|lint|list|summary|detailed-summary|dag|rulegraph|report)"
)
_CLUSTER = re.compile(r"(^| )(-e|--executor|--profile)[ =](?!local\b)")


def start(file: Path, plan: Plan[Any], options: Sequence[str], yes: bool) -> int:
    """Print what is left of a configuration's plan: hours, disk and device. Let Snakemake run it
    with options and targets; its exit status.

    Long work needs the user's answer, unless it is `yes` already; without a terminal it starts on a
    cluster alone. `EXIT_NOT_STARTED` if it does not start.
    """
    from bench.report.formats import rendered
    from bench.stages.cost import forecast, work_of
    from bench.stages.status import stages_left
    from bench.stages.workflow import run_workflow

    left = {run.id: stages_left(RESULTS / plan.suite, run) for run in plan.runs}
    work = [(run, stage) for run, stage in work_of(plan.runs) if stage in left[run.id]]
    if not work:
        return run_workflow(file, options)
    is_on_cluster = bool(_CLUSTER.search(" ".join(options)))
    device = "cluster" if is_on_cluster else _device()
    costs = forecast(plan, work, device, RESULTS)
    text = rendered("cost.txt", **costs)
    if any(map(_NO_JOBS.fullmatch, options)):
        status = run_workflow(file, options)
        warn(text, kept="\n")  # below Snakemake's list of all jobs
        return status
    warn(text, kept="\n")
    if costs["is_long"] and not yes and not _is_agreed(is_on_cluster):
        return EXIT_NOT_STARTED
    return run_workflow(file, options)


def _is_agreed(is_on_cluster: bool) -> bool:
    # Not `sys.stdout.isatty`: for libraries it is no terminal.
    if os.isatty(0) and os.isatty(1):
        print("Go on? [y/N] ", end="", flush=True)
        return sys.stdin.readline().lower().startswith("y")
    if not is_on_cluster:
        warn("not started, because it takes long; add --yes to start it, or -n to look at it")
    return is_on_cluster


def _device() -> str:
    """The device that jobs will use here: "cpu", one of `DEVICES`, or the name of another GPU."""
    import torch

    if not torch.cuda.is_available():
        return "cpu"
    name = torch.cuda.get_device_name(0)
    return next((card for card in DEVICES if card in name.lower()), name)
