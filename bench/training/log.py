"""The log of a training, which is its lock as well."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from types import TracebackType
from typing import Any

from filelock import lock_descriptor

from bench.utils.errors import UserError
from bench.utils.files import disk_errors, write_error


class Log:
    """`log.jsonl`, a line of JSON a step. It is locked while it is open, so that a run has one training at a time."""

    def __init__(self, path: Path) -> None:
        """Open or begin a log.

        Raises:
            UserError: it cannot be written, or another process trains the run.
        """
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = open(path, "ab", buffering=0)  # noqa: SIM115 (held open, for its lock)
        except OSError as error:
            raise write_error(path, error.errno) from error
        if not lock_descriptor(self._file.fileno(), blocking=False):
            self._file.close()
            raise UserError(f"{path} is being written: this run is trained by another process; wait for it") from None

    def __enter__(self) -> Log:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    @property
    def size(self) -> int:
        """Bytes."""
        return os.fstat(self._file.fileno()).st_size

    def cut(self, size: int) -> None:
        """Keep the first `size` bytes."""
        self._file.truncate(size)

    def write(self, row: dict[str, Any]) -> None:
        """Add a row, whole or not at all.

        Raises:
            UserError: there is no room.
        """
        line, size = json.dumps(row).encode() + b"\n", self.size
        with disk_errors(self.path):
            if self._file.write(line) < len(line):  # unbuffered, so that it says at once what did not fit
                self.cut(size)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def sync(self) -> int:
        """Have all rows on the disk; its size then."""
        with disk_errors(self.path):
            os.fsync(self._file.fileno())
        return self.size
