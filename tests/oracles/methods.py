"""Independent oracles: each method once more, as loops over sentences in float64.

Written from the printed formulas and, where the released code differs, from its description;
nothing of `methods` is imported. Vectors are torch's, so that gradients can be compared as well.

Names: `h[i]` the anchors, `p[i]` their positives h_i^+, `t` the temperature; a batch is a tensor
(n, d) or a list of vectors (d).
"""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

Batch = Tensor | Sequence[Tensor]
Candidate = tuple[float, Tensor]  # weight in the denominator, vector


def unit(u: Tensor) -> Tensor:
    """A vector, or each row, with length 1."""
    return u / (u * u).sum(-1, keepdim=True).sqrt()


def similarity(u: Tensor, v: Tensor) -> Tensor:
    """The cosine of a vector with another one, or with each row."""
    return unit(v) @ unit(u)


def log_sum(scores: Batch, weights: Sequence[float] | None = None) -> Tensor:
    """log( sum of w e^score ), the largest exponent taken out against overflow."""
    scores = torch.stack(list(scores))
    powers = (scores - scores.max().detach()).exp()
    if weights is not None:
        powers = powers * torch.tensor(weights, dtype=powers.dtype)
    return powers.sum().log() + scores.max().detach()


def infonce(
    h: Batch, p: Batch, t: float, extra: Sequence[Sequence[Candidate]] | None = None
) -> Tensor:
    """Mean over i of -log( e^{sim(h_i, p_i)/t} / ( sum_j e^{sim(h_i, p_j)/t} + sum_k w_ik
    e^{sim(h_i, v_ik)/t} ) ).

    `extra[i]` holds the (w_ik, v_ik).
    """
    losses = []
    for i in range(len(h)):
        more = extra[i] if extra else []
        candidates = torch.stack([*p, *(vector for _, vector in more)])
        scores = similarity(h[i], candidates) / t
        weights = [1.0] * len(p) + [weight for weight, _ in more]
        losses.append(log_sum(scores, weights) - scores[i])
    return sum(losses) / len(h)


# GS-InfoNCE


def named_generator(seed: int, *names: object) -> torch.Generator:
    """The random stream of a draw: seeded by a hash of the seed, its name and the step."""
    digest = hashlib.sha256("/".join(map(str, (seed, *names))).encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)


def gaussian(count: int, width: int, std: float, generator: torch.Generator) -> Tensor:
    """g_1 .. g_M of N(0, std^2 I), drawn in float32 as the released code does."""
    return (std * torch.randn(count, width, generator=generator)).double()


# IS-CSE


class Memory:
    """Eq. 3: at most `length` unit vectors, first in, first out."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.rows: list[Tensor] = []

    def enter(self, batch: Batch) -> None:
        for vector in batch:
            self.rows = [*self.rows, unit(vector.detach())][-self.length :]

    def full(self) -> bool:
        return len(self.rows) == self.length


def nearest(u: Tensor, rows: Sequence[Tensor], first: int, last: int) -> list[Tensor]:
    """Rows ranked `first` to `last` (from 0, `last` excluded) by cosine with `u`."""
    query = unit(u.detach())
    return sorted(rows, key=lambda row: -(query @ row).item())[first:last]


def smooth(u: Tensor, retrieved: Sequence[Tensor], beta: float) -> Tensor:
    """Eq. 4: h^{s+} = softmax(h+ K^T / beta) K, K = {h+, h^r_1, ..., h^r_k} of length 1."""
    keys = [unit(u), *retrieved]
    powers = [(keys[0] @ key / beta).exp() for key in keys]
    return sum(power * key for power, key in zip(powers, keys, strict=True)) / sum(powers)


def smoothed(
    positives: Batch, memory: Memory, k: int, beta: float, official: bool
) -> list[Tensor] | None:
    """Paper: earlier steps only; once there are k rows the nearest are kept; the batch enters.
    Released code: the batch enters first; nothing until full; the best match is dropped."""
    rows, ready = memory.rows, len(memory.rows) >= k
    memory.enter(positives)
    if official:
        rows, ready = memory.rows, memory.full()
    if not ready:
        return None
    first = 1 if official else 0
    return [smooth(u, nearest(u, rows, first, first + k), beta) for u in positives]


def alpha_eq8(step: int, total: int, start: float, end: float) -> float:
    """Eq. 8, written out: from start to end in the first half of the training, then end."""
    swing = math.cos(math.pi * step / total) * (start - end)
    return swing + end if swing < 0 else end


def plus_smoothing(
    instance: Tensor, h: Batch, smoothed: Batch | None, t: float, alpha: float
) -> Tensor:
    """Eq. 6 and 7: L_instance + alpha L_smoothing, whose only candidates are smoothed positives."""
    if smoothed is None:
        return instance
    return instance + alpha * infonce(h, smoothed, t)


# SSCL


def stacked_layers(depth: int, stack: int) -> list[int]:
    """Progressive: hidden_states[-2 - i] for i = 0 .. stack - 1, of depth + 1 hidden states."""
    return [list(range(depth + 1))[-2 - i] for i in range(stack)]


# Compositions


@dataclass
class Oracle:
    """One run of a method or a composition; what it remembers goes on from step to step.

    Args:
        t: temperature.
        noise: (M, std, lambda) of GS-InfoNCE, or None.
        layers: options of SSCL: depth and stack, or layer; own, both, detach, average, same (the
            positive is the vector itself); or None.
        smoothing: options of IS-CSE: alpha, start (None: constant), length, k, beta, official; or
            None.
    """

    t: float = 0.05
    noise: tuple[int, float, float] | None = None
    layers: dict | None = None
    smoothing: dict | None = None

    def __post_init__(self) -> None:
        self.memory = Memory(self.smoothing["length"]) if self.smoothing else None

    def __call__(
        self,
        h: Tensor,
        p: Tensor,
        lower: dict[int, tuple[Tensor, Tensor]],
        *,
        index: int,
        total: int,
        seed: int,
    ) -> Tensor:
        average = False
        extra: list[list[Candidate]] = [[] for _ in h]
        if self.noise:
            # Eq. 2: lambda * sum_k e^{sim(g_k, h_i)/t} joins the denominator of every anchor.
            count, std, weight = self.noise
            noise = gaussian(count, len(h[0]), std, named_generator(seed, "noise", index))
            for candidates in extra:
                candidates += [(weight, vector) for vector in noise]
        if self.layers:
            o = self.layers
            average = o["average"]
            if o["same"]:
                p = h
            for layer in [o["layer"]] if o["layer"] else stacked_layers(o["depth"], o["stack"]):
                self._add_layer(extra, *lower[layer])
        loss = infonce(h, p, self.t, extra)
        if average:  # released code: the mean with the plain loss
            loss = (loss + infonce(h, p, self.t)) / 2
        if self.smoothing and self.memory:
            s = self.smoothing
            alpha = s["alpha"]
            if s["start"] is not None:
                alpha = alpha_eq8(index, total, s["start"], alpha)
            result = smoothed(p, self.memory, s["k"], s["beta"], s["official"])
            loss = plus_smoothing(loss, h, result, self.t, alpha)
        return loss

    def _add_layer(self, extra: list[list[Candidate]], *views: Tensor) -> None:
        """A layer's vectors of anchor i's own or all n sentences, of one or both views."""
        o = self.layers or {}
        for view in views if o["both"] else views[:1]:
            for i in range(len(extra)):
                for j in range(len(extra)):
                    if j == i or not o["own"]:
                        extra[i].append((1.0, view[j].detach() if o["detach"] else view[j]))
