"""Independent oracles: each method once more, as plain loops over i, j, k on float64 scalars.

Written from the printed formulas and, where the released code differs, from its description;
nothing of `methods` is imported. Scalars are torch's, so that gradients can be compared as well.

Names: `h[i]` the anchors, `p[i]` their positives h_i^+, `t` the temperature; a vector is a list of
scalars, a batch a list of vectors.
"""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

Vector = Sequence[Tensor]
Batch = Sequence[Vector]
Candidate = tuple[float, Vector]  # weight in the denominator, vector


def scalars(vectors: Tensor) -> list[list[Tensor]]:
    """A float64 (n, d) tensor as a batch of scalars that keep its gradient."""
    assert vectors.dtype == torch.float64
    return [list(row.unbind()) for row in vectors.unbind()]


def constants(batch: Batch) -> list[list[Tensor]]:
    """The same numbers without gradient."""
    return [[x.detach() for x in vector] for vector in batch]


def dot(u: Vector, v: Vector) -> Tensor:
    total = u[0] * v[0]
    for k in range(1, len(u)):
        total = total + u[k] * v[k]
    return total


def unit(u: Vector) -> list[Tensor]:
    scale = 1 / dot(u, u).sqrt()
    return [x * scale for x in u]


def minus_log_share(positive: Tensor, weighted: Sequence[tuple[float, Tensor]]) -> Tensor:
    """-log( e^positive / sum of w e^score ), the largest exponent taken out against overflow."""
    largest = max(score.item() for _, score in weighted)
    powers = (weight * (score - largest).exp() for weight, score in weighted)
    total = sum(powers, torch.zeros((), dtype=torch.float64))
    return total.log() + largest - positive


def infonce(
    h: Batch, p: Batch, t: float, extra: Sequence[Sequence[Candidate]] | None = None
) -> Tensor:
    """Mean over i of -log( e^{sim(h_i, p_i)/t} / ( sum_j e^{sim(h_i, p_j)/t} + sum_k w_ik
    e^{sim(h_i, v_ik)/t} ) ).

    `extra[i]` holds the (w_ik, v_ik).
    """
    total = torch.zeros((), dtype=torch.float64)
    h, p = [unit(u) for u in h], [unit(v) for v in p]  # sim(u, v) is the product of unit vectors
    units = {id(vector): unit(vector) for own in extra or () for _, vector in own}
    for i in range(len(h)):
        scores = []
        for j in range(len(p)):
            scores.append((1.0, dot(h[i], p[j]) / t))
        for weight, vector in extra[i] if extra else ():
            scores.append((weight, dot(h[i], units[id(vector)]) / t))
        total = total + minus_log_share(scores[i][1], scores)
    return total / len(h)


# GS-InfoNCE


def named_generator(seed: int, *names: object) -> torch.Generator:
    """The random stream of a draw: seeded by a hash of the seed, its name and the step."""
    digest = hashlib.sha256("/".join(map(str, (seed, *names))).encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)


def gaussian(count: int, width: int, std: float, generator: torch.Generator) -> list[list[Tensor]]:
    """g_1 .. g_M of N(0, std^2 I), drawn in float32 as the released code does."""
    return scalars((std * torch.randn(count, width, generator=generator)).double())


def gs_candidates(n: int, noise: Batch, weight: float) -> list[list[Candidate]]:
    """Eq. 2: lambda * sum_k e^{sim(g_k, h_i)/t} joins the denominator of every anchor."""
    return [[(weight, g) for g in noise] for _ in range(n)]


# IS-CSE


class Memory:
    """Eq. 3: at most `length` unit vectors, first in, first out. An empty slot is None."""

    def __init__(self, length: int) -> None:
        self.slots: list[Vector | None] = [None] * length

    def enter(self, batch: Batch) -> None:
        for vector in constants(batch):
            self.slots.pop(0)
            self.slots.append(unit(vector))

    def rows(self) -> list[Vector]:
        return [slot for slot in self.slots if slot is not None]

    def full(self) -> bool:
        return self.slots[0] is not None


