"""Which runs a process works on, and why the last one that worked on a run failed.

While a process is at a stage of a run it shares the lock of `runs/RUN/STAGE.lock`, which the kernel
releases however the process ends. So a lock file that nobody holds was left by a killed process. An
error is written to `runs/RUN/failure.json`, which the next attempt deletes. Reading all this
disturbs no process: a shared lock waits for one who looks, and nobody else takes another.
"""

from __future__ import annotations

import datetime
import fcntl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from bench.results.records import STAGES
from bench.runs import paths
from bench.utils.errors import UserError
from bench.utils.files import read_json, write_error, write_json

FAILURE = "failure.json"
KILLED = "its process ended without a message, as a killed one does; start the suite again"


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
        file = open(lock, "ab")  # noqa: SIM115 (kept open for its lock)
        (folder / FAILURE).unlink(missing_ok=True)
    except OSError as error:
        raise write_error(lock, error.errno) from error
    failure: dict[str, str] = {}
    with file:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(file, fcntl.LOCK_SH)
        try:
            yield
        except Exception as error:
            date = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
            told = str(error) if isinstance(error, UserError) else repr(error)
            failure = {"stage": stage, "error": told, "date": date}
            raise
        finally:
            # With two processes at one stage, one fails at once; what the other does counts.
            if not _is_held(lock, file):
                lock.unlink(missing_ok=True)
                with suppress(UserError, OSError):  # a full disk, which the error says
                    if failure:
                        write_json(folder / FAILURE, failure)
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


def last_failure(suite: Path, run_id: str, stage: str) -> str:
    """The error with which the last attempt at a stage of a run ended; empty if it did not fail."""
    with suppress(UserError, KeyError, TypeError):
        failure = read_json(paths.run_folder(suite, run_id) / FAILURE)
        if failure["stage"] == stage:
            return str(failure["error"])
    return KILLED if _lock(suite, run_id, stage).is_file() else ""
