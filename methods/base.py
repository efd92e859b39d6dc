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
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Tokens = Sequence[Sequence[int]]
Table = Mapping[str, Mapping[str, Any]]


class Refusal(Exception):
    """A method that cannot be what was asked: one sentence with the reason."""


def stream_seed(seed: int, *names: object) -> int:
    """The 63-bit seed of the random stream called `names` under `seed`; equal on every machine.

    It is the first 63 bits of the SHA-256 of "seed/name/...".
    """
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
    cased: bool = True  # its tokenizer tells capitals from small letters


@dataclass(frozen=True)
class Step:
    """Where a training stands.

    Attributes:
        index: optimiser steps done before this one.
        total: optimiser steps of the whole training.
        batch_size: items in a full batch (the last batch may be shorter).
        seed: the run's seed.
        rows: the items of this batch; an item is a sentence, unless `Method.items` says otherwise.
    """

    index: int
    total: int
    batch_size: int
    seed: int
    rows: Sequence[int] = ()

    def generator(self, name: str) -> torch.Generator:
        """The CPU generator of this step's draw called `name`."""
        return stream(self.seed, name, self.index)


@dataclass(frozen=True)
class Views:
    """What the backbone made of one batch of n sentences.

    Attributes:
        vectors: one (n, d) tensor a view: pooled last layer, through the training head where the pooler has one.
        at_layer: the same vectors taken at a lower layer (1 .. depth - 1), through the same pooling and the same head.
        extras: vectors of what a part asked to have encoded beside the views (`Contrastive.extras`), by its name.
        states: hidden states of all layers that these were made of, as `Context.states` gives them, rows interleaved.
    """

    vectors: Sequence[Tensor]
    at_layer: Callable[[int], Sequence[Tensor]]
    extras: Mapping[str, Sequence[Tensor]] = field(default_factory=dict)
    states: Sequence[Tensor] = ()


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


# What a backbone's hidden states can be pooled to (methods.md a.2, b.1); `bench.models.poolers` computes them.
POOLERS = ("cls", "cls_before_pooler", "avg", "avg_top2", "avg_first_last", "avg_embedding_last")


