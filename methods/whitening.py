"""BERT-whitening: x~ = (x - mu) W with W = U S^(-1/2) of the covariance U S U^T, normalised to
length 1 (docs/reference/methods.md#bert-whitening)."""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from methods.base import (
    Context,
    Mapped,
    NonNegativeInt,
    Shape,
    Transform,
    Vectors,
    in_chunks,
    scatter,
)


def fit_whitening(vectors: Tensor, dimensions: int | None = None) -> tuple[Tensor, Tensor]:
    """Return the mean (d) and W = U S^(-1/2) (d, k) of vectors (n, d), in float64 on the CPU, by
    decreasing variance; the column of a direction without variance is 0."""
    count, width = vectors.shape
    kept = min(dimensions or width, width)
    mean = vectors.mean(0, dtype=torch.float64)
    mean, covariance = mean.cpu(), scatter(vectors, mean).cpu() / max(count - 1, 1)
    if not torch.isfinite(covariance).all():  # reported when these vectors are scored
        return mean, mean.new_full((width, kept), torch.nan)
    variances, directions = (part.flip(-1) for part in torch.linalg.eigh(covariance))
    limits = torch.finfo(torch.float64)
    present = variances > variances[0] * width * limits.eps  # the threshold of numpy's matrix_rank
    rank = int(present.sum())
    if rank < kept:
        warnings.warn(
            f"whitening: {count} vectors vary in {rank} directions only, "
            f"so {kept - rank} of {kept} dimensions are 0",
            stacklevel=2,
        )
    scales = torch.where(present, variances.clamp(min=limits.tiny).rsqrt(), 0.0)
    return mean, (directions * scales)[:, :kept]


def whiten(vectors: Tensor, mean: Tensor, matrix: Tensor) -> Tensor:
    """Return (x - mean) W of vectors (n, d), normalised to length 1."""
    return F.normalize((vectors - mean) @ matrix, dim=-1)


class Whitened(Mapped):
    """An Encoder that whitens another one's vectors, to a number of `dimensions` (None: all)."""

    kind = "whitened"

    def through(self, vectors: np.ndarray) -> np.ndarray:
        arrays = {name: array.to(self.device) for name, array in self.arrays.items()}
        return in_chunks(vectors, lambda chunk: whiten(chunk.double(), **arrays), self.device)

    def fitted(self, sentences: Sequence[str], vectors: Vectors) -> "Whitened":
        rows = torch.from_numpy(np.ascontiguousarray(vectors(sentences))).to(self.device)
        mean, matrix = fit_whitening(rows, self.options["dimensions"])
        arrays = {"mean": mean, "matrix": matrix.contiguous()}
        return Whitened(self.base, arrays, self.device, **self.options)


class Whitening(Transform):
    """A linear map makes the covariance the identity."""

    name = "whitening"
    title = "Whitening"
    version = 2
    reference = "Su et al. 2021, arXiv 2103.15316; code bojone/BERT-whitening@2bfea5a"

    class Hyper(Transform.Hyper):
        # Columns of W. Su et al.: 256 (base), 384 (large).
        dimensions: NonNegativeInt | None = None
        """columns to keep; none: all"""

    official = {}

    @classmethod
    def clamp_to_backbone(cls, hyper: Hyper, shape: Shape) -> Hyper:
        dimensions = hyper.dimensions or None
        if dimensions and shape.width:  # 0 without a backbone: the width is not known yet
            dimensions = min(dimensions, shape.width)
        changes = {"dimensions": dimensions}
        return super().clamp_to_backbone(hyper, shape).model_copy(update=changes)

    def transform(self, encoder: Any, context: Context) -> Any:
        per_task = Whitened(encoder, {}, context.device, dimensions=self.hyper.dimensions)
        return self.fit(per_task, context)
