"""Everything that a method imports: the contract, which says what the training loop calls and what
a method may use, and the contrastive loss that most of these papers share, a formula with slots.

    -log e^{s(h_i,h_i+)/t} / ( sum_j w_ij e^{s(h_i,h_j+)/t} + sum_m l_m sum_k w_imk
    e^{s(h_i,n_imk)/t} ) + sum_t a_t L_t

s is the cosine and t the temperature. A method overrides slots: `pairs` (h and h+), `weights` (w),
`negatives` (n with l) and `terms` (a_t L_t).
"""

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from types import NoneType
from typing import Annotated, Any, ClassVar, Literal, Protocol, get_args

import numpy as np
import torch
from pydantic import (  # noqa: F401 (methods import some of them from here)
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    ValidationInfo,
    field_validator,
    model_validator,
)
from torch import Tensor, nn
from torch.nn import functional as F


def stream_seed(seed: int, *names: object) -> int:
    """Return the first 63 bits of the SHA-256 of "seed/name/...", the same on every machine."""
    text = "/".join(map(str, (seed, *names)))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def stream(seed: int, *names: object, device: str | torch.device = "cpu") -> torch.Generator:
    """Return a new generator for the stream `names`; another kind of device draws others."""
    return torch.Generator(device).manual_seed(stream_seed(seed, *names))


def to_device(tensor: Tensor, device: str | torch.device) -> Tensor:
    """Copy a tensor of the host to a device without waiting for what the device computes."""
    # An expanded tensor has several elements at one address, and cannot be pinned.
    tensor = tensor.contiguous()
    if torch.device(device).type == "cpu":
        return tensor
    # Only pinned memory is copied while the device computes.
    return tensor.pin_memory().to(device, non_blocking=True)


def seed_torch(seed: int, device: str | torch.device = "cpu") -> None:
    """Seed torch's global generators: the CPU's, and that of `device` if it is a CUDA device."""
    # Not by `torch.manual_seed`, which seeds every other accelerator, too. While CUDA is not
    # initialised, it stores that call with a stack trace (`torch.cuda._lazy_call`), which costs 0.3
    # to 1 ms. A training on the CPU seeds dropout at every step.
    torch.default_generator.manual_seed(seed)
    if torch.device(device).type == "cuda":
        with torch.cuda.device(torch.device(device)):
            torch.cuda.manual_seed(seed)


# State that a method keeps is a registered buffer, and what it learns is a parameter. Checkpoints,
# selection and optimisation therefore need no special case. A method never casts its input: it
# computes in the dtype of the vectors it is given.


Tokens = Sequence[Sequence[int]]
Table = Mapping[str, Mapping[str, Any]]

# Poolings of a backbone's hidden states (docs/methods.md#vectors, #untrained);
# `bench.models.encoder` implements them.
ComputedPooler = Literal[
    "cls_before_pooler", "avg", "avg_top2", "avg_first_last", "avg_first_last_64",
    "avg_embedding_last", "last", "weighted_mean",
]  # fmt: skip
Pooler = Literal["cls", ComputedPooler]  # "cls": the checkpoint's own, stored pooler
POOLERS: tuple[str, ...] = get_args(Pooler)
# The names that `encoders` may have: `last-N` is the last token behind N layers.
POOLER_PATTERN = "|".join([*POOLERS, r"last-\d+"])

# What a hyper-parameter is beside its value, as `Field(..., json_schema_extra=HOST)`: named in a
# run's label (False: never); set by the method written first only; the name of another encoder,
# whose files are part of the identity; that of a masked language model, which no run keeps.
LABEL: dict[str, Any] = {"label": True}
HOST: dict[str, Any] = {"host": True}
MODEL: dict[str, Any] = {"model": True}
LANGUAGE_MODEL = {**MODEL, "language": True}


def transformer_with(pooler: str) -> dict[str, Any]:
    """Return the mark of a transformer for `frozen_model`; `pooler` may be a hyper-parameter."""
    return {**MODEL, "pooler": pooler}


BASE_DEPTH = 12  # layers of the published base models

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


