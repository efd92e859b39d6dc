"""From the text of a run to a `Run`.

A text is `method[key=value,...]+ingredient[key=value,...]@paper|official`. A value may have
brackets of its own, such as the text of another run, and commas that no `key=` follows. `""` is
the empty text. Keys are hyper-parameters of the part they follow; after the first part they may
also be recipe fields. All parts but the first are sorted, and keys that change nothing are left
out, so that a run has exactly one spelling in a suite.

A hyper-parameter with the mark `MODEL` may name the encoder of another run, `run:TEXT` or `run:TEXT
on BACKBONE`. That run is needed first. It has the corpus, data and seed of the run that needs it,
and the suite's recipe.
"""

import re
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import Any

from pydantic import ValidationError

from bench.registry.backbones import (
    BACKBONE,
    BACKBONE_KINDS,
    NO_BACKBONE,
    Backbone,
    backbone,
    encoder_folder,
    vocabulary,
)
from bench.registry.methods import (
    FAILURES,
    BrokenMethod,
    describe_error,
    format_value,
    method_class,
    method_classes,
    method_origin,
)
from bench.runs.plan import PlannedRun
from bench.runs.run import Recipe, Run, converted, cut_shape, identified
from bench.utils.brackets import read_keys, split
from bench.utils.errors import UserError, did_you_mean, suggestion
from bench.utils.validation import explain
from methods.base import Method, Refusal, Shape, refuse_composition

SETTINGS = ("paper", "official")
EMPTY = '""'
RUN = "run:"

Keys = dict[str, Any]
Values = dict[str, Any]  # of hyper-parameters and recipe fields


def resolve(
    text: str,
    *,
    backbone_name: str,
    corpus: str,
    data: str,
    seed: int | None,
    recipe: Mapping[str, Any] = types.MappingProxyType({}),
    keys: Mapping[str, Any] = types.MappingProxyType({}),
) -> Run:
    """Turn the text of a run into a `Run`.

    Args:
        text: without `@`, the setting is `official` if every part has released code, else `paper`.
        backbone_name: ignored by methods that use no backbone.
        corpus: training corpus, unless the method always trains on a corpus of its own.
        data: evaluation data.
        seed: ignored by methods that are not trained.
        recipe: recipe fields of the suite. They override the method's own; keys in `text` override
            both.
        keys: further keys of the first part, as values.

    Raises:
        UserError: a name or key is unknown (the message gives the closest valid one), or the parts
            cannot be combined.
    """
    with _refusals(text):
        choice = _choose(text, backbone_name, keys)
        # The recipe comes first, since its cuts decide to what hyper-parameters are clamped.
        layers = _layer(choice, recipe)
        shape = cut_shape(choice.backbone, layers.whole)
        # What a run that is needed has in common with this one.
        common: dict[str, Any] = {
            "corpus": layers.whole.corpus or corpus,
            "data": data,
            "seed": seed,
        }
        needs = _Needs(choice, partial(resolve, recipe=recipe, **common))
        parts = [_fit(source, shape, needs) for source in choice.sources]
        runs = needs.required(parts)
        refuse_composition([(part.cls, part.requested) for part in parts])
        _check_dropout(choice, layers.whole, parts[0].clamped)
        skips = [part.cls.skip(part.clamped, shape) for part in parts]
    skips += [run.skip and f"it needs {name}: {run.skip}" for name, run in runs.items()]
    return _name(choice, layers, parts, needs=runs, skip=next(filter(None, skips), None), **common)


@contextmanager
def _refusals(text: str) -> Iterator[None]:
    """Let what methods raise in a block say which run it makes impossible."""
    try:
        yield
    except UserError:
        raise
    except (Refusal, ValidationError) as error:
        raise UserError(f"'{text}' cannot be run: {_reason(error)}") from None
    except FAILURES as error:
        if not any(method_origin(name) for name, _ in parse(text)[0]):
            raise
        raise BrokenMethod(
            f"'{text}' cannot be run: {describe_error(error)}; fix its code"
        ) from error


def _reason(error: Refusal | ValidationError) -> str:
    return explain(error) if isinstance(error, ValidationError) else str(error)


def suite_recipe(run: PlannedRun) -> dict[str, Any]:
    """The recipe fields of the suite that a run was resolved with, those that are the method's own
    left out."""
    return {**run.recipe_changes, **run.overridden}