def did_you_mean(u: Vector, rows: Sequence[Vector], first: int, last: int) -> list[Vector]:
    """Rows ranked `first` to `last` (from 0, `last` excluded) by cosine with `u`."""
    query = [x.item() for x in unit(u)]
    ranked = sorted(
        rows, key=lambda row: -sum(a * b.item() for a, b in zip(query, row, strict=True))
    )
    return list(ranked[first:last])


def smooth(u: Vector, retrieved: Sequence[Vector], beta: float) -> list[Tensor]:
    """Eq. 4: h^{s+} = softmax(h+ K^T / beta) K, K = {h+, h^r_1, ..., h^r_k} of length 1."""
    query = unit(u)
    keys = [query, *retrieved]
    powers = [(dot(query, key) / beta).exp() for key in keys]
    total = sum(powers[1:], powers[0])
    smoothed = [powers[0] / total * x for x in keys[0]]
    for k in range(1, len(keys)):
        for d in range(len(smoothed)):
            smoothed[d] = smoothed[d] + powers[k] / total * keys[k][d]
    return smoothed


def smoothed_official(
    positives: Batch, memory: Memory, k: int, beta: float
) -> list[list[Tensor]] | None:
    """Released code: the batch enters first; nothing until full; the best match is dropped."""
    memory.enter(positives)
    if not memory.full():
        return None
    return [smooth(u, did_you_mean(u, memory.rows(), 1, k + 1), beta) for u in positives]


def smoothed_paper(
    positives: Batch, memory: Memory, k: int, beta: float
) -> list[list[Tensor]] | None:
    """Paper: earlier steps only; once there are k rows the nearest are kept; the batch enters."""
    rows = memory.rows()
    memory.enter(positives)
    if len(rows) < k:
        return None
    return [smooth(u, did_you_mean(u, rows, 0, k), beta) for u in positives]


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


def sscl_candidates(
    layers: Sequence[tuple[Batch, Batch]], n: int, *, own: bool, both: bool, detach: bool
) -> list[list[Candidate]]:
    """For anchor i: each layer's vectors of its own or all n sentences, of one or both views."""
    extra: list[list[Candidate]] = []
    used = [view for views in layers for view in (views if both else views[:1])]
    used = [constants(view) for view in used] if detach else used
    for i in range(n):
        mine: list[Candidate] = []
        for batch in used:
            for j in range(n):
                if j == i or not own:
                    mine.append((1.0, batch[j]))
        extra.append(mine)
    return extra


def sscl(
    h: Batch, p: Batch, t: float, extra: Sequence[Sequence[Candidate]], average: bool
) -> Tensor:
    """One softmax with the layer vectors, or its mean with the plain loss (released code)."""
    with_layers = infonce(h, p, t, extra)
    if not average:
        return with_layers
    return (with_layers + infonce(h, p, t)) / 2


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
        first: Tensor,
        second: Tensor,
        lower: dict[int, tuple[Tensor, Tensor]],
        *,
        index: int,
        total: int,
        seed: int,
    ) -> Tensor:
        h, p = scalars(first), scalars(second)
        n, same = len(h), bool(self.layers and self.layers["same"])
        if same:
            p = h
        extra: list[list[Candidate]] = [[] for _ in range(n)]
        if self.noise:
            count, std, weight = self.noise
            noise = gaussian(count, len(h[0]), std, named_generator(seed, "noise", index))
            extra = [
                old + new for old, new in zip(extra, gs_candidates(n, noise, weight), strict=True)
            ]
        if self.layers:
            o = self.layers
            used = [o["layer"]] if o["layer"] else stacked_layers(o["depth"], o["stack"])
            views = [(scalars(lower[layer][0]), scalars(lower[layer][1])) for layer in used]
            own = sscl_candidates(views, n, own=o["own"], both=o["both"], detach=o["detach"])
            extra = [old + new for old, new in zip(extra, own, strict=True)]
            loss = sscl(h, p, self.t, extra, o["average"])
        else:
            loss = infonce(h, p, self.t, extra)
        if self.smoothing and self.memory:
            s = self.smoothing
            smooth = smoothed_official if s["official"] else smoothed_paper
            smoothed = smooth(p, self.memory, s["k"], s["beta"])
            alpha = s["alpha"]
            if s["start"] is not None:
                alpha = alpha_eq8(index, total, s["start"], alpha)
            loss = plus_smoothing(loss, h, smoothed, self.t, alpha)
        return loss
