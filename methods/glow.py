"""Glow on vectors: the invertible map of BERT-flow (docs/methods.md#bert-flow)."""

# Line numbers are of flow/glow_ops_1x1.py in bohanli/BERT-flow@7fa8f6d.

import math
from typing import Any

import torch
from torch import Tensor, nn

from methods.base import stream

FACTOR = 3.0  # a log-scale is 3 times its weight (:92, :160, :309)


class ActNorm(nn.Module):
    """Shift and scale per dimension, (u + b) exp(3 s)."""

    def __init__(self, width: int, generator: torch.Generator | None) -> None:
        super().__init__()
        self.shift, self.log_scale = (nn.Parameter(torch.zeros(width)) for _ in range(2))
        # TensorFlow's default: uniform in Glorot's bound for a shape of (1, width).
        bound = math.sqrt(6 / (1 + width))
        if generator:
            for weights in (self.shift, self.log_scale):
                nn.init.uniform_(weights, -bound, bound, generator=generator)

    def start(self, inputs: tuple[Tensor]) -> None:
        """Give a batch (n, d) mean 0 and standard deviation 1 per dimension (:145, :176)."""
        (u,) = inputs
        self.shift.copy_(-u.mean(0))
        deviation = (u + self.shift).square().mean(0).sqrt()
        self.log_scale.copy_(-torch.log(deviation + 1e-6) / FACTOR)

    @property
    def log_scales(self) -> Tensor:
        return FACTOR * self.log_scale

    def forward(self, u: Tensor) -> Tensor:
        return (u + self.shift) * self.log_scales.exp()


class Coupling(nn.Module):
    """Additive coupling: a network of the first (if odd, smaller) half is added to the second."""

    # Two hidden layers with weights from N(0, 0.05), an `ActNorm` and ReLU, and an output layer
    # that is 0 before training (:364-373, :406-455).

    def __init__(self, width: int, hidden: int, generator: torch.Generator) -> None:
        super().__init__()
        self.cut = width // 2
        layers: list[nn.Module] = []
        for inputs in (self.cut, hidden):
            layer = nn.utils.skip_init(nn.Linear, inputs, hidden, bias=False)
            nn.init.normal_(layer.weight, std=0.05, generator=generator)
            layers += [layer, ActNorm(hidden, generator), nn.ReLU()]
        last = nn.utils.skip_init(nn.Linear, hidden, width - self.cut, bias=False)
        nn.init.zeros_(last.weight)
        self.network = nn.Sequential(*layers, last, ActNorm(width - self.cut, None))

    def forward(self, u: Tensor) -> Tensor:
        first, second = u[:, : self.cut], u[:, self.cut :]
        return torch.cat([first, second + self.network(first)], dim=1)


class FlowStep(nn.Module):
    """One flow step: actnorm, permutation, coupling (:582-586)."""

    order: Tensor

    def __init__(self, width: int, hyper: Any, generator: torch.Generator) -> None:
        super().__init__()
        self.scale = ActNorm(width, generator)
        order = torch.arange(width).flip(0)  # fixed, the same in all steps (:219-221)
        if hyper.permutation == "random":
            order = torch.randperm(width, generator=generator)
        self.register_buffer("order", order)
        self.coupling = Coupling(width, hyper.hidden, generator)

    def forward(self, u: Tensor) -> Tensor:
        return self.coupling(self.scale(u)[:, self.order])


def possible_levels(levels: int, width: int) -> int:
    """Return how many of `levels` levels, each halving the width, have two dimensions or more."""
    return max(1, min(levels, width.bit_length() - 1))


class Glow(nn.Module):
    """Glow: maps vectors u (n, d) to z = f^-1(u) of the same width."""

    # After each level half of the dimensions are final; the smaller half of an odd width continues.

    def __init__(self, width: int, hyper: Any, seed: int) -> None:
        super().__init__()
        self.width = width
        self.levels: Any = nn.ModuleList()
        for level in range(possible_levels(hyper.levels, width)):
            generators = [stream(seed, "flow", level, step) for step in range(hyper.depth)]
            self.levels.append(nn.ModuleList(FlowStep(width, hyper, g) for g in generators))
            width //= 2

    @torch.no_grad()
    def start(self, u: Tensor) -> None:
        """Initialise every `ActNorm` but those of output layers from a first batch (n, d)."""
        outputs = [step.coupling.network[-1] for steps in self.levels for step in steps]
        norms = [module for module in self.modules() if isinstance(module, ActNorm)]
        # Each one starts from what the layers before it, which have started, make of the batch.
        hooks = [
            norm.register_forward_pre_hook(ActNorm.start) for norm in norms if norm not in outputs
        ]
        self(u)
        for hook in hooks:
            hook.remove()

    def forward(self, u: Tensor) -> tuple[Tensor, Tensor]:
        """Return z and log |det dz/du|, one number: only the scales change the volume."""
        final: list[Tensor] = []  # dimensions that no further level changes
        for number, steps in enumerate(self.levels):
            if number:
                half = u.shape[1] // 2
                final.append(u[:, half:])
                u = u[:, :half]
            for step in steps:
                u = step(u)
        log_scales = [step.scale.log_scales.sum() for steps in self.levels for step in steps]
        return torch.cat([u, *reversed(final)], dim=1), torch.stack(log_scales).sum()

    def cost(self, u: Tensor) -> Tensor:
        """Return the mean of -(log N(z; 0, I) + log |det dz/du|) in bits per dimension."""
        z, log_determinant = self(u)
        surprise = 0.5 * (z.square() + math.log(2 * math.pi)).sum(1).mean()
        return (surprise - log_determinant) / (math.log(2) * self.width)