class Context(Protocol):
    """The tools of a method, so that it never imports the machinery: before training, in it, and for what is scored.

    Attributes:
        backbone: the transformer, trained in place; where the backbone is a table of word vectors, its `words` (a list)
            and their `vectors` (float32 numpy); None for a method that needs none.
        tokenizer: the transformer's own.
        device: where tensors are to be.
    """

    seed: int
    shape: Shape
    device: str

    @property
    def backbone(self) -> Any: ...

    @property
    def tokenizer(self) -> Any: ...

    def sentences(self, corpus: str | None = None) -> Sequence[str]:
        """The training corpus as far as the recipe takes it, or all of another one by name."""

    def documents(self) -> Sequence[range]:
        """The documents of the training corpus, as ranges of its sentences.

        Raises:
            UserError: they are not known.
        """

    def tokens(self) -> Sequence[Sequence[int]]:
        """The training corpus, tokenized once and cut to the recipe's length."""

    def tokenize(self, sentences: Sequence[str], max_length: int | None = None) -> Tokens:
        """Token ids with special tokens, cut to `max_length` or to what the backbone can take."""

    def states(self, tokens: Tokens, model: nn.Module | None = None, **inputs: Any) -> tuple[Sequence[Tensor], Tensor]:
        """Hidden states of all layers, embeddings first, (n, length, width) each, and the attention mask (n, length).

        Under the recipe's precision, with gradient unless the caller says otherwise.

        Args:
            model: another transformer than the backbone.
            inputs: further inputs of the transformer, e.g. `position_ids`.
        """

    def embed(
        self,
        views: Sequence[Tokens],
        extras: Mapping[str, Sequence[Tokens]] | None = None,
        model: nn.Module | None = None,
        whole: bool = False,
    ) -> Views:
        """Vectors of a batch's views in one forward pass, by the recipe's pooler and head, in float32.

        Args:
            whole: the last layer's states of all tokens are wanted, though the pooler may need only the first's.
        """

    def head(self, vectors: Tensor) -> Tensor:
        """Vectors (n, d) through the training head where the pooler has one (methods.md a.2), else as they are."""

    def copy_backbone(self, fresh: str | None = None) -> Any:
        """A second transformer: equal to the backbone as it now is, or with first weights of the stream `fresh`."""

    def masked_language_head(self) -> nn.Module:
        """The checkpoint's own head, from last states (..., width) to logits over the vocabulary.

        Raises:
            UserError: none is stored.
        """

    def encoder(self, pooler: str | None = None) -> Any:
        """What the recipe scores of the backbone as it now is; or, with a pooler named, all its layers and no head."""

    def load_encoder(self, model: str, pooler: str | None = None) -> Any:
        """Another Encoder, frozen: a backbone by name, a hub id or a folder."""

    def encode(self, encoder: Any, sentences: Sequence[str]) -> Any:
        """Vectors of an Encoder, float32 numpy (n, d), with progress; equal sentences are encoded once."""

    def neighbours(self, vectors: Any, count: int) -> Any:
        """The `count` nearest other rows of each row by cosine, nearest first: int64 numpy (n, count); exact."""


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
    """Mean over the batch of -log softmax of each anchor's own positive among all candidates (one direction): a scalar.

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


def enqueue(rows: Tensor, filled: Tensor, vectors: Tensor, length: int) -> tuple[Tensor, Tensor]:
    """A memory of `length` rows, at least one, and how many are in use, after `vectors` entered it.

    The newest rows enter at the end, the oldest leave at the front.

    Args:
        rows: (length, d).
        filled: how many of them are in use, a scalar.
        vectors: (n, d).
    """
    return torch.cat([rows.to(vectors), vectors])[-length:], (filled + len(vectors)).clamp(max=length)


def nt_xent(first: Tensor, second: Tensor, temperature: float, reduction: str = "mean") -> Tensor:
    """Each of the 2n vectors finds its partner, the same row of the other side, among the 2n - 1 others (NT-Xent).

    Args:
        first, second: (n, d).
        reduction: "mean" gives a scalar, "none" the 2n losses, those of `first` before those of `second`.
    """
    vectors = torch.cat([first, second])
    logits = cosine(vectors, vectors) / temperature
    itself = torch.eye(len(vectors), dtype=torch.bool, device=vectors.device)
    partners = torch.arange(len(vectors), device=vectors.device).roll(len(first))
    return F.cross_entropy(logits.masked_fill(itself, -torch.inf), partners, reduction=reduction)


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
        own_corpus_note: added to the title where it trains on the corpus that its recipe names.
        version: raised when the method's numbers change; part of every run's identity.
        reference: where it comes from.
        Hyper: the dataclass of its hyper-parameters; their defaults need no mention in the tables below.
        paper, official: values by backbone, of hyper-parameters and recipe fields alike; `"*"` holds on all, and on a
            backbone that is not listed bert-base-uncased's values hold. Where no code was released, `official` is None.
        trained: whether there is anything to train.
        backbone_free: whether it needs no backbone at all.
        backbone_kind: the kind of backbone it works on: "transformer", or "words", a table of word vectors.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    own_corpus_note: ClassVar[str] = ""
    version: ClassVar[int] = 1
    reference: ClassVar[str] = ""
    Hyper: ClassVar[type[HyperParameters]] = HyperParameters
    paper: ClassVar[Table] = {}
    official: ClassVar[Table | None] = None
    trained: ClassVar[bool] = True
    backbone_free: ClassVar[bool] = False
    backbone_kind: ClassVar[str] = "transformer"

    def __init__(self, hyper: Any, shape: Shape) -> None:
        super().__init__()
        self.hyper = hyper
        self.shape = shape
        self.transforms: list[Transform] = []

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

    @classmethod
    def corpora(cls, hyper: Any) -> Sequence[str]:
        """Names of the corpora that it reads beside the training corpus."""
        return ()

    def prepare(self, context: Context) -> None:
        """Called once before training; modules and buffers made here are optimised, selected and moved like others.

        Raises:
            Refusal: it cannot be done on this corpus or backbone.
        """

    def items(self, context: Context) -> int:
        """How many items an epoch goes over: the sentences of the corpus."""
        return len(context.sentences())

    def step_loss(self, context: Context, step: Step) -> Tensor:
        """The scalar to minimise, of the items `step.rows`."""
        raise NotImplementedError

    def after_loss(self, context: Context, step: Step) -> None:
        """Called when a step's loss is known and before the weights change, without gradient."""

    def encoder(self, context: Context) -> Any:
        """What is scored: the trained backbone with the recipe's evaluation pooler."""
        return context.encoder()

    def encoders(self, context: Context) -> Sequence[Any]:
        """Encoders of which the best on the dev set is kept, where a training gives several."""
        return [self.encoder(context)]

    def begin(self, context: Context) -> None:
        """`prepare`, of the method and of the transforms that were added."""
        for part in (self, *self.transforms):
            part.prepare(context)

    def finish(self, encoder: Any, context: Context) -> Any:
        """What is scored of one of `encoders`: with the transforms that were added, in their order."""
        for transform in self.transforms:
            encoder = transform.transform(encoder, context)
        return encoder


