"""Resolve the text of a run (`bench.runs.text`): choose setting and backbone, merge the recipe,
build and spell its parts.

Keys are hyper-parameters of the part they follow. After the first part they may also be recipe
fields. All parts but the first are sorted, and keys that change nothing are left out, so that a run
has exactly one spelling in a suite.
"""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.registry.backbones import BACKBONE_KINDS, NO_BACKBONE, Backbone, backbone
from bench.registry.methods import method_class, method_origin
from bench.registry.plugins import FAILURES, BrokenMethod, describe_error
from bench.registry.values import format_value
from bench.runs.needs import Needs, impossible, overridden, recipe_changes
from bench.runs.recipe import Recipe, convert_recipe
from bench.runs.run import Run, cut_shape
from bench.runs.settings import hyper_parameters, setting_rows
from bench.runs.text import Keys, parse, spell
from bench.utils.errors import UserError, did_you_mean
from methods.base import Method, Refusal, Shape, refuse_composition


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
        text: see `bench.runs.text`. Without `@`, the setting is `official` if every part has
            released code, else `paper`.
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
    try:
        merged = _merge_recipe(host, parsed[0][1], recipe, setting, chosen)
    except UserError as error:
        raise UserError(f"'{text}' cannot be run: {error}") from None
    corpus = merged.final.corpus or corpus

    def resolve_needed(needed_text: str, on: str) -> Run:
        chain = [*waiting, (text, backbone_name), (needed_text, on)]
        if chain[-1] in chain[:-1]:
            first, *others = (f"'{member}'" for member, _ in chain)
            cycle = f"{first} needs {', which needs '.join(others)} again"
            raise UserError(f"{cycle}; let one of them name another encoder")
        return resolve(
            needed_text,
            backbone_name=on,
            corpus=corpus,
            data=data,
            seed=seed,
            recipe=recipe,
            waiting=chain[:-1],
        )

    needs = Needs(text, host.trained, chosen, resolve_needed)
    parts = _build_parts(text, parsed, setting, chosen, merged, needs)
    needed = needs.of((part.cls, part.hyper) for part in parts)
    own_corpus = merged.final.corpus is not None and merged.final.corpus == merged.own.corpus
    note = f" ({host.own_corpus_note})" if own_corpus and host.own_corpus_note else ""
    return Run(
        text="+".join(part.spelling for part in parts),
        setting=setting,
        label=" + ".join([parts[0].label + note, *(part.label for part in parts[1:])]),
        parts=tuple((part.cls.name, part.cls.version, part.hyper) for part in parts),
        backbone=chosen,
        corpus=corpus,
        data=data,
        seed=seed if host.trained else None,
        own_corpus=own_corpus,
        recipe=merged.final,
        recipe_changes=recipe_changes(needed) | merged.changed_by_suite,
        overridden=overridden(needed) | merged.overridden,
        skip=next((part.skip for part in parts if part.skip), None) or impossible(needed),
        needs=needed,
    )


def run_of(
    description: Mapping[str, Any], *, corpus: str | None = None, data: str | None = None
) -> Run:
    """The run that `Run.describe` described, as this version resolves it.

    Compare `id` to see if it is unchanged.

    Args:
        corpus: replaces the corpus of the description; needed where the description has none.
        data: replaces the data of the description.

    Raises:
        UserError: this version cannot resolve the run.
    """
    return resolve(
        f"{description['method']}@{description['setting']}",
        backbone_name=description["reference"],
        corpus=corpus or description["corpus"],
        data=data or description["data"],
        seed=description["seed"],
        recipe=suite_recipe(description),
    )


