"""Checkpoints of a training: all that its steps have changed, in one file that proves itself.

A file is called STEP-SUM.safetensors, SUM being the SHA-256 of its bytes: what was cut short or has rotted is known by
its name alone. Tensors are the file's own, everything else is JSON in its metadata. It appears whole or not at all, and
the one before it stays, so that there is always one to go back to. Files and folders of other names are left alone.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from bench.utils.errors import UserError
from bench.utils.files import atomic_file, disk_errors, fsync, sha256_file

INTERVAL = 120.0  # seconds: what a kill costs at most. A checkpoint of BERT-base is 1.7 GB, and short runs need none
GENERATIONS = 2
_NAME = re.compile(r"(\d{8})-([0-9a-f]{64})\.safetensors")
_UNFINISHED = re.compile(r"\d{8}\.unsummed|\.\d{8}\.unsummed\..*\.part")  # what a killed process may leave


def interval() -> float:
    """Seconds between two checkpoints: SENTBENCH_CHECKPOINT_SECONDS, where it is set; 0 writes one at each step.

    Raises:
        UserError: it is no number of at least 0.
    """
    word = os.environ.get("SENTBENCH_CHECKPOINT_SECONDS", str(INTERVAL))
    try:
        seconds = float(word)
    except ValueError:
        seconds = -1.0
    if not seconds >= 0:
        raise UserError(f"SENTBENCH_CHECKPOINT_SECONDS is '{word}'; write seconds, 0 or more")
    return seconds


@dataclass(frozen=True)
class Checkpoint:
    """What one file holds: `tensors` by name, and `facts`, which are plain data."""

    path: Path
    tensors: dict[str, Tensor]
    facts: dict[str, Any]


class Checkpoints:
    """The checkpoints of one training, in a folder of their own."""

    def __init__(self, folder: Path, origin: Mapping[str, Any]) -> None:
        """Nothing is read or written yet.

        Args:
            origin: what the training is of, as plain data; a checkpoint of anything else is refused.
        """
        self.folder, self.origin = folder, json.loads(json.dumps(origin))
        self._interval, self._last = interval(), time.monotonic()

    def due(self) -> bool:
        """Whether the last checkpoint, or the start, is long enough ago."""
        return time.monotonic() - self._last >= self._interval

    def save(self, step: int, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
        """Write the checkpoint after `step` steps; older generations go once it is there.

        Args:
            tensors: contiguous, none sharing memory with another.

        Raises:
            UserError: there is no room, or the folder cannot be written.
        """
        whole = self.folder / f"{step:08d}.unsummed"
        with atomic_file(whole) as part:
            save_file(dict(tensors), part, {"origin": json.dumps(self.origin), "facts": json.dumps(facts)})
        named = self.folder / f"{step:08d}-{sha256_file(whole)}.safetensors"
        with disk_errors(named):
            os.replace(whole, named)
            fsync(self.folder)
        for path in (*_newest_first(self.folder)[GENERATIONS:], *_files(self.folder, _UNFINISHED)):
            path.unlink()
        self._last = time.monotonic()

    def newest(self) -> Checkpoint | None:
        """The newest checkpoint whose bytes are as its name says; what is broken is named on stderr and deleted.

        Raises:
            UserError: it is of another training.
        """
        files = _newest_first(self.folder)
        for path in files:
            if sha256_file(path) == path.stem.partition("-")[2]:
                return self._read(path)
            print(f"{path} is not what was written: it is left out", file=sys.stderr, flush=True)
            path.unlink()
        if files:
            print(f"no checkpoint in {self.folder} is whole: the training starts anew", file=sys.stderr, flush=True)
        return None

    def _read(self, path: Path) -> Checkpoint:
        with safe_open(path, framework="pt") as file:
            said = {name: json.loads(text) for name, text in file.metadata().items()}
            if other := list(_differences(said["origin"], self.origin)):
                raise UserError(
                    f"{path} is of another training: {', '.join(other)}; move its folder away, or name another suite"
                )
            # Copies: a tensor mapped from the file need not lie where processors read fastest, nor survive the file.
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118 (not a dict)
        return Checkpoint(path, tensors, said["facts"])


def forget(folder: Path) -> None:
    """Delete all checkpoints in a folder, finished or not, and the folder too where nothing else is in it."""
    with suppress(OSError):  # the folder is not there or holds what is not ours; or it cannot be written
        for path in (*_files(folder, _NAME), *_files(folder, _UNFINISHED)):
            path.unlink(missing_ok=True)
        folder.rmdir()


def _newest_first(folder: Path) -> list[Path]:
    return sorted(_files(folder, _NAME), reverse=True)


def _files(folder: Path, name: re.Pattern[str]) -> list[Path]:
    found = folder.iterdir() if folder.is_dir() else ()
    return [path for path in found if name.fullmatch(path.name) and path.is_file()]


def _differences(old: Any, new: Any, name: str = "") -> Iterator[str]:
    """`field was A, is B` for each field of nested plain data that differs."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new}):
            yield from _differences(old.get(key), new.get(key), f"{name}.{key}" if name else key)
    elif old != new:
        yield f"{name} was {json.dumps(old)}, is {json.dumps(new)}"
