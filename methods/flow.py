"""BERT-flow: an invertible map that is trained to make vectors standard normal."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from methods.base import (
    Context,
    Mapped,
    Refusal,
    Shape,
    Transform,
    TransformHyper,
    fingerprint,
    in_chunks,
    stream,
)


@dataclass(frozen=True)
class FlowHyper(TransformHyper):
    # Defaults of the released code (docs/methods.md#bert-flow).
    levels: int = 3
    depth: int = 3  # flow steps per level
    hidden: int = 32  # hidden width of the coupling networks
    learning_rate: float = 1e-3
    batch_size: int = 32
    epochs: int = 1


class ActNorm(nn.Module):
    """Shift and scale per dimension, initialised from the first batch (Glow, section 3.1)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(width))
        self.log_scale = nn.Parameter(torch.zeros(width))

    @torch.no_grad()
    def start(self, u: Tensor) -> None:
        """Give a batch (n, d) mean 0 and standard deviation 1 per dimension."""
        self.shift.copy_(-u.mean(0))
        self.log_scale.copy_(-torch.log(u.std(0, correction=0) + 1e-6))

    def forward(self, u: Tensor) -> Tensor:
        return (u + self.shift) * self.log_scale.exp()

    def inverse(self, z: Tensor) -> Tensor:
        return z * (-self.log_scale).exp() - self.shift


class Coupling(nn.Module):
    """Additive coupling: a network of the first (if odd, smaller) half is added to the second."""

    def __init__(self, width: int, hidden: int, generator: torch.Generator) -> None:
        super().__init__()
        self.cut = width // 2
        widths = (self.cut, hidden, hidden, width - self.cut)
        first, second, last = (nn.utils.skip_init(nn.Linear, *pair) for pair in pairwise(widths))
        for layer in (first, second):
            nn.init.normal_(layer.weight, std=0.05, generator=generator)
        nn.init.zeros_(last.weight)
        for layer in (first, second, last):
            nn.init.zeros_(layer.bias)
        self.network = nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), last)

    def forward(self, u: Tensor) -> Tensor:
        first, second = u[:, : self.cut], u[:, self.cut :]
        return torch.cat([first, second + self.network(first)], dim=1)

    def inverse(self, z: Tensor) -> Tensor:
        first, second = z[:, : self.cut], z[:, self.cut :]
        return torch.cat([first, second - self.network(first)], dim=1)


class FlowStep(nn.Module):
    """One flow step: actnorm, permutation, coupling."""

    order: Tensor

    def __init__(self, width: int, hidden: int, generator: torch.Generator) -> None:
        super().__init__()
        self.scale = ActNorm(width)
        self.register_buffer("order", torch.randperm(width, generator=generator))
        self.coupling = Coupling(width, hidden, generator)

    def forward(self, u: Tensor) -> Tensor:
        return self.coupling(self.scale(u)[:, self.order])

    def inverse(self, z: Tensor) -> Tensor:
        return self.scale.inverse(self.coupling.inverse(z)[:, self.order.argsort()])


def possible_levels(levels: int, width: int) -> int:
    """Return how many of `levels` levels, each halving the width, have two dimensions or more."""
    return max(1, min(levels, width.bit_length() - 1))


