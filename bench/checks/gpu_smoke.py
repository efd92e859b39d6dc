"""The smoke suite's runs on a GPU, importing only the core's dependencies."""

from __future__ import annotations

import sys
from pathlib import Path

from bench.results.readers import read_plan
from bench.results.records import read_scores
from bench.runs import paths
from bench.stages import gpu_lease
from bench.stages.jobs import planned, run_plan
from bench.utils.errors import UserError
from bench.utils.files import write_json

OUTSIDE_THE_CORE = ("pandas", "matplotlib", "snakemake", "yaml", "jinja2")


def gpu_smoke(suite: Path, out: Path) -> None:
    """Train and score the first seed of every run of a finished suite on a GPU, and print both
    scores.

    Args:
        suite: the folder of the finished suite, with its plan, world and backbones.
        out: the folder of the new suite; world and backbones are linked into it.

    Raises:
        UserError: there is no GPU, or a library outside the core was imported.
    """
    plan = read_plan(suite / "plan.json")
    first = {
        (entry["method"], entry["setting"], entry["backbone"]): entry
        for entry in reversed(plan["runs"])
    }
    with gpu_lease.lease() as device:
        if device == "cpu":
            raise UserError("no GPU is visible; make gpu-smoke needs one")
        out.mkdir(parents=True, exist_ok=True)
        for name in ("world", "backbones", "inputs"):
            if (suite / name).is_dir() and not (out / name).exists():
                (out / name).symlink_to((suite / name).resolve(), target_is_directory=True)
        plan |= {"runs": list(reversed(first.values()))}
        write_json(out / "plan.json", plan)
        print(f"{'Avg on the GPU':>16}{'on the CPU':>12}  run")
        for run in run_plan(out, plan, planned(plan), device):
            here, there = (_average(paths.scores_file(folder, run.id)) for folder in (out, suite))
            name = f"{run.text}@{run.setting} on {run.backbone.name}"
            print(f"{here:16.2f}{there:12.2f}  {name}", flush=True)
    if foreign := [name for name in OUTSIDE_THE_CORE if name in sys.modules]:
        raise UserError(
            f"the core imported {', '.join(foreign)}; remove these imports from the core"
        )


def _average(scores: Path) -> float:
    _, records = read_scores(scores)
    return next((record["value"] for record in records if record["task"] == "Avg"), float("nan"))
