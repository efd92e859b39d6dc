"""BERT-flow: the embedding is f^-1(u) of Glow, trained by maximum likelihood on frozen vectors u
(docs/reference/methods.md#bert-flow)."""

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Annotated, Any, Literal

import numpy as np
import torch
from pydantic import AfterValidator
from torch import Tensor, nn

from methods.base import (
    Context,
    Count,
    Field,
    Mapped,
    PositiveFloat,
    Shape,
    Transform,
    Vectors,
    fingerprint,
    in_chunks,
    stream,
    stream_seed,
)

# Glow on vectors, the invertible map. Line numbers are of flow/glow_ops_1x1.py in
# bohanli/BERT-flow@7fa8f6d.

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
        output = nn.utils.skip_init(nn.Linear, hidden, width - self.cut, bias=False)
        nn.init.zeros_(output.weight)
        self.network = nn.Sequential(*layers, output, ActNorm(width - self.cut, None))

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
        """Initialise every `ActNorm`, except of output layers, from a first batch (n, d)."""
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


# Fitting it


class BertAdam:
    """Adam as in BERT's code: without correction of the moments' bias, and all weights decay."""

    # Source: optimization_bert_flow.py:80-94, 143-177 of bohanli/BERT-flow@7fa8f6d. The rate is
    # constant: warm-up and decay are BERT's only (:81).

    def __init__(self, weights: Iterable[Tensor], learning_rate: float) -> None:
        self.learning_rate = learning_rate
        self.weights = [(w, torch.zeros_like(w), torch.zeros_like(w)) for w in weights]

    @torch.no_grad()
    def step(self) -> None:
        """Update the weights by gradients that are clipped to a common norm of 1; clear them."""
        norms = [torch.linalg.vector_norm(weight.grad) for weight, _, _ in self.weights]
        scale = 1 / torch.linalg.vector_norm(torch.stack(norms)).clamp(min=1)
        for weight, mean, square in self.weights:
            gradient = weight.grad * scale
            mean.mul_(0.9).add_(gradient, alpha=0.1)
            square.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
            update = mean / (square.sqrt() + 1e-6) + 0.01 * weight
            weight -= self.learning_rate * update
            weight.grad = None


@contextmanager
def _one_thread() -> Iterator[None]:
    """Use one thread: with more, these small sums are slower and differ in the last bits."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def learn_flow(batches: Iterable[Tensor], hyper: "Flow.Hyper", seed: int) -> Glow:
    """Fit a flow to batches, each of the vectors of n pairs, (2 n, d), pair by pair."""
    glow: Glow | None = None
    for batch in batches:
        with _one_thread(), torch.enable_grad():
            if glow is None:
                glow = Glow(batch.shape[1], hyper, seed).to(batch)
                optimiser = BertAdam(glow.parameters(), hyper.learning_rate)
                if hyper.start == "data":
                    glow.start(batch[::2])  # the first sentences only (glow_init_hook.py:21)
            # The means of first and of second sentences are added (run_siamese.py:282).
            (2 * glow.cost(batch)).backward()
            optimiser.step()
    assert glow is not None
    return glow.requires_grad_(False)


def pair_batches(pairs: int, hyper: "Flow.Hyper", seed: int) -> Iterator[Tensor]:
    """Yield the numbers of the pairs of each step: in random order, each once an epoch."""
    # Batches cross the ends of epochs, and an incomplete last batch is dropped (run_siamese.py:624,
    # siamese_utils.py:567-574). Fewer pairs than one batch are a batch.
    size = min(pairs, hyper.batch_size)
    steps = max(1, int(pairs / hyper.batch_size * hyper.epochs))
    orders = [
        torch.randperm(pairs, generator=stream(seed, "flow", "order", epoch))
        for epoch in range(math.ceil(steps * size / pairs))
    ]
    yield from torch.cat(orders).split(size)[:steps]


class Flowed(Mapped):
    """An Encoder that maps another one's vectors with a flow, or with one fitted on each task; its
    options are `hyper`, `seed` and the `width` of the vectors."""

    kind = "flowed"

    @property
    def identity(self) -> str:
        described = json.dumps([self.base.identity, self.options["hyper"], self.options["seed"]])
        return fingerprint(self.kind, described, self.arrays)

    @cached_property
    def glow(self) -> Glow:
        hyper = Flow.Hyper(**self.options["hyper"])
        glow = Glow(self.options["width"], hyper, self.options["seed"]).requires_grad_(False)
        glow.load_state_dict(self.arrays)
        return glow.to(self.device)

    def through(self, vectors: np.ndarray) -> np.ndarray:
        return in_chunks(vectors, lambda chunk: self.glow(chunk)[0], self.device)

    def fitted(self, sentences: Sequence[str], vectors: Vectors) -> "Flowed":
        # Vectors with dropout, if the Encoder has any: the released code runs BERT in training mode
        # (run_siamese.py:148-150, 314).
        noisy = getattr(self.base, "encode_with_dropout", None)
        hyper, seed = Flow.Hyper(**self.options["hyper"]), self.options["seed"]

        def batches() -> Iterator[Tensor]:
            # Two sentences in a row are a pair; an odd last one is left out.
            for step, pairs in enumerate(pair_batches(len(sentences) // 2, hyper, seed)):
                texts = [sentences[2 * pair + side] for pair in pairs.tolist() for side in (0, 1)]
                if noisy is None:
                    drawn = vectors(texts)
                else:
                    drawn = noisy(texts, stream_seed(seed, "flow", "dropout", step))
                yield torch.from_numpy(np.ascontiguousarray(drawn)).to(self.device)

        glow = learn_flow(batches(), hyper, seed)
        options = self.options | {"width": glow.width}
        return Flowed(self.base, glow.state_dict(), self.device, **options)


class Flow(Transform):
    """An invertible network maps vectors to a Gaussian."""

    name = "flow"
    title = "Flow"
    version = 2
    reference = "Li et al. 2020, arXiv 2011.05864; code bohanli/BERT-flow@7fa8f6d"

    class Hyper(Transform.Hyper):
        # Defaults of the released code (docs/reference/methods.md#bert-flow).
        levels: Count = 3
        """levels of Glow"""
        depth: Count = 3
        """flow steps per level"""
        hidden: Count = 32
        """width of the coupling networks"""
        # The same in every step, or a "random" one per step.
        permutation: Literal["reversal", "random"] = "reversal"
        """of dimensions"""
        # "data": from the first batch.
        start: Literal["uniform", "data"] = "uniform"
        """first shifts and scales"""
        learning_rate: PositiveFloat = 1e-3
        """of the map, not of the recipe"""
        batch_size: Count = 32
        """pairs of sentences in a step of the map"""
        # A whole number is an int, as in the identities of earlier runs.
        epochs: Annotated[float, AfterValidator(lambda x: int(x) if x.is_integer() else x)] = Field(
            1, gt=0
        )
        """passes of the map over its sentences"""

    # Table 7 (levels), section 3.2 (random permutation; actnorm as in Glow).
    paper = {"*": {"levels": 2, "permutation": "random", "start": "data"}}
    official = {}  # the code as it runs: its data-dependent start is never called

    @classmethod
    def clamp_to_backbone(cls, hyper: Hyper, shape: Shape) -> Hyper:
        levels = possible_levels(hyper.levels, shape.width) if shape.width else hyper.levels
        return super().clamp_to_backbone(hyper, shape).model_copy(update={"levels": levels})

    def transform(self, encoder: Any, context: Context) -> Any:
        options = {"hyper": dict(self.hyper), "seed": context.seed, "width": None}
        return self.fit(Flowed(encoder, {}, context.device, **options), context)