class Mapped:
    """An Encoder: another one's vectors through a map; where none was fitted, through one of each task's own vectors.

    Attributes:
        base: the other Encoder.
        fixed: whether the map was fitted.
    """

    base: Any
    fixed: bool

    def through(self, vectors: Any) -> Any:
        """Vectors (n, d) through the map, or through one that is fitted on them."""
        raise NotImplementedError

    @property
    def adapt(self) -> Callable[[Any], Any] | None:
        """What is still to be done with all vectors of a task; None where `encode` has done everything."""
        return None if self.fixed and not getattr(self.base, "adapt", None) else self._adapt

    def encode(self, sentences: Sequence[str]) -> Any:
        vectors = self.base.encode(sentences)
        return vectors if self.adapt else self.through(vectors)

    def _adapt(self, vectors: Any) -> Any:
        inner = getattr(self.base, "adapt", None)
        return self.through(inner(vectors) if inner else vectors)


TARGET = "target"  # the source of a map that is fitted on the sentences of each task


@dataclass(frozen=True)
class TransformHyper(HyperParameters):
    # Fitted on "target", the sentences of each task, or on a corpus: "nli" in SimCSE's table (methods.md b.4, b.5).
    source: str = field(default="nli", metadata={"label": True})
    sentences: int | None = None  # first sentences of the corpus; None takes all, as in print


class Transform(Method):
    """A map of finished vectors: it stands after a `+`, and the method written first gives the Encoder."""

    Hyper = TransformHyper
    trained = False

    @classmethod
    def joins(cls) -> bool:
        return True

    @classmethod
    def check(cls, hyper: Any) -> None:
        if hyper.sentences is not None and hyper.sentences < 2:
            raise Refusal(f"'{cls.name}' is fitted on at least 2 sentences, not on {hyper.sentences}")

    @classmethod
    def fit(cls, hyper: Any, shape: Shape) -> Any:
        return replace(hyper, sentences=None) if hyper.source == TARGET else hyper

    @classmethod
    def corpora(cls, hyper: Any) -> Sequence[str]:
        return () if hyper.source == TARGET else (hyper.source,)

    def prepare(self, context: Context) -> None:
        """Look at the corpus before anything is trained, not after it.

        Raises:
            Refusal: it has fewer than two different sentences.
        """
        if self.hyper.source != TARGET and len(set(context.sentences(self.hyper.source)[: self.hyper.sentences])) < 2:
            raise Refusal(f"'{self.name}' is fitted on at least 2 different sentences; '{self.hyper.source}' has fewer")

    def vectors(self, encoder: Any, context: Context) -> Any:
        """What the map is fitted on: an Encoder's vectors (n, d) of the corpus, or None where each task has its own."""
        if self.hyper.source == TARGET:
            return None
        vectors = context.encode(encoder, context.sentences(self.hyper.source)[: self.hyper.sentences])
        adapt = getattr(encoder, "adapt", None)
        return adapt(vectors) if adapt else vectors

    def transform(self, encoder: Any, context: Context) -> Any:
        """An Encoder made of another one."""
        raise NotImplementedError


