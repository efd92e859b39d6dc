"""Focal-InfoNCE: InfoNCE of s_ii^2 and s_ij (s_ij + m), of added negatives too, with gradient
through the factors (docs/reference/methods.md#focal-infonce)."""

import torch
from torch import Tensor

from methods.base import (
    SHARED_RECIPE,
    Contrastive,
    Negatives,
    NonNegativeFloat,
    beside,
    cosine,
    on_diagonal,
    pair_loss,
    weighted,
)


class FocalInfoNCE(Contrastive):
    """Similarities weighted so that hard negatives count more."""

    name = "focal-infonce"
    title = "Focal-InfoNCE"
    reference = "Hou and Li 2023, arXiv 2310.06918; code puerrrr/Focal-InfoNCE@9365beb"

    class Hyper(Contrastive.Hyper):
        # Released script and default of the code.
        hardness: NonNegativeFloat = 0.3
        """m of s (s + m)"""
        focal_positive: bool = True
        """own pair: s^2 instead of s"""
        focal_negative: bool = True
        """all others: s (s + m) instead of s"""

    paper = official = SHARED_RECIPE
    used_if = {"hardness": lambda hyper: hyper.focal_negative}

    def contrast(
        self, anchors: Tensor, positives: Tensor, negatives: list[Negatives], weights: Tensor | None
    ) -> Tensor:
        hyper = self.hyper
        cosines = cosine(anchors, positives)
        pair = cosines.square() if hyper.focal_positive else cosines
        similarities = torch.where(on_diagonal(cosines), pair, self._modulated(cosines))
        logits = weighted(similarities / hyper.temperature, weights)
        return pair_loss(beside(logits, negatives, anchors, hyper.temperature, self._modulated))

    def _modulated(self, cosines: Tensor) -> Tensor:
        """Return the similarities of negatives."""
        return cosines * (cosines + self.hyper.hardness) if self.hyper.focal_negative else cosines
