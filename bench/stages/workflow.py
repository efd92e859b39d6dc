"""Start the workflow of this project for a configuration, and let it keep copied results."""

import os
import subprocess
import sys
from collections.abc import Iterable
from itertools import product
from pathlib import Path

from bench.runs import paths
from bench.runs.config import SNAKEFILE
from bench.runs.run import Run
from bench.utils.files import read_json


def renew(runs: Iterable[Run], suite: Path) -> None:
    """Give results that are older than their inputs a new time where they record the sums of these
    inputs: files of a copied suite have times in any order."""
    stamp = suite / "inputs" / "data.json"
    data = read_json(stamp) if stamp.is_file() else None
    stamps = sorted(stamp.parent.glob("*.json"))
    for run, stage in product(runs, ("score", "analyse")):
        trained = paths.result_file(suite, run.id, "train")
        file = paths.result_file(suite, run.id, stage)
        inputs = [path.stat().st_mtime for path in (*stamps, trained) if path.is_file()]
        if not file.is_file() or file.stat().st_mtime >= max(inputs, default=0):
            continue
        origin = read_json(file)["provenance"]
        ended = read_json(trained)["outcome"] if trained.is_file() else origin["outcome"]
        if data == {"kind": "data", **origin["data"]} and ended == origin["outcome"]:
            os.utime(file)


def run_workflow(config: Path, options: Iterable[str]) -> int:
    """Let Snakemake run a configuration in the working folder, with options and targets; its exit
    status."""
    words = ["--snakefile", str(SNAKEFILE), *options, "--configfile", str(config)]
    # Folders `bench` and `methods` in the working folder are not those of the suite.
    process = subprocess.Popen(
        [sys.executable, "-m", "snakemake", *words], env=os.environ | {"PYTHONSAFEPATH": "1"}
    )
    try:
        return process.wait()
    except BaseException as stop:
        # Snakemake has had an interrupt, too, and lets its jobs save their state.
        if not isinstance(stop, KeyboardInterrupt):
            process.terminate()
        process.wait()
        raise
