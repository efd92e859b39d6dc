"""Models of what enters from outside, and their errors in one sentence. Code that receives a model
trusts its values."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from bench.utils.errors import UserError, did_you_mean, suggestion
from bench.utils.files import read_json

# The name of a file, or a part of it, that stands in another file. It has no separator and is
# neither `.` nor `..`, so it stays in its folder.
FILE_NAME = r"[A-Za-z0-9+_-][A-Za-z0-9.+_-]*"
FileName = Annotated[str, Field(pattern=f"^{FILE_NAME}$")]


class StrictModel(BaseModel):
    """A frozen model without unknown fields, NaN or infinity."""

    # The text below a field is its description.
    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True
    )

    @model_validator(mode="before")
    @classmethod
    def _only_known_fields(cls, values: Any) -> Any:
        if cls.model_config.get("extra") == "forbid" and isinstance(values, dict):
            fields = cls.model_fields
            unknown = [str(name) for name in values if name not in fields]
            if unknown:
                also = [f", '{name}' is unknown" for name in unknown[1:]]
                also += [
                    f", '{name}' is missing"
                    for name, field in fields.items()
                    if field.is_required() and name not in values
                ]
                raise PydanticCustomError(
                    "unknown_field",
                    f"unknown key '{unknown[0]}'{did_you_mean(unknown[0], fields)}{''.join(also)}",
                )
        return values

    def changed(self, **values: Any) -> Self:
        """Return a copy with other values of some fields, validated."""
        return validated(type(self), {**self.model_dump(exclude_defaults=True), **values})


class Document(StrictModel):
    """A JSON file that the suite wrote. Fields that a reader does not use are kept unchecked."""

    model_config = ConfigDict(extra="allow")


AnyModel = TypeVar("AnyModel", bound=BaseModel)
Content = TypeVar("Content")


def validated(model: type[AnyModel], values: Mapping[str, Any]) -> AnyModel:
    """Return a model of some values."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise UserError(explain(error)) from None


def read_document(path: Path, kind: type[Content], noun: str, remedy: str) -> Content:
    """Read a JSON file as a model or another type. The `UserError` for a file that does not fit
    says that it is not `noun`, which field is wrong, and the `remedy`."""
    try:
        return TypeAdapter(kind).validate_python(read_json(path, remedy))
    except ValidationError as error:
        raise UserError(f"{path} is not {noun} ({explain(error)}); {remedy}") from None


def explain(error: ValidationError) -> str:
    """Return the outermost error of a validation as one sentence without an end."""
    # Errors inside a value often follow from the one outside.
    outermost, *further = sorted(error.errors(include_url=False), key=lambda item: len(item["loc"]))
    place = ".".join(map(str, outermost["loc"]))
    fault, message, value = outermost["type"], outermost["msg"], outermost["input"]
    if fault == "missing":
        also = [
            f", {'.'.join(map(str, item['loc']))}: {item['msg']}"
            for item in further
            if item["type"] == "unknown_field"
        ]
        return f"'{place}' is missing{''.join(also)}"
    if fault == "extra_forbidden":
        return f"unknown key '{place}'"
    if fault in ("unknown_field", "value_error"):
        message = message.removeprefix("Value error, ")
        return f"{place}: {message}" if place else message
    # pydantic writes "Input should be greater than 0", or "Input should be a valid integer, unable
    # to parse string as an integer".
    subject = f"'{place}'" if place else "it"
    if fault in ("dict_type", "model_type"):
        return f"{subject} should be a map; write {{NAME: }}"
    expected = f"{subject} should{message.partition('should')[2].partition(', unable')[0]}"
    if isinstance(value, str | int | float) or value is None:
        expected += f", not {value!r}"
    if fault == "list_type" and value:
        expected += f"; write [{'1, 2, 3' if isinstance(value, int) else value}]"
    if fault == "literal_error":
        expected += suggestion(str(value), re.findall("'([^']+)'", outermost["ctx"]["expected"]))
    return expected
