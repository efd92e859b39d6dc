"""What the text of a run chooses: methods with their values, a setting and a backbone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from pydantic import ValidationError

from bench.registry.backbones import BACKBONE_KINDS, NO_BACKBONE, Backbone, backbone
from bench.registry.methods import method_class, method_origin
from bench.runs.run import Recipe, convert
from bench.runs.text import parse
from bench.utils.errors import UserError, did_you_mean
from bench.utils.validation import explain
from methods.base import Method, Refusal

Values = dict[str, Any]  # of hyper-parameters and recipe fields


@dataclass(frozen=True)
class Source:
    """The hyper-parameters and the recipe fields of a part, in its setting and in the text."""

    cls: type[Method]
    setting: tuple[Values, Values]
    text: tuple[Values, Values]


@dataclass(frozen=True)
class Choice:
    """The methods of a text with their values, the setting and the backbone."""

    text: str
    setting: str
    backbone: Backbone
    sources: list[Source]

    @property
    def host(self) -> type[Method]:
        """The method written first, which has the pairs and the recipe."""
        return self.sources[0].cls


def choose(text: str, backbone_name: str, keys: Mapping[str, Any]) -> Choice:
    """Look up the methods and the backbone of a text; `keys` are further keys of its first part."""
    (host, *ingredients), suffix = parse(text)
    host[1].update(keys)
    # Sorted, so that "a+b+c" and "a+c+b" are one run.
    parts = [host, *sorted(ingredients, key=itemgetter(0))]
    classes = [method_class(name) for name, _ in parts]
    setting = _choose_setting(text, suffix, classes)
    base = _choose_backbone(classes[0], backbone_name)
    sources = []
    for cls, (_, values) in zip(classes, parts, strict=True):
        row = _setting_row(cls, setting, base.name)
        sources.append(Source(cls, row, _divide(cls, values, cls is classes[0])))
    return Choice(text, setting, base, sources)


def _choose_setting(text: str, setting: str | None, classes: Sequence[type[Method]]) -> str:
    if setting is None:
        return "official" if all(cls.official is not None for cls in classes) else "paper"
    for cls in classes:
        # An untrained encoder has no setting, but a post-processing that follows it may have.
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
    """The row of a setting for a backbone, else the row for BERT base, as of `valid_row`: papers
    report values for few backbones, and all of them for BERT base."""
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
        return convert(cls.Hyper, hyper), convert(Recipe, fields)
    except (Refusal, ValidationError) as error:
        raise UserError(
            f"{source}the row '{name}' of '{setting}' of {cls.__name__} is invalid: "
            f"{reason_of(error)}"
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
            keys = [*names, *(Recipe.model_fields if is_host and cls.trained else ())]
            raise Refusal(f"unknown key '{key}' of '{cls.name}'{did_you_mean(key, keys)}")
        if not is_host:
            raise Refusal(
                f"'{key}' is a recipe field, which only the first method may set; set it there"
            )
        fields[key] = value
    return hyper, fields


def reason_of(error: Refusal | ValidationError) -> str:
    return explain(error) if isinstance(error, ValidationError) else str(error)
