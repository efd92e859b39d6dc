"""GPU leases: at most one job per device on one machine.

Snakemake counts GPUs but does not assign them, so every job that needs one takes a lease. A lease
is a lock on a file named after the device's UUID, held through an open file descriptor. The kernel
releases it when the process ends, however it ends, so no cleanup is needed.

* Only devices that CUDA_VISIBLE_DEVICES allows are leased. If it is empty, the job runs on the CPU.
* Inside a scheduler's allocation the devices belong to the job, and nothing is leased.
* The lock files are in one folder per user, shared by all suites on the machine:
  `/tmp/sentbench-UID/leases`, or SENTBENCH_LEASES (containers on one machine need a common one).
* SENTBENCH_DEVICES, a comma-separated list of UUIDs, replaces nvidia-smi's list (for tests, and for
  machines without nvidia-smi).
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

# Set inside our own lease, for the commands that a job starts, and inside an allocation of SLURM,
# PBS and Torque, LSF, Flux, OAR and Grid Engine.
SCHEDULERS = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "FLUX_JOB_ID", "OAR_JOB_ID", "SGE_TASK_ID")
ALLOCATED = ("SENTBENCH_LEASE", *SCHEDULERS)
POLL = 0.5  # seconds between two attempts to lock
MESSAGE = 60.0  # seconds between two messages while waiting

_held: set[int] = set()


def _close_inherited() -> None:
    """Close the locks in a forked child, which would keep them beyond its job. Exec closes them."""
    for descriptor in _held:
        with suppress(OSError):
            os.close(descriptor)
    _held.clear()


os.register_at_fork(after_in_child=_close_inherited)


def listed() -> list[str]:
    """Return the UUIDs of the machine's devices in nvidia-smi's order; empty without a driver.

    Raises:
        UserError: nvidia-smi exists but fails.
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
        raise UserError(
            f"nvidia-smi cannot be run ({error}); set CUDA_VISIBLE_DEVICES= to train on the CPU"
        ) from None
    output = (answer.stdout + answer.stderr).strip()
    if "No devices were found" in output:
        return []
    if answer.returncode != 0:
        raise UserError(
            f"nvidia-smi fails ({output.splitlines()[-1:]}); repair it, "
            "or set CUDA_VISIBLE_DEVICES= for the CPU"
        )
    rows = [line.split(",") for line in answer.stdout.splitlines()]
    return [uuid.strip() for _, uuid in sorted(rows, key=lambda row: int(row[0]))]


def visible() -> list[str]:
    """Return the devices that this process may use, in the order of CUDA_VISIBLE_DEVICES if set.

    The variable holds indices, UUIDs or prefixes of UUIDs. As for CUDA, it ends at the first entry
    that matches no device. Indices are nvidia-smi's; on a machine with different GPUs, CUDA uses
    the same order with CUDA_DEVICE_ORDER=PCI_BUS_ID.
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
            if word.startswith("MIG-"):  # a part of a device; nvidia-smi lists whole devices only
                matches = [word]
        if len(matches) != 1:
            break
        allowed += [uuid for uuid in matches if uuid not in allowed]
    return allowed


def lease_folder() -> Path:
    """Return the folder of the lock files, which belongs to this user.

    Raises:
        UserError: it cannot be created, or belongs to another user.
    """
    # Not XDG_RUNTIME_DIR: it is removed at the last logout while jobs may still run, and cron jobs
    # have none.
    folder = Path(os.environ.get("SENTBENCH_LEASES") or f"/tmp/sentbench-{os.getuid()}/leases")  # noqa: S108 (owner checked)
    try:
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        paths = (folder,) if "SENTBENCH_LEASES" in os.environ else (folder.parent, folder)
        stats = [os.lstat(path) for path in paths]
    except OSError as error:
        raise UserError(
            f"cannot use {folder} for device leases ({error.strerror}); "
            "name a folder in SENTBENCH_LEASES"
        ) from None
    owned = all(one.st_uid == os.getuid() and stat.S_ISDIR(one.st_mode) for one in stats)
    if not owned:
        raise UserError(
            f"{folder} belongs to another user; name a folder for device leases in SENTBENCH_LEASES"
        )
    return folder


def _take(path: Path) -> int | None:
    """Lock a file without waiting; return its descriptor, or None if another job holds it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        # A lock on a file that was deleted between the two calls would exclude nobody.
        if (
            lock_descriptor(descriptor, blocking=False)
            and os.stat(path).st_ino == os.fstat(descriptor).st_ino
        ):
            os.utime(descriptor)  # cleaners of /tmp delete old files
            _held.add(descriptor)
            return descriptor
    except FileNotFoundError:
        pass
    os.close(descriptor)
    return None


def _wait(devices: list[str], poll: float) -> tuple[str, int]:
    """Wait for a free device; return its UUID and the descriptor that holds its lock."""
    folder, started, next_message = lease_folder(), time.monotonic(), 0.0
    while True:
        for uuid in devices:
            descriptor = _take(folder / uuid.replace("/", "_"))
            if descriptor is not None:
                return uuid, descriptor
        waited = time.monotonic() - started
        if waited >= next_message:
            message = f"waiting for a GPU: all {len(devices)} are leased ({waited:.0f} s)"
            print(message, file=sys.stderr, flush=True)
            next_message = waited + MESSAGE
        time.sleep(poll)


@contextmanager
def lease(poll: float = POLL) -> Iterator[str]:
    """Hold one device during the block, waiting until one is free (looking every `poll` seconds).

    It must be entered before the process first uses CUDA, since it sets CUDA_VISIBLE_DEVICES to the
    UUID of the leased device during the block.

    Yields:
        "cpu", immediately, if no device may be used; else "cuda".

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
        for name in names:
            os.environ.pop(name, None)
        os.environ.update({name: value for name, value in before.items() if value is not None})
        _held.discard(descriptor)
        os.close(descriptor)
