"""The `encoders` of a configuration: models trained elsewhere, each a run of `published`."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from bench.registry.backbones import backbone
from bench.registry.encoders import TRANSFORMER, encoder_folder
from bench.registry.methods import method_classes
from bench.runs.labels import OUTSIDE
from bench.runs.resolve import resolve, spell
from bench.runs.run import Run
from bench.utils.errors import UserError, errors_of
from bench.utils.validation import Model
from methods.base import POOLERS


def _one_line(label: str) -> str:
    return " ".join(label.split()).removesuffix(OUTSIDE)  # which tables add


class EncoderEntry(Model):
    """An entry of `encoders`: a model, or such a map."""

    model: Annotated[str, Field(min_length=1)] = Field(
        description="a folder (Hugging Face, sentence-transformers, or of a run), a name in "
        "`BENCH_MODELS`, a backbone's name, or a hub id"
    )
    label: Annotated[str, Field(max_length=60), AfterValidator(_one_line)] = Field(
        default="", description="its name in tables; by default the last part of `model`"
    )
    pooler: str | None = Field(
        default=None,
        description="as `bench evaluate` takes it; by default the one that the model names",
    )
    prompt: str | None = Field(
        default=None,
        description='one of the prompts of a sentence-transformers folder, `""` for none; by '
        "default the model's default prompt",
    )
    normalize: bool = Field(
        default=False,
        description="`true` scales vectors to length 1, which changes what classifiers see",
    )


def encoder_runs(encoders: Sequence[EncoderEntry], data: str) -> Iterator[Run]:
    """The runs of a configuration's `encoders`, in order, labelled as outside encoders.

    Raises:
        UserError: a model is missing or cannot be written in the text of a run, its pooler is
            missing, or a label is given twice or is the name of a method.
    """
    taken = {text.lower() for cls in method_classes().values() for text in (cls.name, cls.title)}
    labels: set[str] = set()
    for entry in encoders:
        label = entry.label or Path(entry.model).name or Path(entry.model).resolve().name
        subject = f"the encoder '{label}'"
        if re.split(r"[\[+@]", label.lower())[0] in taken:
            raise UserError(f"{subject} has the name of a method; give it another 'label'")
        if label.lower() in labels:
            raise UserError(f"{subject} is listed twice; give each a 'label' of its own")
        labels.add(label.lower())
        keys = {"pooler": None} | entry.model_dump(exclude={"label"}, exclude_none=True)
        text = f"{spell('published', keys)}@paper"
        with errors_of(subject):
            _check_model(entry)
            run = resolve(text, backbone_name="none", corpus="", data=data, seed=None)
        yield run.model_copy(update={"label": f"{label}{OUTSIDE}"})


def _check_model(entry: EncoderEntry) -> None:
    """Refuse a model that is not here, names no pooler or cannot be loaded."""
    folder = encoder_folder(entry.model)
    if folder is None:
        if "/" not in entry.model:  # a model of the hub has an owner
            backbone(entry.model)
        return
    from bench.models.load import check_files  # imports torch's models

    try:
        kind = check_files(folder, entry.pooler, entry.prompt)
    except UserError as error:  # whose options are the keys of a configuration
        raise UserError(re.sub(r"--(\w+)", r"'\1'", str(error))) from None
    if kind == TRANSFORMER and not entry.pooler:
        listed = ", ".join(POOLERS)
        raise UserError(f"{entry.model} names no pooler; set 'pooler' to one of {listed}")
