"""The log of a training, which is also its lock."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

from filelock import lock_descriptor

from bench.utils.errors import TransientError
from bench.utils.files import disk_errors


class Log:
    """`log.jsonl`, one line of JSON per step. The open file is locked, so only one process trains a
    run."""

    def __init__(self, path: Path) -> None:
        """Open or create a log; `UserError` if another process is training the run."""
        self.path = path
        with disk_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = open(path, "ab", buffering=0)  # noqa: SIM115 (kept open for its lock)
        if not lock_descriptor(self._file.fileno(), blocking=False):
            self._file.close()
            raise TransientError(
                f"{path} is locked: another process is training this run; wait for it"
            )

    def __enter__(self) -> Log:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    @property
    def size(self) -> int:
        return os.fstat(self._file.fileno()).st_size

    def cut(self, size: int) -> None:
        self._file.truncate(size)

    def write(self, row: dict[str, Any]) -> None:
        line = json.dumps(row).encode() + b"\n"
        with disk_errors(self.path):
            # Unbuffered, so a full disk is noticed at once; the next attempt cuts what was written.
            if self._file.write(line) < len(line):
                raise OSError(errno.ENOSPC, "the disk is full")

    def sync(self) -> int:
        """Flush all rows to disk and return the size in bytes."""
        with disk_errors(self.path):
            os.fsync(self._file.fileno())
        return self.size
