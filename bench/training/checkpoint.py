"""Files of a training: its state, in checkpoints that verify themselves, its log, its encoder.

A checkpoint is STEP-SUM.safetensors, of `bench.utils.files.write_summed`. Tensors are stored as
such; everything else is JSON in the file's metadata. The previous one is kept until the next.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from filelock import lock_descriptor
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from bench.models.load import load_encoder
from bench.registry.backbones import SAVED
from bench.results.records import read_trained
from bench.runs import paths
from bench.utils.errors import TransientError, UserError
from bench.utils.files import fsync, intact_files, read_json, write_summed

# Seconds between checkpoints, the most that a kill costs. A checkpoint of BERT-base is 1.7 GB, and
# short runs need none. SENTBENCH_CHECKPOINT_SECONDS sets another number, 0 for after every step.
INTERVAL = 120.0
GENERATIONS = 2  # checkpoints that are kept
# Plain data that a checkpoint restores.
RESTORED = ("step", "best", "since_best", "curve", "earlier", "skips")


class TrainingState:
    """Everything that the steps of a training change: weights, optimiser, selection, counters."""

    def __init__(
        self,
        modules: nn.Module,
        optimiser: torch.optim.Optimizer,
        scaler: torch.amp.GradScaler,
        origin: Mapping[str, Any],
    ) -> None:
        """Start at step 0; `origin` is code, versions, device and corpus of this process."""
        self.modules, self.optimiser, self.scaler = modules, optimiser, scaler
        self.origin = origin
        self.step = 0  # number of steps taken
        # The best Encoder: its `dev` score, the `step` it was selected at and its `place` among the
        # method's Encoders, empty before the first selection; and the weights, on the device: a
        # copy to the host would wait, and a GPU has room for one more copy.
        self.best: dict[str, Any] = {}
        self.best_weights: dict[str, Tensor] = {}
        self.since_best = 0  # selections since then
        self.curve: list[dict[str, Any]] = []  # loss, dev score and geometry at each selection
        # Steps that the scaler skipped, and how many of them are the last ones in a row.
        self.skips = {"all": 0, "in_a_row": 0}
        self.earlier: list[dict[str, Any]] = []  # other `origin`s that ran some of the steps
        self._started = time.monotonic()

    @property
    def seconds(self) -> float:
        """Seconds of training, without the steps that were lost and repeated."""
        return round(time.monotonic() - self._started, 2)

    def state_dict(self) -> dict[str, Any]:
        """Return tensors, contiguous and on the CPU, and plain data by name."""
        # Copies, since a checkpoint holds no tensors that share memory, as tied weights do.
        tensors = {
            f"weights/{name}": tensor.detach().to("cpu", copy=True)
            for name, tensor in self.modules.state_dict().items()
        }
        tensors |= {f"best/{name}": tensor for name, tensor in self.best_weights.items()}
        for index, moments in self.optimiser.state_dict()["state"].items():
            tensors |= {f"optimiser/{index}/{name}": value for name, value in moments.items()}
        plain = {name: getattr(self, name) for name in (*RESTORED, "origin", "seconds")}
        plain |= {"scaler": self.scaler.state_dict()}
        return {name: tensor.cpu().contiguous() for name, tensor in tensors.items()} | plain

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load what `state_dict` returned; `earlier` lists where else its steps ran."""

        def part(prefix: str) -> dict[str, Any]:
            names = [name for name in state if name.startswith(prefix)]
            return {name.removeprefix(prefix): state[name] for name in names}

        # The optimiser numbers its weights, in the order in which it was given them.
        moments: dict[int, dict[str, Tensor]] = {}
        for name, value in part("optimiser/").items():
            index, _, key = name.partition("/")
            moments.setdefault(int(index), {})[key] = value
        self.best_weights = part("best/")
        self.modules.load_state_dict(part("weights/"))
        self.optimiser.load_state_dict({**self.optimiser.state_dict(), "state": moments})
        if self.scaler.is_enabled() and state["scaler"]:
            self.scaler.load_state_dict(state["scaler"])
        for name in RESTORED:
            setattr(self, name, state[name])
        self._started -= state["seconds"]
        if state["origin"] not in (self.origin, *self.earlier):
            self.earlier.append(state["origin"])


