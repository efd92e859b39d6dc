"""The values of a method's settings: its tables `paper` and `official`, checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from bench.registry.methods import method_origin
from bench.runs.recipe import Recipe, convert_recipe
from bench.utils.errors import UserError, did_you_mean
from bench.utils.validation import explain
from methods.base import Method, Refusal

Row = dict[str, Any]  # hyper-parameters and recipe fields


def hyper_parameters(cls: type[Method], values: Mapping[str, Any]) -> Any:
    """Return the hyper-parameters of a method; `Refusal` if a value is invalid."""
    try:
        return cls.Hyper(**values)
    except ValidationError as error:
        raise Refusal(explain(error, cls.Hyper.model_fields)) from None


def setting_rows(cls: type[Method], setting: str, backbone_name: str) -> Row:
    """Return the hyper-parameters and recipe fields of a setting for a backbone, else those for
    BERT base.

    Raises:
        UserError: a table of the method is invalid.
    """
    table = checked_tables(cls)["paper" if cls.official is None else setting]
    for name in (backbone_name, "bert-base-uncased", "*"):
        if name in table:
            return table[name]
    return {}


def checked_tables(cls: type[Method]) -> dict[str, dict[str, Row]]:
    """Return the tables of a method by setting and row, with the values of "*" in every row.

    Raises:
        UserError: a table has an unknown key or an invalid value, or a hyper-parameter has the name
            of a recipe field, which it would hide.
    """
    origin = method_origin(cls.name)
    place = f"{origin.place}: " if origin else ""
    hidden = sorted(cls.Hyper.model_fields.keys() & Recipe.model_fields)
    if cls.trained and hidden:
        raise UserError(
            f"{place}'{hidden[0]}' of {cls.Hyper.__name__} is a recipe field; use that, or "
            "another name"
        )
    tables: dict[str, dict[str, Row]] = {"paper": {}, "official": {}}
    for setting, table in (("paper", cls.paper), ("official", cls.official or {})):
        for name, values in table.items():
            try:
                row = _checked(cls, {**table.get("*", {}), **values})
            except (Refusal, UserError) as error:
                what = f"the row '{name}' of '{setting}' of {cls.__name__}"
                raise UserError(f"{place}{what} is invalid: {error}") from None
            tables[setting][name] = row
    return tables


def _checked(cls: type[Method], row: Row) -> Row:
    known = {**cls.Hyper.model_fields, **Recipe.model_fields}
    for key in row:
        if key not in known:
            raise UserError(f"unknown key '{key}'{did_you_mean(key, known)}")
    given = {key: value for key, value in row.items() if key in cls.Hyper.model_fields}
    hyper = hyper_parameters(cls, given)
    recipe = convert_recipe({key: value for key, value in row.items() if key not in given})
    return {key: getattr(hyper, key) for key in given} | recipe
