"""Which workflow a suite has, which stage of a run a process is at, and how the last attempt at a
run failed.

While a process is at a stage of a run it holds `runs/RUN/run.lock`, in which the stage is written.
The kernel releases the lock however the process ends, so a file that nobody holds was left by a
killed process. An error is written to `runs/RUN/failure.json`, which the next attempt deletes.

A failure is final if another attempt would end in the same way. Full memory or disk, a lost device
or connection, and another process at the same run are not: they are transient.
"""

import atexit
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from filelock import FileLock, Timeout, lock_descriptor

from bench.results.records import FAILURE
from bench.runs import paths
from bench.utils.errors import TransientError, UserError, is_memory_full, warn
from bench.utils.files import disk_errors, write_json
from bench.utils.validation import read_document

LOCK = "run.lock"
# Seconds to wait for the lock of a run: `stage_at_work` holds it for a moment, too.
LOOK = 5.0
# How torch's messages begin when a device is lost or its driver fails.
DEVICE_ERRORS = ("CUDA error", "CUDA driver error", "cuDNN error")
FINAL = "not tried again: the last attempt failed for good; fix its error and start the suite again"
KILLED = "its process ended without a message, as a killed one does; start the suite again"


@dataclass(frozen=True)
class Failure:
    """How the last attempt at a run ended."""

    stage: str
    error: str
    attempts: int = 1  # in a row, at the stage that failed; killed attempts do not count
    final: bool = False
    traceback: str = ""  # of an error that is not the user's


def is_transient(error: BaseException) -> bool:
    """Return whether another attempt may not meet an error again."""
    if isinstance(error, UserError):
        return isinstance(error, TransientError)
    is_lost = any(words in str(error) for words in DEVICE_ERRORS)
    return isinstance(error, OSError) or is_lost or is_memory_full(error)


def hold(suite: Path, runs: Iterable[str]) -> None:
    """Hold a suite in this working folder for a workflow until its process ends.

    Snakemake's own lock is a file, which a killed workflow leaves; the kernel releases this one.

    Raises:
        UserError: another workflow holds the suite, or a job of a killed one is at one of `runs`.
    """
    lock = FileLock(Path(".snakemake", f"{suite.name}.lock"), fallback_to_soft=False)
    try:
        lock.acquire(timeout=0)
        # The registered method also keeps the lock alive: a `FileLock` that is collected is
        # released.
        atexit.register(lock.release)
    except Timeout:
        raise UserError(f"another workflow is at work on {suite} here; wait for its end") from None
    except OSError:  # on a file system without locks each job is refused
        return
    at_work = [run for run in runs if stage_at_work(suite, run)]
    if at_work:
        raise UserError(
            f"a job of another start is at work on {at_work[0]} in {suite}, as after a kill of "
            "Snakemake alone; wait for its end, or end it: "
            f"pkill -TERM -f 'bench (job|train) .*{suite}'"
        )


@contextmanager
def working(suite: Path, run_id: str, stage: str) -> Iterator[None]:
    """Show that this process is at a stage of a run, and record the error that ends the block.

    A signal is no error: the next attempt continues.
    """
    folder = paths.run_folder(suite, run_id)
    lock = folder / LOCK
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with disk_errors(lock, "its file system cannot lock it ({})"):
            held = FileLock(lock, fallback_to_soft=False).acquire(timeout=LOOK)
    except Timeout:
        raise TransientError(f"another process is at work on {run_id}; wait for it") from None
    with held:
        # Read before it is deleted, because the next failure counts its attempts.
        before = _recorded(folder)
        try:
            with disk_errors(folder):
                lock.write_text(stage)
                (folder / FAILURE).unlink(missing_ok=True)
                yield
        except Exception as error:
            message, trace, attempts = repr(error), traceback.format_exc(), 1
            if isinstance(error, UserError):
                message, trace = str(error), ""
            if before and before.stage == stage:
                attempts += before.attempts
            failure = Failure(stage, message, attempts, not is_transient(error), trace)
            with suppress(UserError, OSError):  # a full disk, which the error says
                write_json(folder / FAILURE, asdict(failure))
            raise
        finally:
            # So a lock file that nobody holds was left by a killed process (`last_failure`).
            lock.unlink(missing_ok=True)
    with suppress(OSError):  # it holds a training
        folder.rmdir()


def _recorded(folder: Path) -> Failure | None:
    file = folder / FAILURE
    if not file.is_file():
        return None
    return read_document(file, Failure, "a failed attempt", "remove it")


def stage_at_work(suite: Path, run_id: str) -> str:
    """The stage of a run that a process is at now; empty if none is."""
    try:
        with open(paths.run_folder(suite, run_id) / LOCK, encoding="utf-8") as file:
            # If the lock can be taken, nobody is at work. Closing the file gives it back.
            return "" if lock_descriptor(file.fileno(), blocking=False) else file.read()
    except OSError:  # no such file, or a file system without locks
        return ""


def last_failure(suite: Path, run_id: str) -> Failure | None:
    """How the last attempt at a run that no process is at now failed; None if it did not."""
    folder = paths.run_folder(suite, run_id)
    with suppress(FileNotFoundError):
        return Failure((folder / LOCK).read_text(), KILLED)
    return _recorded(folder)


def check_retry(suite: Path, run_id: str, stages: Iterable[str]) -> None:
    """Repeat the error of a run's last attempt if it failed for good."""
    failure = last_failure(suite, run_id)
    if failure and failure.final and failure.stage in stages:
        warn(f"{failure.traceback}{FINAL}", kept="\n")
        raise UserError(failure.error)
