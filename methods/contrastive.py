"""The contrastive loss that most of these papers share, as a formula with slots.

    -log e^{s(h_i,h_i+)/t} / ( sum_j w_ij e^{s(h_i,h_j+)/t} + sum_m l_m sum_k w_imk
    e^{s(h_i,n_imk)/t} ) + sum_t a_t L_t

s is the cosine and t the temperature. A method overrides slots: `pairs` (h and h+), `weights` (w),
`negatives` (n with l) and `terms` (a_t L_t). Methods that override slots can be combined with `+`;
the first one determines the pairs and the recipe.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from methods.contract import Context, HyperParameters, Method, Refusal, Shape, Step, Tokens, Views


@dataclass(frozen=True)
class Negatives:
    """Additional negatives, beside those of the batch.

    Attributes:
        vectors: (m, d), shared by all anchors, or (n, m, d), one set per anchor.
        weight: l_m of the formula, at least 0.
        weights: w_imk of the formula, (n, m) and at least 0; None means ones.
    """

    vectors: Tensor
    weight: float = 1.0
    weights: Tensor | None = None


def cosine(left: Tensor, right: Tensor) -> Tensor:
    """Return the cosines (n, m) of each row of `left` (n, d) with all of `right` (m, d), or with
    its own (n, m, d)."""
    left, right = F.normalize(left, dim=-1), F.normalize(right, dim=-1)
    return left @ right.T if right.dim() == 2 else torch.einsum("nd,nmd->nm", left, right)


def info_nce(
    anchors: Tensor,
    positives: Tensor,
    temperature: float,
    negatives: Iterable[Negatives] = (),
    weights: Tensor | None = None,
) -> Tensor:
    """Return the InfoNCE loss in one direction: the mean of -log softmax of each anchor's own
    positive, a scalar.

    Args:
        anchors, positives: (n, d); positive j is a candidate of every anchor.
        temperature: divides the cosines.
        negatives: additional candidates.
        weights: w_ij of the formula, (n, n) and at least 0, with a positive diagonal; None means
            ones.
    """
    logits = cosine(anchors, positives) / temperature
    if weights is not None:
        logits = logits + weights.log()
    columns = [logits]
    for group in negatives:
        extra = cosine(anchors, group.vectors) / temperature
        if group.weight != 1.0:
            extra = extra + math.log(group.weight)
        if group.weights is not None:
            extra = extra + group.weights.log()
        columns.append(extra)
    return F.cross_entropy(
        torch.cat(columns, dim=1), torch.arange(len(anchors), device=anchors.device)
    )


def nt_xent(first: Tensor, second: Tensor, temperature: float, reduction: str = "mean") -> Tensor:
    """Return the NT-Xent loss: each of 2n vectors against its partner among the 2n - 1 others.

    Args:
        first, second: (n, d); row i of one is the partner of row i of the other.
        temperature: divides the cosines.
        reduction: "mean" or "sum" returns a scalar, "none" the 2n losses, those of `first` first.
    """
    vectors = torch.cat([first, second])
    logits = cosine(vectors, vectors) / temperature
    diagonal = torch.eye(len(vectors), dtype=torch.bool, device=vectors.device)
    partners = torch.arange(len(vectors), device=vectors.device).roll(len(first))
    return F.cross_entropy(logits.masked_fill(diagonal, -torch.inf), partners, reduction=reduction)


def enqueue(rows: Tensor, filled: Tensor, vectors: Tensor, length: int) -> tuple[Tensor, Tensor]:
    """Append vectors to a first-in-first-out queue.

    Args:
        rows: the queue, (length, d); the newest rows are last.
        filled: number of rows in use, a scalar.
        vectors: (n, d).
        length: capacity, at least 1.

    Returns:
        The new `rows` and `filled`.
    """
    return torch.cat([rows.to(vectors), vectors])[-length:], (filled + len(vectors)).clamp(
        max=length
    )


@dataclass(frozen=True)
class ContrastiveHyper(HyperParameters):
    temperature: float = field(default=0.05, metadata={"host": True})  # SimCSE section 3


class Contrastive(Method):
    """Base class of methods that fit the formula. Each slot is SimCSE's unless overridden."""

    Hyper = ContrastiveHyper
    plain_share: float = (
        0.0  # share of the loss without extra negatives and weights; 0.5 in SSCL's released code
    )

    def __init__(self, hyper: Any, shape: Shape) -> None:
        super().__init__(hyper, shape)
        self.parts: Any = nn.ModuleList()

    @classmethod
    def check(cls, hyper: Any) -> None:
        if hyper.temperature <= 0:
            raise Refusal(f"'{cls.name}' needs temperature > 0, not {hyper.temperature}")

    @classmethod
    def joins(cls) -> bool:
        slots = ("extras", "negatives", "weights", "terms")
        return any(getattr(cls, slot) is not getattr(Contrastive, slot) for slot in slots)

    @classmethod
    def own_pairs(cls, hyper: Any) -> str | None:
        """Return a name for its positive if that is not the dropout view, else None.

        A method with its own positive can only be written first.
        """
        return None

    @property
    def slots(self) -> list[Contrastive]:
        """This method and the methods joined to it with `+`."""
        return [self, *self.parts]

    def prepare(self, context: Context) -> None:
        for part in self.parts:
            part.prepare(context)

    def after_loss(self, context: Context, step: Step) -> None:
        for part in self.parts:
            part.after_loss(context, step)

    def views(self, tokens: Tokens, step: Step) -> Sequence[Tokens]:
        """Return the token sequences of each view; by default two equal copies
        (docs/methods.md#batches)."""
        return (tokens, tokens)

    def extras(self, tokens: Tokens, step: Step) -> Sequence[Tokens]:
        """Return further lists of n token sequences to encode in the same forward pass."""
        return ()

    def pairs(self, views: Views) -> tuple[Tensor, Tensor]:
        """Return anchors and positives, each (n, d); by default the first and the second view."""
        first, second = views.vectors
        return first, second

    def negatives(self, anchors: Tensor, views: Views, step: Step) -> list[Negatives]:
        """Return additional negatives; an empty list leaves the loss unchanged bit for bit."""
        return []

    def weights(self, anchors: Tensor, positives: Tensor, step: Step) -> Tensor | None:
        """Return the weights w_ij of the in-batch candidates, (n, n), or None for ones."""
        return None

    def terms(
        self, anchors: Tensor, positives: Tensor, temperature: float, step: Step
    ) -> list[tuple[float, Tensor]]:
        """Return additional loss terms as pairs of a coefficient and a scalar."""
        return []

    def contrast(
        self,
        anchors: Tensor,
        positives: Tensor,
        negatives: Sequence[Negatives],
        weights: Tensor | None,
    ) -> Tensor:
        """Return the first term of the formula, a scalar."""
        return info_nce(anchors, positives, self.hyper.temperature, negatives, weights)

    def step_loss(self, context: Context, step: Step) -> Tensor:
        corpus = context.tokens()
        tokens = [corpus[row] for row in step.rows]
        extras = {part.name: part.extras(tokens, step) for part in self.slots}
        return self.loss(context.embed(self.views(tokens, step), extras), step)

    def loss(self, views: Views, step: Step) -> Tensor:
        """Return the scalar loss of the vectors of one batch."""
        temperature = self.hyper.temperature
        slots = self.slots
        anchors, positives = self.pairs(views)
        negatives = [group for part in slots for group in part.negatives(anchors, views, step)]
        weights = None
        for part in slots:
            own = part.weights(anchors, positives, step)
            if own is not None:
                weights = own if weights is None else weights * own
        loss = self.contrast(anchors, positives, negatives, weights)
        share = max(part.plain_share for part in slots)
        if share and (negatives or weights is not None):
            loss = (1 - share) * loss + share * info_nce(anchors, positives, temperature)
        for part in slots:
            for coefficient, term in part.terms(anchors, positives, temperature, step):
                loss = loss + coefficient * term
        return loss
