"""Leases of GPUs: one device, one job, on one machine.

Snakemake counts GPUs but gives no numbers, so every job that wants one takes a lease here. A lease is a lock on a file
named by the device's UUID, held through an open file descriptor: the kernel lets go of it when the process ends,
however it ends, so nothing is ever lost and nothing has to be cleaned up.

* Only devices that CUDA_VISIBLE_DEVICES allows are leased; where it is empty there is none and the job runs on the CPU.
* Inside a scheduler's allocation the devices are the job's already: nothing is leased.
* The lock files lie in one folder per user, shared by all suites on the machine: `/tmp/sentbench-UID/leases`, or
  SENTBENCH_LEASES (containers on one machine must be given a common one).
* SENTBENCH_DEVICES, UUIDs separated by commas, stands in for what nvidia-smi lists (tests, machines without it).
"""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import lock_descriptor

from bench.utils.errors import UserError

# Set inside a lease of ours, for the commands that a job starts, and inside an allocation by SLURM, PBS and Torque,
# LSF, Flux, OAR and Grid Engine.
ALLOCATED = (
    "SENTBENCH_LEASE",
    "SLURM_JOB_ID",
    "PBS_JOBID",
    "LSB_JOBID",
    "FLUX_JOB_ID",
    "OAR_JOB_ID",
    "SGE_TASK_ID",
)
POLL = 0.5  # seconds between two looks at the locks
MESSAGE = 60.0  # seconds between two messages of a waiting job

_held: set[int] = set()


def _let_go() -> None:
    """Close what a forked child inherits: a worker that outlives its job must not keep its lock. (Exec closes it.)"""
    for descriptor in _held:
        with suppress(OSError):
            os.close(descriptor)
    _held.clear()


os.register_at_fork(after_in_child=_let_go)


def listed() -> list[str]:
    """UUIDs of the machine's devices, in nvidia-smi's order; none where there is no driver.

    Raises:
        UserError: nvidia-smi is there but fails.
    """
    given = os.environ.get("SENTBENCH_DEVICES")
    if given is not None:
        return [uuid.strip() for uuid in given.split(",") if uuid.strip()]
    command = ["nvidia-smi", "--query-gpu=index,uuid", "--format=csv,noheader"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except FileNotFoundError:
        return []
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UserError(f"nvidia-smi cannot be run ({error}); set CUDA_VISIBLE_DEVICES= to train on the CPU") from None
    said = (answer.stdout + answer.stderr).strip()
    if "No devices were found" in said:
        return []
    if answer.returncode != 0:
        raise UserError(
            f"nvidia-smi fails ({said.splitlines()[-1:]}); mend the driver, or set CUDA_VISIBLE_DEVICES= for the CPU"
        )
    rows = sorted(
        (int(index), uuid.strip()) for index, _, uuid in (line.partition(",") for line in answer.stdout.splitlines())
    )
    return [uuid for _, uuid in rows]


def visible() -> list[str]:
    """The devices that this process may use: those listed, chosen and ordered by CUDA_VISIBLE_DEVICES where it is set.

    It holds indices or UUIDs (or their beginnings), and ends at the first that names no device, as it does for CUDA.
    Indices are nvidia-smi's; on a machine with unlike GPUs CUDA counts the same way with CUDA_DEVICE_ORDER=PCI_BUS_ID.
    """
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None and not chosen.strip():
        return []
    devices = listed()
    if chosen is None:
        return devices
    allowed: list[str] = []
    for word in (word.strip() for word in chosen.split(",")):
        if word.isdecimal():
            matches = devices[int(word) : int(word) + 1]
        else:
            matches = [uuid for uuid in devices if word and uuid.startswith(word)]
            if word.startswith("MIG-"):  # parts of a device; nvidia-smi's list has whole ones only
                matches = [word]
        if len(matches) != 1:
            break
        allowed += [uuid for uuid in matches if uuid not in allowed]
    return allowed


def lease_folder() -> Path:
    """The folder of the lock files, which belongs to this user alone.

    Raises:
        UserError: it cannot be made, or belongs to somebody else.
    """
    # Not XDG_RUNTIME_DIR: it is emptied at the last logout, under jobs that still run, and cron has none.
    folder = Path(os.environ.get("SENTBENCH_LEASES") or f"/tmp/sentbench-{os.getuid()}/leases")  # noqa: S108 (owner checked)
    try:
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        owned = all(
            os.lstat(path).st_uid == os.getuid() and stat.S_ISDIR(os.lstat(path).st_mode)
            for path in ((folder,) if "SENTBENCH_LEASES" in os.environ else (folder.parent, folder))
        )
    except OSError as error:
        raise UserError(
            f"cannot use {folder} for device leases ({error.strerror}); name a folder in SENTBENCH_LEASES"
        ) from None
    if not owned:
        raise UserError(f"{folder} belongs to another user; name a folder for device leases in SENTBENCH_LEASES")
    return folder


def _take(path: Path) -> int | None:
    """Lock a file without waiting: its descriptor, or None where another job holds it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        # The file may have been deleted between the two calls; a lock on a deleted file excludes nobody.
        if lock_descriptor(descriptor, blocking=False) and os.stat(path).st_ino == os.fstat(descriptor).st_ino:
            os.utime(descriptor)  # cleaners of /tmp delete old files
            _held.add(descriptor)
            return descriptor
    except FileNotFoundError:
        pass
    os.close(descriptor)
    return None


def _wait(devices: list[str], poll: float) -> tuple[str, int]:
    """The first device that is or becomes free, and the descriptor that holds its lock."""
    folder, started, next_message = lease_folder(), time.monotonic(), 0.0
    while True:
        for uuid in devices:
            descriptor = _take(folder / uuid.replace("/", "_"))
            if descriptor is not None:
                return uuid, descriptor
        waited = time.monotonic() - started
        if waited >= next_message:
            print(f"waiting for a GPU: all {len(devices)} are leased ({waited:.0f} s)", file=sys.stderr, flush=True)
            next_message = waited + MESSAGE
        time.sleep(poll)


@contextmanager
def lease(poll: float = POLL) -> Iterator[str]:
    """Hold one device while the block runs, waiting until one is free.

    Yields "cpu" at once where no device may be used, else "cuda", which is then the leased device alone:
    CUDA_VISIBLE_DEVICES holds its UUID meanwhile. So it must be entered before CUDA is first used in the process.

    Raises:
        UserError: the devices cannot be listed, or the lock files cannot be written.
    """
    devices = visible()
    if not devices or any(os.environ.get(name) for name in ALLOCATED):
        yield "cuda" if devices else "cpu"
        return
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        raise RuntimeError("a device must be leased before CUDA is first used in the process")
    uuid, descriptor = _wait(devices, poll)
    names = ("CUDA_VISIBLE_DEVICES", "SENTBENCH_LEASE")
    before = {name: os.environ.pop(name, None) for name in names}
    os.environ.update(dict.fromkeys(names, uuid))
    try:
        yield "cuda"
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        _held.discard(descriptor)
        os.close(descriptor)
