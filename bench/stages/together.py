"""Several processes for the runs of one job, for runs that do not fill a device on their own.

Each run is trained in its own process with the threads of its recipe, as it would be alone; only
the device lease is shared. On a CPU the results therefore equal those of separate runs bit for bit.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Sequence

from bench.utils.errors import UserError
from bench.utils.interrupts import EXIT_TEMPFAIL
from bench.utils.memory import TOGETHER

PR_SET_PDEATHSIG = 1  # Linux, prctl(2)


def run_together(commands: Sequence[Sequence[str]]) -> int:
    """Run `python -m bench` with each list of arguments, all in parallel.

    When this process is stopped or dies, so are they.

    Returns:
        0 if all succeeded, 75 if some were stopped and resume when started again.

    Raises:
        UserError: one failed; its own message is on stderr.
    """
    count, processes = len(commands), list[subprocess.Popen[bytes]]()
    words, environment = [sys.executable, "-m", "bench"], _environment(max(1, count))
    try:
        for command in commands:
            processes.append(
                subprocess.Popen([*words, *command], env=environment, preexec_fn=_follow_parent)
            )
        statuses = [process.wait() for process in processes]
    except BaseException:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait()
        raise
    if (status := min(statuses, default=0)) < 0:
        name = signal.Signals(-status).name
        raise UserError(
            f"one of {count} processes was killed by {name}; start again to resume its runs"
        )
    if set(statuses) - {0, EXIT_TEMPFAIL}:
        raise UserError(
            f"one of {count} processes failed; fix the error that it printed and start again"
        )
    return max(statuses, default=0)


def _environment(count: int) -> dict[str, str]:
    """Return the environment with the job's thread counts (OMP_NUM_THREADS etc.) divided, and the
    number of processes for what they say when memory is full."""
    shared = {
        name: str(max(1, int(value) // count))
        for name, value in os.environ.items()
        if name.endswith("_NUM_THREADS") and value.isdecimal()
    }
    return {**os.environ, **shared, TOGETHER: str(count)}


def _follow_parent() -> None:
    """Let the kernel send SIGTERM when the parent dies, since the device lease ends with the
    parent."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