# Text


def parse(text: str) -> tuple[list[tuple[str, Keys]], str | None]:
    """Split the text of a run into parts with their keys, and the setting.

    >>> parse("gs-infonce[multiple=1]+is-cse@paper")
    ([('gs-infonce', {'multiple': '1'}), ('is-cse', {})], 'paper')
    """
    body, *rest = split(text.strip(), "@")
    setting = "@".join(rest) if rest else None
    if setting not in (None, *SETTINGS):
        raise UserError(f"unknown setting '{setting}' in '{text}'{did_you_mean(setting, SETTINGS)}")
    return [_parse_part(part, text) for part in split(body, "+")], setting


def spell(name: str, keys: Mapping[str, Any]) -> str:
    """The text of a part, with its keys sorted."""
    texts = [f"{key}={format_value(value) or EMPTY}" for key, value in sorted(keys.items())]
    return f"{name}[{','.join(texts)}]" if texts else name


def _parse_part(part: str, text: str) -> tuple[str, Keys]:
    match = re.fullmatch(r"\s*([a-z0-9-]+)\s*(?:\[(.*)\])?\s*", part, re.DOTALL)
    if not match:
        context = f" in '{text}'" if part != text else ""
        hint = suggestion(part.partition("[")[0].strip(), method_classes())
        hint = hint or "; write method[key=value,...]+method@paper|official"
        raise UserError(f"cannot read '{part}'{context}{hint}")
    keys: Keys = {}
    if match[2]:
        for key, value in read_keys(match[2], text).items():
            keys[key] = value.strip()
            if not keys[key]:
                raise UserError(f"cannot read '{key}=' in '{text}'; write key=value")
            if keys[key] == EMPTY:
                keys[key] = ""
    return match[1], keys


# What the text chooses


@dataclass(frozen=True)
class _Source:
    """The hyper-parameters and the recipe fields of a part, in its setting and in the text."""

    cls: type[Method]
    setting: tuple[Values, Values]
    text: tuple[Values, Values]


@dataclass(frozen=True)
class _Choice:
    """The methods of a text with their values, the setting and the backbone."""

    text: str
    setting: str
    backbone: Backbone
    sources: list[_Source]

    @property
    def host(self) -> type[Method]:
        """The method written first, which has the pairs and the recipe."""
        return self.sources[0].cls


def _choose(text: str, backbone_name: str, keys: Mapping[str, Any]) -> _Choice:
    """Look up what a text names; `keys` are further ones of its first part."""
    (first, *others), suffix = parse(text)
    first[1].update(keys)
    parts = [first, *sorted(others, key=itemgetter(0))]
    classes = [method_class(name) for name, _ in parts]
    setting = _choose_setting(text, suffix, classes)
    base = _choose_backbone(classes[0], backbone_name)
    rows = [_setting_row(cls, setting, base.name) for cls in classes]
    sources = []
    for cls, row, (_, values) in zip(classes, rows, parts, strict=True):
        sources.append(_Source(cls, row, _divide(cls, values, cls is classes[0])))
    return _Choice(text, setting, base, sources)


def _choose_setting(text: str, setting: str | None, classes: Sequence[type[Method]]) -> str:
    if setting is None:
        return "official" if all(cls.official is not None for cls in classes) else "paper"
    for cls in classes:
        # An untrained Encoder has no setting of its own, but a map that follows it may have.
        has_setting = cls.trained or len(classes) == 1
        if setting == "official" and cls.official is None and has_setting:
            raise UserError(f"'{cls.name}' has no released code, so '{text}' can only be '@paper'")
    return setting


def _choose_backbone(host: type[Method], name: str) -> Backbone:
    if host.backbone_free:
        return NO_BACKBONE
    base = backbone(name)
    if base.kind != host.backbone_kind:
        needs, has = BACKBONE_KINDS[host.backbone_kind], BACKBONE_KINDS[base.kind]
        raise UserError(f"'{host.name}' needs {needs}, but '{base.name}' is {has}; choose another")
    return base


def _setting_row(cls: type[Method], setting: str, backbone_name: str) -> tuple[Values, Values]:
    """The row of a setting for a backbone, else that for BERT base, as `valid_row` returns it."""
    setting = "paper" if cls.official is None else setting
    for name in (backbone_name, "bert-base-uncased", "*"):
        if name in getattr(cls, setting):
            return valid_row(cls, setting, name)
    return {}, {}


