"""The contract of a method: what the training loop calls, and what a method may use."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from methods.base.hyper_parameters import HyperParameters, Table
from methods.base.streams import stream

__all__ = ["Context", "Method", "Refusal", "Shape", "Step", "Tokens", "Views"]

Tokens = Sequence[Sequence[int]]


class Refusal(Exception):
    """A method that cannot run as configured; the message is one sentence with the reason."""


@dataclass(frozen=True)
class Shape:
    """The properties of a backbone that a method may depend on."""

    width: int  # hidden size
    depth: int  # number of transformer layers, without the embedding layer
    cased: bool = True  # whether the tokenizer distinguishes upper and lower case


@dataclass(frozen=True)
class Step:
    """One step of a training."""

    index: int  # number of optimiser steps before this one
    total: int  # number of optimiser steps of the whole training
    batch_size: int  # items of a full batch; the last one of an epoch may be shorter
    seed: int
    rows: Sequence[int] = ()  # items: sentences, unless `Method.items` says otherwise

    def generator(self, name: str, device: str | torch.device = "cpu") -> torch.Generator:
        """Return the generator of this step's draw called `name`, on a device."""
        return stream(self.seed, name, self.index, device=device)

    def gaussian(self, name: str, count: int, vectors: Tensor) -> Tensor:
        """Return float32 draws of N(0, I), (count, d), on the device of vectors (n, d)."""
        generator = self.generator(name, vectors.device)
        size = (count, vectors.shape[1])
        return torch.randn(size, generator=generator, device=vectors.device)

    def take(self, corpus: Sequence[Any]) -> list[Any]:
        """Return the batch's items of a corpus."""
        return [corpus[row] for row in self.rows]


@dataclass(frozen=True)
class Views:
    """The vectors of one batch of n sentences."""

    vectors: Sequence[Tensor]  # (n, d) per view: the last layer, pooled, after the training head
    at_layer: Callable[[int], Sequence[Tensor]]  # the same of a lower layer, 1 to depth - 1
    # Vectors of the sequences that a part asked for (`Contrastive.extras`), by its name.
    extras: Mapping[str, Sequence[Tensor]] = field(default_factory=dict)
    # Hidden states of all layers, as `Context.states` returns them; rows are interleaved.
    states: Sequence[Tensor] = ()
    # Those of `Contrastive.quiet`, encoded without dropout.
    quiet: Mapping[str, Sequence[Tensor]] = field(default_factory=dict)

    def mapped(self, function: Callable[[Sequence[Tensor]], Sequence[Tensor]]) -> "Views":
        """Return the views with a function applied to each list of vectors, without `states`."""
        return Views(
            function(self.vectors),
            lambda layer: function(self.at_layer(layer)),
            {name: function(lists) for name, lists in self.extras.items()},
            quiet={name: function(lists) for name, lists in self.quiet.items()},
        )

    def split(self, count: int) -> "list[Views]":
        """Return the views of `count` parts of the batch, as `torch.chunk`."""

        def part(rows: Tensor) -> Views:
            return self.mapped(lambda lists: [vectors[rows] for vectors in lists])

        rows = torch.arange(len(self.vectors[0]), device=self.vectors[0].device)
        return [self] if count == 1 else [part(rows) for rows in rows.chunk(count)]


class Context(Protocol):
    """The inputs and the backbone of a run, as far as a method may use them
    (docs/reference/slots.md#the-context). `bench.training.context` has them."""

    seed: int
    shape: Shape
    device: str

    @property
    def backbone(self) -> Any:
        """The transformer, or an object with `words` (a list) and `vectors` (float32 numpy)."""

    @property
    def tokenizer(self) -> Any:
        """The backbone's tokenizer, of transformers."""

    def sentences(self, corpus: str | None = None) -> Sequence[str]:
        """Return the training corpus, or another one."""

    def documents(self) -> Sequence[range]:
        """Return the documents of the training corpus, as ranges of its sentences."""

    def triples(self) -> Sequence[Sequence[int]]:
        """Return the rows of premise, entailment and contradiction of each labelled triple."""

    def tokens(self) -> Tokens:
        """Return the token ids of the training corpus."""

    def tokenize(self, sentences: Sequence[str], max_length: int | None = None) -> Tokens:
        """Return token ids with special tokens."""

    def embed(
        self,
        views: Sequence[Tokens],
        extras: Mapping[str, Sequence[Tokens]] | None = None,
        model: nn.Module | None = None,
        all_tokens: bool = False,
        dropout: bool = True,
    ) -> Views:
        """Encode lists of n token sequences in one forward pass, with pooler and head."""

    def states(
        self, tokens: Tokens, model: nn.Module | None = None, **inputs: Any
    ) -> tuple[Any, Tensor]:
        """Return the states (n, length, width) of the embeddings and all layers, and the mask."""

    def head(self, vectors: Tensor) -> Tensor:
        """Apply the training head to vectors (n, d)."""

    def apply(self, module: Callable[..., Tensor], *inputs: Any) -> Tensor:
        """Return the output of a module of the method, computed in the recipe's precision; at
        least float32, as losses are."""

    def start_from(self, model: str) -> None:
        """Take the weights of another checkpoint."""

    def copy_backbone(self, fresh: str | None = None) -> Any:
        """Return a copy, or a transformer with new weights from the random stream `fresh`."""

    def masked_language_head(self) -> nn.Module:
        """Return the checkpoint's map from last states (..., width) to vocabulary logits."""

    def load_masked_language_model(self, model: str) -> nn.Module:
        """Load a masked language model, frozen."""

    def guesses(self, model: nn.Module, tokens: Tokens) -> Tensor:
        """Return the most likely tokens under a masked language model, int64 (n, length)."""

    def encoder(self, pooler: str | None = None) -> Any:
        """Return an Encoder of the backbone."""

    def load_encoder(self, model: str, pooler: str | None = None, **options: Any) -> Any:
        """Load another, frozen Encoder."""

    def encode(self, encoder: Any, sentences: Sequence[str]) -> np.ndarray:
        """Return float32 numpy (n, d)."""

    def encode_tokens(self, encoder: Any, tokens: Tokens) -> np.ndarray:
        """Return float32 numpy (n, d) of token sequences."""

    def neighbours(self, vectors: np.ndarray, count: int) -> np.ndarray:
        """Return the nearest other rows by cosine, nearest first: int64 numpy (n, count)."""


