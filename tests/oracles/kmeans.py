"""IS-CSE's K-means smoothing as loops over rows and centres; see `methods`."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from tests.oracles.methods import Memory, infonce, named_generator, plus_smoothing, smoothed, unit


def nearest_centre(u: Tensor, centres: Sequence[Tensor]) -> int:
    return max(range(len(centres)), key=lambda j: (u @ centres[j]).item())


def kmeans(rows: Sequence[Tensor], centres: Sequence[Tensor]) -> list[Tensor]:
    """Assign rows to nearest centres, put centres at unit means, until nothing changes."""
    centres = list(centres)
    owners: list[int] = []
    for _ in range(20):
        result = [nearest_centre(row, centres) for row in rows]
        if result == owners:
            break
        owners = result
        for j in range(len(centres)):
            total = torch.zeros_like(centres[j])
            for row, owner in zip(rows, owners, strict=True):
                if owner == j:
                    total = total + row
            if total.any():
                centres[j] = unit(total)
    return centres


class GroupOracle:
    """One run of IS-CSE with its group "kmeans" or "both".

    Args:
        options: alpha, length, k, beta, official, group, clusters, gamma.
    """

    def __init__(self, options: dict[str, Any], t: float = 0.05) -> None:
        self.options, self.t = options, t
        # The twin is for kNN.
        self.memory, self.twin = (Memory(options["length"]), Memory(options["length"]))
        self.centres: list[Tensor] = []

    def __call__(
        self, h: Tensor, p: Tensor, lower: object, *, index: int, total: int, seed: int
    ) -> Tensor:
        o = self.options
        loss = infonce(h, p, self.t)
        if o["group"] == "both":
            near = smoothed(p, self.twin, o["k"], o["beta"], o["official"])
            loss = plus_smoothing(loss, h, near, self.t, o["alpha"])
        rows = self.memory.rows
        ready = len(rows) >= o["clusters"]
        self.memory.enter(p)
        if o["official"]:
            rows, ready = self.memory.rows, self.memory.full()
        if not ready:
            return loss
        if not self.centres:
            generator = named_generator(seed, "centres", index)
            order = torch.randperm(len(rows), generator=generator).tolist()
            self.centres = [rows[row] for row in order[: o["clusters"]]]
        self.centres = kmeans(rows, self.centres)
        drawn = []
        for u in p:
            centre = self.centres[nearest_centre(unit(u), self.centres)]
            drawn.append(o["gamma"] * unit(u) + (1 - o["gamma"]) * centre)
        return loss + o["alpha"] * infonce(h, drawn, self.t)