def valid_row(cls: type[Method], setting: str, name: str) -> tuple[Values, Values]:
    """Return the hyper-parameters and the recipe fields in a row of a method's table, with the
    values of "*" under its own.

    Raises:
        UserError: it has an unknown key or an invalid value, or a hyper-parameter has the name of a
            recipe field, which it would hide.
    """
    origin = method_origin(cls.name)
    source = f"{origin.place}: " if origin else ""
    hidden = sorted(cls.Hyper.model_fields.keys() & Recipe.model_fields)
    if cls.trained and hidden:
        raise UserError(
            f"{source}'{hidden[0]}' of {cls.Hyper.__name__} is a recipe field; use that, or "
            "another name"
        )
    table = getattr(cls, setting)
    try:
        hyper, fields = _divide(cls, {**table.get("*", {}), **table[name]}, is_host=True)
        return converted(cls.Hyper, hyper), converted(Recipe, fields)
    except (Refusal, ValidationError) as error:
        raise UserError(
            f"{source}the row '{name}' of '{setting}' of {cls.__name__} is invalid: "
            f"{_reason(error)}"
        ) from None


def _divide(cls: type[Method], values: Mapping[str, Any], is_host: bool) -> tuple[Values, Values]:
    """The hyper-parameters and the recipe fields among some values of a part."""
    names = cls.Hyper.model_fields
    hyper, fields = {}, {}
    for key, value in values.items():
        if key in names:
            hyper[key] = value
            continue
        if key not in Recipe.model_fields or not cls.trained:
            known = [*names, *(Recipe.model_fields if is_host and cls.trained else ())]
            raise Refusal(f"unknown key '{key}' of '{cls.name}'{did_you_mean(key, known)}")
        if not is_host:
            raise Refusal(
                f"'{key}' is a recipe field, which only the first method may set; set it there"
            )
        fields[key] = value
    return hyper, fields


# The recipe


@dataclass(frozen=True)
class _Layers:
    """The recipe as the method has it in its setting, what the suite and the text set over it, and
    the whole."""

    method: Recipe
    suite: Values
    text: Values
    whole: Recipe

    def changes(self, needs: Iterable[Run]) -> dict[str, Values]:
        """The fields in which the suite changes the method or a run that it needs, and those of
        them that a text overrides."""
        by_suite = _differing(self.suite, self.method)
        overridden = _differing(by_suite, self.whole)
        changes = {key: value for key, value in by_suite.items() if key not in overridden}
        for run in needs:
            changes = run.recipe_changes | changes
            overridden = run.overridden | overridden
        return {"recipe_changes": changes, "overridden": overridden}


def _layer(choice: _Choice, recipe: Mapping[str, Any]) -> _Layers:
    """Lay the recipe fields of the suite and of the text over those of the method. A cut that
    changes nothing becomes None: all layers kept, or a method that trains no transformer."""
    host = choice.sources[0]
    method = Recipe(**host.setting[1])
    suite, text = converted(Recipe, recipe), converted(Recipe, host.text[1])
    depth = choice.backbone.shape.depth
    layers = {**suite, **text}.get("layers") or depth
    uncut = {"layers": depth, "scored_layers": layers, "dimension": None}
    can_cut = host.cls.trained and choice.backbone.kind == "transformer"
    for fields in (suite, text):
        for name in uncut.keys() & fields:
            if not can_cut or fields[name] == uncut[name]:
                fields[name] = None
    whole = Recipe(**{**method.model_dump(exclude_defaults=True), **suite, **text})
    _check_cuts(choice, whole)
    return _Layers(method, suite, text, whole)


def _differing(fields: Values, recipe: Recipe) -> Values:
    return {key: value for key, value in fields.items() if value != getattr(recipe, key)}