# State that a method keeps is a registered buffer, and what it learns is a parameter. Checkpoints,
# selection and optimisation therefore need no special case. A method never casts its input: it
# computes in the dtype of the vectors it is given.
class Method(nn.Module):
    """Base class of all methods. The docstring of each says its idea in at most eight words."""

    name: ClassVar[str]  # in configurations and on the command line
    title: ClassVar[str]  # in tables
    version: ClassVar[int] = 1  # part of a run's identity; increased when the numbers change
    reference: ClassVar[str] = ""  # paper and code
    Hyper: ClassVar[type[HyperParameters]] = HyperParameters
    # When hyper-parameters have an effect: {"clusters": lambda hyper: hyper.group != "knn"}. One
    # that is given without effect is not part of a run.
    used_if: ClassVar[Mapping[str, Callable[[Any], bool]]] = {}
    # Hyper-parameters and recipe fields by backbone, of the paper and of the released code (None if
    # there is none), where they are not the defaults. "*" holds on all backbones; a backbone that
    # is not listed takes the values of bert-base-uncased.
    paper: ClassVar[Table] = {}
    official: ClassVar[Table | None] = None
    trained: ClassVar[bool] = True  # whether there is anything to train
    backbone_free: ClassVar[bool] = False  # whether it needs no backbone
    backbone_kind: ClassVar[str] = "transformer"  # or "words", a table of word vectors

    @classmethod
    def version_of(cls, hyper: Mapping[str, Any]) -> int:
        """The version with these hyper-parameters, where the numbers of some alone have changed."""
        return cls.version

    def __init__(self, hyper: Any, shape: Shape) -> None:
        super().__init__()
        self.hyper = hyper
        self.shape = shape
        self.parts: Any = nn.ModuleList()  # methods that are joined to it with `+`
        self.transforms: list[Any] = []

    @classmethod
    def clamp_to_backbone(cls, hyper: Any, shape: Shape) -> Any:
        """Return the nearest hyper-parameters that are valid on a backbone; idempotent."""
        return hyper

    @classmethod
    def skip(cls, hyper: Any, shape: Shape) -> str | None:
        """Return why it cannot run on this backbone, the reason in the tables' row, or None."""
        return None

    @classmethod
    def corpora(cls, hyper: Any) -> Sequence[str]:
        """Return the names of the corpora that it reads in addition to the training corpus."""
        return ()

    @classmethod
    def reads(cls, hyper: Any) -> str | None:
        """Return what it needs of the training corpus: "documents", "triples" or None."""
        return None

    @classmethod
    def needs_dropout(cls, hyper: Any) -> bool:
        """Return whether the views of a sentence would be equal without dropout."""
        return False

    def prepare(self, context: Context) -> None:
        """Set up before training, or raise `Refusal`; modules and buffers made here are trained."""

    def items(self, context: Context) -> int:
        """Return the number of items of an epoch; by default the sentences of the corpus."""
        return len(context.sentences())

    def step_loss(self, context: Context, step: Step) -> Tensor:
        """Return the scalar loss of the items `step.rows`."""
        raise NotImplementedError

    def after_loss(self, context: Context, step: Step) -> None:
        """Update state after the loss and before the optimiser step; called without gradient."""

    def encoder(self, context: Context) -> Any:
        """Return the Encoder to score; by default the backbone with the recipe's pooler."""
        return context.encoder()

    def encoders(self, context: Context) -> Sequence[Any]:
        """Return the candidate Encoders; selection keeps the best on the dev set."""
        return [self.encoder(context)]

    def begin(self, context: Context) -> None:
        """Call `prepare` of the method and of everything that was added to it."""
        for part in (self, *self.parts, *self.transforms):
            part.prepare(context)

    def finish(self, encoder: Any, context: Context) -> Any:
        """Return an Encoder of `encoders` with the added transforms applied in order."""
        for transform in self.transforms:
            encoder = transform.transform(encoder, context)
        return encoder