class Checkpoints:
    """The checkpoints of one training, in a folder."""

    def __init__(self, folder: Path, origin: Mapping[str, Any]) -> None:
        """Name the folder, and the training by plain data: checkpoints of others are refused."""
        self.folder, self.origin = folder, json.loads(json.dumps(origin))
        self._last = time.monotonic()
        self._interval = float(os.environ.get("SENTBENCH_CHECKPOINT_SECONDS", INTERVAL))

    def due(self) -> bool:
        return time.monotonic() - self._last >= self._interval

    def save(self, step: int, state: Mapping[str, Any]) -> None:
        """Write the checkpoint after `step` steps, then delete the oldest ones. `state` has tensors
        without shared memory and plain data."""
        tensors = {name: value for name, value in state.items() if isinstance(value, Tensor)}
        facts = {name: value for name, value in state.items() if name not in tensors}
        metadata = {"origin": json.dumps(self.origin), "facts": json.dumps(facts)}
        save = partial(save_file, tensors, metadata=metadata)
        write_summed(self.folder, f"{step:08d}", ".safetensors", save)
        for path in sorted(self.folder.glob("*.safetensors"))[:-GENERATIONS]:
            path.unlink()
        self._last = time.monotonic()

    def newest(self) -> tuple[Path, dict[str, Any]] | None:
        """Return the newest intact checkpoint: its file, and its tensors and plain data by name.
        Those of another training are refused."""
        for path in intact_files(self.folder, "*.safetensors"):
            return path, self._read(path)
        return None

    def _read(self, path: Path) -> dict[str, Any]:
        with safe_open(path, framework="pt") as file:
            metadata = {name: json.loads(text) for name, text in file.metadata().items()}
            if metadata["origin"] != self.origin:
                raise UserError(
                    f"{path} is of another training, or its corpus or backbone has changed; "
                    "move its folder away, or name another suite"
                )
            # Copies: a mapped tensor may be slower to read, and is invalid without the file.
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118 (not a dict)
        return tensors | metadata["facts"]


class Log:
    """`log.jsonl`, one line of JSON per step. The open file is locked, so only one process trains a
    run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = open(path, "ab", buffering=0)  # noqa: SIM115 (kept open for its lock)
        if not lock_descriptor(self._file.fileno(), blocking=False):
            self._file.close()
            raise TransientError(
                f"{path} is locked: another process is training this run; wait for it"
            )

    def close(self) -> None:
        self._file.close()

    def cut(self, size: int) -> bool:
        """Cut the log to `size` bytes; return whether it has so many."""
        if os.fstat(self._file.fileno()).st_size < size:
            return False
        self._file.truncate(size)
        return True

    def write(self, row: dict[str, Any]) -> None:
        line = json.dumps(row).encode() + b"\n"
        # Unbuffered, so a full disk is noticed at once. Of a line that fitted in part, the next
        # write fails, and the next attempt cuts it.
        self._file.write(line)

    def sync(self) -> int:
        """Flush all rows to disk and return the size in bytes."""
        fsync(self.path)
        return os.fstat(self._file.fileno()).st_size


def trained_encoder(suite: Path, run_id: str, **options: Any) -> Any:
    """Load the Encoder that a training has saved, with options of `load_encoder`; `UserError` if it
    is not there, or has changed since."""
    folder = paths.run_folder(suite, run_id)
    source, outcome = folder / "encoder", folder / "outcome.json"
    if not (source / SAVED).is_file():
        raise UserError(
            f"{run_id} has no encoder: {source} does not exist; train the run, or name the suite "
            "that has it"
        )
    # `load_encoder` compares the files with the checksum beside them: here that is compared.
    saved = read_json(source / SAVED).get("sha256")
    if outcome.is_file() and read_trained(outcome).outcome.encoder_sha256 != saved:
        raise UserError(
            f"{source} is not the encoder that {outcome} tells of; restore it, or delete it and "
            f"{paths.result_file(suite, run_id, 'train')}, and run the suite again"
        )
    return load_encoder(source, **options)
