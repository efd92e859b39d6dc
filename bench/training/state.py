"""The state of a training: everything that its steps change, as `state_dict` and
`load_state_dict`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor, nn

from bench.models.packed_forward import Work

# Keys in checkpoint files. "done" is the step, "here" the origin of this process.
_PLAIN = {name: name for name in ("best", "since_best", "curve", "seconds", "earlier", "skips")}
_PLAIN |= {"done": "step", "here": "origin"}
_RESTORED = ("done", "best", "since_best", "curve", "earlier")


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

    def count_skip(self, skipped: bool) -> int:
        """Count a step that the scaler took or skipped; return how many it skipped in a row."""
        self.skips["all"] += skipped
        self.skips["in_a_row"] = self.skips["in_a_row"] + 1 if skipped else 0
        return self.skips["in_a_row"]

    def load_best(self) -> None:
        self.modules.load_state_dict(self.best_weights)

    def state_dict(self) -> dict[str, Any]:
        """Return tensors, contiguous and on the CPU, and plain data by name."""
        optimiser = self.optimiser.state_dict()["state"]
        groups = {
            "weights": _copy(self.modules),
            "best": self.best_weights,
            "optimiser": {
                f"{place}/{key}": value
                for place, own in optimiser.items()
                for key, value in own.items()
            },
        }
        tensors = {
            f"{group}/{name}": each.cpu().contiguous()
            for group in groups
            for name, each in groups[group].items()
        }
        plain = {key: getattr(self, name) for key, name in _PLAIN.items()}
        return tensors | plain | {"scaler": self.scaler.state_dict(), "work": asdict(self.work)}

    def load_state_dict(self, state: Mapping[str, Any]) -> bool:
        """Load what `state_dict` returned. Return whether its last steps ran with other code,
        versions or devices, which `earlier` then lists.

        Raises:
            RuntimeError, ValueError, KeyError: the tensors do not match those of the modules.
        """
        groups: dict[str, dict[str, Tensor]] = {"weights": {}, "best": {}, "optimiser": {}}
        for name, value in state.items():
            if isinstance(value, Tensor):
                group, _, rest = name.partition("/")
                groups[group][rest] = value
        moments: dict[int, dict[str, Tensor]] = {}
        for name, tensor in groups["optimiser"].items():
            place, _, key = name.partition("/")
            moments.setdefault(int(place), {})[key] = tensor
        self.modules.load_state_dict(groups["weights"])
        self.optimiser.load_state_dict({**self.optimiser.state_dict(), "state": moments})
        if self.scaler.is_enabled() and state["scaler"]:
            self.scaler.load_state_dict(state["scaler"])
        self.best_weights = groups["best"]
        for key in _RESTORED:
            setattr(self, _PLAIN[key], state[key])
        self.skips |= state.get("skips", {})  # which earlier versions did not count
        for name, amount in state["work"].items():  # in place: Encoders count into the same object
            setattr(self.work, name, amount)
        self._started -= state["seconds"]
        if state["here"] == self.origin or state["here"] in self.earlier:
            return False
        self.earlier.append(state["here"])
        return True


def _copy(module: nn.Module) -> dict[str, Tensor]:
    state = module.state_dict()
    return {name: tensor.detach().to("cpu", copy=True) for name, tensor in state.items()}
