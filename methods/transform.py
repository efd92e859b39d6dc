"""Transforms: maps of finished sentence vectors, written after a `+`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from methods.contract import Context, HyperParameters, Method, Refusal, Shape

TARGET = "target"  # the `source` of a transform that is fitted on the sentences of each task


class Mapped:
    """An Encoder that maps the vectors of another Encoder.

    If the map is not fitted, it is fitted on the vectors of each task.

    Attributes:
        base: the other Encoder.
        fixed: whether the map is fitted.
    """

    base: Any
    fixed: bool

    def through(self, vectors: Any) -> Any:
        """Map vectors (n, d); a map that is not fitted is fitted on them first."""
        raise NotImplementedError

    @property
    def adapt(self) -> Callable[[Any], Any] | None:
        """The map still to be applied to all vectors of a task; None if `encode` applies
        everything."""
        return None if self.fixed and not getattr(self.base, "adapt", None) else self._adapt

    def encode(self, sentences: Sequence[str]) -> Any:
        vectors = self.base.encode(sentences)
        return vectors if self.adapt else self.through(vectors)

    def _adapt(self, vectors: Any) -> Any:
        inner = getattr(self.base, "adapt", None)
        return self.through(inner(vectors) if inner else vectors)


@dataclass(frozen=True)
class TransformHyper(HyperParameters):
    # Fitted on "target", the sentences of each task, or on a corpus: "nli" in SimCSE's table
    # (docs/methods.md#bert-flow, #bert-whitening).
    source: str = field(default="nli", metadata={"label": True})
    sentences: int | None = (
        None  # use the first so many sentences of the corpus; None uses all, as in the papers
    )


class Transform(Method):
    """Base class of transforms. The method written first provides the Encoder."""

    Hyper = TransformHyper
    trained = False

    @classmethod
    def joins(cls) -> bool:
        return True

    @classmethod
    def check(cls, hyper: Any) -> None:
        if hyper.sentences is not None and hyper.sentences < 2:
            raise Refusal(
                f"'{cls.name}' is fitted on at least 2 sentences, not on {hyper.sentences}"
            )

    @classmethod
    def clamp_to_backbone(cls, hyper: Any, shape: Shape) -> Any:
        return replace(hyper, sentences=None) if hyper.source == TARGET else hyper

    @classmethod
    def corpora(cls, hyper: Any) -> Sequence[str]:
        return () if hyper.source == TARGET else (hyper.source,)

    def prepare(self, context: Context) -> None:
        """Check the corpus before training, so that a bad one does not fail after it.

        Raises:
            Refusal: the corpus has fewer than two different sentences.
        """
        if (
            self.hyper.source != TARGET
            and len(set(context.sentences(self.hyper.source)[: self.hyper.sentences])) < 2
        ):
            raise Refusal(
                f"'{self.name}' is fitted on at least 2 different sentences; '{self.hyper.source}' has fewer"
            )

    def vectors(self, encoder: Any, context: Context) -> Any:
        """Return an Encoder's vectors (n, d) of the corpus to fit on; None if each task is fitted
        on its own."""
        if self.hyper.source == TARGET:
            return None
        vectors = context.encode(
            encoder, context.sentences(self.hyper.source)[: self.hyper.sentences]
        )
        adapt = getattr(encoder, "adapt", None)
        return adapt(vectors) if adapt else vectors

    def transform(self, encoder: Any, context: Context) -> Any:
        """Return the Encoder that maps the vectors of `encoder`."""
        raise NotImplementedError