class Glow(nn.Module):
    """Glow: maps vectors u (n, d) to z = f^-1(u) of the same width.

    After each level half of the dimensions are final; the smaller half of an odd width continues.
    """

    def __init__(self, width: int, hyper: FlowHyper, seed: int) -> None:
        super().__init__()
        if width < 2:
            raise Refusal(f"'flow' needs at least 2 dimensions, not {width}")
        self.width, self.levels = width, nn.ModuleList()
        for level in range(possible_levels(hyper.levels, width)):
            named = [stream(seed, "flow", level, step) for step in range(hyper.depth)]
            self.levels.append(
                nn.ModuleList(FlowStep(width, hyper.hidden, generator) for generator in named)
            )
            width //= 2

    def _steps(self) -> list[list[FlowStep]]:
        return [list(level) for level in cast("list[list[FlowStep]]", self.levels)]

    @torch.no_grad()
    def start(self, u: Tensor) -> None:
        """Initialise every `ActNorm` from a first batch."""
        for steps in self._steps():
            for step in steps:
                step.scale.start(u)
                u = step(u)
            u = u[:, : u.shape[1] // 2]

    def forward(self, u: Tensor) -> tuple[Tensor, Tensor]:
        """Return z and log |det dz/du|, one number: only the scales change the volume."""
        left: list[Tensor] = []
        for number, steps in enumerate(self._steps()):
            if number:
                half = u.shape[1] // 2
                left.append(u[:, half:])
                u = u[:, :half]
            for step in steps:
                u = step(u)
        log_scales = [step.scale.log_scale.sum() for steps in self._steps() for step in steps]
        return torch.cat([u, *reversed(left)], dim=1), torch.stack(log_scales).sum()

    def inverse(self, z: Tensor) -> Tensor:
        """Return u = f(z)."""
        for number in reversed(range(len(self.levels))):
            width = self.width >> number
            u = z[:, :width]
            for step in reversed(self._steps()[number]):
                u = step.inverse(u)
            z = torch.cat([u, z[:, width:]], dim=1)
        return z

    def cost(self, u: Tensor) -> Tensor:
        """Return the mean of -(log p_Z(f^-1(u)) + log |det df^-1/du|), per dimension; p_Z is
        N(0, I)."""
        z, log_determinant = self(u)
        surprise = 0.5 * (z.square() + math.log(2 * math.pi)).sum(1).mean()
        return (surprise - log_determinant) / self.width


@contextmanager
def _one_thread() -> Iterator[None]:
    """Use one thread: with more, these small sums are slower and differ in the last bits."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def learn_flow(vectors: Tensor, hyper: FlowHyper, seed: int) -> Glow:
    """Fit a flow to vectors (n, d); equal arguments give equal flows."""
    glow = Glow(vectors.shape[1], hyper, seed).to(vectors)
    optimiser = torch.optim.Adam(glow.parameters(), lr=hyper.learning_rate, fused=True)
    with _one_thread(), torch.enable_grad():
        for epoch in range(hyper.epochs):
            order = torch.randperm(len(vectors), generator=stream(seed, "flow", "order", epoch))
            for number, rows in enumerate(order.to(vectors.device).split(hyper.batch_size)):
                batch = vectors[rows]
                if epoch == number == 0 and len(batch) > 1:
                    glow.start(batch)
                optimiser.zero_grad(set_to_none=True)
                glow.cost(batch).backward()
                optimiser.step()
    return glow.requires_grad_(False)


class Flowed(Mapped):
    """An Encoder that maps another one's vectors with a flow, or with one fitted on each task."""

    kind = "flowed"

    def __init__(
        self, base: Any, hyper: FlowHyper, seed: int, glow: Glow | None = None, device: str = "cpu"
    ) -> None:
        self.base, self.hyper, self.seed = base, hyper, seed
        self.glow, self.device = glow, device

    @property
    def arrays(self) -> dict[str, Tensor]:
        return self.glow.state_dict() if self.glow else {}

    @property
    def identity(self) -> str:
        described = json.dumps([self.base.identity, asdict(self.hyper), self.seed])
        return fingerprint(self.kind, described, self.arrays)

    @property
    def fixed(self) -> bool:  # type: ignore[override]
        return self.glow is not None

    def through(self, vectors: np.ndarray) -> np.ndarray:
        glow = self.glow or fitted(vectors, self.hyper, self.seed, self.device)
        return in_chunks(vectors, lambda chunk: glow(chunk.to(self.device))[0])

    def save(self, folder: Any) -> dict[str, Any]:
        width = self.glow.width if self.glow else None
        return {"hyper": asdict(self.hyper), "seed": self.seed, "width": width}

    @classmethod
    def load(
        cls, folder: Any, stored: Any, *, base: Any, arrays: Any = None, device: str = "cpu"
    ) -> Flowed:
        hyper, seed, glow = FlowHyper(**stored["hyper"]), stored["seed"], None
        if arrays:
            glow = Glow(stored["width"], hyper, seed).requires_grad_(False).to(device)
            glow.load_state_dict(arrays)
        return cls(base, hyper, seed, glow, device)


def fitted(vectors: np.ndarray, hyper: FlowHyper, seed: int, device: str) -> Glow:
    """Fit a flow to numpy vectors (n, d)."""
    return learn_flow(torch.from_numpy(np.ascontiguousarray(vectors)).to(device), hyper, seed)


class Flow(Transform):
    """The embedding is f^-1(u) of Glow, trained by maximum likelihood on frozen vectors u
    (docs/methods.md#bert-flow).

    Interpretations where docs/methods.md#bert-flow gives no detail: a vector is an image of one
    pixel. A flow step is Glow's: a shift and scale per dimension, initialised from the first batch
    (`ActNorm`; without it the flow preserves volume and the likelihood has little to learn), a
    random permutation, and a coupling. A coupling network has two hidden layers, initialised from
    N(0, 0.05), and an output layer initialised to 0, so that it initially adds nothing. The prior
    is N(0, I) at every level. The learning rate is constant; the cost is divided by the number of
    dimensions. "target" is fitted on all sentences of one task; the test and dev splits of STS-B
    and SICK-R are separate tasks.

    Deviations: sentences are not truncated to 64 tokens. The paper's vectors are those of
    `untrained[pooler=avg_top2]`; any Encoder may precede the `+`. On an untrained Encoder the flow
    is drawn once, not per seed.
    """

    name = "flow"
    title = "Flow"
    reference = "Li et al. 2020, arXiv 2011.05864; code bohanli/BERT-flow@7fa8f6d"
    Hyper = FlowHyper
    official = {}
    needs = (
        "levels >= 1",
        "depth >= 1",
        "hidden >= 1",
        "batch_size >= 1",
        "epochs >= 1",
        "learning_rate > 0",
    )

    @classmethod
    def clamp_to_backbone(cls, hyper: FlowHyper, shape: Shape) -> FlowHyper:
        levels = possible_levels(hyper.levels, shape.width) if shape.width else hyper.levels
        return replace(super().clamp_to_backbone(hyper, shape), levels=levels)

    def transform(self, encoder: Any, context: Context) -> Flowed:
        hyper, seed, device = self.hyper, context.seed, context.device
        vectors = self.vectors(encoder, context)
        glow = None if vectors is None else fitted(vectors, hyper, seed, device)
        return Flowed(encoder, hyper, seed, glow, device)
