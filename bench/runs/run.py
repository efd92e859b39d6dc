"""A run: method x backbone x corpus x data x seed x recipe, and the identity that names its files.

`bench.runs.resolve` makes a `Run` from text such as `simcse[temperature=0.05]@paper`. From there on
the run is data: plans, jobs, provenance and tables carry it as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    Field,
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    model_validator,
)

from bench.datasets.metrics import FURTHER_SEEDS
from bench.datasets.tasks import PAIRS, TASKS, expand_tasks, is_task, task_of
from bench.download.sums import file_sum
from bench.models.options import POSITIONS
from bench.registry.backbones import (
    BACKBONE,
    BUILT_IN,
    NO_BACKBONE,
    Backbone,
    backbone,
    backbone_fingerprint,
)
from bench.registry.methods import method_class, method_origin
from bench.runs.plan import Plan, PlannedRun, read_as
from bench.utils.errors import UserError, did_you_mean
from bench.utils.validation import StrictModel
from methods.base import HyperParameters, Method, Shape, Transform, compose

# Of the learning rate: to 0, constant, or AllenNLP's slanted triangle
# (docs/reference/methods.md#declutr).
SCHEDULES = ("linear", "constant", "slanted")
# Poolers with a training head: the first token through a new layer, through the checkpoint's own
# pooler, or through both (docs/reference/training.md#vectors).
WITH_POOLER = ("cls_pooler", "cls_pooler_mlp")
HEADED = ("cls_mlp", *WITH_POOLER)

Fraction = Annotated[float, Field(ge=0, lt=1)]
_Pooler = Literal[
    "cls_mlp", "cls_pooler", "cls_pooler_mlp", "cls_before_pooler", "avg", "avg_top2",
    "avg_first_last", "avg_first_last_64", "avg_embedding_last", "last", "weighted_mean",
]  # fmt: skip


class Recipe(HyperParameters, StrictModel):
    """Hyper-parameters of the training loop. Defaults: docs/reference/training.md#shared-recipe,
    bert-base-uncased."""

    batch_size: PositiveInt = 64
    """sentences in a step"""
    learning_rate: NonNegativeFloat = 3e-5
    """after the warm-up"""
    epochs: PositiveInt = 1
    """passes over the corpus"""
    corpus: str | None = None
    """training corpus, by name or path; none: the suite's"""
    sentences: PositiveInt | None = None
    """only so many first lines of the corpus; none: all"""
    distinct: PositiveInt | None = None
    """only distinct sentences, of at least so many words; none: every line"""
    max_length: Annotated[int, Field(ge=3)] = 32  # of at least [CLS], one token, [SEP]
    """word pieces in training, with special tokens"""
    pooler: _Pooler = "cls_mlp"
    """of vectors in training (docs/reference/training.md#vectors)"""
    dropout: Fraction | None = None
    """hidden and attention dropout; none: the backbone's own"""
    weight_decay: NonNegativeFloat = 0.0
    """of the optimiser"""
    optimiser: Literal["adamw", "rmsprop"] = "adamw"
    """`adamw`, or `rmsprop` as in TensorFlow (decay 0.9)"""
    epsilon: PositiveFloat = 1e-8
    """of the optimiser"""
    bias_correction: bool = True
    """of AdamW; false: BERT's original optimiser"""
    early_epsilon: bool = False
    """whether AdamW adds epsilon before its bias correction"""
    schedule: str = "linear"
    """`linear` falls to 0; `constant`; `slanted` (docs/reference/methods.md#declutr); or ends of
    blocks, as shares of the steps: after `0.5+0.75` it has fallen to 2/3 and to 1/3"""
    warmup: Fraction = 0.0
    """share of the steps in which the learning rate rises"""
    clip: PositiveFloat = 1.0
    """maximum gradient norm; a large value never clips"""
    precision: Literal["mixed", "bfloat16", "float32"] = "mixed"
    """`mixed` (float16 on a GPU, float32 on a CPU), `bfloat16` or `float32`"""
    select_on: str = "STS-B"
    """dev set that selects the checkpoint: `STS-B`, `SICK-R`, `CNSD-STS-B`, `sts:NAME`, or the mean
    of several: `STS-B+SICK-R`"""
    select_every: PositiveInt = 125
    """steps between two selections"""
    patience: PositiveInt | None = None
    """selections without improvement before training stops; none: never"""
    threads: PositiveInt = 1
    """CPU threads; the last digits depend on them"""
    layers: PositiveInt | None = None
    """first layers that the backbone keeps in training; none: all"""
    scored_layers: PositiveInt | None = None
    """first trained layers that are scored; none: all"""
    dimension: PositiveInt | None = None
    """width of the `cls_mlp` head, which is then scored; none: as the backbone, not scored"""
    drop_last: bool = False
    """whether an epoch drops a short last batch"""
    decay_biases: bool = True
    """whether weight decay includes biases and layer norms"""

    @property
    def selection(self) -> list[str]:
        """The tasks of `select_on`."""
        return self.select_on.split("+")

    @property
    def boundaries(self) -> list[float]:
        """The boundaries in `schedule`, as shares of all steps; none for a schedule by name."""
        if self.schedule in SCHEDULES:
            return []
        return [float(share) for share in self.schedule.split("+")]

    @model_validator(mode="after")
    def _check(self) -> Self:
        try:  # a schedule by name has no boundaries; those of another word are no numbers
            rising = all(low < high for low, high in pairwise([0.0, *self.boundaries, 1.0]))
        except ValueError:
            rising = False
        if not rising:
            raise ValueError(
                f"unknown schedule '{self.schedule}'{did_you_mean(self.schedule, SCHEDULES)}; for "
                "blocks give rising shares of the steps, such as 0.2+0.4"
            )
        for name in self.selection:
            if not is_task(name) or not task_of(name).has_dev:
                names = [task.name for task in TASKS.values() if task.has_dev]
                raise ValueError(f"cannot select on '{name}'{did_you_mean(name, names)}")
        if self.dimension is not None and self.pooler != "cls_mlp":
            raise ValueError(
                f"'dimension' needs the training head of pooler 'cls_mlp', not '{self.pooler}'"
            )
        positions = POSITIONS.get(self.pooler, self.max_length)
        if self.max_length > positions:
            raise ValueError(
                f"'max_length' should be at most {positions} for pooler '{self.pooler}', "
                f"not {self.max_length}"
            )
        return self


