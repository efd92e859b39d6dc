"""The `encoders` of a configuration: models trained elsewhere, each a run of `published`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.registry.backbones import backbone
from bench.registry.encoders import SAVED, encoder_folder
from bench.registry.methods import method_classes
from bench.results.records import OUTSIDE
from bench.runs.resolve import resolve
from bench.runs.run import Run
from bench.runs.text import spell
from bench.utils.errors import UserError
from methods.base import POOLERS

# Where a folder says how its vectors are pooled: the suite's own, and sentence-transformers'.
_NAMES_POOLER = (SAVED, "modules.json")


def encoder_runs(config: Mapping[str, Any]) -> Iterator[Run]:
    """The runs of a configuration's `encoders`, in order, labelled as outside encoders.

    Raises:
        UserError: a model is missing or cannot be written in the text of a run, its pooler is
            missing, or a label is given twice or is the name of a method.
    """
    taken = {text.lower() for cls in method_classes().values() for text in (cls.name, cls.title)}
    labels: set[str] = set()
    for entry in config.get("encoders", ()):
        given = {"model": entry} if isinstance(entry, str) else dict(entry)
        model = given["model"]
        label = given.pop("label", None) or Path(model).name
        where = f"the encoder '{label}'"
        if label.lower() in taken:
            raise UserError(f"{where} has the name of a method; give it another 'label'")
        if label in labels:
            raise UserError(f"{where} is listed twice; give each a 'label' of its own")
        labels.add(label)
        _check_model(where, model, given.get("pooler"))
        text = spell("published", {"pooler": None, **given})
        run = resolve(
            f"{text}@paper", backbone_name="none", corpus="", data=config["data"], seed=None
        )
        yield replace(run, label=f"{label}{OUTSIDE}")


def _check_model(where: str, model: str, pooler: str | None) -> None:
    """Refuse a model that is not here, cannot be written in a run's text, or needs a pooler."""
    if set(model) & set(",[]") or model != model.strip() or not model:
        raise UserError(
            f"{where} is '{model}', and a name with a comma, a bracket or white space at its ends "
            "cannot be part of a run; link the folder under another name"
        )
    try:
        folder = encoder_folder(model)
        if folder is None and "/" not in model:  # a model of the hub has an owner
            backbone(model)
    except UserError as error:
        raise UserError(f"{where}: {error}") from None
    own = pooler or folder is None or any((folder / name).is_file() for name in _NAMES_POOLER)
    if not own:
        listed = ", ".join(POOLERS)
        raise UserError(
            f"{where} is {model}, which names no pooler; set 'pooler' to one of {listed}"
        )
