"""Start the workflow of this project for a configuration."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from bench.runs.config import SNAKEFILE
from bench.utils.interrupts import Stopped, defer_signals


def run_workflow(config: Path, options: Iterable[str]) -> int:
    """Let Snakemake run a configuration in the working folder, with options and targets; its exit
    status. A signal does not end this process before Snakemake, which would go on alone; `Stopped`
    if Snakemake was killed."""
    words = ["--snakefile", str(SNAKEFILE), *options, "--configfile", str(config)]
    process = None
    try:
        # A signal while the process starts is raised when it has started, and is known here.
        with defer_signals():
            # Folders `bench` and `methods` in the working folder are not those of the suite.
            process = subprocess.Popen(
                [sys.executable, "-m", "snakemake", *words],
                env=os.environ | {"PYTHONSAFEPATH": "1"},
            )
        status = process.wait()
    except BaseException as stop:
        if process:
            # Snakemake has had an interrupt, too, and lets its jobs save their state.
            if not isinstance(stop, KeyboardInterrupt):
                process.terminate()
            if process.wait() == 0:  # its last job had ended
                return 0
        raise
    if status < 0:
        jobs = "its jobs go on without Snakemake; wait until pgrep -af 'bench job' shows none"
        raise Stopped(signal.Signals(-status).name, jobs)
    return status
