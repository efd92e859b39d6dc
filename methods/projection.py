"""Linear projection of vectors to fewer dimensions, and the affine Encoder that it shares with
trained heads."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from methods.base import TARGET, Context, Mapped, Refusal, Shape, Transform, TransformHyper, stream

CHUNK = 8192  # vectors per float64 chunk: bounds memory on tasks of 100,000 sentences
PROJECTIONS = ("pca", "random")


class Affine(Mapped):
    """An Encoder that maps another one's vectors x to W x + b in float64, optionally followed by
    tanh.

    Attributes:
        arrays: `weight`, W (k, d), and `bias`, b (k).
    """

    kind = "affine"
    fixed = True

    def __init__(self, base: Any, weight: Tensor, bias: Tensor, tanh: bool = False) -> None:
        self.base, self.tanh = base, tanh
        self.arrays = {"weight": weight.detach().cpu(), "bias": bias.detach().cpu()}

    @property
    def identity(self) -> str:
        digest = hashlib.sha256(f"{self.base.identity}/{self.tanh}".encode())
        for name, array in sorted(self.arrays.items()):
            digest.update(name.encode() + array.numpy().tobytes())
        return f"{self.kind}-{digest.hexdigest()[:16]}"

    def through(self, vectors: np.ndarray) -> np.ndarray:
        weight, bias = self.arrays["weight"].double(), self.arrays["bias"].double()
        chunks = torch.from_numpy(np.ascontiguousarray(vectors)).split(CHUNK)
        mapped = [F.linear(chunk.double(), weight, bias) for chunk in chunks]
        return np.concatenate(
            [(rows.tanh() if self.tanh else rows).float().numpy() for rows in mapped]
        )

    def save(self, folder: Any) -> dict[str, Any]:
        return {"tanh": self.tanh}

    @classmethod
    def load(
        cls, folder: Any, stored: dict[str, Any], *, base: Any, arrays: dict[str, Tensor], **_: Any
    ) -> Affine:
        return cls(base, arrays["weight"], arrays["bias"], stored["tanh"])


def leading_directions(vectors: Tensor, dimensions: int, centred: bool) -> tuple[Tensor, Tensor]:
    """Return orthonormal directions (k, d) with the largest sums of squares of vectors (n, d), and
    the centre (d).

    Computed in float64. With `centred` the centre is the mean, so directions are principal
    components; otherwise it is 0.
    """
    width = vectors.shape[1]
    centre = torch.zeros(width, dtype=torch.float64, device=vectors.device)
    if centred:
        centre = vectors.mean(0, dtype=torch.float64)
    squares = torch.zeros(width, width, dtype=torch.float64, device=vectors.device)
    for chunk in vectors.split(CHUNK):
        moved = chunk.double() - centre
        squares += moved.T @ moved
    if not torch.isfinite(squares).all():  # reported when these vectors are scored
        return torch.full((min(dimensions, width), width), torch.nan, dtype=torch.float64), centre
    directions = torch.linalg.eigh(squares).eigenvectors.flip(-1).T
    return directions[:dimensions].contiguous(), centre


def random_directions(width: int, dimensions: int, seed: int) -> Tensor:
    """Return orthonormal directions (k, d) of a uniformly random subspace, in float64."""
    drawn = torch.randn(
        width, min(dimensions, width), dtype=torch.float64, generator=stream(seed, "projection")
    )
    return torch.linalg.qr(drawn).Q.T.contiguous()


@dataclass(frozen=True)
class ProjectionHyper(TransformHyper):
    dimensions: int = 256  # SSCL, Table 5: 128 and 256
    kind: str = field(default="pca", metadata={"label": True})  # one of KINDS
    centred: bool = False  # for pca: subtract the mean, as in standard PCA


class Projection(Transform):
    """Projection on leading directions of a corpus, or on random directions (docs/methods.md#sscl).

    SSCL reports BERT at 128 and 256 dimensions and does not say how the untrained model was
    projected; both kinds are interpretations. By default the mean is not subtracted, since an
    orthonormal map without bias that keeps all dimensions preserves all cosines; `centred`
    subtracts it. On an untrained Encoder a random map is drawn once, not per seed.
    """

    name = "projection"
    title = "Projection"
    reference = "after Chen et al. 2023, arXiv 2305.06154, Table 5"
    Hyper = ProjectionHyper
    official = {}

    @classmethod
    def check(cls, hyper: ProjectionHyper) -> None:
        super().check(hyper)
        if hyper.kind not in PROJECTIONS:
            raise Refusal(
                f"'kind' of 'projection' is one of {', '.join(PROJECTIONS)}, not '{hyper.kind}'"
            )
        if hyper.dimensions < 1:
            raise Refusal(f"'projection' keeps at least 1 dimension, not {hyper.dimensions}")
        if hyper.source == TARGET:
            raise Refusal(
                "'projection' is one map for all tasks; name a corpus as its source, not 'target'"
            )

    @classmethod
    def clamp_to_backbone(cls, hyper: ProjectionHyper, shape: Shape) -> ProjectionHyper:
        """Limit the dimensions to the width; a random map reads no corpus."""
        if shape.width:  # 0 for an Encoder without backbone, whose width is not known yet
            hyper = replace(hyper, dimensions=min(hyper.dimensions, shape.width))
        return (
            replace(hyper, source="none", sentences=None, centred=False)
            if hyper.kind == "random"
            else hyper
        )

    @classmethod
    def corpora(cls, hyper: ProjectionHyper) -> Sequence[str]:
        return () if hyper.kind == "random" else super().corpora(hyper)

    def prepare(self, context: Context) -> None:
        if self.hyper.kind == "pca":
            super().prepare(context)

    def transform(self, encoder: Any, context: Context) -> Affine:
        hyper = self.hyper
        if hyper.kind == "random":
            weight = random_directions(
                encoder.encode(["a"]).shape[1], hyper.dimensions, context.seed
            )
            return Affine(encoder, weight, torch.zeros(len(weight), dtype=torch.float64))
        vectors = torch.from_numpy(np.ascontiguousarray(self.vectors(encoder, context)))
        weight, centre = leading_directions(vectors, hyper.dimensions, hyper.centred)
        return Affine(encoder, weight, -(weight @ centre))
