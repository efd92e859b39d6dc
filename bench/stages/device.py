"""A slot of a GPU per process: the first that no other process of this user holds.

Snakemake counts slots but assigns none. A process therefore holds a lock on a file that is named
after its GPU and its slot there, in a folder that all suites of this user on this machine share.
The kernel releases the lock when the process ends, however it ends. Torch says which GPUs there
are, so CUDA_VISIBLE_DEVICES and the allocation of a scheduler are respected.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import gettempdir

import torch
from filelock import AcquireReturnProxy, FileLock, Timeout

from bench.results.provenance import runs_per_gpu
from bench.utils.errors import TransientError, UserError, warn
from bench.utils.files import disk_errors

POLL = 0.5  # seconds between two attempts to lock
# The least batch size with which a training is taken to fill the memory of a GPU.
LARGE_BATCH = 256


@contextmanager
def lease(batch_size: int = 0) -> Iterator[str]:
    """Hold a slot of a GPU during the block and yield "cuda:N"; where there is no GPU, yield "cpu"
    at once. Two trainings with a `batch_size` of at least `LARGE_BATCH` never share a GPU.

    `TransientError` if there are GPUs, and CUDA does not start; `UserError` if a variable makes a
    GPU multiply in TF32 always.
    """
    slots = runs_per_gpu()
    if not torch.cuda.is_available():
        # The driver is older than torch's CUDA, a GPU is lost, or the daemon of MPS, after a fault
        # of one process, refuses new ones until all others have ended.
        if torch.cuda.device_count():
            raise TransientError(
                "CUDA does not start on the GPUs of this machine; repeat the command, update the "
                "driver, or set CUDA_VISIBLE_DEVICES to nothing to compute on the processor"
            )
        yield "cpu"
        return
    if os.environ.get("NVIDIA_TF32_OVERRIDE") == "1":  # in Python; commands leave it out
        raise UserError(
            "NVIDIA_TF32_OVERRIDE=1 lets the GPU multiply in TF32 whatever is asked for; unset it, "
            "and start Python again"
        )
    # Containers, or jobs with a private /tmp, on one machine need a common SENTBENCH_LEASES.
    common_folder = os.environ.get("SENTBENCH_LEASES")
    folder = Path(common_folder or f"{gettempdir()}/sentbench-{os.getuid()}")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Anybody may make a folder of this name in the common temporary folder.
    if not common_folder and folder.lstat().st_uid != os.getuid():
        raise UserError(
            f"{folder} belongs to another user; name a folder of your own by SENTBENCH_LEASES"
        )
    gpus = range(torch.cuda.device_count())
    # By UUID, since CUDA_VISIBLE_DEVICES changes the numbers of GPUs from process to process.
    uuids = [str(torch.cuda.get_device_properties(gpu).uuid) for gpu in gpus]
    # Every GPU's first slot comes before any second; a large training takes first slots alone.
    names = [*uuids]
    if batch_size < LARGE_BATCH:
        names += [f"{uuid}.{slot}" for slot in range(2, slots + 1) for uuid in uuids]
    # A soft lock would stay after a kill, and others would wait for it for ever.
    locks = [FileLock(folder / name, is_singleton=True, fallback_to_soft=False) for name in names]
    with disk_errors(folder, "its file system cannot lock GPUs ({})"):
        number, held = _acquire(locks)
    # The names go round the GPUs slot by slot.
    index = number % len(uuids)
    with held, torch.cuda.device(index):
        yield f"cuda:{index}"


def _acquire(locks: list[FileLock]) -> tuple[int, AcquireReturnProxy[FileLock]]:
    """Wait for a free slot; return its number, and the context that releases its lock."""
    # A lease within a lease of this process has the same GPU.
    order = sorted(range(len(locks)), key=lambda number: not locks[number].is_locked)
    is_waiting = False
    while True:
        for number in order:
            with suppress(Timeout):
                return number, locks[number].acquire(timeout=0)
        if not is_waiting:
            warn(f"waiting for a GPU: all {len(locks)} slots are taken")
            is_waiting = True
        time.sleep(POLL)
