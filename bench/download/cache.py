"""Where fetched text is kept, and whose turn it is to fetch."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.utils.errors import UserError


def cache_folder() -> Path:
    """Where fetched text is kept; safe to delete."""
    return Path(os.environ.get("SENTBENCH_CACHE") or Path(".cache") / "data")


@contextmanager
def held(path: Path, remedy: str) -> Iterator[None]:
    """Let one process at a time past a file that serves as guard.

    Raises:
        UserError: the guard cannot be written; `remedy` says what to do.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        guard = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise UserError(f"cannot write {path} ({error.strerror}); {remedy}") from None
    try:
        fcntl.flock(guard, fcntl.LOCK_EX)
        yield
    finally:
        os.close(guard)


@contextmanager
def alone() -> Iterator[None]:
    """Let one process at a time fetch, so that no two download the same file or write the lock at once."""
    with held(cache_folder() / ".lock", "name a folder for data in SENTBENCH_CACHE"):
        yield
