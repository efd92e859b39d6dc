"""The contract of a method, and the one formula most of these papers are.

    -log e^{s(h_i,h_i+)/t} / ( sum_j w_ij e^{s(h_i,h_j+)/t} + sum_m l_m sum_k w_imk e^{s(h_i,n_imk)/t} )
    + sum_t a_t L_t

with s the cosine and t the temperature. A method fills slots of it: `pairs` (h and h+), `weights` (w), `negatives` (n
with l), `terms` (a_t L_t). A method that fills slots can join another one with `+`; the method written first decides
the pairs and the recipe.

What a method must remember is a buffer, what it learns is a parameter: so saving, resuming and optimising need no
special case. No method casts its input: the arithmetic is done in the type of the vectors it is given.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Tokens = Sequence[Sequence[int]]
Table = Mapping[str, Mapping[str, Any]]


class Refusal(Exception):
    """A method that cannot be what was asked: one sentence with the reason."""


def stream_seed(seed: int, *names: object) -> int:
    """The 63-bit seed of the random stream called `names` under `seed`; equal on every machine."""
    text = "/".join(map(str, (seed, *names)))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def stream(seed: int, *names: object) -> torch.Generator:
    """A CPU generator of its own for every named draw, so that no draw shifts another's stream."""
    return torch.Generator().manual_seed(stream_seed(seed, *names))


@dataclass(frozen=True)
class Shape:
    """What a method may know of its backbone."""

    width: int
    depth: int  # transformer layers, without the embedding layer


@dataclass(frozen=True)
class Step:
    """Where a training stands.

    Attributes:
        index: optimiser steps done before this one.
        total: optimiser steps of the whole training.
        batch_size: sentences in a full batch (the last batch may be shorter).
        seed: the run's seed.
    """

    index: int
    total: int
    batch_size: int
    seed: int

    def generator(self, name: str) -> torch.Generator:
        """The CPU generator of this step's draw called `name`."""
        return stream(self.seed, name, self.index)


@dataclass(frozen=True)
class Views:
    """What the backbone made of one batch of n sentences.

    Attributes:
        vectors: one (n, d) tensor a view: pooled last layer, through the training head where the pooler has one.
        at_layer: the same vectors taken at a lower layer (1 .. depth - 1), through the same pooling and the same head.
    """

    vectors: Sequence[Tensor]
    at_layer: Callable[[int], Sequence[Tensor]]


@dataclass(frozen=True)
class Negatives:
    """Further candidates beside the batch's own.

    Attributes:
        vectors: (m, d), shared by all anchors, or (n, m, d), each anchor's own.
        weight: l_m of the formula, at least 0.
        weights: w_imk of the formula, (n, m) and at least 0, or None for ones.
    """

    vectors: Tensor
    weight: float = 1.0
    weights: Tensor | None = None


# What a backbone's hidden states can be pooled to (methods.md a.2, b.1); `bench.encoders` computes them.
POOLERS = ("cls", "cls_before_pooler", "avg", "avg_top2", "avg_first_last", "avg_embedding_last")


class Context(Protocol):
    """The tools that a method may use before training and for what is scored."""

    seed: int
    shape: Shape

    def sentences(self) -> Sequence[str]:
        """The training corpus."""

    def encoder(self, pooler: str | None = None) -> Any:
        """The backbone as it now is, with the recipe's evaluation pooler or the one named."""


def cosine(left: Tensor, right: Tensor) -> Tensor:
    """Cosine of every row of `left` (n, d) with every row of `right` (m, d), or with its own rows (n, m, d): (n, m)."""
    left, right = F.normalize(left, dim=-1), F.normalize(right, dim=-1)
    return left @ right.T if right.dim() == 2 else torch.einsum("nd,nmd->nm", left, right)


