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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
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
from bench.runs.run import Recipe, Run, converted, cut_shape, identified, model_fields
from bench.utils.brackets import items, split
from bench.utils.errors import UserError, did_you_mean
from bench.utils.validation import explain
from methods.base import Method, Refusal, Shape, refuse_composition

SETTINGS = ("paper", "official")
EMPTY = '""'
RUN = "run:"

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

    Raises:
        UserError: a name or key is unknown (the message gives the closest valid one), or the parts
            cannot be combined.
    """
    (first, *ingredients), setting = parse(text)
    parsed = [first, *sorted(ingredients, key=lambda part: part[0])]
    classes = [method_class(name) for name, _ in parsed]
    host = classes[0]
    setting = _choose_setting(text, setting, classes)
    chosen = _choose_backbone(host, backbone_name)
    parts: list[_Part] = []
    named: dict[str, Run] = {}  # runs that hyper-parameters name, by their only spelling
    with _refusals(text, classes):
        rows = [_setting_row(cls, setting, chosen.name) for cls in classes]
        texts = [
            _divide(cls, keys, cls is host) for cls, (_, keys) in zip(classes, parsed, strict=True)
        ]
        own = Recipe(**rows[0][1])
        of_suite, of_text = _cut(recipe, texts[0][1], host, chosen)
        final = Recipe(**{**own.model_dump(exclude_defaults=True), **of_suite, **of_text})
        _check_cuts(final, host, chosen)
        shape = cut_shape(chosen, final)
        resolve_alike = partial(
            resolve, corpus=final.corpus or corpus, data=data, seed=seed, recipe=recipe
        )
        for cls, (row, _), (given, _) in zip(classes, rows, texts, strict=True):
            encoders = {key: cls.Hyper.model_fields[key].default for key in model_fields(cls)}
            defaults = encoders | row
            for values in (defaults, given):
                named |= _needed_runs(cls, values, text, host, chosen, resolve_alike)
            part = _build_part(cls, defaults, given, shape, is_host=not parts)
            _check_encoders(text, part.clamped, named, chosen)
            parts.append(part)
        refuse_composition([(part.cls, part.requested) for part in parts])
        keeps_dropout = final.dropout is None and chosen.dropout != (0.1,)
        if keeps_dropout and chosen.dropout == (0,) and host.needs_dropout(parts[0].clamped):
            raise Refusal(
                f"'{chosen.name}' has no dropout, and the views of a sentence would be equal; "
                f"write {host.name}[dropout=0.1], or set it in the suite's recipe"
            )
        skips = [part.cls.skip(part.clamped, shape) for part in parts]

    # A recipe field of the text is spelled if it changes what the suite makes of the method.
    parts[0].shown.update(_differing(of_text, own.model_copy(update=of_suite)))
    by_suite = _differing(of_suite, own)
    overridden = _differing(by_suite, final)
    changes = {key: value for key, value in by_suite.items() if key not in overridden}
    names = [part.hyper.get(key) for part in parts for key in model_fields(part.cls)]
    needs = {name: named[name] for name in names if name in named}
    skips += [run.skip and f"it needs {name}: {run.skip}" for name, run in needs.items()]
    for run in needs.values():
        changes = run.recipe_changes | changes
        overridden = run.overridden | overridden
    own_corpus = own.corpus is not None and final.corpus == own.corpus
    note = ""
    if host.trained and keeps_dropout:
        rates = ", ".join(map(format_value, chosen.dropout)) or "not stated"
        note = f" (dropout of {chosen.name}: {rates})"
    return identified(
        method="+".join(spell(part.cls.name, part.shown) for part in parts),
        setting=setting,
        label=" + ".join(map(_label, parts)) + note,
        parts=tuple((part.cls.name, part.cls.version, part.hyper) for part in parts),
        backbone=chosen.name,
        reference=chosen.reference,
        trained=host.trained,
        labelled=host.reads(parts[0].clamped) == "triples",
        corpus=(final.corpus or corpus) if host.trained else "",
        own_corpus=own_corpus,
        data=data,
        seed=seed if host.trained else None,
        recipe=final,
        recipe_changes=changes if host.trained else {},
        overridden=overridden if host.trained else {},
        skip=next(filter(None, skips), None),
        needs=needs,
    )


@contextmanager
def _refusals(text: str, classes: Sequence[type[Method]]) -> Iterator[None]:
    """Let what methods raise in a block say which run it makes impossible."""
    try:
        yield
    except UserError:
        raise
    except (Refusal, ValidationError) as error:
        raise UserError(f"'{text}' cannot be run: {_reason(error)}") from None
    except FAILURES as error:
        if not any(method_origin(cls.name) for cls in classes):
            raise
        raise BrokenMethod(
            f"'{text}' cannot be run: {describe_error(error)}; fix its code"
        ) from error


def _reason(error: Refusal | ValidationError) -> str:
    return explain(error) if isinstance(error, ValidationError) else str(error)


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
        form = "; write method[key=value,...]+method@paper|official"
        raise UserError(f"cannot read '{part}'{context}{_meant(text) or _meant(part) or form}")
    keys: Keys = {}
    for item in items(filter(None, split(match[2] or "", ",")), r"\s*\w+\s*="):
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


# Recipe and hyper-parameters


def _setting_row(cls: type[Method], setting: str, backbone_name: str) -> tuple[Row, Row]:
    """The row of a setting for a backbone, else that for BERT base, as `valid_row` returns it."""
    setting = "paper" if cls.official is None else setting
    for name in (backbone_name, "bert-base-uncased", "*"):
        if name in getattr(cls, setting):
            return valid_row(cls, setting, name)
    return {}, {}


def valid_row(cls: type[Method], setting: str, name: str) -> tuple[Row, Row]:
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


def _divide(cls: type[Method], values: Mapping[str, Any], is_host: bool) -> tuple[Row, Row]:
    """The hyper-parameters and the recipe fields among some values of a part."""
    names = cls.Hyper.model_fields
    fields = {key: value for key, value in values.items() if key not in names}
    for key in fields:
        if key not in Recipe.model_fields or not cls.trained:
            known = [*names, *(Recipe.model_fields if is_host and cls.trained else ())]
            raise Refusal(f"unknown key '{key}' of '{cls.name}'{did_you_mean(key, known)}")
        if not is_host:
            raise Refusal(
                f"'{key}' is a recipe field, which only the first method may set; set it there"
            )
    return {key: value for key, value in values.items() if key in names}, fields


def _cut(
    suite: Mapping[str, Any], text: Row, host: type[Method], chosen: Backbone
) -> tuple[Row, Row]:
    """The recipe fields of the suite and of the text, where a cut that changes nothing is None: all
    layers kept, or a method that trains no transformer."""
    of_suite, of_text = converted(Recipe, suite), converted(Recipe, text)
    depth, can_cut = chosen.shape.depth, host.trained and chosen.kind == "transformer"
    layers = {**of_suite, **of_text}.get("layers") or depth
    for given in (of_suite, of_text):
        for name, whole in (("layers", depth), ("scored_layers", layers), ("dimension", None)):
            if name in given and (given[name] == whole or not can_cut):
                given[name] = None
    return of_suite, of_text


def _differing(given: Mapping[str, Any], recipe: Recipe) -> Row:
    return {key: value for key, value in given.items() if value != getattr(recipe, key)}


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


@dataclass(frozen=True)
class _Part:
    """A part of a run: its hyper-parameters, and those of them that its text shows."""

    cls: type[Method]
    requested: Any
    clamped: Any  # to the backbone
    hyper: Row  # clamped, without what only the first method decides
    shown: Row


def _build_part(cls: type[Method], defaults: Row, given: Row, shape: Shape, is_host: bool) -> _Part:
    """Clamp the hyper-parameters that a text gives over some defaults to the backbone."""

    def fit(keys: Row) -> tuple[Any, Any]:
        requested = cls.Hyper(**{**defaults, **keys})
        return requested, cls.Hyper(**dict(cls.clamp_to_backbone(requested, shape)))

    _, clamped = fit(given)
    unused = {key for key, is_used in cls.used_if.items() if not is_used(clamped)}
    given = {key: value for key, value in given.items() if key not in unused}
    requested, clamped = fit(given)
    # A key without effect on this backbone is not spelled, so that equal runs have one name.
    shown = {}
    for key in given:
        try:
            _, without = fit({name: value for name, value in given.items() if name != key})
        except (Refusal, ValidationError):  # the others need it
            without = None
        if without != clamped:
            shown[key] = getattr(clamped, key)
    # What only the first method decides is no part of the identity of the others.
    decided = {} if is_host else cls.Hyper.marked("host")
    hyper = {key: value for key, value in clamped if key not in decided}
    return _Part(cls, requested, clamped, hyper, shown)


def _label(part: _Part) -> str:
    """The method's title and what differs from its setting, with a note on clamped values."""
    marks = part.cls.Hyper.marked("label")
    always = {key: getattr(part.clamped, key) for key, is_shown in marks.items() if is_shown}
    notes = {
        key: f"{key}={format_value(value)}"
        for key, value in {**always, **part.shown}.items()
        if marks.get(key) is not False
    }
    for key, before in part.requested:
        after = getattr(part.clamped, key)
        if before != after and type(before) is int:
            notes[key] = f"{key}={after}, the most this backbone has (of {before})"
    title = part.cls.title
    return f"{title} ({', '.join(notes[key] for key in sorted(notes))})" if notes else title


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


