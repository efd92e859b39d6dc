"""The hyper-parameters of the training loop: defaults and ranges."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Annotated, Any, Literal, Self

from pydantic import Field, PositiveInt, model_validator

from bench.datasets.tasks import TASKS, is_task, task_of
from bench.models.poolers import POSITIONS
from bench.utils.errors import did_you_mean
from bench.utils.validation import Model
from methods.base import HyperParameters

# Of the learning rate: to 0, constant, or AllenNLP's slanted triangle (docs/methods.md#declutr).
SCHEDULES = ("linear", "constant", "slanted")
# Poolers with a training head: the first token through a new layer, through the checkpoint's own
# pooler, or through both (docs/methods.md#vectors).
WITH_POOLER = ("cls_pooler", "cls_pooler_mlp")
HEADED = ("cls_mlp", *WITH_POOLER)

NotNegative = Annotated[float, Field(ge=0)]
Positive = Annotated[float, Field(gt=0)]
Fraction = Annotated[float, Field(ge=0, lt=1)]
Pooler = Literal[
    "cls_mlp", "cls_pooler", "cls_pooler_mlp", "cls_before_pooler", "avg", "avg_top2",
    "avg_first_last", "avg_first_last_64", "avg_embedding_last",
]  # fmt: skip


class Recipe(HyperParameters, Model):
    """Hyper-parameters of the training loop. Defaults: docs/methods.md#shared-recipe,
    bert-base-uncased."""

    batch_size: PositiveInt = Field(default=64, description="sentences in a step")
    learning_rate: NotNegative = Field(
        default=3e-5, description="at the first step after the warm-up; then by `schedule`"
    )
    epochs: PositiveInt = Field(default=1, description="passes over the corpus")
    corpus: str | None = Field(
        default=None, description="training corpus, by name or path; none takes the suite's"
    )
    sentences: PositiveInt | None = Field(
        default=None, description="only the first lines of the corpus; none: all"
    )
    max_length: Annotated[int, Field(ge=3)] = Field(
        default=32,  # of at least [CLS], one token, [SEP]
        description="word pieces in training, including special tokens; at least 3",
    )
    pooler: Pooler = Field(
        default="cls_mlp",
        description="of the vectors; those with a training head, `cls_mlp`, `cls_pooler` and "
        "`cls_pooler_mlp`, are scored as `cls_before_pooler`",
    )
    dropout: Fraction | None = Field(
        default=None, description="hidden and attention dropout, below 1; none keeps the backbone's"
    )
    weight_decay: NotNegative = Field(default=0.0, description="of the optimiser")
    optimiser: Literal["adamw", "rmsprop"] = Field(
        default="adamw", description="`adamw`, or `rmsprop` as in TensorFlow (decay 0.9)"
    )
    epsilon: Positive = Field(default=1e-8, description="of the optimiser; above 0")
    bias_correction: bool = Field(
        default=True, description="of AdamW; false gives BERT's original optimiser"
    )
    early_epsilon: bool = Field(
        default=False,
        description="true: AdamW adds epsilon before its bias correction, as in old transformers",
    )
    schedule: str = Field(
        default="linear",
        description="`linear` falls to 0; `constant`; `slanted` rises from a 32nd of it and falls "
        "back; or boundaries of blocks, as rising shares of the steps: after `0.5+0.75` it has "
        "fallen to 2/3 and to 1/3",
    )
    warmup: Fraction = Field(
        default=0.0, description="fraction of the steps in which the learning rate rises"
    )
    clip: Positive = Field(
        default=1.0, description="maximum gradient norm; a large value never clips"
    )
    precision: Literal["mixed", "bfloat16", "float32"] = Field(
        default="mixed",
        description="`mixed` is float16 on a GPU and float32 on a CPU; `bfloat16` and `float32` "
        "are the same on both",
    )
    select_on: str = Field(
        default="STS-B",
        description="dev set that picks the checkpoint: `STS-B`, `SICK-R`, `CNSD-STS-B`, "
        "`sts:NAME`, or the mean of several, as `STS-B+SICK-R`",
    )
    select_every: PositiveInt = Field(default=125, description="steps between two selections")
    patience: PositiveInt | None = Field(
        default=None,
        description="selections without improvement before training stops; none: never",
    )
    threads: PositiveInt = Field(
        default=1, description="CPU threads of a training; the last digits of sums depend on it"
    )
    layers: PositiveInt | None = Field(
        default=None,
        description="number of first layers that the backbone keeps in training; none: all",
    )
    scored_layers: PositiveInt | None = Field(
        default=None, description="number of first trained layers that are scored; none: all"
    )
    dimension: PositiveInt | None = Field(
        default=None,
        description="output dimensions of the `cls_mlp` head, which is then scored, too; none: the "
        "backbone's width, and the head is not scored",
    )
    drop_last: bool = Field(
        default=False, description="whether an epoch leaves out its last batch if it is short"
    )
    decay_biases: bool = Field(
        default=True, description="whether weight decay includes biases and layer norms"
    )

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

    @model_validator(mode="after")
    def _check(self) -> Self:
        try:
            shares = [0.0, *self.boundaries, 1.0]
            rising = all(low < high for low, high in pairwise(shares))
        except ValueError:
            rising = False
        if not rising:
            raise ValueError(
                f"unknown schedule '{self.schedule}'{did_you_mean(self.schedule, SCHEDULES)}; for "
                "blocks give rising shares of the steps, such as 0.2+0.4"
            )
        for name in self.selection:
            if not is_task(name) or not task_of(name).has_dev:
                known = [task.name for task in TASKS.values() if task.has_dev]
                raise ValueError(f"cannot select on '{name}'{did_you_mean(name, known)}")
        if len(set(self.selection)) < len(self.selection):
            raise ValueError(f"'select_on' is '{self.select_on}'; name each set once")
        if self.dimension is not None and self.pooler != "cls_mlp":
            raise ValueError(
                f"'dimension' needs the training head of pooler 'cls_mlp', not '{self.pooler}'"
            )
        positions = POSITIONS.get(self.pooler, self.max_length)
        if self.max_length > positions:
            raise ValueError(
                f"'max_length' should be at most {positions} for pooler '{self.pooler}', "
                f"not {self.max_length}"
            )
        return self


def converted(model: type[HyperParameters], values: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of a recipe, or hyper-parameters, as their types; `ValidationError`."""
    made = model(**values)
    return {name: getattr(made, name) for name in values}
