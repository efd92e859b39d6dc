"""Independent oracles of ESimCSE and DCLR, as loops over sentences in float64; nothing of `methods`
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
    gaussian,
    infonce,
    log_sum,
    named_generator,
    plus_smoothing,
    similarity,
    smoothed,
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
        self.slow: Tensor | None = None
        self.queue: list[Tensor] = []

    def __call__(
        self, h: Tensor, p: Tensor, lower: Any, *, index: int, total: int, seed: int
    ) -> Tensor:
        loss = infonce(h, p, self.t, [[(1.0, q) for q in self.queue] for _ in h])
        slow = p.detach() if self.slow is None else self.slow
        self.slow = self.m * slow + (1 - self.m) * h.detach()
        for vector in self.slow:
            self.queue = [*self.queue, vector][-self.length :]
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
        judged: the complementary model's vectors; None: those of the first view.
    """

    t: float = 0.05
    phi: float = 0.3
    count: int = 4
    share: float = 0.8
    steps: int = 4
    size: float = 1e-3
    released: bool = False
    smoothing: dict | None = None
    judged: Tensor | None = None

    def __post_init__(self) -> None:
        self.memory = Memory(self.smoothing["length"]) if self.smoothing else None

    def __call__(
        self, h: Tensor, p: Tensor, lower: Any, *, index: int, total: int, seed: int
    ) -> Tensor:
        judged = h if self.judged is None else self.judged
        false = [
            [i != j and similarity(judged[i], judged[j]).item() >= self.phi for j in range(len(h))]
            for i in range(len(h))
        ]
        count = math.floor(self.share * len(h)) if self.released else self.count
        noise = gaussian(count, len(h[0]), 1.0, named_generator(seed, "dclr-noise", index))
        for _ in range(self.steps):
            noise = self.risen(h.detach(), p.detach(), noise)
        loss = self.loss(h, p, noise, false)
        if self.smoothing and self.memory:
            s = self.smoothing
            result = smoothed(p, self.memory, s["k"], s["beta"], s["official"])
            loss = plus_smoothing(loss, h, result, self.t, s["alpha"])
        return loss

    def risen(self, h: Tensor, p: Tensor, noise: Batch) -> Batch:
        """One step of length `size` up the gradient, whose formula is written out: no automatic
        differentiation.

        d cos(h, n) / dn = (h/|h| - cos(h, n) n/|n|) / |n|.
        """
        moved = []
        for k, vector in enumerate(noise):
            gradient = torch.zeros_like(vector)
            for anchor in h:
                scores = [similarity(anchor, v) / self.t for v in noise]
                # Of -s_ii + log of the sum of all e^s, or of log sum_k e^{s(h_i, n_k)}.
                batch = [similarity(anchor, v) / self.t for v in p] if self.released else []
                # Derivative of what rises by the score of this anchor and noise k.
                pull = (scores[k] - log_sum([*batch, *scores])).exp()
                cosine = similarity(anchor, vector)
                gradient = gradient + pull * (unit(anchor) - cosine * unit(vector))
            largest = gradient.abs().max()
            if largest > 0:
                gradient = unit(gradient / largest)
            moved.append(vector + self.size * gradient)
        return moved

    def loss(self, h: Tensor, p: Tensor, noise: Batch, false: list[list[bool]]) -> Tensor:
        losses = []
        for i in range(len(h)):
            scores = [similarity(h[i], v) / self.t for v in [*p, *noise]]
            excluded = false[i] + [False] * len(noise)
            if not self.released:
                kept = [s for s, out in zip(scores, excluded, strict=True) if not out]
                losses.append(log_sum(kept) - scores[i])
                continue
            scores = [0 * s if out else s for s, out in zip(scores, excluded, strict=True)]
            for c in range(len(scores)):
                if c == i:  # - log p
                    losses.append(log_sum(scores) - scores[c])
                else:  # - log( sum of the others' e / sum of all e )
                    losses.append(log_sum(scores) - log_sum(scores[:c] + scores[c + 1 :]))
        return sum(losses) / len(losses)
