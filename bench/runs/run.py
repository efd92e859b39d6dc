"""A run: method x backbone x corpus x data x seed x recipe, and the identity that names its files.

`bench.runs.resolve` makes a `Run` from text such as `simcse[temperature=0.05]@paper`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from bench.registry.backbones import NO_BACKBONE, Backbone
from bench.registry.encoders import BACKBONE, fingerprint
from bench.registry.methods import method_class, method_origin
from bench.registry.values import format_value
from bench.runs.recipe import HEADED, Recipe
from bench.utils.errors import UserError
from bench.utils.files import sha256_file
from methods.base import Method, Shape, Transform, compose

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


@dataclass(frozen=True)
class Run:
    """One training, or one untrained encoder, and the data it is scored on.

    Attributes:
        text: canonical text without the setting, e.g. `gs-infonce[multiple=1]+is-cse`.
        setting: "paper" or "official".
        label: readable name for tables.
        parts: (method name, version, hyper-parameters) of each part, clamped to the backbone.
        corpus: name or path of the training corpus.
        data: name or path of the evaluation data.
        seed: random seed; None for untrained encoders, which draw nothing.
        own_corpus: True if the method always trains on this corpus, whatever the suite sets.
        recipe: all training hyper-parameters.
        recipe_changes: recipe fields set by the suite that differ from the method's own setting, or
            from that of a run that it needs.
        skip: why this run is impossible on this backbone, or None.
        overridden: the other fields of the suite that differ from the method's own setting, or from
            that of a run that it needs: those that a text overrides.
        needs: the runs whose encoders it loads, by the values of hyper-parameters that name them.
    """

    text: str
    setting: str
    label: str
    parts: tuple[tuple[str, int, dict[str, Any]], ...]
    backbone: Backbone
    corpus: str
    data: str
    seed: int | None
    own_corpus: bool
    recipe: Recipe
    recipe_changes: dict[str, Any]
    skip: str | None
    overridden: dict[str, Any] = field(default_factory=dict)
    needs: Mapping[str, Run] = field(default_factory=dict)

    @property
    def trained(self) -> bool:
        return method_class(self.parts[0][0]).trained

    @property
    def shape(self) -> Shape:
        """Backbone dimensions after the recipe's cuts."""
        return cut_shape(self.backbone, self.recipe)

    @property
    def corpora(self) -> list[str]:
        """All corpora that the run reads, without duplicates, the training corpus first."""
        corpora = [self.corpus] if self.trained else []
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
            self.backbone.kind == "transformer"
            and host.encoder is Method.encoder
            and self.recipe.dimension is None
            and not any(issubclass(cls, Transform) for cls in others)
        )
        return self.evaluation_pooler if is_plain else None

    @cached_property
    def identity(self) -> dict[str, Any]:
        """Everything that affects the run's scores."""
        parts = []
        for name, version, hyper in self.parts:
            cls, origin = method_class(name), method_origin(name)
            models = {key: hyper[key] for key in model_fields(cls) if key in hyper}
            named = {key: self.models.get(model, model) for key, model in models.items()}
            part = [name, version, _identified(name, {**hyper, **named}, cls.Hyper())]
            # The author of a plugin may forget to raise its version.
            parts.append([*part, origin.sha256] if origin else part)
        identity: dict[str, Any] = {"parts": parts, "data": self.data}
        # Corpora that a transform is fitted on. Those given by name are fixed by the name itself.
        paths = [name for name in self.corpora if "/" in name and name != self.corpus]
        if paths:
            identity["corpora"] = {name: corpus_fingerprint(name) for name in paths}
        if self.backbone != NO_BACKBONE:
            identity["backbone"] = self.backbone.fingerprint
        if self.trained:
            identity["loop"] = LOOP_VERSION
            identity["corpus"] = corpus_fingerprint(self.corpus)
            identity["seed"] = self.seed
            recipe = self.recipe.model_dump(exclude={"corpus"})
            identity["recipe"] = _identified("recipe", recipe, Recipe())
        return identity

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the identity."""
        return hashlib.sha256(json.dumps(self.identity, sort_keys=True).encode()).hexdigest()

    @cached_property
    def id(self) -> str:
        """A readable slug and a hash of the identity. It names the run's files."""
        seed = "" if self.seed is None else f"_s{self.seed}"
        slug = re.sub(r"[^a-z0-9.+]+", "-", self.text.lower().replace("]", "").replace("[", "."))
        name = re.sub(r"[^a-z0-9.]+", "-", self.backbone.name.lower())
        return f"{slug[:80]}_{self.setting}_{name}{seed}_{self.digest[:10]}"

    def describe(self) -> dict[str, Any]:
        """The run as JSON-serialisable data, for plans and provenance."""
        description: dict[str, Any] = {
            "id": self.id,
            "method": self.text,
            "setting": self.setting,
            "label": self.label,
            "backbone": self.backbone.name,
            "reference": self.backbone.reference,
            "corpus": self.corpus if self.trained else None,
            "own_corpus": self.own_corpus,
            "data": self.data,
            "seed": self.seed,
            "trained": self.trained,
            "recipe": self.recipe.model_dump() if self.trained else None,
            "recipe_changes": self.recipe_changes if self.trained else {},
            "skip": self.skip,
            "identity": self.identity,
        }
        if self.trained and self.overridden:
            description["overridden"] = self.overridden
        if self.needs:
            description["needs"] = {name: run.id for name, run in self.needs.items()}
        local = {
            name: identity
            for name, identity in sorted(self.models.items())
            if identity != name and name not in self.needs
        }
        if local:
            description["models"] = local
        origins = {name: method_origin(name) for name, _, _ in self.parts}
        plugins = {name: asdict(origin) for name, origin in origins.items() if origin}
        if plugins:
            description["outside"] = plugins
        return description

    @property
    def arguments(self) -> list[str]:
        """Command-line arguments that `resolve` turns into this run again."""
        words = [f"{self.text}@{self.setting}", "--backbone", self.backbone.reference]
        words += ["--corpus", self.corpus, "--data", self.data]
        if self.seed is not None:
            words += ["--seed", str(self.seed)]
        changes = self.recipe_changes | self.overridden
        if self.trained and changes:
            pairs = [f"{key}={format_value(value)}" for key, value in sorted(changes.items())]
            words += ["--recipe", *pairs]
        return words

    def build(self) -> Method:
        """Instantiate the method, composed of all parts."""
        parts = [(method_class(name), hyper) for name, _, hyper in self.parts]
        return compose([(cls, cls.Hyper(**hyper)) for cls, hyper in parts], self.shape)


def model_fields(cls: type[Method]) -> list[str]:
    """The hyper-parameters of a method that name other encoders."""
    return list(cls.Hyper.marked("model"))


def cut_shape(backbone: Backbone, recipe: Recipe) -> Shape:
    """Backbone dimensions after the recipe's `layers` and `dimension`."""
    shape = backbone.shape
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
