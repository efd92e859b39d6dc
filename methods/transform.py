"""Transforms: maps of finished sentence vectors, written after a `+`."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from methods.contract import LABEL, Context, HyperParameters, Method, Shape

TARGET = "target"  # the `source` of a transform that is fitted on each task, all its splits
CHUNK = 8192  # vectors per chunk: bounds memory on tasks of 100,000 sentences

Vectors = Callable[[Sequence[str]], Any]  # the vectors (n, d) of n sentences


def in_chunks(
    vectors: Any, function: Callable[[Tensor], Tensor], device: str = "cpu"
) -> np.ndarray:
    """Apply a function to chunks of numpy vectors (n, d) on a device; return float32 numpy."""
    # On the host: each chunk is moved.
    chunks = torch.from_numpy(np.ascontiguousarray(vectors)).split(CHUNK)
    return np.concatenate([function(chunk.to(device)).float().cpu().numpy() for chunk in chunks])


def scatter(vectors: Tensor, centre: Tensor) -> Tensor:
    """Return the sum of (x - centre)(x - centre)^T over vectors x (n, d), in float64."""
    total = torch.zeros(len(centre), len(centre), dtype=torch.float64, device=vectors.device)
    for chunk in vectors.split(CHUNK):
        moved = chunk.double() - centre
        total += moved.T @ moved
    return total


class Mapped:
    """An Encoder that maps the vectors of `base`; if not `fixed`, by a map fitted on each task."""

    base: Any
    fixed: bool

    def through(self, vectors: Any) -> Any:
        """Map vectors (n, d) by a fixed map."""

    def fitted(self, sentences: Sequence[str], vectors: Vectors) -> Any:
        """Return this Encoder with a map fitted on sentences, two in a row a pair."""

    @property
    def adapt(self) -> Callable[[Sequence[str], Vectors], Vectors] | None:
        """What is left to apply to the vectors of `encode`: from sentences to fit on and a lookup
        of vectors to the lookup of finished ones; None if `encode` applies everything."""
        return None if self.fixed and not getattr(self.base, "adapt", None) else self._adapt

    def encode(self, sentences: Sequence[str]) -> Any:
        vectors = self.base.encode(sentences)
        return vectors if self.adapt else self.through(vectors)

    def _adapt(self, sentences: Sequence[str], vectors: Vectors) -> Vectors:
        adapt = getattr(self.base, "adapt", None)
        finished = adapt(sentences, vectors) if adapt else vectors
        mapped = self if self.fixed else self.fitted(sentences, finished)
        return lambda texts: mapped.through(finished(texts))


class Transform(Method):
    """Base class of transforms. The method written first provides the Encoder."""

    class Hyper(HyperParameters):
        # Fitted on "target", all sentences of each task, or on a corpus: "nli" in SimCSE's table
        # (docs/methods.md#bert-flow, #bert-whitening).
        source: str = Field("nli", json_schema_extra=LABEL)
        # The first so many of the corpus; None: all, as in the papers.
        sentences: int | None = Field(None, ge=2)

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
        # For a map below that is fitted on each task, the corpus counts as a task.
        adapt = getattr(encoder, "adapt", None)
        return sentences, adapt(sentences, vectors) if adapt else vectors

    def transform(self, encoder: Any, context: Context) -> Any:
        """Return the Encoder that maps the vectors of `encoder`."""
        raise NotImplementedError
