"""MixCSE: lambda z'_j + (1 - lambda) z'_{j+1}, without gradient, are negatives of every anchor
(docs/reference/methods.md#mixcse)."""

from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from methods.base import (
    SHARED_RECIPE,
    Contrastive,
    Field,
    Negatives,
    Step,
    Views,
    cosine,
    on_diagonal,
)


class MixCSE(Contrastive):
    """Mixed vectors of two sentences as negatives."""

    name = "mixcse"
    title = "MixCSE"
    reference = "Zhang et al. 2022 (AAAI); code BDBC-KG-NLP/MixCSE_AAAI2022@884145e"

    class Hyper(Contrastive.Hyper):
        # Released script.
        share: float = Field(0.2, gt=0, lt=0.5)
        """the own sentence's lambda in mixtures"""
        mixtures: Literal["all", "own", "none"] = "all"
        """those an anchor faces"""
        mixed_anchors: bool = True
        """mixtures of anchors face positives, too"""
        # Its cosine is "zeroed", or the cell "removed".
        larger_share: Literal["zeroed", "removed"] = "zeroed"
        """what becomes of the cell with 1 - lambda of the own pair"""
        normalised: bool = False
        """sentences are mixed at length 1"""

    # Recalled: one mixture per anchor, its own, of vectors at length 1.
    _recalled = {"mixtures": "own", "mixed_anchors": False, "normalised": True}
    paper = {**SHARED_RECIPE, "*": {**_recalled, "larger_share": "removed"}}
    # The script is for BERT base and asks for no mixed precision.
    official = {**SHARED_RECIPE, "*": {"precision": "float32"}}
    used_if = dict.fromkeys(
        ("share", "mixed_anchors", "normalised", "larger_share"),
        lambda hyper: hyper.mixtures != "none",
    )

    def negatives(self, anchors: Tensor, views: Views, step: Step) -> list[Negatives]:
        if self.hyper.mixtures == "none":
            return []
        first, second = views.vectors
        groups = [self._group(cosine(anchors, self._mixed(second)), -1)]
        if self.hyper.mixed_anchors:
            groups.append(self._group(cosine(self._mixed(first), second), 1))
        return groups

    def _mixed(self, vectors: Tensor) -> Tensor:
        """Return the mixture of each vector (n, d) with the next one, without gradient."""
        # Fixed negatives, which are not pushed away themselves (models_mix.py:220-275).
        vectors = vectors.detach()
        if self.hyper.normalised:
            vectors = F.normalize(vectors, dim=-1)
        # Rolled by -1, row i is sentence i + 1 of the batch, and the last row the first sentence.
        return torch.lerp(vectors.roll(-1, 0), vectors, self.hyper.share)

    def _group(self, cosines: Tensor, shift: int) -> Negatives:
        """Return negatives from cosines (n, n); cell (i, i + shift) has the larger share."""
        # The mixture of sentence i - 1 has 1 - lambda > 1/2 of sentence i: nearly its positive.
        larger = on_diagonal(cosines).roll(shift, 1)
        weights = None
        if self.hyper.larger_share == "zeroed":
            cosines = cosines.masked_fill(larger, 0)
        else:
            weights = (~larger).to(cosines)
        if self.hyper.mixtures == "own":
            cosines = cosines.diagonal().unsqueeze(1)
            weights = None if weights is None else weights.diagonal().unsqueeze(1)
        return Negatives(cosines=cosines, weights=weights)
