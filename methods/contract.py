"""The contract of a method: what the training loop calls, and what a method may use.

State that a method keeps is a registered buffer, and what it learns is a parameter. Checkpoints,
selection and optimisation therefore need no special case. A method never casts its input: it
computes in the dtype of the vectors it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import torch
from torch import Tensor, nn

from methods.streams import stream

if TYPE_CHECKING:
    from methods.transform import Transform

Tokens = Sequence[Sequence[int]]
Table = Mapping[str, Mapping[str, Any]]

# Poolings of a backbone's hidden states (docs/methods.md#vectors, #untrained);
# `bench.models.encoder` implements them.
POOLERS = ("cls", "cls_before_pooler", "avg", "avg_top2", "avg_first_last", "avg_embedding_last")

# The shared recipe of docs/methods.md#optimisation (SimCSE's released scripts): the values that
# differ by backbone.
SHARED_RECIPE: Table = {
    "bert-base-uncased": {"batch_size": 64, "learning_rate": 3e-5},
    "bert-large-uncased": {"batch_size": 64, "learning_rate": 1e-5},
    "roberta-base": {"batch_size": 512, "learning_rate": 1e-5},
    "roberta-large": {"batch_size": 512, "learning_rate": 3e-5},
}


class Refusal(Exception):
    """A method that cannot run as configured; the message is one sentence with the reason."""


@dataclass(frozen=True)
class Shape:
    """The properties of a backbone that a method may depend on.

    Attributes:
        width: hidden size.
        depth: number of transformer layers, without the embedding layer.
        cased: whether the tokenizer distinguishes upper and lower case.
    """

    width: int
    depth: int
    cased: bool = True


@dataclass(frozen=True)
class Step:
    """One step of a training.

    Attributes:
        index: number of optimiser steps before this one.
        total: number of optimiser steps of the whole training.
        batch_size: number of items in a full batch; the last batch of an epoch may be shorter.
        seed: the run's seed.
        rows: indices of the batch's items. An item is a sentence unless `Method.items` says
            otherwise.
    """

    index: int
    total: int
    batch_size: int
    seed: int
    rows: Sequence[int] = ()

    def generator(self, name: str) -> torch.Generator:
        """Return the CPU generator of this step's draw called `name`."""
        return stream(self.seed, name, self.index)


@dataclass(frozen=True)
class Views:
    """The vectors of one batch of n sentences.

    Attributes:
        vectors: one (n, d) tensor per view: the pooled last layer, passed through the training head
            if the pooler has one.
        at_layer: returns the same vectors taken from a lower layer (1 to depth - 1), with the same
            pooling and head.
        extras: vectors of the additional sequences that a part asked for (`Contrastive.extras`), by
            the part's name.
        states: hidden states of all layers, as `Context.states` returns them; rows are interleaved.
    """

    vectors: Sequence[Tensor]
    at_layer: Callable[[int], Sequence[Tensor]]
    extras: Mapping[str, Sequence[Tensor]] = field(default_factory=dict)
    states: Sequence[Tensor] = ()


class Context(Protocol):
    """What a method may use before, during and after training, without importing the trainer.

    Attributes:
        seed: the run's seed.
        shape: the backbone's shape.
        device: the torch device of all tensors.
        backbone: the transformer, trained in place. For a table of word vectors, an object with
            `words` (a list) and `vectors` (float32 numpy). None for a method without a backbone.
        tokenizer: the transformer's tokenizer.
    """

    seed: int
    shape: Shape
    device: str

    @property
    def backbone(self) -> Any: ...

    @property
    def tokenizer(self) -> Any: ...

    def sentences(self, corpus: str | None = None) -> Sequence[str]:
        """Return the training corpus, cut to the recipe's `sentences`, or all of another corpus."""

    def documents(self) -> Sequence[range]:
        """Return the documents of the training corpus, as ranges of its sentences.

        Raises:
            UserError: the corpus has no document boundaries.
        """

    def tokens(self) -> Sequence[Sequence[int]]:
        """Return the token ids of the training corpus, truncated to the recipe's `max_length`."""

    def tokenize(self, sentences: Sequence[str], max_length: int | None = None) -> Tokens:
        """Return token ids with special tokens.

        Args:
            sentences: n sentences.
            max_length: truncate to this many tokens; None takes the backbone's longest input.
        """

    def states(
        self, tokens: Tokens, model: nn.Module | None = None, **inputs: Any
    ) -> tuple[Sequence[Tensor], Tensor]:
        """Run a forward pass at the recipe's precision; gradients follow the caller's grad mode.

        Args:
            tokens: n token sequences.
            model: a transformer to use in place of the backbone.
            inputs: further inputs of the transformer, e.g. `position_ids`.

        Returns:
            Hidden states of all layers, embeddings first, each (n, length, width); and the
            attention mask (n, length).
        """

    def embed(
        self,
        views: Sequence[Tokens],
        extras: Mapping[str, Sequence[Tokens]] | None = None,
        model: nn.Module | None = None,
        whole: bool = False,
    ) -> Views:
        """Encode a batch's views in one forward pass, with the recipe's pooler and head, in
        float32.

        Args:
            views: one list of n token sequences per view.
            extras: additional lists of n token sequences, by name.
            model: a transformer to use in place of the backbone.
            whole: compute the last layer's states of all tokens even if the pooler reads only the
                first.
        """

    def head(self, vectors: Tensor) -> Tensor:
        """Apply the training head to vectors (n, d); the identity for poolers without one
        (docs/methods.md#vectors)."""

    def copy_backbone(self, fresh: str | None = None) -> Any:
        """Return a second transformer.

        Args:
            fresh: None copies the backbone's present weights; a name initialises new weights from
                the random stream of that name.
        """

    def masked_language_head(self) -> nn.Module:
        """Return the checkpoint's masked-language head: last states (..., width) to vocabulary
        logits.

        Raises:
            UserError: the checkpoint stores none.
        """

    def encoder(self, pooler: str | None = None) -> Any:
        """Return an Encoder of the backbone in its present state.

        Args:
            pooler: None takes what the recipe scores; a name takes all layers, this pooler and no
                head.
        """

    def load_encoder(self, model: str, pooler: str | None = None) -> Any:
        """Load another, frozen Encoder: a backbone by name, a hub id or a folder."""

    def encode(self, encoder: Any, sentences: Sequence[str]) -> Any:
        """Encode sentences with a progress bar, each distinct one once; returns float32 numpy (n,
        d)."""

    def neighbours(self, vectors: Any, count: int) -> Any:
        """Return the `count` exact nearest other rows by cosine, nearest first: int64 numpy (n,
        count)."""


