"""What a run is: method x backbone x corpus x data x seed x recipe, and its identity.

A run's method is written `method[key=value,...]+ingredient[key=value,...]@paper|official`. Keys are hyper-parameters of
the part they follow; after the first part also fields of the recipe. Parts after the first are sorted, so a composition
has one spelling.
"""

from __future__ import annotations

import hashlib
import json
import re
import types
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from bench.registry.backbones import KINDS, NO_BACKBONE, Backbone, backbone
from bench.registry.methods import method_class, method_origin
from bench.registry.plugins import type_name
from bench.runs.recipe import RECIPE_FIELDS, Recipe, check_recipe, convert, convert_recipe, written
from bench.utils.errors import UserError, nearest
from methods.base import Method, Refusal, Shape, compose, host_fields, refuse_composition

SETTINGS = ("paper", "official")
OUTSIDE = r"{}(?![^\[]*\])"  # a character of a run's text that stands in no brackets

# Raised when the training loop changes the numbers of every trained run.
LOOP_VERSION = 2


@dataclass(frozen=True)
class Run:
    """One training (or one untrained encoder) and what it is scored on; every field is resolved.

    Attributes:
        text: the canonical text without setting, e.g. `gs-infonce[multiple=1]+is-cse`.
        setting: "paper" or "official".
        parts: (method name, version, hyper-parameters) of each part, fitted to the backbone.
        corpus, data: names of the training corpus and of the evaluation data.
        seed: None where nothing is drawn (untrained encoders).
        own_corpus: whether the corpus is the one that its method always trains on, whatever the suite's.
        recipe_changes: recipe fields that the suite or the text set, that is the method's own setting did not.
        skip: why this run cannot be, or None.
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

    @property
    def trained(self) -> bool:
        return method_class(self.parts[0][0]).trained

    @property
    def shape(self) -> Shape:
        """What its method sees: the backbone as it is cut, its vectors as they are scored."""
        return _shape(self.backbone, self.recipe)

    @property
    def corpora(self) -> list[str]:
        """Every corpus that it reads, the training corpus first."""
        own = [self.corpus] if self.trained else []
        parts = (method_class(name).corpora(method_class(name).Hyper(**hyper)) for name, _, hyper in self.parts)
        return list(dict.fromkeys([*own, *(corpus for named in parts for corpus in named)]))

    @property
    def evaluation_pooler(self) -> str:
        """Without the training head, which is scored where the recipe has a dimension alone (methods.md a.2)."""
        return "cls_before_pooler" if self.recipe.pooler == "cls_mlp" else self.recipe.pooler

    @cached_property
    def identity(self) -> dict[str, Any]:
        """Everything that changes the run's numbers."""
        identity: dict[str, Any] = {"parts": [_identified(*part) for part in self.parts], "data": self.data}
        if files := {name: corpus_fingerprint(name) for name in self.corpora if "/" in name and name != self.corpus}:
            identity["corpora"] = files  # what a transform is fitted on, where its name does not decide it
        if self.backbone != NO_BACKBONE:
            identity["backbone"] = self.backbone.fingerprint
        if self.trained:
            identity["loop"] = LOOP_VERSION
            identity |= {"corpus": corpus_fingerprint(self.corpus), "seed": self.seed, "recipe": self.recipe.identified}
        return identity

    @cached_property
    def id(self) -> str:
        """Readable slug plus hash of the identity: the run's name in every path."""
        digest = hashlib.sha256(json.dumps(self.identity, sort_keys=True).encode()).hexdigest()[:10]
        seed = "" if self.seed is None else f"_s{self.seed}"
        slug = re.sub(r"[^a-z0-9.+]+", "-", self.text.lower().replace("]", "").replace("[", "."))
        name = re.sub(r"[^a-z0-9.]+", "-", self.backbone.name.lower())
        return f"{slug[:80]}_{self.setting}_{name}{seed}_{digest}"

    def describe(self) -> dict[str, Any]:
        """The run as plain data, for plans and provenance."""
        outside = {name: origin for name, _, _ in self.parts if (origin := method_origin(name))}
        described: dict[str, Any] = {
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
            "recipe": asdict(self.recipe) if self.trained else None,
            "recipe_changes": self.recipe_changes if self.trained else {},
            "skip": self.skip,
            "identity": self.identity,
        }
        if outside:
            described["outside"] = {name: asdict(origin) for name, origin in outside.items()}
        return described

    @property
    def arguments(self) -> list[str]:
        """The words that name this run on the command line; `resolve` makes the same run of them."""
        words = [
            f"{self.text}@{self.setting}",
            "--backbone",
            self.backbone.reference,
            "--corpus",
            self.corpus,
            "--data",
            self.data,
        ]
        if self.seed is not None:
            words += ["--seed", str(self.seed)]
        if self.trained and self.recipe_changes:
            words += ["--recipe", *(f"{key}={written(value)}" for key, value in sorted(self.recipe_changes.items()))]
        return words

    def build(self) -> Method:
        """The method as a module."""
        built = [(method_class(name), method_class(name).Hyper(**hyper)) for name, _, hyper in self.parts]
        return compose(built, self.shape)


