"""From the text of a run (`bench.runs.text`) to a `Run`."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from pydantic import ValidationError

from bench.registry.backbones import BACKBONE, NO_BACKBONE, encoder_folder, vocabulary
from bench.registry.methods import (
    FAILURES,
    BrokenMethod,
    describe_error,
    format_value,
    method_origin,
)
from bench.runs.choice import Choice, Source, Values, choose, reason_of
from bench.runs.plan import PlannedRun
from bench.runs.run import Recipe, Run, convert, cut_shape, with_identity
from bench.runs.text import RUN, parse, spell, split_run
from bench.utils.errors import UserError
from methods.base import Method, Refusal, Shape, refuse_composition


def resolve(
    text: str,
    *,
    backbone_name: str,
    corpus: str,
    data: str,
    seed: int | None,
    recipe: Mapping[str, Any] = {},
    keys: Mapping[str, Any] = {},
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
        choice = choose(text, backbone_name, keys)
        # The recipe comes first, since its cuts decide to what hyper-parameters are clamped.
        layers = _layer(choice, recipe)
        shape = cut_shape(choice.backbone, layers.recipe)
        # A run that is needed has these in common with this one.
        common: dict[str, Any] = {
            "corpus": layers.recipe.corpus or corpus,
            "data": data,
            "seed": seed,
        }
        needs = _Needs(choice, partial(resolve, recipe=recipe, **common))
        parts = [_fit(source, shape, needs) for source in choice.sources]
        runs = needs.required(parts)
        refuse_composition([(part.cls, part.requested) for part in parts])
        _check_dropout(choice, layers.recipe, parts[0].clamped)
        skips = [part.cls.skip(part.clamped, shape) for part in parts]
    skips += [run.skip and f"it needs {name}: {run.skip}" for name, run in runs.items()]
    return _name(choice, layers, parts, needs=runs, skip=next(filter(None, skips), None), **common)


@contextmanager
def _refusals(text: str) -> Iterator[None]:
    """Name the run in the errors that its methods raise in a block."""
    try:
        yield
    except UserError:
        raise
    except (Refusal, ValidationError) as error:
        raise UserError(f"'{text}' cannot be run: {reason_of(error)}") from None
    except FAILURES as error:
        if not any(method_origin(name) for name, _ in parse(text)[0]):
            raise
        raise BrokenMethod(
            f"'{text}' cannot be run: {describe_error(error)}; fix its code"
        ) from error


def suite_recipe(run: PlannedRun) -> dict[str, Any]:
    """The recipe fields with which the suite changed the method when the run was resolved."""
    return {**run.recipe_changes, **run.overridden}


# The recipe


@dataclass(frozen=True)
class _Layers:
    """The recipe of the method in its setting, the fields that the suite and the text set over it,
    and the recipe that follows."""

    method: Recipe
    suite: Values
    text: Values
    recipe: Recipe

    def changes(self, needs: Iterable[Run]) -> dict[str, Values]:
        """The fields with which the suite changes the method or a run that it needs, and those that
        a text overrides."""
        by_suite = _differing(self.suite, self.method)
        overridden = _differing(by_suite, self.recipe)
        changes = {key: value for key, value in by_suite.items() if key not in overridden}
        for run in needs:
            changes = run.recipe_changes | changes
            overridden = run.overridden | overridden
        return {"recipe_changes": changes, "overridden": overridden}


def _layer(choice: Choice, recipe: Mapping[str, Any]) -> _Layers:
    """Lay the recipe fields of the suite and of the text over the method's fields. A cut that
    changes nothing becomes None, so that equal runs have one identity."""
    host = choice.sources[0]
    method = Recipe(**host.setting[1])
    suite, text = convert(Recipe, recipe), convert(Recipe, host.text[1])
    depth = choice.backbone.shape.depth
    layers = {**suite, **text}.get("layers") or depth
    uncut = {"layers": depth, "scored_layers": layers, "dimension": None}
    # Only a training of a transformer has layers to cut.
    can_cut = host.cls.trained and choice.backbone.kind == "transformer"
    for fields in (suite, text):
        for name in uncut.keys() & fields:
            if not can_cut or fields[name] == uncut[name]:
                fields[name] = None
    full_recipe = Recipe(**{**method.model_dump(exclude_defaults=True), **suite, **text})
    _check_cuts(choice, full_recipe)
    return _Layers(method, suite, text, full_recipe)


def _differing(fields: Values, recipe: Recipe) -> Values:
    return {key: value for key, value in fields.items() if value != getattr(recipe, key)}


def _check_cuts(choice: Choice, recipe: Recipe) -> None:
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


def _check_dropout(choice: Choice, recipe: Recipe, hyper: Any) -> None:
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
    """A part of a run: its hyper-parameters, and the keys that its text spells."""

    cls: type[Method]
    requested: Any
    clamped: Any  # to the backbone
    keys: Values


def _fit(source: Source, shape: Shape, needs: "_Needs") -> _Part:
    """Lay the hyper-parameters of the text over the setting's, and clamp all to the backbone."""
    cls = source.cls
    defaults = needs.spelled(cls, {**dict(cls.Hyper()), **source.setting[0]})
    text = needs.spelled(cls, source.text[0])

    def clamp(values: Values) -> Any:
        requested = cls.Hyper(**{**defaults, **values})
        return cls.Hyper(**dict(cls.clamp_to_backbone(requested, shape)))

    # Whether a key is used depends on the other values, so all are clamped first.
    with_all_keys = clamp(text)
    used_keys = {
        key: value
        for key, value in text.items()
        if key not in cls.used_if or cls.used_if[key](with_all_keys)
    }
    hyper = clamp(used_keys)
    # A key without effect on this backbone is not spelled, so that equal runs have one name.
    keys = {}
    for key in used_keys:
        with suppress(Refusal, ValidationError):  # the others need the key
            if clamp({name: used_keys[name] for name in used_keys.keys() - {key}}) == hyper:
                continue
        keys[key] = getattr(hyper, key)
    return _Part(cls, cls.Hyper(**{**defaults, **used_keys}), hyper, keys)


