"""Save encoders to folders and load them.

A folder that `save_encoder` writes holds `encoder.json` (the kind, and what `Encoder.save`
returned), the encoder's own files, and, where the encoder has them, `base/` (the encoder that it
wraps) and `arrays.safetensors` (its tensors).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from bench.download import fetch_backbone
from bench.models import sentence_transformers
from bench.models.encoder import Encoder, TransformerEncoder
from bench.models.float32 import ELSEWHERE, float32_products
from bench.models.poolers import POOLER_NAMES, check_pooler
from bench.models.transformer import check_folder
from bench.registry.backbones import UnknownBackbone, backbone
from bench.registry.encoders import SAVED, is_path, no_folder
from bench.registry.methods import method_classes
from bench.utils.errors import UserError
from bench.utils.files import atomic_folder, read_json, write_json
from bench.utils.memory import is_memory_full

ARRAYS = "arrays.safetensors"


def save_encoder(encoder: Encoder, folder: Path) -> None:
    """Write an encoder to a folder atomically; `UserError` if it cannot be written."""
    with atomic_folder(folder) as temporary:
        stored = encoder.save(temporary)
        if base := getattr(encoder, "base", None):
            save_encoder(base, temporary / "base")
        if arrays := getattr(encoder, "arrays", None):
            arrays = {name: array.contiguous() for name, array in arrays.items()}
            save_file(arrays, temporary / ARRAYS)
        write_json(temporary / SAVED, {"kind": encoder.kind, **stored})


def load_encoder(
    model: str | Path, *, pooler: str | None = None, prompt: str | None = None, device: str = "cpu"
) -> Encoder:
    """Load an encoder.

    Args:
        model: a folder written by `save_encoder`, sentence-transformers or Hugging Face
            transformers, the name of a backbone, or a hub id.
        pooler: required if the folder stores none, rejected if the folder stores another. With a
            folder of sentence-transformers, only its transformer is used, without its other modules
            and prompts.
        prompt: name of a prompt of a sentence-transformers folder, or "" for no prompt; None uses
            the folder's default.
        device: of a transformer.

    Raises:
        UserError: the model cannot be found or loaded, or the pooler or prompt is missing, unknown
            or contradicts what is stored.
    """
    if pooler is not None:
        check_pooler(pooler)
    folder = find_model(model)
    check_files(folder, pooler, prompt)
    if (folder / SAVED).is_file():
        return _load_saved(folder, pooler, device)
    if pooler is None and (folder / sentence_transformers.LIST).is_file():
        return _tried(folder, lambda: sentence_transformers.load_modular(folder, prompt, device))
    if pooler is None:
        what = f"{model} stores no pooler"
        raise UserError(f"{what}; choose one with --pooler ({', '.join(POOLER_NAMES)})")
    return TransformerEncoder.load(folder, {"pooler": pooler}, device=device)


def check_files(folder: Path, pooler: str | None, prompt: str | None) -> None:
    """Raise `UserError` if `load_encoder` would refuse a folder for what its files are, without its
    weights."""
    if pooler and prompt:
        what = f"--pooler uses only the transformer of {folder}, without prompts"
        raise UserError(f"{what}; omit --prompt")
    if (folder / SAVED).is_file():
        if prompt:
            raise UserError(f"{folder} was saved with a fixed prompt; omit --prompt")
    elif pooler is None and (folder / sentence_transformers.LIST).is_file():
        sentence_transformers.parts_of(folder, prompt)
    else:
        check_folder(folder)
        if prompt:
            raise UserError(f"{folder} has no prompts; omit --prompt")


def find_model(model: str | Path) -> Path:
    """Return the folder of a model: a run's encoder, a folder, a backbone by name, or a download.

    Raises:
        UserError: there is none.
    """
    folder = Path(model)
    if not str(model) or folder.is_file():
        problem = f"{model} is a file" if str(model) else "the model's name is empty"
        raise UserError(
            f"{problem}; give a folder or a hub id (score word vectors as a backbone of method "
            "'glove')"
        )
    if (folder / "encoder" / SAVED).is_file():
        return folder / "encoder"
    if folder.is_dir():
        return folder
    try:
        registered = backbone(str(model))
    except UnknownBackbone as unknown:
        if is_path(str(model)):
            raise no_folder(model) from None
        try:
            return fetch_backbone(str(model))
        except UserError as error:
            if "/" in str(model):
                raise
            raise type(error)(f"{error} ({unknown})") from error  # it may be a misspelt backbone
    return registered.folder()


def _load_saved(folder: Path, pooler: str | None, device: str) -> Encoder:
    """Load a folder that `save_encoder` wrote."""
    path = folder / SAVED
    stored = read_json(path)
    if not isinstance(stored, dict) or not isinstance(stored.get("kind"), str):
        raise UserError(f"{path} names no kind of encoder; save the encoder again")
    if stored["kind"] == TransformerEncoder.kind and stored.get("pooler") not in POOLER_NAMES:
        raise UserError(f"{path} names no pooler; save the encoder again")
    if pooler not in (None, stored.get("pooler")):
        own = (
            f"with pooler '{stored['pooler']}'" if "pooler" in stored else f"as '{stored['kind']}'"
        )
        what = f"{folder} was saved {own}, not with pooler '{pooler}'"
        raise UserError(f"{what}; omit --pooler, or write pooler=none")
    parts: dict[str, Any] = {}
    if (folder / "base").is_dir():
        parts["base"] = load_encoder(folder / "base", device=device)
    try:
        if (folder / ARRAYS).is_file():
            parts["arrays"] = load_file(folder / ARRAYS)
        cls = _encoder_class(stored["kind"], path)
        encoder: Encoder = cls.load(folder, stored, device=device, **parts)
    except SafetensorError as error:
        what = f"{folder / ARRAYS} is truncated or broken ({error})"
        raise UserError(f"{what}; save the encoder again") from None
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"cannot load an encoder of kind '{stored['kind']}' from {path} and the files beside "
            f"it ({error}); save the encoder again"
        ) from error
    return _tried(folder, lambda: encoder) if parts else encoder


def _tried(folder: Path, load: Callable[[], Encoder]) -> Encoder:
    """Load an encoder of several parts; raise `UserError` if their shapes do not fit."""
    try:
        encoder = load()
        with float32_products(ELSEWHERE):
            encoder.encode(["a"])
    except (RuntimeError, IndexError, ValueError) as error:  # of torch and numpy
        if is_memory_full(error):
            raise
        reason = str(error).partition("\n")[0]
        what = f"the parts of the encoder in {folder} do not fit ({reason})"
        raise UserError(f"{what}; save or download it again") from error
    return encoder


def _encoder_class(kind: str, source: Path) -> Any:
    """The class of a kind of encoder: of this package, else of the module of a method."""
    if kind == TransformerEncoder.kind:
        return TransformerEncoder
    if kind in sentence_transformers.ENCODER_KINDS:
        return sentence_transformers.ENCODER_KINDS[kind]
    for cls in method_classes().values():
        for value in vars(importlib.import_module(cls.__module__)).values():
            if isinstance(value, type) and getattr(value, "kind", None) == kind:
                return value
    what = f"{source} names an encoder of kind '{kind}', which no installed method defines"
    raise UserError(f"{what}; load it with the version that saved it")
