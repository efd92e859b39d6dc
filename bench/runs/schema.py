"""The schema of configurations, config/schema.yaml, and its errors in words."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft202012Validator, validators

from bench.utils.errors import UserError, did_you_mean

# JSON Schema counts 1.0 as an integer, but a run with seed 1.0 would have another id than one with
# seed 1.
_Validator = validators.extend(
    Draft202012Validator,
    type_checker=Draft202012Validator.TYPE_CHECKER.redefine(
        "integer", lambda _, value: type(value) is int
    ),
)


def check_schema(config: Any, file: Path) -> None:
    """Raise `UserError` where a configuration breaks the schema in `file`; it names the key."""
    if config is None:
        raise UserError("the file is empty; see config/README.md")
    schema = yaml.safe_load(file.read_text(encoding="utf-8"))
    errors = _Validator(schema).iter_errors(config)
    first = min(errors, key=lambda e: (len(e.absolute_path), str(e.path)), default=None)
    if first:
        raise UserError(_explain(first))


def _explain(error: Any) -> str:
    """Describe a schema error in one sentence."""
    while error.context:  # `anyOf` and `oneOf`: take the alternative that matched furthest
        error = max(
            error.context,
            key=lambda inner: (len(inner.absolute_path), inner.validator == "additionalProperties"),
        )
    where = ".".join(map(str, error.absolute_path)) or "the top level"
    value, kind, schema = error.instance, error.validator, error.schema
    if kind == "additionalProperties":
        unknown = min(set(value) - set(schema["properties"]))
        path = ".".join(map(str, [*error.absolute_path, unknown]))
        return f"unknown key '{path}'{did_you_mean(unknown, schema['properties'])}"
    if kind == "required":
        missing = next(key for key in schema["required"] if key not in value)
        return f"'{missing}' is missing at {where}; see config/README.md"
    if kind == "uniqueItems":
        duplicate = next(item for index, item in enumerate(value) if item in value[:index])
        return f"'{where}' has {_yaml(duplicate)} twice; keep one"
    is_text = kind == "type" and schema["type"] == "string"
    if is_text and isinstance(value, int | float | date):
        return f"'{where}' is {_yaml(value)}, which is not a string; put it in quotes"
    remedy = schema.get("description", "see config/README.md")
    return f"'{where}' is {_yaml(value)}, which is invalid; {remedy}"


def _yaml(value: Any) -> str:
    """A value in YAML syntax where that differs from Python's."""
    if isinstance(value, date):
        return str(value)
    return json.dumps(value) if value is None or isinstance(value, bool) else repr(value)