def info_nce(
    anchors: Tensor,
    positives: Tensor,
    temperature: float,
    negatives: Iterable[Negatives] = (),
    weights: Tensor | None = None,
) -> Tensor:
    """Mean over the batch of -log softmax of each anchor's own positive among all candidates (one direction).

    Args:
        anchors, positives: (n, d); candidate j of every anchor is positive j.
        weights: w_ij of the formula, (n, n) and at least 0, or None for ones; the diagonal must stay positive.
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
    return F.cross_entropy(torch.cat(columns, dim=1), torch.arange(len(anchors), device=anchors.device))


@dataclass(frozen=True)
class HyperParameters:
    """Hyper-parameters of a method; each method extends it."""


@dataclass(frozen=True)
class ContrastiveHyper(HyperParameters):
    temperature: float = field(default=0.05, metadata={"host": True})  # SimCSE section 3


class Method(nn.Module):
    """What every method is.

    Class attributes:
        name: as written in configurations and on the command line.
        title: as printed in tables.
        version: raised when the method's numbers change; part of every run's identity.
        reference: where it comes from.
        Hyper: the dataclass of its hyper-parameters; their defaults need no mention in the tables below.
        paper, official: values by backbone, of hyper-parameters and recipe fields alike; `"*"` holds on all, and on a
            backbone that is not listed bert-base-uncased's values hold. Where no code was released, `official` is None.
        trained: whether there is anything to train.
        backbone_free: whether it needs no backbone at all.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    version: ClassVar[int] = 1
    reference: ClassVar[str] = ""
    Hyper: ClassVar[type[HyperParameters]] = HyperParameters
    paper: ClassVar[Table] = {}
    official: ClassVar[Table | None] = None
    trained: ClassVar[bool] = True
    backbone_free: ClassVar[bool] = False

    def __init__(self, hyper: Any, shape: Shape) -> None:
        super().__init__()
        self.hyper = hyper
        self.shape = shape

    @classmethod
    def joins(cls) -> bool:
        """Whether it may stand after a `+`."""
        return False

    @classmethod
    def check(cls, hyper: Any) -> None:
        """Raise `Refusal` for hyper-parameters that make no sense on any backbone."""

    @classmethod
    def fit(cls, hyper: Any, shape: Shape) -> Any:
        """The nearest hyper-parameters that are legal on a backbone of this shape."""
        return hyper

    @classmethod
    def skip(cls, hyper: Any, shape: Shape) -> str | None:
        """Why this cannot be done on this backbone, or None; it becomes a row that says so, not a crash."""
        return None

    @property
    def needs_layers(self) -> bool:
        """Whether `Views.at_layer` will be called."""
        return False

    def prepare(self, context: Context) -> None:
        """Called once before training."""

    def views(self, tokens: Tokens, step: Step) -> Sequence[Tokens]:
        """What is encoded, one list of token sequences a view; two equal copies by default (methods.md a.1)."""
        return (tokens, tokens)

    def loss(self, views: Views, step: Step) -> Tensor:
        """The scalar to minimise."""
        raise NotImplementedError

    def encoder(self, context: Context) -> Any:
        """What is scored: the trained backbone with the recipe's evaluation pooler."""
        return context.encoder()


class Contrastive(Method):
    """A method inside the formula. Its slots are SimCSE's until it overrides them."""

    Hyper = ContrastiveHyper
    plain_share: float = 0.0  # share of the loss without extra negatives and weights; 0.5 in SSCL's released code

    def __init__(self, hyper: Any, shape: Shape) -> None:
        super().__init__(hyper, shape)
        self.parts = nn.ModuleList()

    @classmethod
    def check(cls, hyper: Any) -> None:
        if hyper.temperature <= 0:
            raise Refusal(f"'{cls.name}' needs temperature > 0, not {hyper.temperature}")

    @classmethod
    def joins(cls) -> bool:
        slots = ("negatives", "weights", "terms")
        return any(getattr(cls, slot) is not getattr(Contrastive, slot) for slot in slots)

    @classmethod
    def own_pairs(cls, hyper: Any) -> str | None:
        """A name for its positive where that is not the dropout view (then it can only be written first), else None."""
        return None

    @property
    def needs_layers(self) -> bool:
        return any(part.needs_layers for part in self.parts)

    def pairs(self, views: Views) -> tuple[Tensor, Tensor]:
        """Anchors and positives, (n, d) each: the first view against the second."""
        first, second = views.vectors
        return first, second

    def negatives(self, anchors: Tensor, views: Views, step: Step) -> list[Negatives]:
        """Extra negatives; an empty list leaves the loss bit for bit as it was."""
        return []

    def weights(self, anchors: Tensor, positives: Tensor, step: Step) -> Tensor | None:
        """Weights w_ij of the in-batch candidates, (n, n), or None."""
        return None

    def terms(self, anchors: Tensor, positives: Tensor, temperature: float, step: Step) -> list[tuple[float, Tensor]]:
        """Extra terms of the loss with their coefficients."""
        return []

    def loss(self, views: Views, step: Step) -> Tensor:
        temperature = self.hyper.temperature
        slots: list[Contrastive] = [self, *self.parts]
        anchors, positives = self.pairs(views)
        negatives = [group for part in slots for group in part.negatives(anchors, views, step)]
        weights = None
        for part in slots:
            own = part.weights(anchors, positives, step)
            if own is not None:
                weights = own if weights is None else weights * own
        loss = info_nce(anchors, positives, temperature, negatives, weights)
        share = max(part.plain_share for part in slots)
        if share and (negatives or weights is not None):
            loss = (1 - share) * loss + share * info_nce(anchors, positives, temperature)
        for part in slots:
            for coefficient, term in part.terms(anchors, positives, temperature, step):
                loss = loss + coefficient * term
        return loss


