"""Spread-out: InfoNCE plus a penalty on the cosines of different sentences."""

from __future__ import annotations

import torch
from torch import Tensor

from methods.base import Contrastive, Field, Step, cosine


class SpreadOut(Contrastive):
    """Different sentences get the cosines of vectors drawn uniformly from the sphere.

    Their mean is 0 there and the mean of their squares is 1/d, so the term is
    mean(s)^2 + max(0, mean(s^2) - 1/d) over the pairs of different sentences.
    """

    name = "spread-out"
    title = "Spread-out"
    reference = "after Zhang et al. 2017, arXiv 1708.06320"

    class Hyper(Contrastive.Hyper):
        strength: float = Field(1.0, ge=0)  # coefficient of the term; 0 is SimCSE

    def terms(
        self, anchors: Tensor, positives: Tensor, temperature: float, step: Step
    ) -> list[tuple[float, Tensor]]:
        if len(anchors) < 2 or self.hyper.strength == 0:
            return []
        is_pair = torch.eye(len(anchors), dtype=torch.bool, device=anchors.device)
        cosines = cosine(anchors, positives)[~is_pair]
        excess = cosines.square().mean() - 1 / anchors.shape[1]
        return [(self.hyper.strength, cosines.mean().square() + excess.clamp(min=0))]