def suite_recipe(description: Mapping[str, Any]) -> dict[str, Any]:
    """The recipe fields of the suite that the run of a description was resolved with, those that
    are the method's own left out."""
    return {**(description.get("recipe_changes") or {}), **description.get("overridden", {})}


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
    rows = setting_rows(host, setting, chosen.name)
    own = Recipe(**{key: value for key, value in rows.items() if key in Recipe.model_fields})
    of_suite = convert_recipe(suite_recipe)
    recipe_keys = Recipe.model_fields.keys() - host.Hyper.model_fields
    given = {key: value for key, value in keys.items() if key in recipe_keys}
    of_text = convert_recipe(given) if host.trained else {}
    layers = {**of_suite, **of_text}.get("layers")
    for cuts in (of_suite, of_text):
        _drop_idle_cuts(cuts, host, chosen, layers)
    final = own.changed(**{**of_suite, **of_text})
    _check_cuts(final, host, chosen)

    def differing(given: Mapping[str, Any], recipe: Recipe) -> dict[str, Any]:
        return {key: value for key, value in given.items() if value != getattr(recipe, key)}

    changed = differing(of_suite, own)
    lost = differing(changed, final)
    kept = {key: value for key, value in changed.items() if key not in lost}
    return _Merged(own, final, differing(of_text, own.model_copy(update=of_suite)), kept, lost)


def _drop_idle_cuts(
    given: dict[str, Any], host: type[Method], chosen: Backbone, layers: int | None
) -> None:
    """Set cuts to None that change nothing: all `layers` kept (None: the backbone's), or a method
    that trains no transformer.
    """
    can_cut = host.trained and chosen.kind == "transformer"
    depth = chosen.shape.depth
    for name, whole in (("layers", depth), ("scored_layers", layers or depth), ("dimension", None)):
        if name in given and (given[name] == whole or not can_cut):
            given[name] = None


def _check_cuts(recipe: Recipe, host: type[Method], chosen: Backbone) -> None:
    """Raise `UserError` for a cut that the backbone is too shallow for or that scoring ignores."""
    depth = chosen.shape.depth
    if recipe.layers and recipe.layers > depth:
        raise UserError(
            f"'layers' is {recipe.layers}, but '{chosen.name}' has {depth}; "
            "omit it to keep all layers"
        )
    if recipe.scored_layers and recipe.scored_layers > (recipe.layers or depth):
        raise UserError(
            f"'scored_layers' is {recipe.scored_layers}, but only {recipe.layers or depth} are "
            "trained; omit it to score with all of them"
        )
    if (host.encoder, host.encoders) != (Method.encoder, Method.encoders):
        for name in ("scored_layers", "dimension"):
            if getattr(recipe, name):
                raise UserError(
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


def _build_parts(
    text: str,
    parsed: Sequence[tuple[str, Keys]],
    setting: str,
    chosen: Backbone,
    merged: _Merged,
    needs: Needs,
) -> list[_Part]:
    """All parts of a run, checked for being compatible with each other.

    Raises:
        UserError: a method refuses its hyper-parameters or the other parts.
    """
    host, shape = method_class(parsed[0][0]), cut_shape(chosen, merged.final)
    try:
        parts: list[_Part] = []
        for name, keys in parsed:
            cls, is_host = method_class(name), not parts
            rows = setting_rows(cls, setting, chosen.name)
            given = _hyper_keys(cls, keys, host, is_host)
            recipe_keys = merged.shown_of_text if is_host else {}
            parts.append(_build_part(cls, given, recipe_keys, rows, shape, is_host, needs))
        refuse_composition([(part.cls, part.requested) for part in parts])
    except Refusal as refusal:
        raise UserError(f"'{text}' cannot be run: {refusal}") from None
    except UserError:
        raise
    except FAILURES as error:
        if not any(method_origin(name) for name, _ in parsed):
            raise
        raise BrokenMethod(
            f"'{text}' cannot be run: {describe_error(error)}; fix its code"
        ) from error
    return parts


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
        return needs.spelled(cls, hyper_parameters(cls, {**defaults, **keys}))

    def clamp(hyper: Any) -> Any:
        return hyper_parameters(cls, dict(cls.clamp_to_backbone(hyper, shape)))

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
