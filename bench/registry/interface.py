"""What a method class must have for the suite to use it (methods/contract.py)."""

import inspect
from collections.abc import Iterator
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bench.utils.errors import did_you_mean
from bench.utils.validation import explain
from methods.base import HyperParameters, Method

Table = dict[str, dict[str, Any]]  # by backbone or "*", then by key


class Interface(BaseModel):
    """The class attributes of a method that the suite writes or reads."""

    model_config = ConfigDict(strict=True)

    name: str = Field(pattern="^[a-z0-9-]+$")
    title: str = Field(pattern=r"^\S.*$")
    reference: str
    version: int
    paper: Table
    official: Table | None


def interface_errors(cls: type[Method]) -> Iterator[str]:
    """Yield what prevents the suite from using a method class."""
    given = {name: getattr(cls, name) for name in Interface.model_fields if hasattr(cls, name)}
    try:
        Interface(**given)
    except ValidationError as error:
        yield explain(error)
    hyper: Any = cls.Hyper
    if not (inspect.isclass(hyper) and issubclass(hyper, HyperParameters)):
        yield "Hyper is no class that extends methods.base.HyperParameters; make it one"
        return
    for name, field in hyper.model_fields.items():
        if not _is_plain(field.annotation):
            yield (
                f"'{name}' of {hyper.__name__} is of type {field.annotation}; use bool, int, "
                "float, str or Literal, with or without '| None'"
            )
    try:
        hyper()
    except ValidationError as error:
        yield f"the defaults of {hyper.__name__} are invalid: {explain(error)}"
    for name in cls.used_if:
        if name not in hyper.model_fields:
            yield f"'used_if' names '{name}'{did_you_mean(name, hyper.model_fields)}"


def _is_plain(kind: Any) -> bool:
    if get_origin(kind) in (Union, UnionType):
        return all(map(_is_plain, get_args(kind)))
    return kind in (bool, int, float, str, NoneType) or get_origin(kind) is Literal
