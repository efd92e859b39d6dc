"""The fields of the one training loop: what they may be, and how they are read from text and YAML."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from bench.datasets.tasks import CHINESE_TASKS, is_described
from bench.utils.errors import UserError, did_you_mean

MOST = 2**31 - 1  # of anything that is counted: beyond it, a slip
MOST_THREADS = 1024  # more than any machine's cores; a hundred thousand take a process down


@dataclass(frozen=True)
class Recipe:
    """The fields of the one training loop. Defaults: methods.md a.1 to a.4, bert-base-uncased."""

    batch_size: int = 64
    learning_rate: float = 3e-5
    epochs: int = 1
    corpus: str | None = None  # the method's own; None takes the suite's
    sentences: int | None = None  # first lines of the corpus; None takes all
    max_length: int = 32  # word pieces, special tokens included
    pooler: str = "cls_mlp"  # training pooler; `cls_mlp` is scored as `cls_before_pooler`, others as they are
    dropout: float | None = None  # hidden and attention; None keeps the backbone's own
    weight_decay: float = 0.0
    optimiser: str = "adamw"  # or "rmsprop"
    epsilon: float = 1e-8  # of the optimiser
    bias_correction: bool = True  # of AdamW; BERT's own optimiser has none
    schedule: str = "linear"  # to 0; or "constant", or "blocks" of falling rates (methods.md b.7)
    warmup: float = 0.0  # share of the steps
    clip: float = 1.0  # gradient norm
    precision: str = "mixed"  # float16 autocast on a GPU and float32 on a CPU; or "bfloat16", "float32" on both
    select_on: str = "STS-B"  # dev sets whose mean Spearman decides, joined by "+"
    select_every: int = 125  # optimiser steps
    patience: int | None = None  # selections without gain before stopping; None never stops
    threads: int = 1  # CPU threads of the training; sums of floats depend on it
    layers: int | None = None  # the backbone keeps its first ones, from before the training on; None keeps all
    scored_layers: int | None = None  # of the trained layers the first ones are scored; None scores with all
    dimension: int | None = None  # the training head maps to it and is scored; None: width to width, not scored

    @property
    def identified(self) -> dict[str, Any]:
        """As it stands in a run's identity, of which the corpus is a part of its own."""
        return {
            name: value
            for name, value in asdict(self).items()
            if name != "corpus" and not (name in _LATER and value == RECIPE_FIELDS[name].default)
        }


# Fields that joined later: absent from an identity where they have their default, so earlier results keep their names.
_LATER = ("optimiser", "epsilon", "bias_correction", "schedule", "layers", "scored_layers", "dimension")

RECIPE_FIELDS = {item.name: item for item in fields(Recipe)}
_RECIPE_CHOICES = {
    "pooler": ("cls_mlp", "cls_before_pooler", "avg", "avg_top2", "avg_first_last", "avg_embedding_last"),
    "precision": ("mixed", "bfloat16", "float32"),
    "optimiser": ("adamw", "rmsprop"),
    "schedule": ("linear", "constant", "blocks"),
}


def convert(value: Any, annotation: str, name: str) -> Any:
    """Turn text or a YAML value into what a field's annotation says.

    Raises:
        UserError: it cannot be one; the message names the field.
    """
    kinds = [kind.strip() for kind in annotation.split("|")]
    if value is None or (isinstance(value, str) and value.lower() in ("none", "null")):
        if "None" in kinds:
            return None
        raise UserError(f"'{name}' cannot be empty; give {_worded(kinds)}")
    try:
        if "bool" in kinds:
            if isinstance(value, bool):
                return value
            return {"true": True, "false": False}[str(value).lower()]
        if "int" in kinds:
            if isinstance(value, bool) or float(value) != int(float(value)):
                raise ValueError
            return int(float(value))
        if "float" in kinds:
            if isinstance(value, bool) or not abs(float(value)) < float("inf"):
                raise ValueError
            return float(value)
        return str(value)
    except (KeyError, ValueError, TypeError, OverflowError):
        raise UserError(f"'{name}' should be {_worded(kinds)}, not '{value}'") from None


def _worded(kinds: list[str]) -> str:
    """What a field takes, as its values are written."""
    words = {"bool": "true or false", "int": "a whole number", "float": "a number", "str": "a text", "None": "none"}
    return " or ".join(words.get(kind, kind) for kind in kinds)


def written(value: Any) -> str:
    """A field's value as a text that `convert` reads back."""
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and float(short := f"{value:g}") == value:
        return short
    return str(value)


def convert_recipe(values: Mapping[str, Any]) -> dict[str, Any]:
    """Recipe fields from a configuration or the command line, with their types.

    Raises:
        UserError: an unknown field or an impossible value.
    """
    recipe = {}
    for name, value in values.items():
        if name not in RECIPE_FIELDS:
            raise UserError(f"unknown recipe field '{name}'{did_you_mean(name, RECIPE_FIELDS)}")
        recipe[name] = convert(value, str(RECIPE_FIELDS[name].type), name)
    check_recipe(Recipe(**recipe))
    return recipe


def check_recipe(recipe: Recipe) -> None:
    """Raise `UserError` where a field is out of range."""
    for name, choices in _RECIPE_CHOICES.items():
        if getattr(recipe, name) not in choices:
            raise UserError(f"unknown {name} '{getattr(recipe, name)}'{did_you_mean(getattr(recipe, name), choices)}")
    if recipe.clip <= 0:
        raise UserError(f"'clip' should be above 0, not {recipe.clip}; a large value never clips")
    least = {
        "batch_size": 1,
        "epochs": 1,
        "max_length": 3,
        "select_every": 1,
        "threads": 1,
        "sentences": 1,
        "patience": 1,
        "layers": 1,
        "scored_layers": 1,
        "dimension": 1,
    }
    for name, bound in least.items():
        value = getattr(recipe, name)
        if value is not None and value < bound:
            raise UserError(f"'{name}' should be at least {bound}, not {value}")
        if value is not None and value > (most := MOST_THREADS if name == "threads" else MOST):
            raise UserError(f"'{name}' should be at most {most}, not {value}")
    if recipe.epsilon <= 0:
        raise UserError(f"'epsilon' should be above 0, not {recipe.epsilon}")
    for name, upper in {"learning_rate": None, "weight_decay": None, "warmup": 1, "dropout": 1}.items():
        value = getattr(recipe, name)
        if value is not None and (value < 0 or (upper and value >= upper)):
            span = f"at least 0 and below {upper}" if upper else "at least 0"
            raise UserError(f"'{name}' should be {span}, not {written(value)}")
    if recipe.dimension is not None and recipe.pooler != "cls_mlp":
        raise UserError(f"'dimension' is of the head that pooler 'cls_mlp' trains, and '{recipe.pooler}' has none")
    tasks = recipe.select_on.split("+")
    if twice := [task for task in tasks if tasks.count(task) > 1]:
        raise UserError(f"'select_on' names '{twice[0]}' twice; keep one")
    for task in {task for task in tasks if not is_described(task)} - {"STS-B", "SICK-R"}:
        raise UserError(f"cannot select on '{task}'{did_you_mean(task, ('STS-B', 'SICK-R', *CHINESE_TASKS))}")
