"""IS-CSE: L_instance + alpha L_smoothing, whose positive h^{s+} = softmax(h+ K^T / beta) K is
smoothed by neighbours in a buffer of earlier positives (docs/reference/methods.md#is-cse)."""

import math
from typing import Literal, Self

import torch
from torch import Tensor
from torch.nn import functional as F

from methods.base import (
    SHARED_RECIPE,
    Count,
    NonNegativeFloat,
    PositiveFloat,
    Queued,
    Shape,
    Share,
    Step,
    Terms,
    info_nce,
    model_validator,
    overlay,
    to_device,
)

MOST_ROUNDS = 20  # of K-means per step; starting at the centres of the previous step, a few suffice


class ISCSE(Queued):
    """Positives smoothed by neighbours in a buffer."""

    name = "is-cse"
    title = "IS-CSE"
    reference = "He et al. 2023, arXiv 2305.07424; code dll-wu/IS-CSE@10757da"

    class Hyper(Queued.Hyper):
        alpha: NonNegativeFloat = 0.1
        """final weight of the smoothed loss"""
        # Eq. 8
        alpha_start: NonNegativeFloat | None = None
        """first alpha; none: constant"""
        buffer: int = 1024
        """L, rows of the memory"""
        neighbours: Count = 16
        """k, rows retrieved, fewer than `buffer`"""
        # Eq. 4
        beta: PositiveFloat = 2.0
        """temperature of the attention"""
        # Then each row's best match is discarded.
        current_first: bool = True
        """the batch enters memory before retrieval"""
        # "kmeans" smooths by the centre of h+'s cluster instead; no code was released for it.
        group: Literal["knn", "kmeans", "both"] = "knn"
        """smoothing by"""
        # Table 3
        clusters: Count = 64
        """k', centres of K-means"""
        # Eq. 5; not published.
        gamma: Share = 0.5
        """weight of h+ against its centre"""

        @model_validator(mode="after")
        def _check_together(self) -> Self:
            too_many = self.group != "kmeans" and self.neighbours >= self.buffer
            if too_many or (self.group != "knn" and self.clusters > self.buffer):
                raise ValueError(
                    f"'neighbours' should be above 0 and below 'buffer', {self.buffer}, and "
                    "'clusters' above 0 and at most 'buffer'"
                )
            if self.alpha_start is not None and self.alpha_start > self.alpha:
                # Eq. 8 would fall below its end.
                raise ValueError(
                    f"'alpha_start' should be at most 'alpha', {self.alpha}, not {self.alpha_start}"
                )
            return self

    _schedule = {"alpha": 0.05, "alpha_start": 0.005}
    _schedules = {"bert-large-uncased": _schedule, "roberta-large": _schedule}
    paper = overlay(SHARED_RECIPE, _schedules, {"*": {"current_first": False}})
    # The scripts of the two base models train in float32, and the scripts of the large ones in
    # mixed precision.
    official = overlay(
        SHARED_RECIPE,
        _schedules,
        {"bert-base-uncased": {"precision": "float32"}, "roberta-base": {"precision": "float32"}},
    )
    used_if = {
        "neighbours": lambda hyper: hyper.group != "kmeans",
        "beta": lambda hyper: hyper.group != "kmeans",
        "clusters": lambda hyper: hyper.group != "knn",
        "gamma": lambda hyper: hyper.group != "knn",
    }

    centres: Tensor

    def __init__(self, hyper: Hyper, shape: Shape) -> None:
        super().__init__(hyper, shape, hyper.buffer)
        if hyper.group != "knn":
            self.register_buffer("centres", torch.zeros(hyper.clusters, shape.width))

    def alpha(self, step: Step) -> float:
        """Return alpha by Eq. 8: from alpha_start to alpha at half of the training."""
        start, end = self.hyper.alpha_start, self.hyper.alpha
        if start is None:
            return end
        return min(math.cos(math.pi * step.index / step.total) * (start - end), 0.0) + end

    def terms(self, anchors: Tensor, positives: Tensor, temperature: float, step: Step) -> Terms:
        if self.hyper.alpha == 0:
            return []
        unit = F.normalize(positives, dim=-1)
        if self.hyper.current_first:
            self.append(unit)  # Eq. 3
        smoothed = []
        if self.hyper.group != "kmeans":
            smoothed.append(self._smooth(unit))
        if self.hyper.group != "knn":
            smoothed.append(self._smooth_by_centres(unit, step))
        if not self.hyper.current_first:
            self.append(unit)
        alpha = self.alpha(step)
        return [(alpha, info_nce(anchors, h, temperature)) for h in smoothed if h is not None]

    def _remembered(self, needed: int) -> Tensor | None:
        """Return the buffer's rows; None until it is full, or has those `needed`."""
        if self.filled < (self.hyper.buffer if self.hyper.current_first else needed):
            return None
        return self.rows[self.hyper.buffer - self.filled :]

    def _smooth(self, unit: Tensor) -> Tensor | None:
        """Return h^{s+} of unit vectors (n, d) by their neighbours."""
        rows = self._remembered(self.hyper.neighbours)
        if rows is None:
            return None
        # With the batch in the buffer, the best match of a vector is itself.
        skipped = int(self.hyper.current_first)
        similarities = unit.detach() @ rows.T
        ranked = similarities.topk(self.hyper.neighbours + skipped, dim=1).indices[:, skipped:]
        keys = torch.cat([unit.unsqueeze(1), rows[ranked]], dim=1)
        attention = torch.softmax(torch.einsum("nd,nkd->nk", unit, keys) / self.hyper.beta, dim=1)
        return torch.einsum("nk,nkd->nd", attention, keys)

    def _smooth_by_centres(self, unit: Tensor, step: Step) -> Tensor | None:
        """Return h^{s+} of unit vectors (n, d) by their centres (Eq. 5)."""
        rows = self._remembered(self.hyper.clusters)
        if rows is None:
            return None
        if not self.centres.any():  # the first time
            order = torch.randperm(len(rows), generator=step.generator("centres"))
            self.centres = rows[to_device(order[: self.hyper.clusters], rows.device)]
        self.centres = cluster(rows, self.centres)
        nearest = (unit.detach() @ self.centres.T).argmax(1)
        return self.hyper.gamma * unit + (1 - self.hyper.gamma) * self.centres[nearest]


def cluster(rows: Tensor, centres: Tensor) -> Tensor:
    """Return centres (k, d) of unit rows (n, d) by spherical K-means from the given centres."""
    nearest = rows.new_full((len(rows),), -1, dtype=torch.long)
    for _ in range(MOST_ROUNDS):
        before, nearest = nearest, (rows @ centres.T).argmax(1)
        if torch.equal(nearest, before):
            break
        # A matrix product, since index_add is not deterministic on a GPU.
        sums = F.one_hot(nearest, len(centres)).to(rows).T @ rows
        # The centre of an empty cluster stays.
        centres = torch.where(sums.any(1, keepdim=True), F.normalize(sums, dim=-1), centres)
    return centres
