"""BERT-flow: the embedding is f^-1(u) of Glow, trained by maximum likelihood on frozen vectors u
(docs/methods.md#bert-flow)."""

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, Literal

import numpy as np
import torch
from pydantic import AfterValidator
from torch import Tensor

from methods.base import Context, Field, Shape, fingerprint, stream, stream_seed
from methods.glow import Glow, possible_levels
from methods.transform import TARGET, Mapped, Transform, Vectors, in_chunks


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
    """An Encoder that maps another one's vectors with a flow, or with one fitted on each task."""

    kind = "flowed"

    def __init__(
        self,
        base: Any,
        hyper: "Flow.Hyper",
        seed: int,
        glow: Glow | None = None,
        device: str = "cpu",
    ) -> None:
        self.base, self.hyper, self.seed, self.device = base, hyper, seed, device
        self.glow: Any = glow
        self.fixed = glow is not None
        self.arrays: dict[str, Tensor] = glow.state_dict() if glow else {}

    @property
    def identity(self) -> str:
        described = json.dumps([self.base.identity, dict(self.hyper), self.seed])
        return fingerprint(self.kind, described, self.arrays)

    def through(self, vectors: np.ndarray) -> np.ndarray:
        return in_chunks(vectors, lambda chunk: self.glow(chunk)[0], self.device)

    def fitted(self, sentences: Sequence[str], vectors: Vectors) -> "Flowed":
        # Vectors with dropout, if the Encoder has any: the released code runs BERT in training mode
        # (run_siamese.py:148-150, 314).
        noisy = getattr(self.base, "encode_with_dropout", None)

        def batches() -> Iterator[Tensor]:
            # Two sentences in a row are a pair; an odd last one is left out.
            for step, pairs in enumerate(pair_batches(len(sentences) // 2, self.hyper, self.seed)):
                texts = [sentences[2 * pair + side] for pair in pairs.tolist() for side in (0, 1)]
                if noisy is None:
                    drawn = vectors(texts)
                else:
                    drawn = noisy(texts, stream_seed(self.seed, "flow", "dropout", step))
                yield torch.from_numpy(np.ascontiguousarray(drawn)).to(self.device)

        glow = learn_flow(batches(), self.hyper, self.seed)
        return Flowed(self.base, self.hyper, self.seed, glow, self.device)

    def save(self, folder: Any) -> dict[str, Any]:
        width = self.glow.width if self.glow else None
        return {"hyper": dict(self.hyper), "seed": self.seed, "width": width}

    @classmethod
    def load(
        cls, folder: Any, stored: Any, *, base: Any, arrays: Any = None, device: str = "cpu"
    ) -> "Flowed":
        hyper, seed, glow = Flow.Hyper(**stored["hyper"]), stored["seed"], None
        if arrays:
            glow = Glow(stored["width"], hyper, seed).requires_grad_(False).to(device)
            glow.load_state_dict(arrays)
        return cls(base, hyper, seed, glow, device)


class Flow(Transform):
    name = "flow"
    title = "Flow"
    version = 2
    reference = "Li et al. 2020, arXiv 2011.05864; code bohanli/BERT-flow@7fa8f6d"

    class Hyper(Transform.Hyper):
        # Defaults of the released code (docs/methods.md#bert-flow).
        levels: int = Field(3, ge=1)
        depth: int = Field(3, ge=1)  # flow steps per level
        hidden: int = Field(32, ge=1)  # hidden width of the coupling networks
        # Of the dimensions: the same in every step, or a "random" one per step.
        permutation: Literal["reversal", "random"] = "reversal"
        # Initial shifts and scales; "data": from the first batch.
        start: Literal["uniform", "data"] = "uniform"
        learning_rate: float = Field(1e-3, gt=0)
        batch_size: int = Field(32, ge=1)  # pairs of sentences
        # A whole number is an int, as in the identities of earlier runs.
        epochs: Annotated[float, AfterValidator(lambda x: int(x) if x.is_integer() else x)] = Field(
            1, gt=0
        )

    # Table 7 (levels), section 3.2 (random permutation; actnorm as in Glow).
    paper = {"*": {"levels": 2, "permutation": "random", "start": "data"}}
    official = {}  # the code as it runs: its data-dependent start is never called

    @classmethod
    def clamp_to_backbone(cls, hyper: Hyper, shape: Shape) -> Hyper:
        levels = possible_levels(hyper.levels, shape.width) if shape.width else hyper.levels
        return super().clamp_to_backbone(hyper, shape).model_copy(update={"levels": levels})

    def transform(self, encoder: Any, context: Context) -> Flowed:
        per_task = Flowed(encoder, self.hyper, context.seed, None, context.device)
        if self.hyper.source == TARGET:
            return per_task
        return per_task.fitted(*self.fitting(encoder, context))
