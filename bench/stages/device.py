"""One GPU per process: the first that no other process of this user holds.

Snakemake counts GPUs but assigns none. A process therefore holds a lock on a file that is named
after its GPU, in a folder that all suites of this user on this machine share. The kernel releases
the lock when the process ends, however it ends. Which GPUs there are is torch's answer, so
CUDA_VISIBLE_DEVICES and what a scheduler allocates are respected.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import gettempdir

from filelock import AcquireReturnProxy, FileLock, Timeout

from bench.utils.errors import warn
from bench.utils.files import disk_errors

POLL = 0.5  # seconds between two attempts to lock


@contextmanager
def lease() -> Iterator[str]:
    """Hold a GPU during the block and yield "cuda:N"; where there is none, yield "cpu" at once."""
    import torch

    if not torch.cuda.is_available():
        yield "cpu"
        return
    # Containers on one machine need a common SENTBENCH_LEASES.
    folder = Path(os.environ.get("SENTBENCH_LEASES") or f"{gettempdir()}/sentbench-{os.getuid()}")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    properties = map(torch.cuda.get_device_properties, range(torch.cuda.device_count()))
    locks = [FileLock(folder / str(gpu.uuid), is_singleton=True) for gpu in properties]
    with disk_errors(folder):
        index, held = _acquire(locks)
    with held, torch.cuda.device(index):
        yield f"cuda:{index}"


def _acquire(locks: list[FileLock]) -> tuple[int, AcquireReturnProxy[FileLock]]:
    """Wait for a free GPU; return its index, and the context that releases its lock."""
    # A lease within a lease of this process has the same GPU.
    order = sorted(range(len(locks)), key=lambda index: not locks[index].is_locked)
    is_waiting = False
    while True:
        for index in order:
            with suppress(Timeout):
                return index, locks[index].acquire(timeout=0)
        if not is_waiting:
            warn(f"waiting for a GPU: all {len(locks)} are leased")
            is_waiting = True
        time.sleep(POLL)
