"""Save encoders to folders and load them.

A folder that `save_encoder` writes holds `encoder.json` (the kind, and what `Encoder.save`
returned), the encoder's own files, and, where the encoder has them, `base/` (the encoder that it
wraps) and `arrays.safetensors` (its tensors).
"""

import importlib
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file

from bench.download import fetch_backbone
from bench.models import sentence_transformers
from bench.models.encoder import Encoder, TransformerEncoder
from bench.models.float32 import ELSEWHERE, float32_products
from bench.models.poolers import POOLER_NAMES, check_pooler
from bench.models.transformer import check_folder, summary
from bench.registry.backbones import UnknownBackbone, backbone
from bench.registry.encoders import MODULES, SAVED, TRANSFORMER, encoder_folder, folder_kind
from bench.registry.methods import method_classes
from bench.utils.errors import UserError
from bench.utils.files import atomic_folder, read_json, write_json
from bench.utils.memory import is_memory_full

ARRAYS = "arrays.safetensors"


def save_encoder(encoder: Any, folder: Path) -> None:
    """Write an encoder to a folder atomically; `UserError` if it cannot be written."""
    with atomic_folder(folder) as temporary:
        stored = encoder.save(temporary)
        base, arrays = getattr(encoder, "base", None), getattr(encoder, "arrays", None)
        if base:
            save_encoder(base, temporary / "base")
        if arrays:
            arrays = {name: array.contiguous() for name, array in arrays.items()}
            save_file(arrays, temporary / ARRAYS)
        write_json(temporary / SAVED, {"kind": encoder.kind, **stored})


def load_encoder(
    model: str | Path, *, pooler: str | None = None, prompt: str | None = None, device: str = "cpu"
) -> Encoder:
    """Load an encoder; `UserError` if it cannot be, or not with these options.

    Args:
        model: a folder written by `save_encoder`, sentence-transformers or Hugging Face
            transformers, the name of a backbone, or a hub id.
        pooler: required if the folder stores none. With a folder of sentence-transformers, only its
            transformer is used, without its other modules and prompts.
        prompt: name of a prompt of a sentence-transformers folder, or "" for no prompt; None uses
            the folder's default.
        device: of a transformer.
    """
    if pooler is not None:
        check_pooler(pooler)
    folder = find_model(model)
    kind = check_files(folder, pooler, prompt)
    if kind == TRANSFORMER:
        if pooler is None:
            raise UserError(
                f"{model} stores no pooler; choose one with --pooler ({', '.join(POOLER_NAMES)})"
            )
        return TransformerEncoder.load(folder, {"pooler": pooler}, device=device)
    try:
        with float32_products(ELSEWHERE):
            if kind == SAVED:
                return _load_saved(folder, device)
            encoder: Encoder = sentence_transformers.load_modular(folder, prompt, device)
            encoder.encode(["a"])  # whether its parts fit together
            return encoder
    except UserError:
        raise
    except Exception as error:  # of any kind, for whatever the files say
        if is_memory_full(error):
            raise
        raise UserError(
            f"the parts of the encoder in {folder} are damaged or do not fit ({summary(error)}); "
            "save or download it again"
        ) from error


def check_files(folder: Path, pooler: str | None, prompt: str | None) -> str:
    """Return how `load_encoder` reads a folder with these options, of `KINDS`; `UserError` if it
    would refuse it for what its files are, without its weights."""
    kind = folder_kind(folder)
    if kind == MODULES and pooler is None:
        sentence_transformers.read_modules(folder)
        sentence_transformers.read_prompt(folder, prompt)
        return kind
    if kind == SAVED:
        stored = read_json(folder / SAVED)
        if pooler not in (None, stored.get("pooler")):
            has = f"pooler '{stored['pooler']}'" if "pooler" in stored else f"'{stored['kind']}'"
            raise UserError(
                f"{folder} was saved with {has}, not with pooler '{pooler}'; "
                "omit --pooler, or write pooler=none"
            )
    else:
        check_folder(folder)
        kind = TRANSFORMER
    if prompt:
        what = f"--pooler uses only the transformer of {folder}, without prompts"
        raise UserError(f"{what if pooler else f'{folder} has no prompts'}; omit --prompt")
    return kind


def find_model(model: str | Path) -> Path:
    """Return the folder of a model: a run's encoder, a folder, a backbone by name, or a download;
    `UserError` if there is none."""
    name = str(model)
    folder = encoder_folder(name)
    if folder is not None:
        return folder
    try:
        return backbone(name).folder()
    except UnknownBackbone as unknown:
        try:
            return fetch_backbone(name)
        except UserError as error:
            if "/" in name:
                raise
            raise type(error)(f"{error} ({unknown})") from error  # it may be a misspelt backbone


def _load_saved(folder: Path, device: str) -> Encoder:
    """Load a folder that `save_encoder` wrote. Its encoder is one of ours, or of a method's."""
    stored, parts = read_json(folder / SAVED), dict[str, Any]()
    if (folder / "base").is_dir():
        parts["base"] = load_encoder(folder / "base", device=device)
    if (folder / ARRAYS).is_file():
        parts["arrays"] = load_file(folder / ARRAYS)
    names = [__name__, sentence_transformers.__name__]
    names += [cls.__module__ for cls in method_classes().values()]
    for name in names:
        for value in vars(importlib.import_module(name)).values():
            if isinstance(value, type) and getattr(value, "kind", None) == stored["kind"]:
                encoder_class: Any = value
                encoder: Encoder = encoder_class.load(folder, stored, device=device, **parts)
                if parts:
                    encoder.encode(["a"])
                return encoder
    what = f"{folder / SAVED} names an encoder of kind '{stored['kind']}'"
    raise UserError(
        f"{what}, which no installed method defines; load it with the version that saved it"
    )