def _check_cuts(choice: _Choice, recipe: Recipe) -> None:
    """Raise `Refusal` for a cut that the backbone is too shallow for or that scoring ignores."""
    host, depth = choice.host, choice.backbone.shape.depth
    if recipe.layers and recipe.layers > depth:
        raise Refusal(
            f"'layers' is {recipe.layers}, but '{choice.backbone.name}' has {depth}; "
            "omit it to keep all layers"
        )
    if recipe.scored_layers and recipe.scored_layers > (recipe.layers or depth):
        raise Refusal(
            f"'scored_layers' is {recipe.scored_layers}, but only {recipe.layers or depth} are "
            "trained; omit it to score with all of them"
        )
    # Both are cuts of the encoder that is built by default.
    if (host.encoder, host.encoders) != (Method.encoder, Method.encoders):
        for name in ("scored_layers", "dimension"):
            if getattr(recipe, name):
                raise Refusal(
                    f"'{host.name}' builds its own encoder, which '{name}' does not affect; omit it"
                )


def _check_dropout(choice: _Choice, recipe: Recipe, hyper: Any) -> None:
    """Raise `Refusal` if the views of a sentence would differ by dropout, and there is none."""
    host, base = choice.host, choice.backbone
    if recipe.dropout is None and base.dropout == (0,) and host.needs_dropout(hyper):
        raise Refusal(
            f"'{base.name}' has no dropout, and the views of a sentence would be equal; "
            f"write {host.name}[dropout=0.1], or set it in the suite's recipe"
        )


# Hyper-parameters


@dataclass(frozen=True)
class _Part:
    """A part of a run: its hyper-parameters, and those of them that its text has."""

    cls: type[Method]
    requested: Any
    clamped: Any  # to the backbone
    keys: Values


def _fit(source: _Source, shape: Shape, needs: "_Needs") -> _Part:
    """Clamp the hyper-parameters of the text, over those of the setting, to the backbone."""
    cls = source.cls
    defaults = needs.spelled(cls, {**dict(cls.Hyper()), **source.setting[0]})
    text = needs.spelled(cls, source.text[0])

    def clamp(values: Values) -> Any:
        requested = cls.Hyper(**{**defaults, **values})
        return cls.Hyper(**dict(cls.clamp_to_backbone(requested, shape)))

    first = clamp(text)
    effective = {
        key: value
        for key, value in text.items()
        if key not in cls.used_if or cls.used_if[key](first)
    }
    clamped = clamp(effective)
    # A key without effect on this backbone is not spelled, so that equal runs have one name.
    keys = {}
    for key in effective:
        with suppress(Refusal, ValidationError):  # the others need the key
            if clamp({name: effective[name] for name in effective.keys() - {key}}) == clamped:
                continue
        keys[key] = getattr(clamped, key)
    return _Part(cls, cls.Hyper(**{**defaults, **effective}), clamped, keys)


# Runs that are needed


def split_run(value: str) -> tuple[str, str]:
    """The text of the run that a value names, and its backbone, empty if it names none.

    >>> split_run("run:simcse@paper on roberta-base")
    ('simcse@paper', 'roberta-base')
    """
    value = value.removeprefix(RUN)
    text, separator, name = value.rpartition(" on ")
    if not separator or set(name) & set("[]"):  # the word is part of the text
        return value.strip(), ""
    return text.strip(), name.strip()