def convert(model: type[HyperParameters], values: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of a recipe, or hyper-parameters, as their types; `ValidationError`."""
    fields = model(**values)
    return {name: getattr(fields, name) for name in values}


# Part of the identity of every trained run. Raise it when a change to the training loop changes
# scores.
LOOP_VERSION = 2
# Beside it, part of the identity of runs in "mixed" and "bfloat16". Version 1, without a number,
# computed with the weights that the first step had cast, from 3103da52 on (CHANGELOG.md).
HALF_VERSION = 2

# Recipe fields, and hyper-parameters by method, that came later than the first results. At their
# default they are not part of an identity, so that runs from before have the same one.
LATER: dict[str, tuple[str, ...]] = {
    "recipe": (
        "early_epsilon", "optimiser", "epsilon", "bias_correction", "schedule", "layers",
        "scored_layers", "dimension", "drop_last", "decay_biases", "distinct",
    ),
    "cot-bert": ("space", "from_zero"),
    "is-cse": ("group", "clusters", "gamma"),
    "promptbert": ("space", "from_zero"),
    "published": ("prompt", "normalize", "template", "dims", "dtype"),
    "simcse": ("delete_word",),
    "sscl": ("average_self",),
}  # fmt: skip


class Run(PlannedRun):
    """One training, or one untrained encoder, and the data it is scored on, with its recipe. It
    looks up its methods and models in the registry."""

    recipe: Recipe = Recipe()  # all training hyper-parameters
    needs: dict[str, Run] = {}  # the runs whose encoders it loads, by the values that name them

    def further_seeds(self, tasks: Iterable[str]) -> Sequence[int]:
        """The further seeds of its classifiers on tasks and groups. Only an encoder without a seed
        or template has them: nothing else about its scores is random."""
        has_classifiers = any(task_of(task).protocol != PAIRS for task in expand_tasks([*tasks]))
        return FURTHER_SEEDS if has_classifiers and self.draw is None else ()

    @property
    def pretrained(self) -> Backbone:
        """The backbone to load."""
        return backbone(self.reference)

    @property
    def shape(self) -> Shape:
        """Backbone dimensions after the recipe's cuts."""
        return cut_shape(self.pretrained, self.recipe)

    @property
    def composed(self) -> list[tuple[type[Method], Any]]:
        """The method of each part, and its hyper-parameters."""
        return [
            (method_class(name), method_class(name).Hyper(**hyper)) for name, _, hyper in self.parts
        ]

    @property
    def corpora(self) -> list[str]:
        """All corpora that the run reads, without duplicates, the training corpus first."""
        corpora = [self.corpus]
        for cls, hyper in self.composed:
            corpora += cls.corpora(hyper)
        return list(dict.fromkeys(filter(None, corpora)))

    @property
    def selection(self) -> list[str]:
        """The tasks whose dev sets select the checkpoint."""
        return self.recipe.selection if self.trained else []

    @property
    def structure(self) -> str | None:
        """The structure that the training needs of its corpus: "documents", "triples" or none."""
        host, hyper = self.composed[0]
        return host.reads(hyper) if self.trained else None

    @cached_property
    def models(self) -> dict[str, str]:
        """The other encoders that the run loads, by name, each with what identifies it."""
        identities: dict[str, str] = {}
        for method, _, hyper in self.parts:
            for key in method_class(method).Hyper.marked("model"):
                name = hyper.get(key)
                if name in self.needs:
                    identities[name] = f"run-{self.needs[name].digest}"
                elif name not in (None, BACKBONE):
                    identities[name] = backbone_fingerprint(name)
        return identities

    @property
    def hub_models(self) -> dict[str, str]:
        """The repositories of the other encoders that the run loads from the hub, by name."""
        # A name of the hub identifies itself; a folder has a sum.
        return {
            name: BUILT_IN[name].location if name in BUILT_IN else name
            for name, identity in self.models.items()
            if name == identity
        }

    @property
    def evaluation_pooler(self) -> str:
        """The pooler used for scoring. The training head is dropped
        (docs/reference/training.md#vectors)."""
        return "cls_before_pooler" if self.recipe.pooler in HEADED else self.recipe.pooler

    @property
    def transformer_pooler(self) -> str | None:
        """The pooler of the encoder that is scored, if it is a transformer and nothing else."""
        host, *added = (method_class(name) for name, _, _ in self.parts)
        is_plain = (
            self.pretrained.kind == "transformer"
            and host.encoder is Method.encoder
            and self.recipe.dimension is None
            and not any(issubclass(cls, Transform) for cls in added)
        )
        return self.evaluation_pooler if is_plain else None

    def describe(self) -> dict[str, Any]:
        """The run as JSON data, for provenance. Tasks and analyses of a plan may grow later."""
        return self.model_dump(mode="json", exclude={"tasks", "analyses", "added"})

    def build(self) -> Method:
        """Instantiate the method, composed of all parts."""
        return compose(self.composed, self.shape)


def read_runs(path: Path) -> Plan[Run]:
    """Read the `plan.json` of a suite, to make its runs."""
    return read_as(Plan[Run], path)


def in_order(runs: Iterable[Run]) -> list[Run]:
    """Runs and those that they need, each once and after what it needs."""
    ordered: dict[str, Run] = {}
    for run in runs:
        for needed in (*in_order(run.needs.values()), run):
            ordered.setdefault(needed.id, needed)
    return list(ordered.values())


def with_identity(**values: Any) -> Run:
    """A run of these fields, with its `identity`, and with its `id`, which has a digest of that."""
    run = Run(id="unknown", **values)
    run = run.model_copy(update={"identity": identity_of(run)})
    slug = re.sub(r"[^a-z0-9.+]+", "-", run.method.lower().replace("]", "").replace("[", "."))
    name = re.sub(r"[^a-z0-9.]+", "-", run.backbone.lower())
    seed = "" if run.seed is None else f"_s{run.seed}"
    readable = f"{slug[:80]}_{run.setting}_{name}{seed}_{run.digest[:10]}"
    return run.model_copy(update={"id": readable})


def identity_of(run: Run) -> dict[str, Any]:
    """Everything that affects the scores of a run, as it is now: methods, models and files may have
    changed since the run was planned."""
    parts = []
    for name, _, hyper in run.parts:
        cls, origin = method_class(name), method_origin(name)
        values = dict(hyper)
        for key in cls.Hyper.marked("model"):
            if key in hyper:
                values[key] = run.models.get(hyper[key], hyper[key])
        part = [name, cls.version_of(hyper), _without_later(name, values, cls.Hyper())]
        # The author of a plugin may forget to raise its version.
        parts.append([*part, origin.sha256] if origin else part)
    identity: dict[str, Any] = {"parts": parts, "data": run.data}
    # Corpora that a post-processing is fitted on. A name fixes its content; a path does not.
    for name in run.corpora:
        if "/" in name and name != run.corpus:
            identity.setdefault("corpora", {})[name] = corpus_fingerprint(name)
    if run.reference != NO_BACKBONE.reference:
        identity["backbone"] = run.pretrained.fingerprint
    if run.trained:
        recipe = run.recipe.model_dump(exclude={"corpus"})
        identity |= {
            "loop": LOOP_VERSION,
            "corpus": corpus_fingerprint(run.corpus),
            "seed": run.seed,
            "recipe": _without_later("recipe", recipe, Recipe()),
        }
        if run.recipe.precision != "float32":
            identity["half"] = HALF_VERSION
    return identity


def cut_shape(base: Backbone, recipe: Recipe) -> Shape:
    """Backbone dimensions after the recipe's `layers` and `dimension`."""
    shape = base.shape
    return replace(shape, width=recipe.dimension or shape.width, depth=recipe.layers or shape.depth)


def _without_later(name: str, values: Mapping[str, Any], defaults: Any) -> dict[str, Any]:
    """Values without the fields of `LATER` that have their default."""
    later = LATER.get(name, ())
    return {
        key: value
        for key, value in values.items()
        if key not in later or value != getattr(defaults, key)
    }


def corpus_fingerprint(name: str) -> str:
    """The name of a corpus whose checksum is pinned, or the SHA-256 of a file given by path."""
    if "/" not in name:
        return name
    if not Path(name).is_file():
        raise UserError(
            f"corpus '{name}' is not a file; "
            "give a text file with one sentence a line, or a corpus by name"
        )
    return file_sum(Path(name))