@contextmanager
def separate_dropout(step: Step, name: str, device: str | torch.device) -> Iterator[None]:
    """Draw the dropout of a second model from the step's stream `name`."""
    # It must not shift the backbone's dropout, which draws from the same global generator.
    device = torch.device(device)
    with torch.random.fork_rng(devices=[] if device.type == "cpu" else [device]):
        seed_torch(stream_seed(step.seed, name, step.index), device)
        yield


def masked_mean(states: Tensor, mask: Tensor) -> Tensor:
    """Return the mean (n, d) of states (n, length, d) over all tokens, special tokens included."""
    weights = mask.unsqueeze(-1).to(states)
    return (states * weights).sum(1) / weights.sum(1)


@contextmanager
def training_mode(model: nn.Module, training: bool) -> Iterator[None]:
    """Have a model draw its dropout, or not, within the block."""
    before = model.training
    model.train(training)
    try:
        yield
    finally:
        model.train(before)


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
    (docs/your-method.md#the-context). `bench.training.context` has them."""

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
        whole: bool = False,
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


Count = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(ge=0, le=1)]


class HyperParameters(BaseModel):
    """Base class of a method's hyper-parameters; a value may be text: "3e-5", "true", "none"."""

    # The text below a field is its meaning in the table of config/README.md.

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        validate_default=True,
        use_attribute_docstrings=True,
    )

    @field_validator("*", mode="before")
    @classmethod
    def _from_text(cls, value: Any, info: ValidationInfo) -> Any:
        if not isinstance(value, bool | str):
            return value  # in the way of every value of every run of a plan
        annotation = cls.model_fields[str(info.field_name)].annotation
        kinds = {annotation, *get_args(annotation)}
        if isinstance(value, bool) and bool not in kinds:  # pydantic would read it as 0 or 1
            raise ValueError(f"a number or a text is needed, not {value}")
        is_none = str(value).lower() in ("none", "null")
        return None if is_none and NoneType in kinds else value

    @classmethod
    def marked(cls, mark: str) -> dict[str, Any]:
        """Return the value of a mark, such as "host", by hyper-parameters that have it."""
        marks: dict[str, Any] = {
            name: field.json_schema_extra or {} for name, field in cls.model_fields.items()
        }
        return {name: extra[mark] for name, extra in marks.items() if mark in extra}


class Method(nn.Module):
    """Base class of all methods."""

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


def text_list(sentences: Any) -> list[str]:
    """Return sentences as a list; `TypeError` for one text, or for what are no texts."""
    # One text, a map and a table are iterable, too: over letters, keys and columns.
    is_one = isinstance(sentences, str) or hasattr(sentences, "keys")
    texts: list[Any] = [None] if is_one else list(sentences)
    if not all(isinstance(text, str) for text in texts):
        raise TypeError(f"{sentences!r:.60} is no list of texts; pass one")
    return texts


def fingerprint(kind: str, described: str, arrays: Mapping[str, Tensor]) -> str:
    """Return an Encoder's identity: its kind and a hash of its description and arrays."""
    digest = hashlib.sha256(described.encode())
    for name, array in sorted(arrays.items()):
        # As bytes, because numpy has no bfloat16.
        content = array.cpu().reshape(-1).view(torch.uint8).numpy().tobytes()
        digest.update(name.encode() + content)
    return f"{kind}-{digest.hexdigest()[:16]}"


@dataclass(frozen=True)
class Frozen:
    """A model that a training reads and never changes, such as a teacher.

    torch sees no submodule in it. So it is no part of checkpoints and of the best weights, of which
    it would take most; a training that resumes loads it again.
    """

    model: Any


def frozen_model(context: Context, name: str, pooler: str) -> Frozen:
    """Return the transformer of another encoder, or a copy of the "backbone", without gradient."""
    if name == "backbone":
        return Frozen(context.copy_backbone().requires_grad_(False))
    encoder = context.load_encoder(name, pooler)
    check_vocabulary(name, encoder.tokenizer, context.tokenizer)
    return Frozen(encoder.model.requires_grad_(False))


def check_vocabulary(name: str, tokenizer: Any, backbones: Any) -> None:
    """Raise `Refusal` if another model's tokenizer has not the vocabulary of the backbone's."""
    if tokenizer.get_vocab() != backbones.get_vocab():
        raise Refusal(
            f"'{name}' has another vocabulary than the backbone, so it cannot read its tokens"
        )


