"""The state of a training: everything that its steps change, as `state_dict` and
`load_state_dict`."""

import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor, nn

from bench.models.packed_forward import Work

# Plain data that a checkpoint restores.
_RESTORED = ("step", "best", "since_best", "curve", "earlier", "skips")


class TrainingState:
    """Weights, optimiser, selection and counters of a training."""

    def __init__(
        self,
        modules: nn.Module,
        optimiser: torch.optim.Optimizer,
        scaler: torch.amp.GradScaler,
        work: Work,
        origin: Mapping[str, Any],
    ) -> None:
        """Start at step 0; `origin` is code, versions, device and corpus of this process."""
        self.modules, self.optimiser, self.scaler, self.work = modules, optimiser, scaler, work
        self.origin = dict(origin)
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
        """Seconds of training, without those of steps that were lost and repeated."""
        return round(time.monotonic() - self._started, 2)

    def keep_best(self, score: float, step: int, place: int) -> None:
        """Copy the present weights if `score` is the best so far; ties keep the earlier one
        (docs/methods.md#selection)."""
        if not self.best or score > self.best["dev"]:
            self.best = {"dev": score, "step": step, "place": place}
            state = self.modules.state_dict()
            self.best_weights = {name: tensor.clone() for name, tensor in state.items()}
            self.since_best = 0

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
        plain = {name: getattr(self, name) for name in (*_RESTORED, "origin", "seconds")}
        plain |= {"scaler": self.scaler.state_dict(), "work": asdict(self.work)}
        return {name: tensor.cpu().contiguous() for name, tensor in tensors.items()} | plain

    def load_state_dict(self, state: Mapping[str, Any]) -> bool:
        """Load what `state_dict` returned. Return whether its last steps ran with other code,
        versions or devices, which `earlier` then lists.

        Raises:
            RuntimeError, ValueError, KeyError: the tensors do not match those of the modules.
        """
        weights: dict[str, Tensor] = {}
        moments: dict[int, dict[str, Tensor]] = {}
        for name, value in state.items():
            match name.split("/", 1):
                case ["weights", rest]:
                    weights[rest] = value
                case ["best", rest]:
                    self.best_weights[rest] = value
                case ["optimiser", rest]:
                    index, _, key = rest.partition("/")
                    moments.setdefault(int(index), {})[key] = value
        self.modules.load_state_dict(weights)
        self.optimiser.load_state_dict({**self.optimiser.state_dict(), "state": moments})
        if self.scaler.is_enabled() and state["scaler"]:
            self.scaler.load_state_dict(state["scaler"])
        for name in _RESTORED:
            setattr(self, name, state[name])
        for name, amount in state["work"].items():  # in place: Encoders count into the same object
            setattr(self.work, name, amount)
        self._started -= state["seconds"]
        if state["origin"] == self.origin or state["origin"] in self.earlier:
            return False
        self.earlier.append(state["origin"])
        return True
