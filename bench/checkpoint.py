"""Checkpoints of a training: all that its steps have changed, in one file that proves itself.

A file is called STEP-SUM.safetensors, SUM being the SHA-256 of its bytes: what was cut short or has rotted is known by
its name alone. Tensors are the file's own, everything else is JSON in its metadata. It appears whole or not at all, and
the one before it stays, so that there is always one to go back to.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from bench.errors import UserError
from bench.files import atomic_file, sha256_file, sync, writing

INTERVAL = 120.0  # seconds: what a kill costs at most. A checkpoint of BERT-base is 1.7 GB, and short runs need none
GENERATIONS = 2
_NAME = re.compile(r"(\d{8})-([0-9a-f]{64})\.safetensors")


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
        with writing(named):
            os.replace(whole, named)
            sync(self.folder)
        kept = self._newest_first()[:GENERATIONS]
        for path in self.folder.iterdir():  # a killed process may have left others than checkpoints
            if path not in kept:
                path.unlink()
        self._last = time.monotonic()

    def newest(self) -> Checkpoint | None:
        """The newest checkpoint whose bytes are as its name says; what is broken is named on stderr and deleted.

        Raises:
            UserError: it is of another training.
        """
        files = self._newest_first()
        for path in files:
            if sha256_file(path) == path.stem.partition("-")[2]:
                return self._read(path)
            print(f"{path} is not what was written: it is left out", file=sys.stderr, flush=True)
            path.unlink()
        if files:
            print(f"no checkpoint in {self.folder} is whole: the training starts anew", file=sys.stderr, flush=True)
        return None

    def forget(self) -> None:
        """Delete all of them."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _newest_first(self) -> list[Path]:
        found = self.folder.iterdir() if self.folder.is_dir() else []
        return sorted((path for path in found if _NAME.fullmatch(path.name)), reverse=True)

    def _read(self, path: Path) -> Checkpoint:
        with safe_open(path, framework="pt") as file:
            said = {name: json.loads(text) for name, text in file.metadata().items()}
            if other := list(_differences(said["origin"], self.origin)):
                raise UserError(
                    f"{path} is of another training: {', '.join(other)}; delete its folder, or name another"
                )
            # Copies: a tensor mapped from the file need not lie where processors read fastest, nor survive the file.
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118 (not a dict)
        return Checkpoint(path, tensors, said["facts"])


def _differences(old: Any, new: Any, name: str = "") -> Iterator[str]:
    """`field was A, is B` for each field of nested plain data that differs."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new}):
            yield from _differences(old.get(key), new.get(key), f"{name}.{key}" if name else key)
    elif old != new:
        yield f"{name} was {json.dumps(old)}, is {json.dumps(new)}"
