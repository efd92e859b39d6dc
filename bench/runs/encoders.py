"""The `encoders` of a configuration: models trained elsewhere, each a run of `published`."""

from __future__ import annotations

import re
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
from bench.utils.errors import UserError, errors_of
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
        label = given.pop("label", None) or Path(model).name or Path(model).resolve().name
        label = label.removesuffix(OUTSIDE)  # as tables show it
        where = f"the encoder '{' '.join(label.split())}'"
        if re.split(r"[\[+@]", label.lower())[0] in taken:
            raise UserError(f"{where} has the name of a method; give it another 'label'")
        if label.lower() in labels:
            raise UserError(f"{where} is listed twice; give each a 'label' of its own")
        labels.add(label.lower())
        try:
            _check_model(model, given.get("pooler"), given.get("prompt"))
        except UserError as error:  # whose options are the keys of a configuration
            problem = re.sub(r"--(\w+)", r"'\1'", str(error))
            raise UserError(f"{where}: {problem}") from None
        text = spell("published", {"pooler": None, **given})
        with errors_of(where):
            run = resolve(
                f"{text}@paper", backbone_name="none", corpus="", data=config["data"], seed=None
            )
        yield replace(run, label=f"{label}{OUTSIDE}")


def _check_model(model: str, pooler: str | None, prompt: str | None) -> None:
    """Refuse a model that is not here, cannot be written in a run's text, or cannot be loaded."""
    if set(model) & set(",[]") or model != model.strip() or not model.isprintable():
        raise UserError(
            f"{model!r} has a comma, a bracket or white space at its ends, so it cannot be part "
            "of a run; link the folder under another name"
        )
    if ":" in model and not Path(model).is_dir():
        raise UserError(
            f"'{model}' is no folder and no model of the hub; a run is listed under 'methods', and "
            "functions are scored by bench evaluate"
        )
    if Path(model).is_file():
        raise UserError(f"{model} is a file; give the folder of a model")
    folder = encoder_folder(model)
    if folder is None:
        if "/" not in model:  # a model of the hub has an owner
            backbone(model)
        return
    from bench.models.load import check_files  # imports torch's models

    check_files(folder, pooler, prompt)
    if not (pooler or any((folder / name).is_file() for name in _NAMES_POOLER)):
        listed = ", ".join(POOLERS)
        raise UserError(f"{model} names no pooler; set 'pooler' to one of {listed}")
