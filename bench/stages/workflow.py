"""Start the workflow of this project for a configuration."""

import subprocess
import sys
from pathlib import Path

import bench
from bench.utils.errors import UserError

SNAKEFILE = Path(bench.__file__).resolve().parents[1] / "Snakefile"


def run_workflow(config: Path, cores: int) -> int:
    """Let Snakemake run a configuration in the working folder; its exit status.

    Args:
        config: the file.
        cores: CPU cores that jobs may use at once.

    Raises:
        UserError: this installation has no workflow.
    """
    if not SNAKEFILE.is_file():
        raise UserError(
            f"{SNAKEFILE} does not exist: the workflow is only in a checkout of the project; "
            f"run there: snakemake --cores {cores} --configfile {config}"
        )
    import torch

    words = [sys.executable, "-m", "snakemake", "--snakefile", str(SNAKEFILE)]
    words += ["--configfile", str(config), "--cores", str(cores)]
    if gpus := torch.cuda.device_count():
        words += ["--resources", f"gpu={gpus}"]
    process = subprocess.Popen(words)
    try:
        return process.wait()
    except BaseException as stop:
        # Snakemake has had an interrupt, too, and lets its jobs save their state.
        if not isinstance(stop, KeyboardInterrupt):
            process.terminate()
        process.wait()
        raise
