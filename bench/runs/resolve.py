"""From the text of a run to a `Run`: parse it, choose setting and backbone, merge the recipe, build
and spell its parts.

A text is `method[key=value,...]+ingredient[key=value,...]@paper|official`. A value may have
brackets of its own, such as the text of another run. `""` is the empty text. Keys are
hyper-parameters of the part they follow; after the first part they may also be recipe fields. All
parts but the first are sorted, and keys that change nothing are left out, so that a run has exactly
one spelling in a suite.
"""

import re
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from bench.registry.backbones import BACKBONE_KINDS, NO_BACKBONE, Backbone, backbone
from bench.registry.methods import format_value, method_class, method_classes, method_origin
from bench.registry.plugins import FAILURES, BrokenMethod, describe_error
from bench.runs.needs import Needs
from bench.runs.recipe import Recipe
from bench.runs.run import Run, cut_shape, identified
from bench.utils.errors import UserError, did_you_mean
from bench.utils.validation import explain
from methods.base import Method, Refusal, Shape, refuse_composition

SETTINGS = ("paper", "official")
EMPTY = '""'

Keys = dict[str, str]
Row = dict[str, Any]  # hyper-parameters and recipe fields


def resolve(
    text: str,
    *,
    backbone_name: str,
    corpus: str,
    data: str,
    seed: int | None,
    recipe: Mapping[str, Any] = types.MappingProxyType({}),
    waiting: Sequence[tuple[str, str]] = (),
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
        waiting: texts with backbones of the runs that need this one, each needing the next.

    Raises:
        UserError: a name or key is unknown (the message gives the closest valid one), or the parts
            cannot be combined.
    """
    parsed, setting = parse(text)
    parsed = [parsed[0], *sorted(parsed[1:], key=lambda part: part[0])]
    classes = [method_class(name) for name, _ in parsed]
    host = classes[0]
    setting = _choose_setting(text, setting, classes)
    chosen = _choose_backbone(host, backbone_name)

    def resolve_needed(needed_text: str, needed_backbone: str) -> Run:
        chain = [*waiting, (text, backbone_name), (needed_text, needed_backbone)]
        if chain[-1] in chain[:-1]:
            first, *rest = (f"'{member}'" for member, _ in chain)
            cycle = f"{first} needs {', which needs '.join(rest)} again"
            raise UserError(f"{cycle}; let one of them name another encoder")
        return resolve(
            needed_text,
            backbone_name=needed_backbone,
            corpus=merged.final.corpus or corpus,
            data=data,
            seed=seed,
            recipe=recipe,
            waiting=chain[:-1],
        )

    needs = Needs(text, host.trained, chosen, resolve_needed)
    parts: list[_Part] = []
    try:
        merged = _merge_recipe(host, parsed[0][1], recipe, setting, chosen)
        shape = cut_shape(chosen, merged.final)
        for cls, (_, keys) in zip(classes, parsed, strict=True):
            given = _hyper_keys(cls, keys, host, is_host=not parts)
            rows = setting_row(cls, setting, chosen.name)
            recipe_keys = {} if parts else merged.shown_of_text
            parts.append(_build_part(cls, given, recipe_keys, rows, shape, not parts, needs))
        refuse_composition([(part.cls, part.requested) for part in parts])
    except Refusal as refusal:
        raise UserError(f"'{text}' cannot be run: {refusal}") from None
    except UserError:
        raise
    except FAILURES as error:
        if not any(method_origin(cls.name) for cls in classes):
            raise
        raise BrokenMethod(
            f"'{text}' cannot be run: {describe_error(error)}; fix its code"
        ) from error

    needed = needs.of((part.cls, part.hyper) for part in parts)
    skips = [part.skip for part in parts if part.skip]
    skips += [f"it needs {name}: {run.skip}" for name, run in needed.items() if run.skip]
    changes, overridden = dict[str, Any](), dict[str, Any]()
    for run in needed.values():
        changes |= run.recipe_changes
        overridden |= run.overridden
    own_corpus = merged.own.corpus is not None and merged.final.corpus == merged.own.corpus
    note = f" ({host.own_corpus_note})" if own_corpus and host.own_corpus_note else ""
    return identified(
        {
            "method": "+".join(part.spelling for part in parts),
            "setting": setting,
            "label": " + ".join([parts[0].label + note, *(part.label for part in parts[1:])]),
            "parts": tuple((part.cls.name, part.cls.version, part.hyper) for part in parts),
            "backbone": chosen.name,
            "reference": chosen.reference,
            "trained": host.trained,
            "corpus": (merged.final.corpus or corpus) if host.trained else "",
            "own_corpus": own_corpus,
            "data": data,
            "seed": seed if host.trained else None,
            "recipe": merged.final,
            "recipe_changes": (changes | merged.changed_by_suite) if host.trained else {},
            "overridden": (overridden | merged.overridden) if host.trained else {},
            "skip": skips[0] if skips else None,
            "needs": needed,
        }
    )


def suite_recipe(run: Run) -> dict[str, Any]:
    """The recipe fields of the suite that a run was resolved with, those that are the method's own
    left out."""
    return {**run.recipe_changes, **run.overridden}


# Text


def parse(text: str) -> tuple[list[tuple[str, Keys]], str | None]:
    """Split the text of a run into parts with their keys, and the setting.

    >>> parse("gs-infonce[multiple=1]+is-cse@paper")
    ([('gs-infonce', {'multiple': '1'}), ('is-cse', {})], 'paper')
    """
    body, *rest = _split(text.strip(), "@")
    setting = "@".join(rest) if rest else None
    if setting not in (None, *SETTINGS):
        raise UserError(f"unknown setting '{setting}' in '{text}'{did_you_mean(setting, SETTINGS)}")
    return [_parse_part(part, text) for part in _split(body, "+")], setting


def spell(name: str, keys: Mapping[str, Any]) -> str:
    """The text of a part, with its keys sorted."""
    texts = [f"{key}={format_value(value) or EMPTY}" for key, value in sorted(keys.items())]
    return f"{name}[{','.join(texts)}]" if texts else name


def _split(text: str, mark: str) -> list[str]:
    """The pieces of a text between a mark outside brackets."""
    pieces, depth = [""], 0
    for letter in text:
        depth += (letter == "[") - (letter == "]")
        if depth < 0:
            break
        if letter == mark and depth == 0:
            pieces.append("")
        else:
            pieces[-1] += letter
    if depth != 0:
        raise UserError(f"'{text}' has an unmatched bracket; write method[key=value,...]")
    return pieces


def _parse_part(part: str, text: str) -> tuple[str, Keys]:
    match = re.fullmatch(r"\s*([a-z0-9-]+)\s*(?:\[(.*)\])?\s*", part, re.DOTALL)
    if not match:
        context = f" in '{text}'" if part != text else ""
        remedy = _meant(text) or _meant(part)
        remedy = remedy or "; write method[key=value,...]+method@paper|official"
        raise UserError(f"cannot read '{part}'{context}{remedy}")
    keys: Keys = {}
    for item in filter(None, _split(match[2] or "", ",")):
        key, equals, value = (word.strip() for word in item.partition("="))
        if not equals or not key or not value:
            raise UserError(f"cannot read '{item}' in '{text}'; write key=value")
        if key in keys:
            raise UserError(f"'{key}' is given twice in '{text}'; give it once")
        keys[key] = "" if value == EMPTY else value
    return match[1], keys


def _meant(part: str) -> str:
    """Suggest the name of the method whose title or name a part begins with, written otherwise."""
    written = part.partition("[")[0].strip().lower()
    titles = {cls.title.lower(): name for name, cls in method_classes().items()}
    plain = re.sub(r"[^a-z0-9]+", "-", written).strip("-")
    name = titles.get(written) or (plain if plain in method_classes() else None)
    return f"; did you mean '{name}'?" if name else ""


# Setting and backbone


def _choose_setting(text: str, setting: str | None, classes: Sequence[type[Method]]) -> str:
    if setting is None:
        return "official" if all(cls.official is not None for cls in classes) else "paper"
    for cls in classes:
        # An untrained Encoder has no setting of its own, but a map that follows it may have.
        no_setting = not cls.trained and len(classes) > 1
        if setting == "official" and cls.official is None and not no_setting:
            raise UserError(f"'{cls.name}' has no released code, so '{text}' can only be '@paper'")
    return setting


def _choose_backbone(host: type[Method], name: str) -> Backbone:
    if host.backbone_free:
        return NO_BACKBONE
    chosen = backbone(name)
    if chosen.kind != host.backbone_kind:
        needed, has = BACKBONE_KINDS[host.backbone_kind], BACKBONE_KINDS[chosen.kind]
        raise UserError(
            f"'{host.name}' needs {needed}, but '{chosen.name}' is {has}; choose another"
        )
    return chosen


# Settings: the methods' tables `paper` and `official`


Valid = TypeVar("Valid", bound=BaseModel)


def _valid(model: type[Valid], values: Mapping[str, Any]) -> Valid:
    """A model of some values; `Refusal` if one is invalid."""
    try:
        return model(**values)
    except ValidationError as error:
        raise Refusal(explain(error, model.model_fields)) from None


def _valid_recipe(values: Mapping[str, Any]) -> Row:
    """Recipe fields as their types; `Refusal` if one is invalid."""
    recipe = _valid(Recipe, values)
    return {name: getattr(recipe, name) for name in values}


def setting_row(cls: type[Method], setting: str, backbone_name: str) -> Row:
    """Return the hyper-parameters and recipe fields of a setting for a backbone, else those for
    BERT base."""
    setting = "paper" if cls.official is None else setting
    table = getattr(cls, setting)
    for name in (backbone_name, "bert-base-uncased", "*"):
        if name in table:
            return valid_row(cls, setting, name)
    return {}


def valid_row(cls: type[Method], setting: str, name: str) -> Row:
    """Return a row of a method's table, with the values of "*" under its own.

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
    row = {**table.get("*", {}), **table[name]}
    given = {key: row[key] for key in row if key in cls.Hyper.model_fields}
    rest = {key: row[key] for key in row if key not in given}
    known = {**cls.Hyper.model_fields, **Recipe.model_fields}
    try:
        for key in rest.keys() - Recipe.model_fields:
            raise Refusal(f"unknown key '{key}'{did_you_mean(key, known)}")
        hyper = _valid(cls.Hyper, given)
        return {key: getattr(hyper, key) for key in given} | _valid_recipe(rest)
    except Refusal as refusal:
        raise UserError(
            f"{source}the row '{name}' of '{setting}' of {cls.__name__} is invalid: {refusal}"
        ) from None


# Recipe


@dataclass(frozen=True)
class _Merged:
    """The recipe of a run and where its fields come from.

    Attributes:
        own: recipe of the method's setting.
        final: `own`, overridden by the suite, overridden by the text.
        shown_of_text: fields of the text that change the recipe.
        changed_by_suite: fields of the suite that differ from the method's own and are in `final`.
        overridden: the other fields of the suite that differ from it.
    """

    own: Recipe
    final: Recipe
    shown_of_text: dict[str, Any]
    changed_by_suite: dict[str, Any]
    overridden: dict[str, Any]


def _merge_recipe(
    host: type[Method], keys: Keys, suite_recipe: Mapping[str, Any], setting: str, chosen: Backbone
) -> _Merged:
    """Merge the recipes of the method, the suite and the text; `Refusal` for what cannot be."""
    rows = setting_row(host, setting, chosen.name)
    own = Recipe(**{key: value for key, value in rows.items() if key in Recipe.model_fields})
    recipe_keys = Recipe.model_fields.keys() - host.Hyper.model_fields
    keys = {key: value for key, value in keys.items() if key in recipe_keys and host.trained}
    of_suite, of_text = _valid_recipe(suite_recipe), _valid_recipe(keys)
    # A cut that changes nothing is None: all layers kept, or a method that trains no transformer.
    depth, can_cut = chosen.shape.depth, host.trained and chosen.kind == "transformer"
    layers = {**of_suite, **of_text}.get("layers") or depth
    for given in (of_suite, of_text):
        for name, whole in (("layers", depth), ("scored_layers", layers), ("dimension", None)):
            if name in given and (given[name] == whole or not can_cut):
                given[name] = None
    final = _valid(Recipe, {**own.model_dump(exclude_defaults=True), **of_suite, **of_text})
    _check_cuts(final, host, chosen)

    def differing(given: Mapping[str, Any], recipe: Recipe) -> dict[str, Any]:
        return {key: value for key, value in given.items() if value != getattr(recipe, key)}

    changed = differing(of_suite, own)
    lost = differing(changed, final)
    kept = {key: value for key, value in changed.items() if key not in lost}
    return _Merged(own, final, differing(of_text, own.model_copy(update=of_suite)), kept, lost)


def _check_cuts(recipe: Recipe, host: type[Method], chosen: Backbone) -> None:
    """Raise `Refusal` for a cut that the backbone is too shallow for or that scoring ignores."""
    depth = chosen.shape.depth
    if recipe.layers and recipe.layers > depth:
        raise Refusal(
            f"'layers' is {recipe.layers}, but '{chosen.name}' has {depth}; "
            "omit it to keep all layers"
        )
    if recipe.scored_layers and recipe.scored_layers > (recipe.layers or depth):
        raise Refusal(
            f"'scored_layers' is {recipe.scored_layers}, but only {recipe.layers or depth} are "
            "trained; omit it to score with all of them"
        )
    if (host.encoder, host.encoders) != (Method.encoder, Method.encoders):
        for name in ("scored_layers", "dimension"):
            if getattr(recipe, name):
                raise Refusal(
                    f"'{host.name}' builds its own encoder, which '{name}' does not affect; omit it"
                )


# Parts


@dataclass(frozen=True)
class _Part:
    """A part of a run: hyper-parameters as requested, and as clamped to the backbone."""

    cls: type[Method]
    requested: Any
    hyper: dict[str, Any]
    skip: str | None
    spelling: str
    label: str


def _hyper_keys(cls: type[Method], keys: Keys, host: type[Method], is_host: bool) -> Keys:
    """The hyper-parameters among the keys of a part. Others are recipe fields."""
    names = cls.Hyper.model_fields
    for key in keys.keys() - names:
        if key not in Recipe.model_fields or not cls.trained:
            valid = [*names, *(Recipe.model_fields if is_host and cls.trained else ())]
            raise Refusal(f"unknown key '{key}' of '{cls.name}'{did_you_mean(key, valid)}")
        if not is_host:
            raise Refusal(
                f"'{key}' is a recipe field, which only the first method may set; "
                f"set it in '{host.name}[...]'"
            )
    return {key: value for key, value in keys.items() if key in names}


def _build_part(
    cls: type[Method],
    given: Keys,
    recipe_keys: Mapping[str, Any],
    rows: Mapping[str, Any],
    shape: Shape,
    is_host: bool,
    needs: Needs,
) -> _Part:
    """Clamp the hyper-parameters of one part to the backbone, then spell and label them.

    Args:
        cls: the method.
        given: hyper-parameters that the text sets.
        recipe_keys: recipe fields to spell with this part.
        rows: hyper-parameters and recipe fields of the method's setting.
        shape: dimensions of the backbone.
        is_host: whether this is the first part.
        needs: the runs that hyper-parameters name.
    """
    defaults = {key: value for key, value in rows.items() if key in cls.Hyper.model_fields}

    def hyper_of(keys: Keys) -> Any:
        return needs.spelled(cls, _valid(cls.Hyper, {**defaults, **keys}))

    def clamp(hyper: Any) -> Any:
        return _valid(cls.Hyper, dict(cls.clamp_to_backbone(hyper, shape)))

    requested = hyper_of(given)
    clamped = clamp(requested)
    unused = {key for key in given if key in cls.used_if and not cls.used_if[key](clamped)}
    if unused:
        given = {key: value for key, value in given.items() if key not in unused}
        requested = hyper_of(given)
        clamped = clamp(requested)
    needs.check(clamped)

    def has_effect(key: str) -> bool:
        others = {name: value for name, value in given.items() if name != key}
        try:
            return bool(clamp(hyper_of(others)) != clamped)
        except Refusal:  # the others need it
            return True

    # A key without effect on this backbone is not spelled, so that equal runs have one name.
    shown = {key: getattr(clamped, key) for key in given if has_effect(key)} | dict(recipe_keys)
    # What only the first method decides is no part of the identity of the others.
    decided = {} if is_host else cls.Hyper.marked("host")
    return _Part(
        cls=cls,
        requested=requested,
        hyper={key: value for key, value in clamped if key not in decided},
        skip=cls.skip(clamped, shape),
        spelling=spell(cls.name, shown),
        label=_label(cls, requested, clamped, shown),
    )


def _label(cls: type[Method], requested: Any, clamped: Any, shown: Mapping[str, Any]) -> str:
    """The method's title and what differs from its setting, with a note on clamped values."""
    marks = cls.Hyper.marked("label")
    always = {key: getattr(clamped, key) for key, is_shown in marks.items() if is_shown}
    notes = {
        key: f"{key}={format_value(value)}"
        for key, value in {**always, **shown}.items()
        if marks.get(key) is not False
    }
    for key, before in requested:
        after = getattr(clamped, key)
        if before != after and type(before) is int:
            notes[key] = f"{key}={after}, the most this backbone has (of {before})"
    return f"{cls.title} ({', '.join(notes[key] for key in sorted(notes))})" if notes else cls.title