def overlay(*tables: Table) -> Table:
    """Merge tables row by row; later tables override earlier ones."""
    merged: dict[str, dict[str, Any]] = {}
    for table in tables:
        for backbone, values in table.items():
            merged.setdefault(backbone, {}).update(values)
    return merged


# Transforms: maps of finished sentence vectors, written after a `+`.

TARGET = "target"  # the `source` of a transform that is fitted on each task, all its splits
VECTORS_AT_ONCE = 8192  # vectors per chunk: bounds memory on tasks of 100,000 sentences

Vectors = Callable[[Sequence[str]], Any]  # the vectors (n, d) of n sentences


def in_chunks(
    vectors: Any, function: Callable[[Tensor], Tensor], device: str = "cpu"
) -> np.ndarray:
    """Apply a function to chunks of numpy vectors (n, d) on a device; return float32 numpy."""
    # On the host: each chunk is moved.
    chunks = torch.from_numpy(np.ascontiguousarray(vectors)).split(VECTORS_AT_ONCE)
    return np.concatenate([function(chunk.to(device)).float().cpu().numpy() for chunk in chunks])


def scatter(vectors: Tensor, centre: Tensor) -> Tensor:
    """Return the sum of (x - centre)(x - centre)^T over vectors x (n, d), in float64."""
    total = torch.zeros(len(centre), len(centre), dtype=torch.float64, device=vectors.device)
    for chunk in vectors.split(VECTORS_AT_ONCE):
        moved = chunk.double() - centre
        total += moved.T @ moved
    return total


def adapted(encoder: Any, sentences: Sequence[str], vectors: Vectors) -> Vectors:
    """Apply what the Encoder's `encode` leaves out, fitted on sentences, to its vectors."""
    adapt = getattr(encoder, "adapt", None)
    return adapt(sentences, vectors) if adapt else vectors


class Mapped:
    """An Encoder that maps the vectors of `base` by `arrays`; without any, by a map that is fitted
    on each task. `options` are plain values."""

    kind: str

    def __init__(
        self, base: Any, arrays: Mapping[str, Tensor], device: str = "cpu", **options: Any
    ) -> None:
        self.base, self.device, self.options = base, device, options
        self.arrays = {name: array.detach().cpu() for name, array in arrays.items()}

    @property
    def fixed(self) -> bool:
        return bool(self.arrays)

    @property
    def identity(self) -> str:
        described = "/".join([self.base.identity, *map(str, self.options.values())])
        return fingerprint(self.kind, described, self.arrays)

    def save(self, folder: Any) -> dict[str, Any]:
        return self.options

    @classmethod
    def load(
        cls, folder: Any, stored: Any, *, base: Any, arrays: Any = None, device: str = "cpu"
    ) -> Any:
        return cls(base, arrays or {}, device, **stored)

    def through(self, vectors: Any) -> Any:
        """Map vectors (n, d) by a fixed map."""

    def fitted(self, sentences: Sequence[str], vectors: Vectors) -> Any:
        """Return this Encoder with a map fitted on sentences, two in a row a pair."""

    @property
    def adapt(self) -> Callable[[Sequence[str], Vectors], Vectors] | None:
        """What is left to apply to the vectors of `encode`: from sentences to fit on and a lookup
        of vectors to the lookup of finished ones; None if `encode` applies everything."""
        return None if self.fixed and not getattr(self.base, "adapt", None) else self._adapt

    def encode(self, sentences: Sequence[str]) -> Any:
        vectors = self.base.encode(sentences)
        return vectors if self.adapt else self.through(vectors)

    def _adapt(self, sentences: Sequence[str], vectors: Vectors) -> Vectors:
        finished = adapted(self.base, sentences, vectors)
        mapped = self if self.fixed else self.fitted(sentences, finished)
        return lambda texts: mapped.through(finished(texts))


