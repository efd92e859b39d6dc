"""Projection on leading directions of a corpus, or on random ones (docs/reference/methods.md#sscl),
and the affine Encoder, of heads too."""

from typing import Any, Literal

import numpy as np
import torch
from pydantic import field_validator
from torch import Tensor
from torch.nn import functional as F

from methods.base import (
    LABEL,
    TARGET,
    Context,
    Count,
    Field,
    Mapped,
    Shape,
    Transform,
    in_chunks,
    scatter,
    stream,
)


class Affine(Mapped):
    """An Encoder that maps another one's vectors x to W x + b, with `tanh` tanh(W x + b), in
    float64."""

    kind = "affine"

    def through(self, vectors: np.ndarray) -> np.ndarray:
        weight, bias = (self.arrays[name].to(self.device).double() for name in ("weight", "bias"))

        def mapped(chunk: Tensor) -> Tensor:
            rows = F.linear(chunk.double(), weight, bias)
            return rows.tanh() if self.options["tanh"] else rows

        return in_chunks(vectors, mapped, self.device)


def leading_directions(vectors: Tensor, dimensions: int, centred: bool) -> tuple[Tensor, Tensor]:
    """Return orthonormal directions (k, d) with the largest sums of squares of vectors (n, d) less
    the centre, and the centre (d): the mean if `centred`, else 0; in float64 on the CPU."""
    width = vectors.shape[1]
    centre = vectors.new_zeros(width, dtype=torch.float64)
    if centred:
        centre = vectors.mean(0, dtype=torch.float64)
    squares, centre = scatter(vectors, centre).cpu(), centre.cpu()
    # On the host, as the eigenvectors.
    if not torch.isfinite(squares).all():  # reported when these vectors are scored
        return torch.full((min(dimensions, width), width), torch.nan, dtype=torch.float64), centre
    directions = torch.linalg.eigh(squares).eigenvectors.flip(-1).T
    return directions[:dimensions].contiguous(), centre


def random_directions(width: int, dimensions: int, seed: int) -> Tensor:
    """Return orthonormal directions (k, d) of a uniformly random subspace, in float64."""
    size, generator = (width, min(dimensions, width)), stream(seed, "projection")
    drawn = torch.randn(size, dtype=torch.float64, generator=generator)
    return torch.linalg.qr(drawn).Q.T.contiguous()


class Projection(Transform):
    """Projection on leading directions of a corpus."""

    name = "projection"
    title = "Projection"
    reference = "after Chen et al. 2023, arXiv 2305.06154, Table 5"

    class Hyper(Transform.Hyper):
        # SSCL, Table 5: 128 and 256
        dimensions: Count = 256
        """columns to keep"""
        kind: Literal["pca", "random"] = Field("pca", json_schema_extra=LABEL)
        """longest directions (`pca`), or `random`"""
        # As in standard PCA. Without it, the map preserves all cosines.
        centred: bool = False
        """whether `pca` subtracts the mean"""

        @field_validator("source")
        @classmethod
        def _check_source(cls, source: str) -> str:
            if source == TARGET:
                raise ValueError(
                    "a projection is one map for all tasks; name a corpus, not 'target'"
                )
            return source

    official = {}

    @classmethod
    def clamp_to_backbone(cls, hyper: Hyper, shape: Shape) -> Hyper:
        """Limit the dimensions to the width; a random map reads no corpus."""
        changes: dict[str, Any] = {}
        if shape.width:  # 0 for an Encoder without backbone, whose width is not known yet
            changes["dimensions"] = min(hyper.dimensions, shape.width)
        if hyper.kind == "random":
            changes |= {"source": "none", "sentences": None, "centred": False}
        return hyper.model_copy(update=changes)

    @classmethod
    def corpora(cls, hyper: Hyper) -> tuple[str, ...]:
        return () if hyper.kind == "random" else super().corpora(hyper)

    def transform(self, encoder: Any, context: Context) -> Affine:
        hyper = self.hyper
        if hyper.kind == "random":
            width = encoder.encode(["a"]).shape[1]
            weight = random_directions(width, hyper.dimensions, context.seed)
            bias = torch.zeros(len(weight), dtype=torch.float64)  # On the host: `Affine` moves it.
        else:
            sentences, vectors = self.fitting(encoder, context)
            rows = torch.from_numpy(np.ascontiguousarray(vectors(sentences))).to(context.device)
            weight, centre = leading_directions(rows, hyper.dimensions, hyper.centred)
            bias = -(weight @ centre)
        return Affine(encoder, {"weight": weight, "bias": bias}, context.device, tanh=False)
