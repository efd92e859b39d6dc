"""A run: method x backbone x corpus x data x seed x recipe, and the identity that names its files.

`bench.runs.resolve` makes a `Run` from text such as `simcse[temperature=0.05]@paper`. From there on
the run is data: plans, jobs, provenance and tables carry it as it is.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from pydantic import ConfigDict, Field

from bench.registry.backbones import BACKBONE, NO_BACKBONE, Backbone, backbone, fingerprint
from bench.registry.methods import method_class, method_origin
from bench.runs import STAGES
from bench.runs.recipe import HEADED, Recipe
from bench.utils.errors import UserError
from bench.utils.files import sha256_file
from bench.utils.validation import Document
from methods.base import Method, Shape, Transform, compose

# The end of the label of an encoder that a configuration lists, which the suite has not trained.
OUTSIDE = " (outside encoder)"


def is_outside(label: str) -> bool:
    """Whether a row of this label is of an outside encoder, which has no setting."""
    return label.endswith(OUTSIDE)


# Part of the identity of every trained run. Raise it when a change to the training loop changes
# scores.
LOOP_VERSION = 2

# Recipe fields, and hyper-parameters by method, that came later than the first results. At their
# default they are not part of an identity, so that runs from before have the same one.
LATER: dict[str, tuple[str, ...]] = {
    "recipe": (
        "early_epsilon", "optimiser", "epsilon", "bias_correction", "schedule", "layers",
        "scored_layers", "dimension", "drop_last", "decay_biases",
    ),
    "cot-bert": ("space", "from_zero"),
    "is-cse": ("group", "clusters", "gamma"),
    "promptbert": ("space", "from_zero"),
    "published": ("prompt", "normalize"),
    "simcse": ("delete_word",),
}  # fmt: skip

Part = tuple[str, int, dict[str, Any]]  # name of a method, its version, hyper-parameters


class Run(Document):
    """One training, or one untrained encoder, and the data it is scored on.

    Attributes:
        id: a readable name and the hash of the identity. The run's files are named after it.
        method: canonical text without the setting, e.g. `gs-infonce[multiple=1]+is-cse`.
        setting: "paper" or "official".
        label: readable name for tables.
        parts: the methods of the text, their hyper-parameters clamped to the backbone.
        backbone: its name in tables.
        reference: name or path with which it is loaded.
        trained: whether there is a training.
        corpus: name or path of the training corpus; empty without a training.
        own_corpus: True if the method always trains on this corpus, whatever the suite sets.
        data: name or path of the evaluation data.
        seed: random seed; None without a training, since then nothing is drawn.
        recipe: all training hyper-parameters.
        recipe_changes: recipe fields set by the suite that differ from the method's own setting, or
            from that of a run that it needs.
        overridden: the other fields of the suite that differ from the method's own setting, or from
            that of a run that it needs: those that a text overrides.
        skip: why this run is impossible on this backbone, or None.
        needs: the runs whose encoders it loads, by the values of hyper-parameters that name them.
        identity: everything that affects the run's scores.
    """

    model_config = ConfigDict(extra="ignore")

    id: str = Field(pattern=r"^[\w+-][\w.+-]*$")
    method: str
    setting: str
    label: str
    parts: tuple[Part, ...] = ()
    backbone: str
    reference: str = ""
    trained: bool = True
    corpus: str = ""
    own_corpus: bool = False
    data: str = ""
    seed: Annotated[int, Field(strict=True)] | None
    recipe: Recipe = Recipe()
    recipe_changes: dict[str, Any] = {}
    overridden: dict[str, Any] = {}
    skip: str | None = None
    needs: dict[str, Run] = {}
    identity: dict[str, Any] = {}

    @property
    def text(self) -> str:
        """Method and setting, as configurations name them."""
        return f"{self.method}@{self.setting}"

    @property
    def pretrained(self) -> Backbone:
        """The backbone to load."""
        return backbone(self.reference)

    @property
    def shape(self) -> Shape:
        """Backbone dimensions after the recipe's cuts."""
        return cut_shape(self.pretrained, self.recipe)

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the identity."""
        return hashlib.sha256(json.dumps(self.identity, sort_keys=True).encode()).hexdigest()

    @property
    def corpora(self) -> list[str]:
        """All corpora that the run reads, without duplicates, the training corpus first."""
        corpora = [self.corpus] if self.corpus else []
        for name, _, hyper in self.parts:
            cls = method_class(name)
            corpora += cls.corpora(cls.Hyper(**hyper))
        return list(dict.fromkeys(corpora))

    @cached_property
    def models(self) -> dict[str, str]:
        """The other encoders that the run loads, by name, each with what identifies it."""
        values = [
            hyper.get(key)
            for name, _, hyper in self.parts
            for key in model_fields(method_class(name))
        ]
        runs = {name: f"run-{run.digest}" for name, run in self.needs.items()}
        others = [name for name in values if name is not None and name not in (BACKBONE, *runs)]
        return {name: fingerprint(name) for name in others} | runs

    @property
    def evaluation_pooler(self) -> str:
        """The pooler used for scoring. The training head is dropped (docs/methods.md#vectors)."""
        return "cls_before_pooler" if self.recipe.pooler in HEADED else self.recipe.pooler

    @property
    def transformer_pooler(self) -> str | None:
        """The pooler of the encoder that is scored, if it is a transformer and nothing else."""
        host, *others = (method_class(name) for name, _, _ in self.parts)
        is_plain = (
            self.pretrained.kind == "transformer"
            and host.encoder is Method.encoder
            and self.recipe.dimension is None
            and not any(issubclass(cls, Transform) for cls in others)
        )
        return self.evaluation_pooler if is_plain else None

    def describe(self) -> dict[str, Any]:
        """The run as JSON data, for provenance."""
        return self.model_dump(mode="json", include=set(Run.model_fields))

    def build(self) -> Method:
        """Instantiate the method, composed of all parts."""
        parts = [(method_class(name), hyper) for name, _, hyper in self.parts]
        return compose([(cls, cls.Hyper(**hyper)) for cls, hyper in parts], self.shape)


class PlannedRun(Run):
    """A run of a suite, the tasks or groups it is scored on, and the names of its analyses."""

    tasks: tuple[str, ...] = ()
    analyses: tuple[str, ...] = ()

    @property
    def stages(self) -> list[str]:
        """Those of `bench.runs.STAGES` that it goes through."""
        has = {"train": self.trained, "score": True, "analyse": bool(self.analyses)}
        return [stage for stage in STAGES if has[stage]]


def identified(**values: Any) -> Run:
    """A run of fields without `id` and `identity`, which are added."""
    run = Run(id="unknown", **values)
    run = run.model_copy(update={"identity": identity_of(run)})
    return run.model_copy(update={"id": _readable_id(run)})


def identity_of(run: Run) -> dict[str, Any]:
    """Everything that affects the scores of a run, as it is now: methods, models and files may have
    changed since the run was planned."""
    parts = []
    for name, _, hyper in run.parts:
        cls, origin = method_class(name), method_origin(name)
        models = {key: hyper[key] for key in model_fields(cls) if key in hyper}
        named = {key: run.models.get(model, model) for key, model in models.items()}
        part = [name, cls.version, _identified(name, {**hyper, **named}, cls.Hyper())]
        # The author of a plugin may forget to raise its version.
        parts.append([*part, origin.sha256] if origin else part)
    identity: dict[str, Any] = {"parts": parts, "data": run.data}
    # Corpora that a transform is fitted on. Those given by name are fixed by the name itself.
    paths = [name for name in run.corpora if "/" in name and name != run.corpus]
    if paths:
        identity["corpora"] = {name: corpus_fingerprint(name) for name in paths}
    if run.reference != NO_BACKBONE.reference:
        identity["backbone"] = run.pretrained.fingerprint
    if run.trained:
        identity["loop"] = LOOP_VERSION
        identity["corpus"] = corpus_fingerprint(run.corpus)
        identity["seed"] = run.seed
        recipe = run.recipe.model_dump(exclude={"corpus"})
        identity["recipe"] = _identified("recipe", recipe, Recipe())
    return identity


def _readable_id(run: Run) -> str:
    seed = "" if run.seed is None else f"_s{run.seed}"
    slug = re.sub(r"[^a-z0-9.+]+", "-", run.method.lower().replace("]", "").replace("[", "."))
    name = re.sub(r"[^a-z0-9.]+", "-", run.backbone.lower())
    return f"{slug[:80]}_{run.setting}_{name}{seed}_{run.digest[:10]}"


def model_fields(cls: type[Method]) -> list[str]:
    """The hyper-parameters of a method that name other encoders."""
    return list(cls.Hyper.marked("model"))


def cut_shape(chosen: Backbone, recipe: Recipe) -> Shape:
    """Backbone dimensions after the recipe's `layers` and `dimension`."""
    shape = chosen.shape
    return replace(shape, width=recipe.dimension or shape.width, depth=recipe.layers or shape.depth)


def _identified(name: str, values: Mapping[str, Any], defaults: Any) -> dict[str, Any]:
    """Values without those of `LATER` at their default."""
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
    return sha256_file(Path(name))
