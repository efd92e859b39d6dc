"""Which runs a process works on, and why the last one that worked on a run failed.

While a process is at a stage of a run it shares the lock of `runs/RUN/STAGE.lock`, which the kernel
releases however the process ends. So a lock file that nobody holds was left by a killed process. An
error is written to `runs/RUN/failure.json`, which the next attempt deletes. Reading all this
disturbs no process: a shared lock waits for one who looks, and nobody else takes another.

A failure is final if another attempt would end in the same way. Full memory or disk, a lost device
or connection, and another process at the same run are not: they are transient.
"""

from __future__ import annotations

import datetime
import fcntl
import sys
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from bench.results.records import FAILURE, STAGES
from bench.runs import paths
from bench.utils.errors import TransientError, UserError
from bench.utils.files import read_json, write_error, write_json
from bench.utils.memory import is_memory_full

# How torch's messages begin when a device is lost or its driver fails.
DEVICE_ERRORS = ("CUDA error", "CUDA driver error", "cuDNN error")
FINAL = "not tried again: the last attempt failed for good; fix its error and start the suite again"
KILLED = "its process ended without a message, as a killed one does; start the suite again"


@dataclass(frozen=True)
class Failure:
    """How the last attempt at a stage of a run ended.

    Attributes:
        stage: the stage.
        error: the message.
        attempts: how many attempts have failed since the stage was last complete.
        final: whether another attempt would fail in the same way.
        date: when it ended; empty if the process was killed.
        traceback: of an error that is not the user's.
    """

    stage: str
    error: str
    attempts: int = 1
    final: bool = False
    date: str = ""
    traceback: str = ""


def is_transient(error: BaseException) -> bool:
    """Return whether another attempt may not meet an error again."""
    if isinstance(error, MemoryError | RuntimeError):
        lost = any(words in str(error) for words in DEVICE_ERRORS)
        return lost or is_memory_full(error)
    return isinstance(error, TransientError | OSError)


def _lock(suite: Path, run_id: str, stage: str) -> Path:
    return paths.run_folder(suite, run_id) / f"{stage}.lock"


@contextmanager
def working(suite: Path, run_id: str, stage: str) -> Iterator[None]:
    """Show that this process is at a stage of a run, and record the error that ends the block.

    A signal is no error: the next attempt continues.

    Raises:
        UserError: the run's folder cannot be written.
    """
    folder, lock = paths.run_folder(suite, run_id), _lock(suite, run_id, stage)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        before = last_failure(suite, run_id, stage)
        file = open(lock, "ab", buffering=0)  # noqa: SIM115 (kept open for its lock)
        attempts = before.attempts + 1 if before else 1
        file.write(b"." * (attempts - file.tell()))  # so that a killed attempt is counted
        (folder / FAILURE).unlink(missing_ok=True)
    except OSError as error:
        raise write_error(lock, error.errno) from error
    failure: Failure | None = None
    with file:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(file, fcntl.LOCK_SH)
        try:
            yield
        except Exception as error:
            date = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
            known, final = isinstance(error, UserError), not is_transient(error)
            told, trace = (str(error), "") if known else (repr(error), traceback.format_exc())
            failure = Failure(stage, told, attempts, final, date, trace)
            raise
        finally:
            # With two processes at one stage, one fails at once; what the other does counts.
            if not _is_held(lock, file):
                lock.unlink(missing_ok=True)
                with suppress(UserError, OSError):  # a full disk, which the error says
                    if failure:
                        write_json(folder / FAILURE, asdict(failure))
    with suppress(OSError):  # it holds a training
        folder.rmdir()


def stage_at_work(suite: Path, run_id: str) -> str:
    """The stage of a run that a process is at now; empty if none is."""
    return next((stage for stage in STAGES if _is_held(_lock(suite, run_id, stage))), "")


def _is_held(lock: Path, own: IO[bytes] | None = None) -> bool:
    """Whether a process holds a lock, other than through the file `own`."""
    try:
        with open(lock, "rb") as file:
            fcntl.flock(own or file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # no such file, or a file system without locks
        return False
    return False


def last_failure(suite: Path, run_id: str, stage: str) -> Failure | None:
    """How the last attempt at a stage of a run failed; None if it did not."""
    with suppress(UserError, TypeError):
        failure = Failure(**read_json(paths.run_folder(suite, run_id) / FAILURE))
        if failure.stage == stage:
            return failure
    with suppress(OSError):
        return Failure(stage, KILLED, max(1, _lock(suite, run_id, stage).stat().st_size))
    return None


def check_retry(suite: Path, run_id: str, stages: Iterable[str]) -> None:
    """Refuse another attempt at a run whose last one failed for good.

    Raises:
        UserError: with the message of that attempt.
    """
    for stage in stages:
        failure = last_failure(suite, run_id, stage)
        if failure and failure.final:
            print(f"{failure.traceback}{FINAL}", file=sys.stderr)
            raise UserError(failure.error)