def _identified(name: str, version: int, hyper: Mapping[str, Any]) -> list[Any]:
    """A part as it stands in an identity: without hyper-parameters that joined later where they have their default.

    Of a method from outside, whose author may forget its version, the sum of its code too.
    """
    later = {item.name: item.default for item in fields(method_class(name).Hyper) if item.metadata.get("later")}
    kept = {key: value for key, value in hyper.items() if key not in later or value != later[key]}
    origin = method_origin(name)
    return [name, version, kept, origin.sha256] if origin else [name, version, kept]


def corpus_fingerprint(name: str) -> str:
    """What decides a corpus: its name for those whose sums are pinned, its bytes for a file given by path.

    Raises:
        UserError: it is given by path, and there is no such file.
    """
    if "/" not in name:
        return name
    from bench.utils.files import sha256_file

    if not Path(name).is_file():
        raise UserError(
            f"corpus '{name}' is not a file; give a text file with one sentence a line, or a corpus by name"
        )
    return sha256_file(Path(name))


def parse(text: str) -> tuple[list[tuple[str, dict[str, str]]], str | None]:
    """Split a run's text into parts with their keys, and the setting.

    >>> parse("gs-infonce[multiple=1]+is-cse@paper")
    ([('gs-infonce', {'multiple': '1'}), ('is-cse', {})], 'paper')

    Raises:
        UserError: the text does not have that form.
    """
    if re.search(r"[][]", re.sub(r"\[[^][]*\]", "", text)):  # what is left without pairs
        raise UserError(f"'{text}' has a bracket without its other half; write method[key=value,...]")
    body, *rest = re.split(OUTSIDE.format("@"), text.strip(), maxsplit=1)
    setting = rest[0] if rest else None
    if setting not in (None, *SETTINGS):
        raise UserError(f"unknown setting '{setting}' in '{text}'{nearest(setting, SETTINGS)}")
    parts: list[tuple[str, dict[str, str]]] = []
    for piece in re.split(OUTSIDE.format(r"\+"), body):
        match = re.fullmatch(r"\s*([a-z0-9-]+)\s*(?:\[([^\[\]]*)\])?\s*", piece)
        if not match:
            raise UserError(f"cannot read '{piece}' in '{text}'; write method[key=value,...]+method@paper|official")
        keys: dict[str, str] = {}
        for item in filter(None, (match[2] or "").split(",")):
            key, equals, value = (word.strip() for word in item.partition("="))
            if not equals or not key or not value:
                raise UserError(f"cannot read '{item}' in '{text}'; write key=value")
            if key in keys:
                raise UserError(f"'{key}' stands twice in '{text}'; write it once")
            keys[key] = value
        parts.append((match[1], keys))
    return parts, setting


def _shape(known: Backbone, recipe: Recipe) -> Shape:
    shape = known.shape
    return replace(shape, width=recipe.dimension or shape.width, depth=recipe.layers or shape.depth)