class Transform(Method):
    """Base class of transforms. The method written first provides the Encoder."""

    class Hyper(HyperParameters):
        # "nli" in SimCSE's table (docs/methods.md#bert-flow, #bert-whitening).
        source: str = Field("nli", json_schema_extra=LABEL)
        """corpus to fit on, or `target` (each task)"""
        # None as in the papers.
        sentences: int | None = Field(None, ge=2)
        """the first of the corpus; none: all"""

    trained = False

    @classmethod
    def clamp_to_backbone(cls, hyper: Any, shape: Shape) -> Any:
        return hyper.model_copy(update={"sentences": None}) if hyper.source == TARGET else hyper

    @classmethod
    def corpora(cls, hyper: Any) -> tuple[str, ...]:
        return () if hyper.source == TARGET else (hyper.source,)

    def prepare(self, context: Context) -> None:
        """Read the corpus, so that one that is missing is refused before the training."""
        for corpus in self.corpora(self.hyper):
            context.sentences(corpus)

    def fitting(self, encoder: Any, context: Context) -> tuple[Sequence[str], Vectors]:
        """Return the sentences to fit on, and the lookup of an Encoder's finished vectors."""
        sentences = context.sentences(self.hyper.source)[: self.hyper.sentences]
        vectors: Vectors = partial(context.encode, encoder)
        # For a map below that is fitted on each task, the corpus counts as a task.
        return sentences, adapted(encoder, sentences, vectors)

    def fit(self, per_task: Mapped, context: Context) -> Any:
        """Return an Encoder that is fitted on each task; or on the source, if that is a corpus."""
        if self.hyper.source == TARGET:
            return per_task
        return per_task.fitted(*self.fitting(per_task.base, context))

    def transform(self, encoder: Any, context: Context) -> Any:
        """Return the Encoder that maps the vectors of `encoder`."""
        raise NotImplementedError


# The formula

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
    """Return logits (n, n) of in-batch candidates, and those of all negatives beside them."""
    columns = [logits]
    for group in negatives:
        columns.append(group.logits(anchors, temperature, similarity))
    return torch.cat(columns, dim=1)


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
    """Base class of methods that fit the formula. Each slot is SimCSE's unless overridden."""

    class Hyper(HyperParameters):
        # SimCSE section 3
        temperature: PositiveFloat = Field(0.05, json_schema_extra=HOST)
        """divisor of the cosines"""

    # Share of the loss without extra negatives and weights; 0.5 in SSCL's released code.
    plain_share: float = 0.0

    @classmethod
    def joins(cls) -> bool:
        """Return whether it may be written after a `+`: whether it fills a slot that adds."""
        slots = ("extras", "quiet", "negatives", "weights", "terms")
        return any(getattr(cls, slot) is not getattr(Contrastive, slot) for slot in slots)

    @classmethod
    def fixed_positive(cls, hyper: Any) -> str | None:
        """Return the setting with which the positive is no dropout view, if it must be first."""
        return None

    @classmethod
    def needs_dropout(cls, hyper: Any) -> bool:
        return cls.fixed_positive(hyper) is None

    @classmethod
    def in_parts(cls, hyper: Any) -> str | None:
        """Return the setting with which parts of a batch contrast alone; nothing can be added."""
        return None

    @property
    def slots(self) -> "list[Contrastive]":
        """This method and the methods joined to it with `+`."""
        return [self, *self.parts]

    def after_loss(self, context: Context, step: Step) -> None:
        for part in self.parts:
            part.after_loss(context, step)

    def views(self, tokens: Tokens, step: Step) -> Sequence[Tokens]:
        """Return the token sequences of each view; by default two copies."""
        return (tokens, tokens)

    def extras(self, tokens: Tokens, step: Step) -> Sequence[Tokens]:
        """Return further lists of n token sequences to encode in the same forward pass."""
        return ()

    def quiet(self, tokens: Tokens, step: Step) -> Sequence[Tokens]:
        """Return lists of n token sequences to encode without dropout, in a forward pass alone."""
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

    def terms(self, anchors: Tensor, positives: Tensor, temperature: float, step: Step) -> Terms:
        """Return additional loss terms."""
        return []

    def contrast(
        self, anchors: Tensor, positives: Tensor, negatives: list[Negatives], weights: Tensor | None
    ) -> Tensor:
        """Return the first term of the formula, a scalar, as `info_nce`."""
        return info_nce(anchors, positives, self.hyper.temperature, negatives, weights)

    def step_loss(self, context: Context, step: Step) -> Tensor:
        tokens = step.take(context.tokens())
        views = context.embed(self.views(tokens, step), self._named_extras(tokens, step))
        quiet = {part.name: part.quiet(tokens, step) for part in self.slots}
        if any(quiet.values()):
            views = replace(views, quiet=context.embed([], quiet, dropout=False).extras)
        return self.loss(views, step)

    def _named_extras(self, tokens: Tokens, step: Step) -> dict[str, Sequence[Tokens]]:
        """Return the `extras` of all slots, by name."""
        return {part.name: part.extras(tokens, step) for part in self.slots}

    def loss(self, views: Views, step: Step) -> Tensor:
        """Return the scalar loss of the vectors of one batch."""
        temperature, slots = self.hyper.temperature, self.slots
        anchors, positives = self.pairs(views)
        negatives = [group for part in slots for group in part.negatives(anchors, views, step)]
        factors = [part.weights(anchors, positives, step) for part in slots]
        given = [factor for factor in factors if factor is not None]
        weights = reduce(torch.mul, given) if given else None
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
        """Append vectors (n, d); the oldest rows leave."""
        self.rows = torch.cat([self.rows.to(vectors), vectors])[-len(self.rows) :]
        self.filled = min(self.filled + len(vectors), len(self.rows))

    # `filled` is a part of the state that checkpoints keep.

    def get_extra_state(self) -> Tensor:
        return torch.tensor(self.filled)  # On the host, as all that checkpoints keep.

    def set_extra_state(self, state: Tensor) -> None:
        self.filled = int(state)