class Contrastive(Method):
    """A method inside the formula. Its slots are SimCSE's until it overrides them."""

    Hyper = ContrastiveHyper
    plain_share: float = 0.0  # share of the loss without extra negatives and weights; 0.5 in SSCL's released code

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
        """A name for its positive where that is not the dropout view (then it can only be written first), else None."""
        return None

    @property
    def slots(self) -> list[Contrastive]:
        """This method and what joined it."""
        return [self, *self.parts]

    def prepare(self, context: Context) -> None:
        for part in self.parts:
            part.prepare(context)

    def after_loss(self, context: Context, step: Step) -> None:
        for part in self.parts:
            part.after_loss(context, step)

    def views(self, tokens: Tokens, step: Step) -> Sequence[Tokens]:
        """What is encoded, one list of token sequences a view; two equal copies by default (methods.md a.1)."""
        return (tokens, tokens)

    def extras(self, tokens: Tokens, step: Step) -> Sequence[Tokens]:
        """What else is to be encoded in the same forward pass, one token sequence an item in each list."""
        return ()

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
        """Extra terms of the loss, each a scalar, with their coefficients."""
        return []

    def contrast(
        self,
        anchors: Tensor,
        positives: Tensor,
        negatives: Sequence[Negatives],
        weights: Tensor | None,
    ) -> Tensor:
        """The first term of the loss, a scalar."""
        return info_nce(anchors, positives, self.hyper.temperature, negatives, weights)

    def step_loss(self, context: Context, step: Step) -> Tensor:
        corpus = context.tokens()
        tokens = [corpus[row] for row in step.rows]
        extras = {part.name: part.extras(tokens, step) for part in self.slots}
        return self.loss(context.embed(self.views(tokens, step), extras), step)

    def loss(self, views: Views, step: Step) -> Tensor:
        """The scalar to minimise, of the vectors of one batch."""
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


def compose(parts: Sequence[tuple[type[Method], Any]], shape: Shape) -> Method:
    """Build a method from `(class, hyper-parameters)` pairs; the first decides the pairs, the others join it.

    Raises:
        Refusal: the parts make no sense together.
    """
    refuse_composition(parts)
    first, *others = [cls(hyper, shape) for cls, hyper in parts]
    for part in others:
        if isinstance(part, Transform):
            first.transforms.append(part)
        else:
            first.parts.append(part)  # type: ignore[union-attr, operator]
    return first


def refuse_composition(parts: Sequence[tuple[type[Method], Any]]) -> None:
    """Raise `Refusal` with the reason where parts make no sense, alone or together."""
    for cls, hyper in parts:
        cls.check(hyper)
    (first, first_hyper), *others = parts
    names = [cls.name for cls, _ in parts]
    if issubclass(first, Transform):
        raise Refusal(
            f"'{first.name}' is a map of finished vectors; write it after a method, as in 'simcse+{first.name}'"
        )
    for cls, hyper in others:
        if names.count(cls.name) > 1:
            raise Refusal(f"'{cls.name}' stands twice in '{'+'.join(names)}'; write it once")
        if issubclass(cls, Transform):
            continue
        if not issubclass(first, Contrastive):
            kind = "is outside the contrastive formula" if first.trained else "is not trained"
            raise Refusal(f"'{first.name}' {kind}, so nothing can be added to it with '+'")
        if not cls.joins():
            raise Refusal(f"'{cls.name}' adds nothing to another method; write it first or leave it out")
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
