"""Focal-InfoNCE: InfoNCE of s_ii^2 and s_ij (s_ij + m), of added negatives too, with gradient
through the factors (docs/methods.md#focal-infonce)."""

import torch
from torch import Tensor

from methods.base import (
    SHARED_RECIPE,
    Contrastive,
    Negatives,
    NonNegativeFloat,
    cosine,
    pair_loss,
    weighted,
)


class FocalInfoNCE(Contrastive):
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
        diagonal = torch.eye(len(anchors), dtype=torch.bool, device=anchors.device)
        pair = cosines.square() if hyper.focal_positive else cosines
        logits = torch.where(diagonal, pair, self._modulated(cosines)) / hyper.temperature
        columns = [weighted(logits, weights)]
        for group in negatives:
            columns.append(group.logits(anchors, hyper.temperature, self._modulated))
        return pair_loss(torch.cat(columns, dim=1))

    def _modulated(self, cosines: Tensor) -> Tensor:
        """Return the similarities of negatives."""
        return cosines * (cosines + self.hyper.hardness) if self.hyper.focal_negative else cosines
