"""The hyper-parameters of the training loop: defaults and ranges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from itertools import pairwise
from typing import Any

from bench.datasets.tasks import CHINESE_TASKS, is_described
from bench.models.poolers import POSITIONS
from bench.registry.values import convert, format_value
from bench.utils.errors import UserError, did_you_mean

MAX_COUNT = 2**31 - 1  # a larger batch size, step count, ... is a typing error
MAX_THREADS = 1024  # above any machine's cores; 100,000 threads crash a process


@dataclass(frozen=True)
class Recipe:
    """Hyper-parameters of the training loop. Defaults: docs/methods.md#shared-recipe,
    bert-base-uncased."""

    batch_size: int = 64
    learning_rate: float = 3e-5
    epochs: int = 1
    corpus: str | None = None  # the method's own corpus; None: the suite's
    sentences: int | None = None  # number of leading lines of the corpus; None: all
    max_length: int = 32  # tokens, special tokens included
    pooler: str = "cls_mlp"  # in training; those of `HEADED` are scored as `cls_before_pooler`
    dropout: float | None = None  # hidden and attention dropout; None: the backbone's own
    weight_decay: float = 0.0
    optimiser: str = "adamw"  # or "rmsprop"
    epsilon: float = 1e-8  # of the optimiser
    bias_correction: bool = True  # of AdamW; BERT's original optimiser has none
    early_epsilon: bool = False  # whether AdamW adds epsilon before that correction
    schedule: str = "linear"  # one of `SCHEDULES`, or the boundaries of blocks: "0.2+0.4"
    warmup: float = 0.0  # fraction of the steps
    clip: float = 1.0  # maximum gradient norm
    precision: str = "mixed"  # float16 on a GPU, float32 on a CPU; or "bfloat16", "float32" on both
    select_on: str = "STS-B"  # dev sets whose mean Spearman selects the checkpoint, joined by "+"
    select_every: int = 125  # optimiser steps between two selections
    patience: int | None = None  # selections without improvement before stopping early; None: never
    threads: int = 1  # CPU threads; sums of floats depend on it
    layers: int | None = None  # train only the first layers of the backbone; None: all
    scored_layers: int | None = None  # score with only the first trained layers; None: all
    dimension: int | None = None  # width of the training head, then scored; None: not scored
    drop_last: bool = False  # whether an epoch leaves out its short last batch
    decay_biases: bool = True  # whether weight decay includes biases and layer norms

    @property
    def selection(self) -> list[str]:
        """The tasks of `select_on`."""
        return self.select_on.split("+")

    @property
    def boundaries(self) -> list[float]:
        """The boundaries in `schedule`, as shares of all steps; none for a schedule by name."""
        if self.schedule in SCHEDULES:
            return []
        return [float(share) for share in self.schedule.split("+")]

    @property
    def identified(self) -> dict[str, Any]:
        """The fields in a run's identity. The corpus has an entry of its own there."""
        return {
            name: value
            for name, value in asdict(self).items()
            if name != "corpus" and not (name in _LATER and value == RECIPE_FIELDS[name].default)
        }


# Fields added after the first release. At their default they are not part of an identity, so older
# runs keep their ids.
_LATER = (
    "early_epsilon",
    "optimiser", "epsilon", "bias_correction", "schedule", "layers", "scored_layers", "dimension",
    "drop_last", "decay_biases",
)  # fmt: skip

# Of the learning rate: to 0, constant, or AllenNLP's slanted triangle (docs/methods.md#declutr).
SCHEDULES = ("linear", "constant", "slanted")
# Poolers with a training head: the first token through a new layer, through the checkpoint's own
# pooler, or through both (docs/methods.md#vectors).
WITH_POOLER = ("cls_pooler", "cls_pooler_mlp")
HEADED = ("cls_mlp", *WITH_POOLER)

RECIPE_FIELDS = {item.name: item for item in fields(Recipe)}
_RECIPE_CHOICES = {
    "pooler": (
        *HEADED, "cls_before_pooler", "avg", "avg_top2", "avg_first_last", "avg_first_last_64",
        "avg_embedding_last",
    ),
    "precision": ("mixed", "bfloat16", "float32"),
    "optimiser": ("adamw", "rmsprop"),
}  # fmt: skip
_COUNTS = (
    "batch_size", "epochs", "max_length", "select_every", "threads", "sentences", "patience",
    "layers", "scored_layers", "dimension",
)  # fmt: skip
_FRACTIONS = {"learning_rate": None, "weight_decay": None, "warmup": 1, "dropout": 1}  # below this


def convert_recipe(values: Mapping[str, Any]) -> dict[str, Any]:
    """Convert recipe fields of a configuration or the command line to their types.

    Raises:
        UserError: a field is unknown or its value is invalid.
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
        if (value := getattr(recipe, name)) not in choices:
            raise UserError(f"unknown {name} '{value}'{did_you_mean(value, choices)}")
    _check_schedule(recipe)
    if recipe.clip <= 0:
        raise UserError(f"'clip' should be above 0, not {recipe.clip}; a large value never clips")
    if recipe.epsilon <= 0:
        raise UserError(f"'epsilon' should be above 0, not {recipe.epsilon}")
    for name in _COUNTS:
        value = getattr(recipe, name)
        least = 3 if name == "max_length" else 1  # [CLS], one token, [SEP]
        most = MAX_THREADS if name == "threads" else MAX_COUNT
        if value is not None and not least <= value <= most:
            bound = f"at least {least}" if value < least else f"at most {most}"
            raise UserError(f"'{name}' should be {bound}, not {value}")
    for name, upper in _FRACTIONS.items():
        value = getattr(recipe, name)
        if value is not None and (value < 0 or (upper and value >= upper)):
            span = f"at least 0 and below {upper}" if upper else "at least 0"
            raise UserError(f"'{name}' should be {span}, not {format_value(value)}")
    if recipe.dimension is not None and recipe.pooler != "cls_mlp":
        raise UserError(
            f"'dimension' needs the training head of pooler 'cls_mlp', not '{recipe.pooler}'"
        )
    positions = POSITIONS.get(recipe.pooler)
    if positions and recipe.max_length > positions:
        raise UserError(
            f"'max_length' should be at most {positions} for pooler '{recipe.pooler}', "
            f"not {recipe.max_length}"
        )
    tasks = recipe.selection
    if duplicates := [task for task in tasks if tasks.count(task) > 1]:
        raise UserError(f"'select_on' names '{duplicates[0]}' twice; keep one")
    for task in {task for task in tasks if not is_described(task)} - {"STS-B", "SICK-R"}:
        raise UserError(
            f"cannot select on '{task}'{did_you_mean(task, ('STS-B', 'SICK-R', *CHINESE_TASKS))}"
        )


def _check_schedule(recipe: Recipe) -> None:
    try:
        shares = [0.0, *recipe.boundaries, 1.0]
    except ValueError:
        shares = []
    if not shares or not all(low < high for low, high in pairwise(shares)):
        raise UserError(
            f"unknown schedule '{recipe.schedule}'{did_you_mean(recipe.schedule, SCHEDULES)}; for "
            "blocks give rising shares of the steps, such as 0.2+0.4"
        )
