"""Transforms: post-processing of finished sentence vectors, written after a `+`."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from methods.base.contract import Context, Method, Shape
from methods.base.hyper_parameters import LABEL, Field, HyperParameters
from methods.base.tools import fingerprint

__all__ = ["TARGET", "Mapped", "Transform", "Vectors", "in_chunks", "scatter"]

TARGET = "target"  # the `source` of a transform that is fitted on each task, all its splits
VECTORS_AT_ONCE = 8192  # vectors per chunk: bounds memory on tasks of 100,000 sentences

Vectors = Callable[[Sequence[str]], Any]  # the vectors (n, d) of n sentences


class Mapped:
    """An Encoder that maps the vectors of `base`: by `arrays` or, without any, by a post-processing
    that is fitted on each task. `options` are plain values."""

    kind: str

    def __init__(
        self, base: Any, arrays: Mapping[str, Tensor], device: str = "cpu", **options: Any
    ) -> None:
        self.base, self.device, self.options = base, device, options
        self.arrays = {name: array.detach().cpu() for name, array in arrays.items()}

    @property
    def fixed(self) -> bool:
        return bool(self.arrays)

    @property
    def identity(self) -> str:
        described = "/".join([self.base.identity, *map(str, self.options.values())])
        return fingerprint(self.kind, described, self.arrays)

    def save(self, folder: Any) -> dict[str, Any]:
        return self.options

    @classmethod
    def load(
        cls, folder: Any, stored: Any, *, base: Any, arrays: Any = None, device: str = "cpu"
    ) -> Any:
        return cls(base, arrays or {}, device, **stored)

    def through(self, vectors: Any) -> Any:
        """Return the vectors (n, k) that a fixed post-processing gives for vectors (n, d)."""

    def fitted(self, sentences: Sequence[str], vectors: Vectors) -> Any:
        """Return this Encoder with a post-processing fitted on sentences, two in a row a pair."""

    @property
    def adapt(self) -> Callable[[Sequence[str], Vectors], Vectors] | None:
        """The step that `encode` leaves out, since it is fitted on each task; None if there is
        none. It maps sentences to fit on and a lookup of vectors to the lookup of finished
        vectors."""
        return None if self.fixed and not getattr(self.base, "adapt", None) else self._adapt

    def encode(self, sentences: Sequence[str]) -> Any:
        vectors = self.base.encode(sentences)
        return vectors if self.adapt else self.through(vectors)

    def _adapt(self, sentences: Sequence[str], vectors: Vectors) -> Vectors:
        finished = adapted(self.base, sentences, vectors)
        mapped = self if self.fixed else self.fitted(sentences, finished)
        return lambda texts: mapped.through(finished(texts))


def adapted(encoder: Any, sentences: Sequence[str], vectors: Vectors) -> Vectors:
    """Apply to vectors the step that the Encoder's `encode` leaves out, fitted on sentences."""
    adapt = getattr(encoder, "adapt", None)
    return adapt(sentences, vectors) if adapt else vectors


class Transform(Method):
    """Base class of transforms. The method written first provides the Encoder."""

    class Hyper(HyperParameters):
        # "nli" in SimCSE's table (docs/reference/methods.md#bert-flow, #bert-whitening).
        source: str = Field("nli", json_schema_extra=LABEL)
        """corpus to fit on, or `target` (each task)"""
        # None as in the papers.
        sentences: int | None = Field(None, ge=2)
        """the first of the corpus; none: all"""

    trained = False

    @classmethod
    def clamp_to_backbone(cls, hyper: Any, shape: Shape) -> Any:
        return hyper.model_copy(update={"sentences": None}) if hyper.source == TARGET else hyper

    @classmethod
    def corpora(cls, hyper: Any) -> tuple[str, ...]:
        return () if hyper.source == TARGET else (hyper.source,)

    def prepare(self, context: Context) -> None:
        """Read the corpus, so that one that is missing is refused before the training."""
        for corpus in self.corpora(self.hyper):
            context.sentences(corpus)

    def fitting(self, encoder: Any, context: Context) -> tuple[Sequence[str], Vectors]:
        """Return the sentences to fit on, and the lookup of an Encoder's finished vectors."""
        sentences = context.sentences(self.hyper.source)[: self.hyper.sentences]
        vectors: Vectors = partial(context.encode, encoder)
        # A post-processing of `encoder` that is fitted on each task takes the corpus for a task.
        return sentences, adapted(encoder, sentences, vectors)

    def fit(self, per_task: Mapped, context: Context) -> Any:
        """Return an Encoder that is fitted on each task; or on the source, if that is a corpus."""
        if self.hyper.source == TARGET:
            return per_task
        return per_task.fitted(*self.fitting(per_task.base, context))

    def transform(self, encoder: Any, context: Context) -> Any:
        """Return the Encoder that maps the vectors of `encoder`."""
        raise NotImplementedError


def in_chunks(
    vectors: Any, function: Callable[[Tensor], Tensor], device: str = "cpu"
) -> np.ndarray:
    """Apply a function to chunks of numpy vectors (n, d) on a device; return float32 numpy."""
    # On the host: each chunk is moved.
    chunks = torch.from_numpy(np.ascontiguousarray(vectors)).split(VECTORS_AT_ONCE)
    return np.concatenate([function(chunk.to(device)).float().cpu().numpy() for chunk in chunks])


def scatter(vectors: Tensor, centre: Tensor) -> Tensor:
    """Return the sum of (x - centre)(x - centre)^T over vectors x (n, d), in float64."""
    total = torch.zeros(len(centre), len(centre), dtype=torch.float64, device=vectors.device)
    for chunk in vectors.split(VECTORS_AT_ONCE):
        moved = chunk.double() - centre
        total += moved.T @ moved
    return total
