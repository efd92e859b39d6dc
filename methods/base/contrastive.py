"""The contrastive loss that most of these papers share, a formula with slots:

    -log e^{s(h_i,h_i+)/t} / ( sum_j w_ij e^{s(h_i,h_j+)/t} + sum_m l_m sum_k w_imk
    e^{s(h_i,n_imk)/t} ) + sum_t a_t L_t

s is the cosine and t the temperature. A method overrides slots: `pairs` (h and h+), `weights` (w),
`negatives` (n with l) and `terms` (a_t L_t).
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from methods.base.contract import Context, Method, Shape, Step, Tokens, Views
from methods.base.hyper_parameters import HOST, Field, HyperParameters, PositiveFloat

__all__ = [
    "Contrastive", "Negatives", "Queued", "Terms", "beside", "cosine", "info_nce", "nt_xent",
    "on_diagonal", "pair_loss", "weighted",
]  # fmt: skip

Terms = list[tuple[float, Tensor]]  # further losses: a coefficient and a scalar each


@dataclass(frozen=True)
class Negatives:
    """Additional negatives: vectors to compare with the anchors, or cosines of any other pairs."""

    vectors: Tensor | None = None  # (m, d), shared by all anchors, or (n, m, d), one set per anchor
    weight: float = 1.0  # l_m of the formula, at least 0
    weights: Tensor | None = None  # w_imk of the formula, (n, m) and at least 0; None: ones
    cosines: Tensor | None = None  # (n, m), in place of vectors

    def logits(
        self,
        anchors: Tensor,
        temperature: float,
        similarity: Callable[[Tensor], Tensor] | None = None,
    ) -> Tensor:
        """Return their logits (n, m) for anchors (n, d); `similarity` maps the cosines before."""
        cosines: Any = self.cosines
        if self.vectors is not None:
            cosines = cosine(anchors, self.vectors)
        if similarity:
            cosines = similarity(cosines)
        logits = cosines / temperature
        if self.weight != 1.0:
            logits = logits + math.log(self.weight)
        return weighted(logits, self.weights)


def weighted(logits: Tensor, weights: Tensor | None) -> Tensor:
    """Return logits (n, m) with the logarithms of weights (n, m) added; None: ones."""
    if weights is None:
        return logits
    if weights.shape != logits.shape:  # torch would broadcast them
        raise ValueError(
            f"the weights have the shape {tuple(weights.shape)}, not {tuple(logits.shape)}; "
            "give one for each candidate"
        )
    return logits + weights.log()


def cosine(rows: Tensor, columns: Tensor) -> Tensor:
    """Return cosines (n, m) of rows (n, d) with columns (m, d), or with a set per row (n, m, d)."""
    rows, columns = F.normalize(rows, dim=-1), F.normalize(columns, dim=-1)
    return rows @ columns.T if columns.dim() == 2 else torch.einsum("nd,nmd->nm", rows, columns)


def info_nce(
    anchors: Tensor,
    positives: Tensor,
    temperature: float,
    negatives: Iterable[Negatives] = (),
    weights: Tensor | None = None,
) -> Tensor:
    """Return the InfoNCE loss in one direction of anchors and positives (n, d)."""
    # `weights` are w_ij of the formula, (n, n) and at least 0, with a positive diagonal.
    logits = cosine(anchors, positives) / temperature
    return pair_loss(beside(weighted(logits, weights), negatives, anchors, temperature))


def beside(
    logits: Tensor,
    negatives: Iterable[Negatives],
    anchors: Tensor,
    temperature: float,
    similarity: Callable[[Tensor], Tensor] | None = None,
) -> Tensor:
    """Return logits (n, n) of in-batch candidates, and beside them the logits of all negatives."""
    others = [group.logits(anchors, temperature, similarity) for group in negatives]
    return torch.cat([logits, *others], dim=1)


def pair_loss(logits: Tensor) -> Tensor:
    """Return the cross-entropy of logits (n, m), where candidate i is the positive of anchor i."""
    return F.cross_entropy(logits, torch.arange(len(logits), device=logits.device))


def nt_xent(first: Tensor, second: Tensor, temperature: float, reduction: str = "mean") -> Tensor:
    """Return the NT-Xent loss of two views (n, d): each of 2n vectors against the others."""
    vectors = torch.cat([first, second])
    logits = cosine(vectors, vectors) / temperature
    # Rows 0 to n - 1 are the first views, n to 2n - 1 the second: the partner of row i is i + n
    # modulo 2n.
    partners = torch.arange(len(vectors), device=vectors.device).roll(len(first))
    # A vector is no candidate for itself.
    logits = logits.masked_fill(on_diagonal(logits), -torch.inf)
    return F.cross_entropy(logits, partners, reduction=reduction)


def on_diagonal(cells: Tensor) -> Tensor:
    """Return which cells (n, m) have the same row and column."""
    return torch.eye(*cells.shape, dtype=torch.bool, device=cells.device)


class Contrastive(Method):
    """Base class of methods that fit the formula. Each slot is SimCSE's unless overridden.

    A plan calls the class methods. For a batch of n sentences, `step_loss` calls `before_loss` to
    `terms` in the order in which they stand; d is the width of the vectors. Of methods joined with
    `+`, it calls `before_loss`, `extras`, `quiet`, `negatives`, `weights` and `terms`.
    """

    class Hyper(HyperParameters):
        # SimCSE section 3
        temperature: PositiveFloat = Field(0.05, json_schema_extra=HOST)
        """divisor of the cosines"""

    # Share of the loss without extra negatives and weights; 0.5 in SSCL's released code.
    plain_share: float = 0.0

    @classmethod
    def joins(cls) -> bool:
        """Return whether it may be written after a `+`: whether it fills a slot that adds."""
        slots = ("before_loss", "extras", "quiet", "negatives", "weights", "terms")
        return any(getattr(cls, slot) is not getattr(Contrastive, slot) for slot in slots)

    @classmethod
    def fixed_positive(cls, hyper: Any) -> str | None:
        """Return the setting with which the positive is no dropout view, if it must be first."""
        return None

    @classmethod
    def needs_dropout(cls, hyper: Any) -> bool:
        """Return whether the views of a sentence would be equal without dropout."""
        return cls.fixed_positive(hyper) is None

    @classmethod
    def in_parts(cls, hyper: Any) -> str | None:
        """Return the setting with which parts of a batch contrast alone; nothing can be added."""
        return None

    def before_loss(self, context: Context, tokens: Tokens, step: Step) -> None:
        """Before everything: compute, with other models than the backbone, what the loss reads."""

    def views(self, context: Context, tokens: Tokens, step: Step) -> Sequence[Tokens]:
        """After `extras`: return n token sequences a view; by default two copies."""
        return (tokens, tokens)

    def extras(self, context: Context, tokens: Tokens, step: Step) -> Sequence[Tokens]:
        """After `before_loss` and before `views`: return further lists of n token sequences, which
        are encoded in the same pass as the views."""
        return ()

    def quiet(self, context: Context, tokens: Tokens, step: Step) -> Sequence[Tokens]:
        """After that pass: return lists of n token sequences to encode without dropout."""
        return ()

    def pairs(self, views: Views) -> tuple[Tensor, Tensor]:
        """After all passes: return anchors and positives, (n, d); by default the two views."""
        first, second = views.vectors
        return first, second

    def negatives(self, anchors: Tensor, views: Views, step: Step) -> list[Negatives]:
        """After `pairs`, with anchors (n, d): return additional negatives.

        An empty list leaves the loss unchanged bit for bit.
        """
        return []

    def weights(self, anchors: Tensor, positives: Tensor, step: Step) -> Tensor | None:
        """After `negatives`, with anchors and positives (n, d): return the weights w_ij of the
        in-batch candidates, (n, n), or None for ones."""
        return None

    def contrast(
        self, anchors: Tensor, positives: Tensor, negatives: list[Negatives], weights: Tensor | None
    ) -> Tensor:
        """After `weights`, whose products are (n, n), with anchors and positives (n, d): return the
        first term of the formula, a scalar, as `info_nce`."""
        return info_nce(anchors, positives, self.hyper.temperature, negatives, weights)

    def terms(self, anchors: Tensor, positives: Tensor, temperature: float, step: Step) -> Terms:
        """After `contrast`, with anchors and positives (n, d): return additional loss terms."""
        return []

    def after_loss(self, context: Context, step: Step) -> None:
        """After the loss and before the optimiser step, without gradient: update state."""
        for part in self.parts:
            part.after_loss(context, step)

    @property
    def slots(self) -> "list[Contrastive]":
        """This method and the methods joined to it with `+`."""
        return [self, *self.parts]

    def step_loss(self, context: Context, step: Step) -> Tensor:
        """Return the scalar loss of the sentences `step.rows`."""
        tokens = step.take(context.tokens())
        extras = self.read_batch(context, tokens, step)
        views = context.embed(self.views(context, tokens, step), extras)
        quiet = {part.name: part.quiet(context, tokens, step) for part in self.slots}
        if any(quiet.values()):
            views = replace(views, quiet=context.embed([], quiet, dropout=False).extras)
        return self.loss(views, step)

    def read_batch(
        self, context: Context, tokens: Tokens, step: Step
    ) -> dict[str, Sequence[Tokens]]:
        """Call `before_loss` of this method and of those joined to it, and return the `extras` of
        all, by name. A method that overrides `step_loss` calls it once a batch."""
        for part in self.slots:
            part.before_loss(context, tokens, step)
        return {part.name: part.extras(context, tokens, step) for part in self.slots}

    def loss(self, views: Views, step: Step) -> Tensor:
        """Return the scalar loss of the vectors of one batch."""
        temperature, slots = self.hyper.temperature, self.slots
        anchors, positives = self.pairs(views)
        negatives = [group for part in slots for group in part.negatives(anchors, views, step)]
        by_slot = [part.weights(anchors, positives, step) for part in slots]
        factors = [factor for factor in by_slot if factor is not None]
        weights = reduce(torch.mul, factors) if factors else None
        loss = self.contrast(anchors, positives, negatives, weights)
        share = max(part.plain_share for part in slots)
        # A share of the loss without what was added; in SSCL's released code, half of it.
        if share and (negatives or weights is not None):
            loss = (1 - share) * loss + share * info_nce(anchors, positives, temperature)
        for part in slots:
            for coefficient, term in part.terms(anchors, positives, temperature, step):
                loss = loss + coefficient * term
        return loss


class Queued(Contrastive):
    """Base class of methods with a queue of vectors: `rows` (length, d), the newest last."""

    rows: Tensor

    def __init__(self, hyper: Any, shape: Shape, length: int) -> None:
        super().__init__(hyper, shape)
        self.register_buffer("rows", torch.zeros(length, shape.width))
        # How many of the rows are in use. Not a tensor: reading one from a GPU would wait.
        self.filled = 0

    def append(self, vectors: Tensor) -> None:
        """Append vectors (n, d), without the graphs of their batches; the oldest rows leave."""
        self.rows = torch.cat([self.rows.to(vectors), vectors.detach()])[-len(self.rows) :]
        self.filled = min(self.filled + len(vectors), len(self.rows))

    # `filled` is a part of the state that checkpoints keep.

    def get_extra_state(self) -> Tensor:
        return torch.tensor(self.filled)  # On the host, as all that checkpoints keep.

    def set_extra_state(self, state: Tensor) -> None:
        self.filled = int(state)