# Runs that are needed


@dataclass(frozen=True)
class _Needs:
    """The runs that the hyper-parameters of a run may name."""

    choice: Choice
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
        """The runs that the parts name, by their spelling; `UserError` if an encoder is not of the
        kind that its hyper-parameter needs."""
        runs = {}
        for part in parts:
            for key in part.cls.Hyper.marked("model"):
                value, run = getattr(part.clamped, key), None
                if value and value.startswith(RUN):
                    run = runs[value] = self._run(value)
                self._check(part.clamped, key, run)
        return runs

    def _check(self, hyper: Any, key: str, run: Run | None) -> None:
        """Refuse the encoder, or the run, that a hyper-parameter names if that needs another."""
        subject, value = f"'{key}' in '{self.choice.text}'", getattr(hyper, key)
        poolers, is_language_model = hyper.marked("pooler"), key in hyper.marked("language")
        if run and is_language_model:
            raise UserError(
                f"{subject} needs a masked language model, and '{run.method}' keeps no head of "
                "one; name a folder or a model of the hub"
            )
        # These encoders read the token ids of the run, which another vocabulary gives other words.
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
    """Refuse a run whose encoder has another pooler than needed. `pooler` is that pooler, or the
    name of the hyper-parameter that holds it."""
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


# The run


def _name(
    choice: Choice,
    layers: _Layers,
    parts: Sequence[_Part],
    needs: dict[str, Run],
    seed: int | None,
    corpus: str,
    **fields: Any,
) -> Run:
    """The run, with its only spelling and its identity; `fields` are further fields of it."""
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
        fields |= {"corpus": corpus, "own_corpus": bool(fixed) and fixed == layers.recipe.corpus}
        fields |= layers.changes(needs.values())
    return with_identity(
        method="+".join(spell(part.cls.name, part.keys) for part in parts),
        setting=choice.setting,
        label=" + ".join(map(_label, parts)),
        parts=identities,
        backbone=choice.backbone.name,
        reference=choice.backbone.reference,
        trained=host.cls.trained,
        labelled=host.cls.reads(host.clamped) == "triples",
        seed=seed if host.cls.trained else None,
        recipe=layers.recipe,
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
