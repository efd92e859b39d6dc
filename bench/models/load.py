"""Save encoders to folders, and load them by name.

A folder that `save_encoder` writes holds `encoder.json` (the kind, a checksum of the other files,
and what the encoder's `save` returned), the files that it wrote, and, where the encoder has them,
`base/` (the encoder that it wraps) and `arrays.safetensors` (its tensors). Where
sentence-transformers can give the vectors, it holds what that library reads, too.

What we train, and a plain transformer of the BERT and RoBERTa families, runs on our forward pass;
every other model on sentence-transformers (`bench.models.library`).
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.torch import load_file, save_file
from torch.nn import functional as F

from bench.download.hub import fetch_backbone
from bench.models.checks import check_model, check_types
from bench.models.defaults import torch_defaults
from bench.models.encoder import Encoder, TransformerEncoder
from bench.models.folders import read_kind, runs_here
from bench.models.library import load_library
from bench.models.modules import write_modules
from bench.models.options import Options
from bench.models.transformer import load_backbone
from bench.registry.backbones import SAVED, TRANSFORMER, backbone, encoder_folder
from bench.registry.methods import method_classes
from bench.utils.errors import UserError, library_errors
from bench.utils.files import atomic_folder, read_json, sha256_folder, write_json
from methods.base import Mapped, in_chunks

ARRAYS = "arrays.safetensors"
DAMAGED = "save or download it again"


def save_encoder(encoder: Any, folder: Path) -> str:
    """Write an encoder to a folder atomically; return the checksum of its files."""
    with atomic_folder(folder) as temporary:
        stored = encoder.save(temporary)
        base, arrays = getattr(encoder, "base", None), getattr(encoder, "arrays", None)
        if base:
            save_encoder(base, temporary / "base")
        if arrays:
            arrays = {name: array.contiguous() for name, array in arrays.items()}
            save_file(arrays, temporary / ARRAYS)
        write_modules(encoder, temporary)
        checksum = sha256_folder(temporary)
        write_json(temporary / SAVED, {"kind": encoder.kind, "sha256": checksum, **stored})
    return checksum


@torch_defaults()
def load_encoder(model: str | Path, *, device: str = "cpu", **options: Any) -> Encoder:
    """Load an encoder to a device.

    Args:
        model: a folder written by `save_encoder`, sentence-transformers or Hugging Face
            transformers, the name of a backbone, or a hub id.
        options: as in `bench.models.options.Options`. A folder of transformers needs a pooler.
            With one, only the transformer of a folder of sentence-transformers is used, without its
            other modules and prompts.
    """
    chosen = Options(**options)
    folder, kind = readable(model, chosen)
    with library_errors(f"the parts of the encoder in {folder} are damaged or do not fit", DAMAGED):
        if kind == SAVED:
            encoder = _load_saved(folder, device)
            encoder.encode(["a"])  # whether its parts fit together
        elif kind == TRANSFORMER and runs_here(folder, chosen):
            encoder = load_transformer(folder, str(chosen.pooler), device)
        else:
            encoder = load_library(folder, kind, chosen, device)
        return shaped(encoder, chosen)


def load_transformer(
    folder: Path, pooler: str, device: str, dropout: float | None = None
) -> TransformerEncoder:
    """Load and check a transformer that our code runs; `dropout` as `load_backbone` has it."""
    model, tokenizer = load_backbone(folder, dropout=dropout, pooling_layer=pooler == "cls")
    encoder = TransformerEncoder(model.to(device), tokenizer, pooler)
    # Types first: with others than 0 all vectors would be wrong, and the message says why.
    check_types(folder, tokenizer)
    check_model(folder, tokenizer, encoder)
    return encoder


def readable(model: str | Path, options: Options) -> tuple[Path, str]:
    """The folder of a model, which is fetched from the hub if needed, and how it is read.
    `UserError` for faults that are visible without the weights."""
    folder = find_model(model)
    with library_errors(f"a JSON file in {folder} is damaged", DAMAGED):
        return folder, read_kind(folder, options)


def find_model(model: str | Path) -> Path:
    """The folder of a model: a run's encoder, a folder, a backbone by name, or a download."""
    name = str(model)
    folder = encoder_folder(name)
    if folder is not None:
        return folder
    # A model of the hub has an owner.
    return fetch_backbone(name) if "/" in name else backbone(name).folder()


def check_planned(model: str, options: Options) -> None:
    """Refuse mistakes in a plan that are visible before a download, and without the weights."""
    if encoder_folder(model):
        readable(model, options)
    elif "/" not in model:  # a model of the hub has an owner
        backbone(model)


def shaped(encoder: Encoder, options: Options) -> Encoder:
    """An encoder with the `dims` and `normalize` of the options: the first dimensions of the
    vectors, at length 1. `UserError` if the vectors have fewer dimensions."""
    if options.dims is not None:
        encoder = FirstDimensions(encoder, dims=options.dims)
        encoder.encode(["a"])  # refuses too few dimensions before anything is scored
    return Normalised(encoder) if options.normalize else encoder


def _load_saved(folder: Path, device: str) -> Encoder:
    """Load a folder that `save_encoder` wrote; its encoder is one of ours, or of a method's."""
    stored = read_json(folder / SAVED)
    # Encoders of older versions have no checksum.
    kind, checksum = stored.pop("kind"), stored.pop("sha256", None)
    if checksum not in (None, sha256_folder(folder, SAVED)):
        raise UserError(
            f"the files in {folder} are not those that were saved; restore them, or, in a suite, "
            "delete the folder and the run's file in trained/, and run the suite again"
        )
    parts = dict[str, Any]()
    if (folder / "base").is_dir():
        parts["base"] = load_encoder(folder / "base", device=device)
    if (folder / ARRAYS).is_file():
        parts["arrays"] = load_file(folder / ARRAYS)
    for name in (__name__, *(cls.__module__ for cls in method_classes().values())):
        for value in vars(importlib.import_module(name)).values():
            if isinstance(value, type) and getattr(value, "kind", None) == kind:
                encoder_class: Any = value
                return encoder_class.load(folder, stored, device=device, **parts)
    raise UserError(
        f"{folder / SAVED} names an encoder of kind '{kind}', which no installed method "
        "defines; load it with the version that saved it"
    )


class Shaped(Mapped):
    """An Encoder with vectors of another shape, and with the facts of its base that stay true."""

    fixed = True

    def __init__(self, base: Any, *_: Any, **options: Any) -> None:
        super().__init__(base, {}, **options)
        self.lasting = getattr(base, "lasting", True)  # see `FunctionEncoder`
        self.loaded = getattr(base, "loaded", {})


class FirstDimensions(Shaped):
    """Keeps the first `dims` dimensions of vectors; `UserError` if there are fewer."""

    kind = "first-dimensions"

    def through(self, vectors: np.ndarray) -> np.ndarray:
        dims, width = self.options["dims"], vectors.shape[1]
        if not 0 < dims <= width:
            raise UserError(f"the vectors have {width} dimensions; choose dims from 1 to {width}")
        return np.ascontiguousarray(vectors[:, :dims])


class Normalised(Shaped):
    """Normalises vectors to length 1. Zero vectors stay zero."""

    kind = "normalised"

    def through(self, vectors: np.ndarray) -> np.ndarray:
        return in_chunks(vectors, lambda chunk: F.normalize(chunk.double(), dim=-1, eps=1e-37))
