"""Programs as users start them: in processes of their own, with nothing of the tests' settings."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SNAKEMAKE = [sys.executable, "-m", "snakemake", "--snakefile", str(ROOT / "Snakefile")]


def environment(**own: str) -> dict[str, str]:
    """The environment without the user's data and methods and what tells Python where to look, but
    with this project, one thread and `own` variables."""
    left_out = ("BENCH_", "PYTHON")
    inherited = {name: text for name, text in os.environ.items() if not name.startswith(left_out)}
    return inherited | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"} | own


def ended(
    *words: object, cwd: Path, status: int | None = 0, **own: str
) -> subprocess.CompletedProcess[str]:
    """A program's end, which has to be of this status; None for any."""
    options = {"env": environment(**own), "capture_output": True, "text": True}
    # The limit is for a hang: a minute is usual, ten under other load.
    done = subprocess.run([*map(str, words)], cwd=cwd, timeout=1800, **options)
    assert status in (None, done.returncode), done.stdout + done.stderr
    return done


def snakemake(
    *words: object, cwd: Path, status: int | None = 0, **own: str
) -> subprocess.CompletedProcess[str]:
    """The workflow, on two cores unless the words say otherwise; it finds the project by itself."""
    own = {"PYTHONPATH": ""} | own
    return ended(*SNAKEMAKE, "--cores", "2", *words, cwd=cwd, status=status, **own)


def planned_jobs(output: str) -> dict[str, int]:
    """Jobs that a dry run plans, by rule."""
    table = re.search(r"Job stats:\n(.*?)\n\n", output, re.DOTALL)
    if not table:
        assert "Nothing to be done" in output, output
        return {}
    rows = [line.split() for line in table[1].splitlines()[2:]]
    return {rule: int(count) for rule, count in rows if rule not in ("total", "all")}
