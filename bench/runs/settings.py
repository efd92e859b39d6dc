"""The values of a method's settings: its tables `paper` and `official`, with their types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from bench.registry.methods import method_origin
from bench.registry.values import convert, type_name
from bench.runs.recipe import Recipe, convert_recipe
from bench.utils.errors import UserError, did_you_mean
from methods.base import Method


def hyper_types(cls: type[Method]) -> dict[str, str]:
    """Return the types of a method's hyper-parameters as text, by name."""
    return {item.name: type_name(item.type) for item in fields(cls.Hyper)}


def setting_rows(cls: type[Method], setting: str, backbone_name: str) -> dict[str, Any]:
    """Return the hyper-parameters and recipe fields of a setting for a backbone, else those for
    BERT base.

    Raises:
        UserError: a table of the method is invalid.
    """
    tables = checked_tables(cls)
    table = tables.get("paper" if cls.official is None else setting, {})
    return {**table.get("*", {}), **table.get(backbone_name, table.get("bert-base-uncased", {}))}


def typed(cls: type[Method], hyper: Any) -> Any:
    """Return hyper-parameters with the types of their fields, so that 1 and 1.0 are one value."""
    values = {key: value for key, value in vars(hyper).items() if not isinstance(value, str)}
    kinds = hyper_types(cls)
    return replace(hyper, **{key: convert(values[key], kinds[key], key) for key in values})


def checked_tables(cls: type[Method]) -> dict[str, dict[str, dict[str, Any]]]:
    """Return the tables of a method by setting and row, with their types.

    Raises:
        UserError: a table has an unknown key or an invalid value, or a hyper-parameter has the name
            of a recipe field, which it would hide.
    """
    origin = method_origin(cls.name)
    place = f"{origin.place}: " if origin else ""
    if cls.trained and (hidden := hyper_types(cls).keys() & Recipe.model_fields):
        raise UserError(
            f"{place}'{min(hidden)}' of {cls.Hyper.__name__} is a recipe field; use that, or "
            "another name"
        )
    tables: dict[str, dict[str, dict[str, Any]]] = {}
    for setting, table in (("paper", cls.paper), ("official", cls.official)):
        for row, values in (table or {}).items():
            try:
                tables.setdefault(setting, {})[row] = _typed_row(cls, values)
            except UserError as error:
                what = f"the row '{row}' of '{setting}' of {cls.__name__}"
                raise UserError(f"{place}{what} is invalid: {error}") from None
    return tables


def _typed_row(cls: type[Method], values: Mapping[str, Any]) -> dict[str, Any]:
    kinds = hyper_types(cls)
    known = [*kinds, *Recipe.model_fields]
    if unknown := [key for key in values if key not in known]:
        raise UserError(f"unknown key '{unknown[0]}'{did_you_mean(str(unknown[0]), known)}")
    hyper = {key: value for key, value in values.items() if key in kinds}
    recipe = {key: value for key, value in values.items() if key not in kinds}
    return convert_recipe(recipe) | {key: convert(hyper[key], kinds[key], key) for key in hyper}
