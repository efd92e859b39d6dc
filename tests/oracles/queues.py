"""Independent oracles of ESimCSE and DCLR, as plain loops on float64 scalars; nothing of `methods`
is imported.

What a momentum encoder or a complementary model sees of a sentence is a plain vector here: the
first view's.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tests.oracles.methods import (
    Batch,
    Memory,
    constants,
    dot,
    gaussian,
    infonce,
    minus_log_share,
    named_generator,
    plus_smoothing,
    scalars,
    smoothed_official,
    smoothed_paper,
    unit,
)


class ESimCSEOracle:
    """InfoNCE with + sum_q e^{sim(h_i, q)/t}; after a step theta' = m theta' + (1 - m) theta, then
    the queue grows.

    The encoder's only weights are the vectors it gives; its momentum copy starts as the first
    batch's second view.
    """

    memory = True  # steps depend on each other

    def __init__(self, t: float = 0.05, length: int = 6, m: float = 0.9) -> None:
        self.t, self.length, self.m = t, length, m
        self.slow: list[list[float]] = []
        self.queue: list[list[Tensor]] = []

    def __call__(
        self, first: Tensor, second: Tensor, lower: Any, *, index: int, total: int, seed: int
    ) -> Tensor:
        h, p = scalars(first), scalars(second)
        loss = infonce(h, p, self.t, [[(1.0, q) for q in self.queue] for _ in h])
        if not self.slow:
            self.slow = [[x.item() for x in v] for v in p]
        for i in range(len(h)):
            for d in range(len(h[i])):
                self.slow[i][d] = self.m * self.slow[i][d] + (1 - self.m) * h[i][d].item()
        for vector in self.slow:
            self.queue.append([torch.tensor(x, dtype=torch.float64) for x in vector])
            if len(self.queue) > self.length:
                self.queue.pop(0)
        return loss


@dataclass
class DCLROracle:
    """-log( e^{s_ii} / ( sum_k e^{s(h_i, n_k)} + sum_j a_ij e^{s(h_i, h_j+)} ) ), or the released
    form of it.

    Args:
        phi: a_ij = 0 where the complementary model's cosine of i and j is at least this.
        count: noise vectors of a batch of 5; the released form has `share` of the rows at hand,
            rounded down. Each takes `steps` steps of length `size` up the gradient.
        released: false negatives count as cosine 0, the loss is one-vs-rest over all cells, and
            noise rises along the cross-entropy of plain cosines (RUCAIBox/DCLR@e2c3430,
            simcse/models.py:686-694).
        smoothing: options of IS-CSE, whose term is added; or None.
    """

    t: float = 0.05
    phi: float = 0.3
    count: int = 4
    share: float = 0.8
    steps: int = 4
    size: float = 1e-3
    released: bool = False
    smoothing: dict | None = None

    def __post_init__(self) -> None:
        self.memory = Memory(self.smoothing["length"]) if self.smoothing else None

    def __call__(
        self, first: Tensor, second: Tensor, lower: Any, *, index: int, total: int, seed: int
    ) -> Tensor:
        h, p = scalars(first), scalars(second)
        false = [
            [i != j and dot(unit(h[i]), unit(h[j])).item() >= self.phi for j in range(len(h))]
            for i in range(len(h))
        ]
        count = math.floor(self.share * len(h)) if self.released else self.count
        noise = gaussian(count, len(h[0]), 1.0, named_generator(seed, "dclr-noise", index))
        for _ in range(self.steps):
            noise = self.risen(constants(h), constants(p), noise)
        loss = self.loss(h, p, noise, false)
        if self.smoothing and self.memory:
            s = self.smoothing
            smooth = smoothed_official if s["official"] else smoothed_paper
            smoothed = smooth(p, self.memory, s["k"], s["beta"])
            loss = plus_smoothing(loss, h, smoothed, self.t, s["alpha"])
        return loss

    def risen(self, h: Batch, p: Batch, noise: Batch) -> list[list[Tensor]]:
        """One step of length `size` up the gradient, whose formula is written out: no automatic
        differentiation.

        d cos(h, n) / dn = (h/|h| - cos(h, n) n/|n|) / |n|.
        """
        numbers = [[[x.item() for x in v] for v in batch] for batch in (h, p, noise)]
        anchors, positives, directions = [[_unit(v) for v in batch] for batch in numbers]
        # Derivative of what rises by the score of anchor i and noise k.
        pulls = [[0.0] * len(noise) for _ in h]
        for i in range(len(h)):
            scores = [_dot(anchors[i], v) / self.t for v in directions]
            # Of -s_ii + log of the sum of all e^s, or of log sum_k e^{s(h_i, n_k)}.
            batch = [_dot(anchors[i], v) / self.t for v in positives] if self.released else []
            pulls[i] = _softmax([*batch, *scores])[len(batch) :]
        moved = []
        for k, vector in enumerate(numbers[2]):
            gradient = [0.0] * len(vector)
            for i in range(len(h)):
                cosine = _dot(anchors[i], directions[k])
                for d in range(len(vector)):
                    gradient[d] += pulls[i][k] * (anchors[i][d] - cosine * directions[k][d])
            largest = max(map(abs, gradient)) or 1.0
            step = _unit([g / largest for g in gradient])
            moved.append(
                [
                    torch.tensor(x + self.size * g, dtype=torch.float64)
                    for x, g in zip(vector, step, strict=True)
                ]
            )
        return moved

    def loss(self, h: Batch, p: Batch, noise: Batch, false: list[list[bool]]) -> Tensor:
        total = zero = torch.zeros((), dtype=torch.float64)
        cells = 0
        h, p, noise = [unit(u) for u in h], [unit(u) for u in p], [unit(u) for u in noise]
        for i in range(len(h)):
            row: list[tuple[float, Tensor]] = []
            for j in range(len(p)):
                score = dot(h[i], p[j]) / self.t
                if self.released:
                    row.append((1.0, 0 * score if false[i][j] else score))
                else:
                    row.append((0.0 if false[i][j] else 1.0, score))
            for vector in noise:
                row.append((1.0, dot(h[i], vector) / self.t))
            if not self.released:
                kept = [cell for cell in row if cell[0]]
                total = total + minus_log_share(row[i][1], kept)
                continue
            log_all = minus_log_share(zero, row)
            for c in range(len(row)):
                cells += 1
                if c == i:
                    total = total + log_all - row[c][1]  # - log p
                else:  # - log( sum of the others' e / sum of all e )
                    others = row[:c] + row[c + 1 :]
                    total = total + log_all - minus_log_share(zero, others)
        return total / (cells if self.released else len(h))


def _dot(u: list[float], v: list[float]) -> float:
    return sum(a * b for a, b in zip(u, v, strict=True))


def _unit(u: list[float]) -> list[float]:
    length = math.sqrt(_dot(u, u))
    return [x / length for x in u] if length else u


def _softmax(scores: list[float]) -> list[float]:
    powers = [math.exp(score - max(scores)) for score in scores]
    return [power / sum(powers) for power in powers]
