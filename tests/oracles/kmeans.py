"""IS-CSE's K-means smoothing as plain loops on Python floats; see `methods`."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from tests.oracles.methods import (
    Memory,
    infonce,
    named_generator,
    scalars,
    smoothed_official,
    smoothed_paper,
    unit,
)

Floats = list[float]


def product(u: Sequence[float], v: Sequence[float]) -> float:
    total = 0.0
    for a, b in zip(u, v, strict=True):
        total += a * b
    return total


def nearest_centre(u: Sequence[float], centres: Sequence[Floats]) -> int:
    best = 0
    for j in range(1, len(centres)):
        if product(u, centres[j]) > product(u, centres[best]):
            best = j
    return best


def kmeans(rows: Sequence[Floats], centres: Sequence[Floats], most: int = 20) -> list[Floats]:
    """Assign rows to nearest centres, put centres at unit means, until nothing changes."""
    centres = [list(centre) for centre in centres]
    owners: list[int] = []
    for _ in range(most):
        found = [nearest_centre(row, centres) for row in rows]
        if found == owners:
            break
        owners = found
        for j in range(len(centres)):
            total = [0.0] * len(rows[0])
            for row, owner in zip(rows, owners, strict=True):
                if owner == j:
                    for d in range(len(row)):
                        total[d] += row[d]
            length = product(total, total) ** 0.5
            if length > 0:
                centres[j] = [x / length for x in total]
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
        self.centres: list[Floats] = []

    def __call__(
        self, first: Tensor, second: Tensor, lower: object, *, index: int, total: int, seed: int
    ) -> Tensor:
        o = self.options
        h, p = scalars(first), scalars(second)
        loss = infonce(h, p, self.t)
        if o["group"] == "both":
            smooth = smoothed_official if o["official"] else smoothed_paper
            near = smooth(p, self.twin, o["k"], o["beta"])
            if near is not None:
                loss = loss + o["alpha"] * infonce(h, near, self.t)
        earlier = self.memory.rows()
        self.memory.enter(p)
        kept = self.memory.rows() if o["official"] else earlier
        ready = self.memory.full() if o["official"] else len(earlier) >= o["clusters"]
        if not ready:
            return loss
        rows = [[x.item() for x in row] for row in kept]
        if not self.centres:
            order = torch.randperm(
                len(rows), generator=named_generator(seed, "centres", index)
            ).tolist()
            self.centres = [rows[order[j]] for j in range(o["clusters"])]
        self.centres = kmeans(rows, self.centres)
        drawn = []
        for u in p:
            own = unit(u)
            centre = self.centres[nearest_centre([x.item() for x in own], self.centres)]
            drawn.append(
                [o["gamma"] * x + (1 - o["gamma"]) * c for x, c in zip(own, centre, strict=True)]
            )
        return loss + o["alpha"] * infonce(h, drawn, self.t)
