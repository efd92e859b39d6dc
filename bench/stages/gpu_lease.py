"""GPU leases: at most one job per device on one machine.

Snakemake counts GPUs but does not assign them, so every job that needs one takes a lease. A lease
is a lock on a file named after the device's UUID, held through an open file descriptor. The kernel
releases it when the process ends, however it ends, so no cleanup is needed.

* Only devices that CUDA_VISIBLE_DEVICES allows are leased. If it is empty, the job runs on the CPU.
* Inside a scheduler's allocation it is the same: several jobs share its devices, and a job with one
  device of its own leases that at once.
* A device on which nothing can be computed is set aside for `RETRY` seconds, by a file beside its
  lock, and the next one is leased.
* The files are in one folder per user, shared by all suites on the machine:
  `/tmp/sentbench-UID/leases`, or SENTBENCH_LEASES (containers on one machine need a common one).
* SENTBENCH_DEVICES, a comma-separated list of UUIDs, replaces the machine's list (for tests, and
  where neither nvidia-smi nor the driver's files name the devices).
"""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import lock_descriptor

from bench.stages import devices
from bench.utils.errors import UserError
from bench.utils.files import write_text

LEASED = "SENTBENCH_LEASE"  # set inside a lease, for the commands that its job starts
POLL = 0.5  # seconds between two attempts to lock
MESSAGE = 60.0  # seconds between two messages while waiting
# Seconds until a device that did not start is tried again. A memory filled by somebody else or a
# driver under repair lasts minutes; a device that is broken costs one such trial each time.
RETRY = 600.0

_held: set[int] = set()
_own: str | None = None  # the device on which a lease started CUDA in this process


def _close_inherited() -> None:
    """Close the locks in a forked child, which would keep them beyond its job. Exec closes them."""
    for descriptor in _held:
        with suppress(OSError):
            os.close(descriptor)
    _held.clear()


os.register_at_fork(after_in_child=_close_inherited)


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


def _give(descriptor: int) -> None:
    """Release a lock that `_take` returned."""
    _held.discard(descriptor)
    os.close(descriptor)


def _set_aside(file: Path) -> str | None:
    """Return why a device is set aside now, by its file, or None if it is not."""
    with suppress(FileNotFoundError):
        if time.time() - file.stat().st_mtime < RETRY:
            return file.read_text(encoding="utf-8")
    return None


def _try(uuid: str, folder: Path) -> tuple[int | None, str | None]:
    """Lease a device without waiting; return the descriptor that holds its lock, or None, and why
    it is set aside, or None."""
    name = uuid.replace("/", "_")
    file = folder / f"{name}.fault"
    if (why := _set_aside(file)) is not None:
        return None, why
    descriptor = _take(folder / name)
    if descriptor is None:
        return None, None
    if (why := devices.start_fault(uuid)) is None:
        file.unlink(missing_ok=True)
        return descriptor, None
    write_text(file, why)
    _give(descriptor)
    message = f"{uuid} does not start ({why}) and is set aside for {RETRY / 60:.0f} minutes"
    print(f"{message}; to use it before, delete {file}", file=sys.stderr, flush=True)
    return None, why


def _wait(uuids: list[str], poll: float) -> tuple[str, int]:
    """Wait for a free device; return its UUID and the descriptor that holds its lock.

    Raises:
        UserError: all are set aside.
    """
    folder, started, next_message = lease_folder(), time.monotonic(), 0.0
    while True:
        aside: list[str] = []
        for uuid in uuids:
            descriptor, why = _try(uuid, folder)
            if descriptor is not None:
                return uuid, descriptor
            if why is not None:
                aside.append(f"{uuid}: {why}")
        if len(aside) == len(uuids):
            raise UserError(
                f"no GPU starts ({'; '.join(aside)}); repair that and delete {folder}/*.fault, or "
                f"{devices.ON_THE_CPU}"
            )
        waited = time.monotonic() - started
        if waited >= next_message:
            broken = f", {len(aside)} set aside" if aside else ""
            message = f"waiting for a GPU: {len(uuids) - len(aside)} leased{broken}"
            print(f"{message} ({waited:.0f} s)", file=sys.stderr, flush=True)
            next_message = waited + MESSAGE
        time.sleep(poll)


def _has_cuda_started() -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and torch.cuda.is_initialized()


@contextmanager
def lease(poll: float = POLL) -> Iterator[str]:
    """Hold one device during the block, waiting until one is free (looking every `poll` seconds).

    CUDA starts in the process, and CUDA_VISIBLE_DEVICES is the UUID of the leased device during the
    block. A process in which CUDA has started before keeps its device.

    Yields:
        "cpu", immediately, if no device may be used; else "cuda".

    Raises:
        UserError: the devices cannot be listed, none starts, torch cannot use them, or the lock
            files cannot be written.
    """
    global _own
    uuids, has_started = devices.visible(), _has_cuda_started()
    if not uuids:
        yield "cpu"
        return
    if os.environ.get(LEASED) or (has_started and _own is None):  # the caller chose the device
        devices.start_cuda()
        yield "cuda"
        return
    uuid, descriptor = _wait([_own] if has_started and _own else uuids, poll)
    names = ("CUDA_VISIBLE_DEVICES", LEASED)
    before = {name: os.environ.pop(name, None) for name in names}
    os.environ.update(dict.fromkeys(names, uuid))
    try:
        devices.start_cuda()
        _own = uuid
        yield "cuda"
    finally:
        for name in names:
            os.environ.pop(name, None)
        os.environ.update({name: value for name, value in before.items() if value is not None})
        _give(descriptor)
