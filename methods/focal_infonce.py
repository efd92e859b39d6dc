"""Focal-InfoNCE: cosines are modulated by themselves, so that hard negatives weigh more."""

import torch
from torch import Tensor
from torch.nn import functional as F

from methods.base import SHARED_RECIPE, Contrastive, ContrastiveHyper, Field, Negatives, cosine


class FocalInfoNCEHyper(ContrastiveHyper):
    hardness: float = Field(0.3, ge=0)  # m; released script and default of the code
    focal_positive: bool = True  # own pair: s^2 instead of s
    focal_negative: bool = True  # all others: s (s + m) instead of s


class FocalInfoNCE(Contrastive):
    """InfoNCE of s_ii^2 and s_ij (s_ij + m), with gradient through the factors.

    Additional negatives of other methods are modulated as those of the batch. Readings:
    docs/methods.md#focal-infonce.
    """

    name = "focal-infonce"
    title = "Focal-InfoNCE"
    reference = "Hou and Li 2023, arXiv 2310.06918; code puerrrr/Focal-InfoNCE@9365beb"
    Hyper = FocalInfoNCEHyper
    paper = official = SHARED_RECIPE
    used_if = {"hardness": lambda hyper: hyper.focal_negative}

    def contrast(
        self, anchors: Tensor, positives: Tensor, negatives: list[Negatives], weights: Tensor | None
    ) -> Tensor:
        hyper = self.hyper
        if not (hyper.focal_positive or hyper.focal_negative):
            return super().contrast(anchors, positives, negatives, weights)
        cosines = cosine(anchors, positives)
        own = torch.eye(len(anchors), dtype=torch.bool, device=anchors.device)
        pair = cosines.square() if hyper.focal_positive else cosines
        logits = torch.where(own, pair, self._modulated(cosines)) / hyper.temperature
        columns = [logits if weights is None else logits + weights.log()]
        columns += [
            group.logits(anchors, hyper.temperature, self._modulated) for group in negatives
        ]
        labels = torch.arange(len(anchors), device=anchors.device)
        return F.cross_entropy(torch.cat(columns, dim=1), labels)

    def _modulated(self, cosines: Tensor) -> Tensor:
        """Return the similarities of negatives."""
        return cosines * (cosines + self.hyper.hardness) if self.hyper.focal_negative else cosines
