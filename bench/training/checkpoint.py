"""Checkpoints of a training: its state after a step, in one file that verifies itself.

A file is named STEP-SUM.safetensors, where SUM is the SHA-256 of its bytes, so a truncated or
corrupted file is recognised by its name. Tensors are stored as such; everything else is JSON in the
file's metadata. A file is written atomically, and the previous one is kept until the next.
"""

import json
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from bench.utils.errors import UserError, warn
from bench.utils.files import fsync, remove_partial, sha256_file, staging_folder

# Seconds between checkpoints, the most that a kill costs. A checkpoint of BERT-base is 1.7 GB, and
# short runs need none. SENTBENCH_CHECKPOINT_SECONDS sets another number, 0 for after every step.
INTERVAL = 120.0
GENERATIONS = 2  # checkpoints that are kept


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint file and its state: tensors and plain data by name."""

    path: Path
    state: dict[str, Any]


class Checkpoints:
    """The checkpoints of one training, in a folder of their own."""

    def __init__(self, folder: Path, origin: Mapping[str, Any]) -> None:
        """Name the folder, and the training by plain data: checkpoints of others are refused."""
        self.folder, self.origin = folder, json.loads(json.dumps(origin))
        self._last = time.monotonic()
        seconds = os.environ.get("SENTBENCH_CHECKPOINT_SECONDS", INTERVAL)
        try:
            self._interval = float(seconds)
        except ValueError:
            raise UserError(
                f"SENTBENCH_CHECKPOINT_SECONDS is '{seconds}'; set it to a number of seconds"
            ) from None
        remove_partial(folder)

    def due(self) -> bool:
        return time.monotonic() - self._last >= self._interval

    def save(self, step: int, state: Mapping[str, Any]) -> None:
        """Write the checkpoint after `step` steps, then delete the oldest ones.

        Args:
            step: number of steps taken.
            state: tensors, contiguous and without shared memory, and plain data, by name.
        """
        tensors = {name: value for name, value in state.items() if isinstance(value, Tensor)}
        facts = {name: value for name, value in state.items() if name not in tensors}
        metadata = {"origin": json.dumps(self.origin), "facts": json.dumps(facts)}
        with staging_folder(self.folder / f"{step:08d}") as staging:
            file = staging / "checkpoint"
            save_file(tensors, file, metadata)
            fsync(file)
            os.replace(file, self.folder / f"{step:08d}-{sha256_file(file)}.safetensors")
        for path in self._newest_first()[GENERATIONS:]:
            path.unlink()
        self._last = time.monotonic()

    def newest(self) -> Checkpoint | None:
        """Return the newest intact checkpoint; damaged ones are reported on stderr and deleted.

        Raises:
            UserError: it is of another training.
        """
        files = self._newest_first()
        for path in files:
            if sha256_file(path) == path.stem.partition("-")[2]:
                return self._read(path)
            warn(f"{path} is damaged and was deleted")
            path.unlink()
        if files:
            warn(f"no checkpoint in {self.folder} is intact; the training starts over")
        return None

    def _newest_first(self) -> list[Path]:
        return sorted(self.folder.glob("*.safetensors"), reverse=True)

    def _read(self, path: Path) -> Checkpoint:
        with safe_open(path, framework="pt") as file:
            metadata = {name: json.loads(text) for name, text in file.metadata().items()}
            differences = list(_differences(metadata["origin"], self.origin))
            if differences:
                raise UserError(
                    f"{path} is of another training: {', '.join(differences)}; "
                    "move its folder away, or name another suite"
                )
            # Copies: a mapped tensor may be slower to read, and is invalid without the file.
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118 (not a dict)
        return Checkpoint(path, tensors | metadata["facts"])


def _differences(old: Any, new: Any, name: str = "") -> Iterator[str]:
    """Yield `field was A, is B` for each field of nested plain data that differs."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new}):
            yield from _differences(old.get(key), new.get(key), f"{name}.{key}" if name else key)
    elif old != new:
        yield f"{name} was {json.dumps(old)}, is {json.dumps(new)}"
