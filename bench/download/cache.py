"""The cache of downloaded data, and the locks that let one process download at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock

from bench.utils.errors import UserError


def cache_folder() -> Path:
    """The folder of downloaded data, safe to delete: SENTBENCH_CACHE, by default `.cache/data`."""
    return Path(os.environ.get("SENTBENCH_CACHE") or Path(".cache") / "data")


@contextmanager
def locked(path: Path | None = None) -> Iterator[None]:
    """Hold a lock file; other processes that ask for it wait.

    Args:
        path: the lock file; by default that of the cache, which also guards `pins.lock.json`.

    Raises:
        UserError: the lock file cannot be written.
    """
    folder = (
        "SENTBENCH_CACHE to a folder for data" if path is None else "HF_HOME to a folder for models"
    )
    path = path or cache_folder() / ".lock"
    lock = FileLock(path, mode=0o664)  # as huggingface_hub: a group can share the cache
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except OSError as error:
        raise UserError(
            f"cannot write {path} ({error.strerror}); set {folder} that you can write to"
        ) from None
    try:
        yield
    finally:
        lock.release()