def _leave_out(given: dict[str, Any], cls: type[Method], known: Backbone, layers: int | None) -> None:
    """Take from given recipe fields what changes nothing: a cut to all layers there are, any cut where none is trained.

    Args:
        layers: how many are trained, or None for all.
    """
    cut = cls.trained and known.kind == "transformer"
    depth = known.shape.depth
    for name, whole in (("layers", depth), ("scored_layers", layers or depth), ("dimension", None)):
        if name in given and (given[name] == whole or not cut):
            given[name] = None


def _check_cuts(recipe: Recipe, cls: type[Method], known: Backbone) -> None:
    """Raise `UserError` where a recipe cuts what the backbone has not, or what the method does not score."""
    depth = known.shape.depth
    if recipe.layers and recipe.layers > depth:
        raise UserError(f"'layers' is {recipe.layers}, but '{known.name}' has {depth}; leave it out to keep them all")
    if recipe.scored_layers and recipe.scored_layers > (recipe.layers or depth):
        raise UserError(
            f"'scored_layers' is {recipe.scored_layers}, but only {recipe.layers or depth} are trained; "
            f"leave it out to score with them all"
        )
    if (cls.encoder, cls.encoders) != (Method.encoder, Method.encoders):
        for name in ("scored_layers", "dimension"):
            if getattr(recipe, name):
                raise UserError(f"'{cls.name}' scores vectors of its own, which '{name}' says nothing of; leave it out")


def _rows(cls: type[Method], setting: str, backbone_name: str) -> dict[str, Any]:
    table = cls.official if setting == "official" else cls.paper
    assert table is not None
    own = table.get(backbone_name, table.get("bert-base-uncased", {}))
    return {**table.get("*", {}), **own}


def resolve(
    text: str,
    *,
    backbone_name: str,
    corpus: str,
    data: str,
    seed: int | None,
    recipe: Mapping[str, Any] = types.MappingProxyType({}),
) -> Run:
    """Turn a run's text into a `Run`.

    Args:
        text: see the module's docstring; without `@`, `official` where every part has released code, else `paper`.
        recipe: the suite's recipe fields, laid over the method's own; keys in the text lie over both.

    Raises:
        UserError: an unknown name or key (with the nearest valid one), or a composition that makes no sense (with the
        reason).
    """
    parsed, setting = parse(text)
    parsed = [parsed[0], *sorted(parsed[1:], key=lambda part: part[0])]
    classes = [method_class(name) for name, _ in parsed]
    if setting is None:
        setting = "official" if all(cls.official is not None for cls in classes) else "paper"
    for cls in classes:
        if setting == "official" and cls.official is None:
            raise UserError(f"'{cls.name}' has no released code, so '{text}' can only be '@paper'")

    used = NO_BACKBONE if classes[0].backbone_free else backbone(backbone_name)
    if not classes[0].backbone_free and used.kind != classes[0].backbone_kind:
        needed = KINDS[classes[0].backbone_kind]
        raise UserError(f"'{classes[0].name}' needs {needed}, and '{used.name}' is {KINDS[used.kind]}; name another")
    own_recipe = {key: value for key, value in _rows(classes[0], setting, used.name).items() if key in RECIPE_FIELDS}
    base = Recipe(**own_recipe)
    changes = convert_recipe(recipe)
    hypers = {item.name for item in fields(classes[0].Hyper)}
    own_keys = {key: value for key, value in parsed[0][1].items() if key in RECIPE_FIELDS and key not in hypers}
    text_recipe = convert_recipe(own_keys) if classes[0].trained else {}
    layers = {**changes, **text_recipe}.get("layers")
    for given_fields in (changes, text_recipe):
        _leave_out(given_fields, classes[0], used, layers)
    final = Recipe(**{**own_recipe, **changes, **text_recipe})
    check_recipe(final)
    _check_cuts(final, classes[0], used)
    shape = _shape(used, final)
    parts, spellings, labels, built = [], [], [], []
    skip = None
    for position, (cls, (_, keys)) in enumerate(zip(classes, parsed, strict=True)):
        annotations = {item.name: type_name(item.type) for item in fields(cls.Hyper)}
        rows = {key: value for key, value in _rows(cls, setting, used.name).items() if key in annotations}
        given: dict[str, Any] = {}
        for key, value in keys.items():
            if key in annotations:
                given[key] = convert(value, annotations[key], key)
            elif position == 0 and key in text_recipe:
                continue
            elif key in RECIPE_FIELDS and cls.trained:
                raise UserError(
                    f"'{key}' belongs to the recipe, which the method written first decides; "
                    f"set it in '{parsed[0][0]}[...]'"
                )
            else:
                known = [*annotations, *(RECIPE_FIELDS if position == 0 and cls.trained else ())]
                raise UserError(f"unknown key '{key}' of '{cls.name}'{nearest(key, known)}")
        asked = cls.Hyper(**{**rows, **given})
        built.append((cls, asked))
        try:
            cls.check(asked)
            fitted = cls.clamp_to_backbone(asked, shape)
            skip = skip or cls.skip(fitted, shape)
        except Refusal as refusal:
            raise UserError(f"'{text}' cannot be run: {refusal}") from None
        hyper = asdict(fitted)
        if position > 0:  # what the host decides is no part of an ingredient
            hyper = {key: value for key, value in hyper.items() if key not in host_fields(cls)}
        parts.append((cls.name, cls.version, hyper))
        # A key that changes nothing on this backbone is not spelled, so that equal runs have one name.
        others = {key: cls.Hyper(**{**rows, **{k: v for k, v in given.items() if k != key}}) for key in given}
        shown = {key: getattr(fitted, key) for key in given if cls.clamp_to_backbone(others[key], shape) != fitted}
        if position == 0:
            shown |= {key: value for key, value in text_recipe.items() if value != getattr(base, key)}
        spellings.append(_spell(cls.name, {key: written(value) for key, value in shown.items()}))
        labels.append(_label(cls, asked, fitted, shown))
    try:
        refuse_composition(built)
    except Refusal as refusal:
        raise UserError(f"'{text}' cannot be run: {refusal}") from None
    own_corpus = final.corpus is not None and final.corpus == own_recipe.get("corpus")
    if own_corpus and (note := classes[0].own_corpus_note):
        labels[0] += f" ({note})"

    return Run(
        text="+".join(spellings),
        setting=setting,
        label=" + ".join(labels),
        parts=tuple(parts),
        backbone=used,
        corpus=final.corpus or corpus,
        data=data,
        seed=seed if classes[0].trained else None,
        own_corpus=own_corpus,
        recipe=final,
        recipe_changes={
            key: value for key, value in changes.items() if key not in text_recipe and value != getattr(base, key)
        },
        skip=skip,
    )