def compose(parts: Sequence[tuple[type[Method], Any]], shape: Shape) -> Method:
    """Build a method from classes with hyper-parameters; the first has the pairs and the recipe."""
    refuse_composition(parts)
    first, *added = [cls(hyper, shape) for cls, hyper in parts]
    for part in added:
        (first.transforms if isinstance(part, Transform) else first.parts).append(part)
    return first


def refuse_composition(parts: Sequence[tuple[type[Method], Any]]) -> None:
    """Raise `Refusal` if parts cannot be combined."""
    (first, first_hyper), *added = parts
    names = [cls.name for cls, _ in parts]
    # A transform may follow any method; slots are filled only for one that fits the formula.
    if issubclass(first, Transform):
        raise Refusal(
            f"'{first.name}' maps finished vectors; write it after a method, "
            f"as in 'simcse+{first.name}'"
        )
    for cls, hyper in added:
        if names.count(cls.name) > 1:
            raise Refusal(f"'{cls.name}' appears twice in '{'+'.join(names)}'; write it once")
        if issubclass(cls, Transform):
            continue
        if not issubclass(first, Contrastive):
            kind = "does not use the contrastive formula" if first.trained else "is not trained"
            raise Refusal(f"'{first.name}' {kind}, so nothing can be added to it with '+'")
        if not issubclass(cls, Contrastive) or not cls.joins():
            raise Refusal(
                f"'{cls.name}' adds nothing to another method; write it first or leave it out"
            )
        _refuse_slots(cls, hyper, first, first_hyper)


def _refuse_slots(
    cls: type[Contrastive], hyper: Any, first: type[Contrastive], first_hyper: Any
) -> None:
    """Raise `Refusal` if slots of an added method do not fit the method written first."""
    positive = cls.fixed_positive(hyper)
    if positive is not None:
        raise Refusal(
            f"'{cls.name}' with {positive} defines its own positive, so it can only be written "
            "first"
        )
    parts_setting = first.in_parts(first_hyper)
    if parts_setting is not None:
        raise Refusal(
            f"'{first.name}' with {parts_setting} contrasts within parts of a batch, and "
            f"'{cls.name}' needs the whole; set it to 1"
        )
    if cls.quiet is not Contrastive.quiet and first.step_loss is not Contrastive.step_loss:
        raise Refusal(
            f"'{cls.name}' needs a pass without dropout, and '{first.name}' has no place for it"
        )
    first_positive = first.fixed_positive(first_hyper)
    if cls.terms is not Contrastive.terms and first_positive is not None:
        raise Refusal(
            f"'{cls.name}' needs the dropout positive, and '{first.name}' with {first_positive} "
            "has none"
        )
    for name in cls.Hyper.marked("host"):
        if getattr(hyper, name) != cls.Hyper.model_fields[name].default:
            raise Refusal(
                f"'{name}' of '{cls.name}' is set by the method written first, '{first.name}'; "
                "set it there"
            )
