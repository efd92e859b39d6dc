"""The hyper-parameters of a method: their types, their marks, and their values by backbone."""

import re
from collections.abc import Mapping
from types import NoneType
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    ValidationInfo,
    field_validator,
    model_validator,
)

__all__ = [
    "BASE_DEPTH", "HOST", "LABEL", "LANGUAGE_MODEL", "MODEL", "POOLERS", "PROMPT_NAME",
    "SHARED_RECIPE", "TEXT", "ComputedPooler", "Count", "Field", "HyperParameters",
    "NonNegativeFloat", "NonNegativeInt", "Pooler", "PositiveFloat", "Share", "Table",
    "ValidationInfo", "field_validator", "model_validator", "overlay", "transformer_with",
]  # fmt: skip


class HyperParameters(BaseModel):
    """Base class of a method's hyper-parameters; a value may be text: "3e-5", "true", "none"."""

    # The text below a field is its meaning in docs/reference/methods.md.

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        validate_default=True,
        use_attribute_docstrings=True,
    )

    @field_validator("*", mode="before")
    @classmethod
    def _from_text(cls, value: Any, info: ValidationInfo) -> Any:
        if not isinstance(value, bool | str):
            return value  # in the way of every value of every run of a plan
        annotation = cls.model_fields[str(info.field_name)].annotation
        kinds = {annotation, *get_args(annotation)}
        if isinstance(value, bool) and bool not in kinds:  # pydantic would read it as 0 or 1
            raise ValueError(f"a number or a text is needed, not {value}")
        is_none = str(value).lower() in ("none", "null")
        return None if is_none and NoneType in kinds else value

    @classmethod
    def marked(cls, mark: str) -> dict[str, Any]:
        """Return the value of a mark, such as "host", by hyper-parameters that have it."""
        marks: dict[str, Any] = {
            name: field.json_schema_extra or {} for name, field in cls.model_fields.items()
        }
        return {name: extra[mark] for name, extra in marks.items() if mark in extra}


Count = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(ge=0, le=1)]

# Poolings of a backbone's hidden states (docs/reference/training.md#vectors);
# `bench.models.pooling` implements them.
ComputedPooler = Literal[
    "cls_before_pooler", "avg", "avg_top2", "avg_first_last", "avg_first_last_64",
    "avg_embedding_last", "last", "weighted_mean",
]  # fmt: skip
Pooler = Literal["cls", ComputedPooler]  # "cls": the dense layer that the checkpoint stores
POOLERS: tuple[str, ...] = get_args(Pooler)

# Marks of hyper-parameters, as `Field(..., json_schema_extra=HOST)`. LABEL: it is named in a run's
# label (False: never). HOST: only the method written first sets it. MODEL: it names another
# encoder, whose files are part of the identity. LANGUAGE_MODEL: it names a masked language model,
# which no run keeps. TEXT: spaces at its ends belong to it.
LABEL: dict[str, Any] = {"label": True}
HOST: dict[str, Any] = {"host": True}
MODEL: dict[str, Any] = {"model": True}
LANGUAGE_MODEL = {**MODEL, "language": True}
TEXT: dict[str, Any] = {"text": True}
# The name of a prompt that a model stores. A text, such as "query: ", has a space or another mark.
PROMPT_NAME = re.compile(r"[\w.-]+")


def transformer_with(pooler: str) -> dict[str, Any]:
    """Return the mark of a transformer for `frozen_model`; `pooler` may be a hyper-parameter."""
    return {**MODEL, "pooler": pooler}


Table = Mapping[str, Mapping[str, Any]]
BASE_DEPTH = 12  # layers of the published base models

# The shared recipe of docs/reference/training.md#optimisation (SimCSE's released scripts): the
# values that differ by backbone.
SHARED_RECIPE: Table = {
    "bert-base-uncased": {"batch_size": 64, "learning_rate": 3e-5},
    "bert-large-uncased": {"batch_size": 64, "learning_rate": 1e-5},
    "roberta-base": {"batch_size": 512, "learning_rate": 1e-5},
    "roberta-large": {"batch_size": 512, "learning_rate": 3e-5},
}


def overlay(*tables: Table) -> Table:
    """Merge tables row by row; later tables override earlier ones."""
    merged: dict[str, dict[str, Any]] = {}
    for table in tables:
        for backbone, values in table.items():
            merged.setdefault(backbone, {}).update(values)
    return merged