def _spell(name: str, shown: Mapping[str, str]) -> str:
    keys = ",".join(f"{key}={value}" for key, value in sorted(shown.items()))
    return f"{name}[{keys}]" if keys else name


def _label(cls: type[Method], asked: Any, fitted: Any, shown: Mapping[str, Any]) -> str:
    """Title with what differs from the setting; a value that the backbone made smaller says so."""
    always = {item.name: getattr(fitted, item.name) for item in fields(fitted) if item.metadata.get("label")}
    never = {item.name for item in fields(fitted) if item.metadata.get("label") is False}
    notes = {key: f"{key}={written(value)}" for key, value in {**always, **shown}.items() if key not in never}
    for item in fields(asked):
        before, after = getattr(asked, item.name), getattr(fitted, item.name)
        if before != after and isinstance(before, int) and not isinstance(before, bool):
            notes[item.name] = f"{item.name}={after}, the most this backbone has (of {before})"
    return f"{cls.title} ({', '.join(notes[key] for key in sorted(notes))})" if notes else cls.title


def run_of(told: Mapping[str, Any], *, corpus: str | None = None, data: str | None = None) -> Run:
    """The run that `Run.describe` described, as this version has it; equal identities tell that it is the same.

    Args:
        corpus, data: in place of those of the description, or where it has none.

    Raises:
        UserError: this version has no such run.
    """
    return resolve(
        f"{told['method']}@{told['setting']}",
        backbone_name=told["reference"],
        corpus=corpus or told["corpus"],
        data=data or told["data"],
        seed=told["seed"],
        recipe=told["recipe_changes"],
    )
