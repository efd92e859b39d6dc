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
from dataclasses import dataclass, field
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
    parsed, setting = parse(text)
    parsed[0][1].update(keys)
    parsed[1:] = sorted(parsed[1:], key=itemgetter(0))
    classes = [method_class(name) for name, _ in parsed]
    host = classes[0]
    setting = _choose_setting(text, setting, classes)
    chosen = _choose_backbone(host, backbone_name)
    with _refusals(text, classes):
        # Of each part, hyper-parameters and recipe fields: in its setting, and in the text.
        rows = [_setting_row(cls, setting, chosen.name) for cls in classes]
        given = [
            _divide(cls, own, cls is host) for cls, (_, own) in zip(classes, parsed, strict=True)
        ]

        # The recipe comes first, since its cuts decide to what hyper-parameters are clamped.
        own = Recipe(**rows[0][1])
        of_suite, of_text = _cut(recipe, given[0][1], host, chosen)
        final = Recipe(**{**own.model_dump(exclude_defaults=True), **of_suite, **of_text})
        _check_cuts(final, host, chosen)
        shape = cut_shape(chosen, final)

        corpus = final.corpus or corpus
        alike = partial(resolve, corpus=corpus, data=data, seed=seed, recipe=recipe)
        needs = _Needs(text, host, chosen, alike)
        parts = []
        for cls, (row, _), (hyper, _) in zip(classes, rows, given, strict=True):
            defaults = needs.spelled(cls, {**dict(cls.Hyper()), **row})
            part = _build_part(cls, defaults, needs.spelled(cls, hyper), shape, cls is host)
            needs.check(part.clamped)
            parts.append(part)
        refuse_composition([(part.cls, part.requested) for part in parts])
        _check_dropout(final, host, parts[0].clamped, chosen)
        skips = [part.cls.skip(part.clamped, shape) for part in parts]

    # Everything is chosen; what follows names it.
    # A recipe field of the text is spelled if it changes what the suite makes of the method.
    parts[0].shown.update(_differing(of_text, own.model_copy(update=of_suite)))
    skips += [run.skip and f"it needs {name}: {run.skip}" for name, run in needs.runs.items()]
    label = " + ".join(map(_label, parts))
    training: dict[str, Any] = {"seed": None}
    if host.trained:
        changes, overridden = _changes(own, of_suite, final, needs.runs.values())
        training = {
            "corpus": corpus,
            "own_corpus": own.corpus is not None and final.corpus == own.corpus,
            "seed": seed,
            "recipe_changes": changes,
            "overridden": overridden,
        }
    return identified(
        method="+".join(spell(part.cls.name, part.shown) for part in parts),
        setting=setting,
        label=label,
        parts=tuple((part.cls.name, part.cls.version, part.hyper) for part in parts),
        backbone=chosen.name,
        reference=chosen.reference,
        trained=host.trained,
        labelled=host.reads(parts[0].clamped) == "triples",
        data=data,
        recipe=final,
        skip=next(filter(None, skips), None),
        needs=needs.runs,
        **training,
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


# Setting and backbone


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
    chosen = backbone(name)
    if chosen.kind != host.backbone_kind:
        needed, has = BACKBONE_KINDS[host.backbone_kind], BACKBONE_KINDS[chosen.kind]
        raise UserError(
            f"'{host.name}' needs {needed}, but '{chosen.name}' is {has}; choose another"
        )
    return chosen


# Recipe and hyper-parameters


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


def _cut(
    suite: Mapping[str, Any], text: Values, host: type[Method], chosen: Backbone
) -> tuple[Values, Values]:
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


def _differing(given: Mapping[str, Any], recipe: Recipe) -> Values:
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
    # Both are cuts of the encoder that is built by default.
    if (host.encoder, host.encoders) != (Method.encoder, Method.encoders):
        for name in ("scored_layers", "dimension"):
            if getattr(recipe, name):
                raise Refusal(
                    f"'{host.name}' builds its own encoder, which '{name}' does not affect; omit it"
                )


def _check_dropout(recipe: Recipe, host: type[Method], hyper: Any, chosen: Backbone) -> None:
    """Raise `Refusal` if the views of a sentence would differ by dropout, and there is none."""
    if recipe.dropout is None and chosen.dropout == (0,) and host.needs_dropout(hyper):
        raise Refusal(
            f"'{chosen.name}' has no dropout, and the views of a sentence would be equal; "
            f"write {host.name}[dropout=0.1], or set it in the suite's recipe"
        )


def _changes(
    own: Recipe, of_suite: Values, final: Recipe, needed: Iterable[Run]
) -> tuple[Values, Values]:
    """The recipe fields in which the suite changes a method or a run that it needs, and those of
    them that a text overrides."""
    by_suite = _differing(of_suite, own)
    overridden = _differing(by_suite, final)
    changes = {key: value for key, value in by_suite.items() if key not in overridden}
    for run in needed:
        changes = run.recipe_changes | changes
        overridden = run.overridden | overridden
    return changes, overridden


@dataclass(frozen=True)
class _Part:
    """A part of a run: its hyper-parameters, and those of them that its text shows."""

    cls: type[Method]
    requested: Any
    clamped: Any  # to the backbone
    hyper: Values  # clamped, without what only the first method decides
    shown: Values


def _build_part(
    cls: type[Method], defaults: Values, given: Values, shape: Shape, is_host: bool
) -> _Part:
    """Clamp the hyper-parameters that a text gives over some defaults to the backbone."""

    def clamped(keys: Values) -> Any:
        requested = cls.Hyper(**{**defaults, **keys})
        return cls.Hyper(**dict(cls.clamp_to_backbone(requested, shape)))

    fitted = clamped(given)
    given = {key: given[key] for key in given if key not in cls.used_if or cls.used_if[key](fitted)}
    fitted = clamped(given)
    # A key without effect on this backbone is not spelled, so that equal runs have one name.
    shown = {}
    for key in given:
        with suppress(Refusal, ValidationError):  # the others need the key
            if clamped({name: given[name] for name in given.keys() - {key}}) == fitted:
                continue
        shown[key] = getattr(fitted, key)
    hyper = dict(fitted)
    if not is_host:  # what only the first method decides is no part of the others' identity
        for key in cls.Hyper.marked("host"):
            del hyper[key]
    return _Part(cls, cls.Hyper(**{**defaults, **given}), fitted, hyper, shown)


def _label(part: _Part) -> str:
    """The method's title and what differs from its setting, with a note on clamped values."""
    marks = part.cls.Hyper.marked("label")
    notes = {
        key: f"{key}={format_value(value)}"
        for key, value in {**dict(part.clamped), **part.shown}.items()
        if marks.get(key, key in part.shown)
    }
    for key, before in part.requested:
        after = getattr(part.clamped, key)
        if before != after and type(before) is int:
            notes[key] = f"{key}={after}, the most this backbone has (of {before})"
    if not notes:
        return part.cls.title
    return f"{part.cls.title} ({', '.join(notes[key] for key in sorted(notes))})"


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
    """The runs that the hyper-parameters of a run name, by their only spelling."""

    text: str  # of the run that needs them
    host: type[Method]
    chosen: Backbone
    resolve_alike: Callable[..., Run]
    named: dict[str, Run] = field(default_factory=dict)  # also by defaults that the text replaces
    runs: dict[str, Run] = field(default_factory=dict)

    def spelled(self, cls: type[Method], values: Values) -> Values:
        """Hyper-parameters of a part with the only spelling of each run that they name."""
        spelled = dict(values)
        for key in cls.Hyper.marked("model"):
            name = str(values.get(key))
            if name.startswith(RUN):
                spelled[key] = self._spelling(name)
        return spelled

    def _spelling(self, name: str) -> str:
        if not self.host.trained:
            raise UserError(
                f"'{self.text}' is not trained, so it cannot use '{name}'; the run itself is a row "
                "of the suite where 'methods' lists it"
            )
        text, backbone_name = split_run(name)
        own = self.chosen.reference
        run = self.resolve_alike(text, backbone_name=backbone_name or own)
        if not run.trained:
            raise UserError(
                f"'{name}' in '{self.text}' is not trained; name a method that is trained, a "
                "folder, or a model of the hub"
            )
        spelling = f"{RUN}{run.text}"
        if run.reference not in (own, NO_BACKBONE.reference):
            spelling += f" on {run.reference}"
        self.named[spelling] = run
        return spelling

    def check(self, hyper: Any) -> None:
        """Refuse an encoder that is not what the hyper-parameter needs that names it."""
        poolers, language = hyper.marked("pooler"), hyper.marked("language")
        for key in hyper.marked("model"):
            value, subject = getattr(hyper, key), f"'{key}' in '{self.text}'"
            run = self.named.get(value)
            if run:
                self.runs[value] = run
                if key in language:
                    raise UserError(
                        f"{subject} needs a masked language model, and '{run.method}' keeps no "
                        "head of one; name a folder or a model of the hub"
                    )
            # Of these, the run's own tokens are read.
            if (key in poolers or key in language) and value not in (None, BACKBONE):
                folder = run.pretrained.local if run else encoder_folder(value)
                words, own = vocabulary(folder), vocabulary(self.chosen.local)
                if words and own and words != own:
                    raise UserError(
                        f"{subject} has another vocabulary than '{self.chosen.name}', whose tokens "
                        "it would read; name another"
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