@dataclass(frozen=True)
class HyperParameters:
    """Base class of a method's hyper-parameters; each method extends it."""


class Method(nn.Module):
    """Base class of all methods.

    Class attributes:
        name: name in configurations and on the command line.
        title: name in tables.
        own_corpus_note: appended to the title when it trains on the corpus that its own recipe
            names.
        version: increased when the method's numbers change; part of every run's identity.
        reference: paper and code.
        Hyper: dataclass of its hyper-parameters. Their defaults need not be repeated in the tables
            below.
        paper, official: values of hyper-parameters and recipe fields by backbone, of the paper and
            of the released code. `"*"` holds on all backbones. A backbone that is not listed takes
            the values of bert-base-uncased. `official` is None if no code was released.
        trained: whether there is anything to train.
        backbone_free: whether it needs no backbone.
        backbone_kind: "transformer", or "words" for a table of word vectors.
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
        """Return whether it may be written after a `+`."""
        return False

    @classmethod
    def check(cls, hyper: Any) -> None:
        """Raise `Refusal` for hyper-parameters that are invalid on every backbone."""

    @classmethod
    def clamp_to_backbone(cls, hyper: Any, shape: Shape) -> Any:
        """Return the nearest hyper-parameters that are valid on a backbone of this shape.

        It must be idempotent: clamping its result again changes nothing.
        """
        return hyper

    @classmethod
    def skip(cls, hyper: Any, shape: Shape) -> str | None:
        """Return why the method cannot run on this backbone, or None.

        A skipped run is a row in the tables with this reason, not an error.
        """
        return None

    @classmethod
    def corpora(cls, hyper: Any) -> Sequence[str]:
        """Return the names of the corpora that it reads in addition to the training corpus."""
        return ()

    def prepare(self, context: Context) -> None:
        """Set up before training. Modules and buffers created here are trained, selected and moved
        like any other.

        Raises:
            Refusal: it cannot run on this corpus or backbone.
        """

    def items(self, context: Context) -> int:
        """Return the number of items of an epoch; by default the sentences of the corpus."""
        return len(context.sentences())

    def step_loss(self, context: Context, step: Step) -> Tensor:
        """Return the scalar loss of the items `step.rows`."""
        raise NotImplementedError

    def after_loss(self, context: Context, step: Step) -> None:
        """Update state after the loss and before the optimiser step; called without gradient."""

    def encoder(self, context: Context) -> Any:
        """Return the Encoder to score; by default the trained backbone with the recipe's evaluation
        pooler."""
        return context.encoder()

    def encoders(self, context: Context) -> Sequence[Any]:
        """Return the candidate Encoders; selection keeps the best on the dev set."""
        return [self.encoder(context)]

    def begin(self, context: Context) -> None:
        """Call `prepare` of the method and of the transforms that were added to it."""
        for part in (self, *self.transforms):
            part.prepare(context)

    def finish(self, encoder: Any, context: Context) -> Any:
        """Return an Encoder of `encoders` with the added transforms applied in order."""
        for transform in self.transforms:
            encoder = transform.transform(encoder, context)
        return encoder


def overlay(*tables: Table) -> Table:
    """Merge tables row by row; later tables override earlier ones."""
    merged: dict[str, dict[str, Any]] = {}
    for table in tables:
        for backbone, values in table.items():
            merged.setdefault(backbone, {}).update(values)
    return merged
