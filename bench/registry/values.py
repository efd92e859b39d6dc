"""Typed values of hyper-parameters and recipe fields, and their text."""

from __future__ import annotations

import re
from typing import Any

from bench.utils.errors import UserError

# Types that can be parsed from text, and their names in messages.
TYPE_NAMES = {
    "bool": "true or false", "int": "a whole number", "float": "a number", "str": "a text",
    "None": "none",
}  # fmt: skip


def convert(value: Any, annotation: str, name: str) -> Any:
    """Convert text or a YAML value to the type of a field.

    Args:
        annotation: such as "int | None".
        name: of the field, for the error message.

    Raises:
        UserError: the value cannot be converted.
    """
    kinds = [kind.strip() for kind in annotation.split("|")]
    either = {"int", "float"} <= {*kinds}
    needed = " or ".join(TYPE_NAMES.get(x, x) for x in kinds if not (either and x == "int"))
    if value is None or (isinstance(value, str) and value.lower() in ("none", "null")):
        if "None" in kinds:
            return None
        raise UserError(f"'{name}' cannot be empty; give {needed}")
    try:
        if "bool" in kinds:
            if isinstance(value, bool):
                return value
            return {"true": True, "false": False}[str(value).lower()]
        if {"int", "float"} & {*kinds} and re.search(r"[^ -^`-~]", str(value)):
            raise ValueError  # Python would read 1_000, and digits of other scripts
        if either and not isinstance(value, bool) and not float(value).is_integer():
            kinds.remove("int")
        if "int" in kinds:
            if isinstance(value, bool) or float(value) != int(float(value)):
                raise ValueError
            is_plain = re.fullmatch(r"[+-]?\d+", str(value))  # not 1e6
            return int(value) if is_plain else int(float(value))
        if "float" in kinds:
            if isinstance(value, bool) or not abs(float(value)) < float("inf"):
                raise ValueError
            return float(value)
        return str(value)
    except (KeyError, ValueError, TypeError, OverflowError):
        raise UserError(f"'{name}' should be {needed}, not '{value}'") from None


def format_value(value: Any) -> str:
    """Format a field's value as text that `convert` reads back."""
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and float(short := f"{value:g}") == value:
        return short
    return str(value)