def _needed_runs(
    cls: type[Method],
    values: Row,
    text: str,
    host: type[Method],
    chosen: Backbone,
    resolve_alike: Callable[..., Run],
) -> dict[str, Run]:
    """Resolve the runs that hyper-parameters of a part name; write their only spelling in place of
    the name, and return them by it."""
    runs: dict[str, Run] = {}
    for key in model_fields(cls):
        value = str(values.get(key))
        if not value.startswith(RUN):
            continue
        needed_text, backbone_name = split_run(value)
        if not host.trained:
            raise UserError(
                f"'{text}' is not trained, so it cannot use '{value}'; the run itself is a row of "
                "the suite where 'methods' lists it"
            )
        run = resolve_alike(needed_text, backbone_name=backbone_name or chosen.reference)
        if not run.trained:
            raise UserError(
                f"'{value}' in '{text}' is not trained; name a method that is trained, a folder, "
                "or a model of the hub"
            )
        spelling = f"{RUN}{run.text}"
        if run.reference not in (chosen.reference, NO_BACKBONE.reference):
            spelling += f" on {run.reference}"
        values[key] = spelling
        runs[spelling] = run
    return runs


def _check_encoders(text: str, hyper: Any, named: Mapping[str, Run], chosen: Backbone) -> None:
    """Refuse a run whose encoder is not what the hyper-parameter needs that names it."""
    for key in hyper.marked("model"):
        value = getattr(hyper, key)
        run, subject = named.get(value), f"'{key}' in '{text}'"
        if run and key in hyper.marked("language"):
            raise UserError(
                f"{subject} needs a masked language model, and '{run.method}' keeps no head of "
                "one; name a folder or a model of the hub"
            )
        pooler = hyper.marked("pooler").get(key)
        reads_tokens = pooler is not None or key in hyper.marked("language")
        if reads_tokens and value not in (None, BACKBONE):
            folder = run.pretrained.local if run else encoder_folder(value)
            words, own = vocabulary(folder), vocabulary(chosen.local)
            if words and own and words != own:
                raise UserError(
                    f"{subject} has another vocabulary than '{chosen.name}', whose tokens it would "
                    "read; name another"
                )
        if not run or pooler is None:
            continue
        needed, kept = getattr(hyper, pooler, pooler), run.transformer_pooler
        if kept != needed:
            has = f"has the pooler '{kept}'" if kept else "has an encoder of its own kind"
            remedy = f"set {pooler}={kept}" if pooler != needed and kept else "name another"
            raise UserError(
                f"{subject} needs a transformer with the pooler '{needed}', and "
                f"'{run.method}' {has}; {remedy}"
            )