def compose(parts: Sequence[tuple[type[Method], Any]], shape: Shape) -> Method:
    """Build a method from `(class, hyper-parameters)` pairs; the first decides the pairs, the others join it.

    Raises:
        Refusal: the parts make no sense together.
    """
    refuse_composition(parts)
    first, *others = [cls(hyper, shape) for cls, hyper in parts]
    if others:
        first.parts.extend(others)  # type: ignore[union-attr, operator]
    return first


def refuse_composition(parts: Sequence[tuple[type[Method], Any]]) -> None:
    """Raise `Refusal` with the reason where parts make no sense, alone or together."""
    for cls, hyper in parts:
        cls.check(hyper)
    (first, first_hyper), *others = parts
    names = [cls.name for cls, _ in parts]
    for cls, hyper in others:
        if not issubclass(first, Contrastive):
            kind = "is outside the contrastive formula" if first.trained else "is not trained"
            raise Refusal(f"'{first.name}' {kind}, so nothing can be added to it with '+'")
        if not cls.joins():
            raise Refusal(f"'{cls.name}' adds nothing to another method; write it first or leave it out")
        if names.count(cls.name) > 1:
            raise Refusal(f"'{cls.name}' stands twice in '{'+'.join(names)}'; write it once")
        assert issubclass(cls, Contrastive)
        own = cls.own_pairs(hyper)
        if own:
            raise Refusal(f"'{cls.name}' with {own} brings its own positive, so it can only be written first")
        own = first.own_pairs(first_hyper)
        if own and cls.terms is not Contrastive.terms:
            raise Refusal(f"'{cls.name}' smooths the dropout positive, and '{first.name}' with {own} has none")
        for name in host_fields(cls):
            if getattr(hyper, name) != getattr(cls.Hyper(), name):
                raise Refusal(
                    f"'{name}' of '{cls.name}' is decided by the method written first, '{first.name}'; set it there"
                )


def host_fields(cls: type[Method]) -> list[str]:
    """Hyper-parameters that only the method written first decides."""
    return [item.name for item in fields(cls.Hyper) if item.metadata.get("host")]


# The shared recipe of methods.md a.3 (SimCSE's released scripts): what differs between backbones.
SHARED_RECIPE: Table = {
    "bert-base-uncased": {"batch_size": 64, "learning_rate": 3e-5},
    "bert-large-uncased": {"batch_size": 64, "learning_rate": 1e-5},
    "roberta-base": {"batch_size": 512, "learning_rate": 1e-5},
    "roberta-large": {"batch_size": 512, "learning_rate": 3e-5},
}


def overlay(*tables: Table) -> Table:
    """Tables laid over each other row by row, later ones on top."""
    merged: dict[str, dict[str, Any]] = {}
    for table in tables:
        for backbone, values in table.items():
            merged.setdefault(backbone, {}).update(values)
    return merged
