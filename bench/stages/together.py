"""Several processes for the runs of one job: where one run does not fill a device, its seeds share it.

Each run is trained in a process of its own with the threads of its recipe, just as it would be alone; what is shared is
the lease. On a processor the results are therefore those of solo runs bit for bit.
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

PR_SET_PDEATHSIG = 1  # Linux, prctl(2)


def run_together(commands: Sequence[Sequence[str]]) -> int:
    """Run `python -m bench` with each of these arguments at once; the status of all.

    0 where all ended well, 75 where some were stopped and go on when started again. When this process is told to stop,
    or dies, so are they.

    Raises:
        UserError: one failed; what it said stands above.
    """
    processes: list[subprocess.Popen[bytes]] = []
    words, environment = [sys.executable, "-m", "bench"], _shared_threads(max(1, len(commands)))
    try:
        for command in commands:
            processes.append(subprocess.Popen([*words, *command], env=environment, preexec_fn=_follow_parent))
        statuses = [process.wait() for process in processes]
    except BaseException:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait()
        raise
    for status in statuses:
        if status < 0:
            name = signal.Signals(-status).name
            raise UserError(f"one of {len(processes)} processes was ended by {name}; start again and its runs go on")
        if status not in (0, EXIT_TEMPFAIL):
            raise UserError(f"one of {len(processes)} processes failed; mend what it said and start again")
    return max(statuses, default=0)


def _shared_threads(count: int) -> dict[str, str]:
    """The environment, where the threads that this job was given (OMP_NUM_THREADS and the like) are those of each."""

    def shared(name: str, value: str) -> str:
        return str(max(1, int(value) // count)) if name.endswith("_NUM_THREADS") and value.isdecimal() else value

    return {name: shared(name, value) for name, value in os.environ.items()}


def _follow_parent() -> None:
    """Have the kernel send SIGTERM when the parent dies: nothing may use a device whose lease is gone."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