@dataclass(frozen=True)
class _Needs:
    """The runs that the hyper-parameters of a run may name."""

    choice: _Choice
    resolve_alike: Callable[..., Run]

    def spelled(self, cls: type[Method], values: Values) -> Values:
        """Hyper-parameters of a part with the only spelling of each run that they name."""
        texts = dict(values)
        for key in cls.Hyper.marked("model"):
            name = str(values.get(key))
            if name.startswith(RUN):
                run = self._run(name)
                texts[key] = f"{RUN}{run.text}"
                if run.reference not in (self.choice.backbone.reference, NO_BACKBONE.reference):
                    texts[key] += f" on {run.reference}"
        return texts

    def _run(self, name: str) -> Run:
        if not self.choice.host.trained:
            raise UserError(
                f"'{self.choice.text}' is not trained, so it cannot use '{name}'; the run itself "
                "is a row of the suite where 'methods' lists it"
            )
        text, backbone_name = split_run(name)
        run = self.resolve_alike(
            text, backbone_name=backbone_name or self.choice.backbone.reference
        )
        if not run.trained:
            raise UserError(
                f"'{name}' in '{self.choice.text}' is not trained; name a method that is trained, "
                "a folder, or a model of the hub"
            )
        return run

    def required(self, parts: Sequence[_Part]) -> dict[str, Run]:
        """The runs that the parts name, by their spelling; refuse an encoder that is not what the
        hyper-parameter needs that names it."""
        runs = {}
        for part in parts:
            for key in part.cls.Hyper.marked("model"):
                value, run = getattr(part.clamped, key), None
                if value and value.startswith(RUN):
                    run = runs[value] = self._run(value)
                self._check(part.clamped, key, run)
        return runs

    def _check(self, hyper: Any, key: str, run: Run | None) -> None:
        """Refuse the encoder, or the run, that a hyper-parameter names if it needs another."""
        subject, value = f"'{key}' in '{self.choice.text}'", getattr(hyper, key)
        poolers, is_language_model = hyper.marked("pooler"), key in hyper.marked("language")
        if run and is_language_model:
            raise UserError(
                f"{subject} needs a masked language model, and '{run.method}' keeps no head of "
                "one; name a folder or a model of the hub"
            )
        # Of these, the run's own tokens are read.
        if (key in poolers or is_language_model) and value not in (None, BACKBONE):
            folder = run.pretrained.local if run else encoder_folder(value)
            words, backbones = vocabulary(folder), vocabulary(self.choice.backbone.local)
            if words and backbones and words != backbones:
                raise UserError(
                    f"{subject} has another vocabulary than '{self.choice.backbone.name}', whose "
                    "tokens it would read; name another"
                )
        if run and key in poolers:
            _check_pooler(subject, run, hyper, poolers[key])


def _check_pooler(subject: str, run: Run, hyper: Any, pooler: str) -> None:
    """Refuse a run whose encoder has another pooler than this, or than the hyper-parameter of this
    name says."""
    needed, kept = getattr(hyper, pooler, pooler), run.transformer_pooler
    if kept == needed:
        return
    has, remedy = "has an encoder of its own kind", "name another"
    if kept:
        has = f"has the pooler '{kept}'"
        if pooler != needed:  # it can be set
            remedy = f"set {pooler}={kept}"
    raise UserError(
        f"{subject} needs a transformer with the pooler '{needed}', and '{run.method}' {has}; "
        f"{remedy}"
    )


# The name of all


def _name(
    choice: _Choice,
    layers: _Layers,
    parts: Sequence[_Part],
    needs: dict[str, Run],
    seed: int | None,
    corpus: str,
    **fields: Any,
) -> Run:
    """The run of all that is chosen, with its only spelling and its identity; `fields` are further
    ones of it."""
    host = parts[0]
    # A recipe field of the text is spelled if it changes what the suite makes of the method.
    host.keys.update(_differing(layers.text, layers.method.model_copy(update=layers.suite)))
    identities = []
    for part in parts:
        # What only the first method decides is no part of the identity of the others.
        ignored = part.cls.Hyper.marked("host") if part is not host else ()
        hyper = {key: value for key, value in part.clamped if key not in ignored}
        identities.append((part.cls.name, part.cls.version, hyper))
    if host.cls.trained:
        fixed = layers.method.corpus
        fields |= {"corpus": corpus, "own_corpus": bool(fixed) and fixed == layers.whole.corpus}
        fields |= layers.changes(needs.values())
    return identified(
        method="+".join(spell(part.cls.name, part.keys) for part in parts),
        setting=choice.setting,
        label=" + ".join(map(_label, parts)),
        parts=tuple(identities),
        backbone=choice.backbone.name,
        reference=choice.backbone.reference,
        trained=host.cls.trained,
        labelled=host.cls.reads(host.clamped) == "triples",
        seed=seed if host.cls.trained else None,
        recipe=layers.whole,
        needs=needs,
        **fields,
    )


def _label(part: _Part) -> str:
    """The method's title and what differs from its setting, with a note on clamped values."""
    marks = part.cls.Hyper.marked("label")
    notes = {
        key: f"{key}={format_value(value)}"
        for key, value in {**dict(part.clamped), **part.keys}.items()
        if marks.get(key, key in part.keys)
    }
    for key, before in part.requested:
        after = getattr(part.clamped, key)
        if before != after and type(before) is int:
            notes[key] = f"{key}={after}, the most this backbone has (of {before})"
    if not notes:
        return part.cls.title
    return f"{part.cls.title} ({', '.join(notes[key] for key in sorted(notes))})"
