"""Encoders that were not trained here: what a name stands for, and the sum of a folder's files."""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path

from bench.registry.backbones import UnknownBackbone, backbone
from bench.registry.methods import method_classes
from bench.utils.errors import UserError
from bench.utils.files import sha256_file, sha256_text

SAVED = "encoder.json"  # in a folder that `bench.models.load.save_encoder` wrote
HUB_ID = re.compile(r"\w[\w.-]*(/[\w.-]+)?(@[^\s\[\]@]+)?")  # name or owner/name, and revision
BACKBONE = "backbone"  # in place of a name: the initial weights of a run's own backbone


def is_path(name: str) -> bool:
    """Return whether a name is a path and no hub id, which has at most one `/` and an owner that is
    no folder here."""
    owner, slash, rest = name.partition("/")
    is_here = bool(slash) and Path(owner).is_dir()
    return name.startswith((".", "/", "~")) or "/" in rest.partition("@")[0] or is_here


def no_folder(name: object) -> UserError:
    """Return the error for a model folder that does not exist."""
    return UserError(f"model folder {name} does not exist; give a Hugging Face folder or a hub id")


def encoder_folder(name: str) -> Path | None:
    """Return the local folder of an encoder: a run's, one by path, one in `BENCH_MODELS`, or a toy;
    None for one of the hub.

    Raises:
        UserError: the name is empty, a path where no model is, or not that of a model.
    """
    if not name:
        raise UserError("the name of an encoder is empty; give a Hugging Face folder or a hub id")
    folder = Path(name)
    if (folder / "encoder" / SAVED).is_file():
        return folder / "encoder"
    if folder.is_dir():
        if not any((folder / file).is_file() for file in (SAVED, "config.json", "modules.json")):
            raise UserError(f"{folder} holds no config.json; give a folder in Hugging Face format")
        return folder
    if folder.is_file():
        raise UserError(f"{name} is a file; give the folder of a model or a hub id")
    if is_path(name):
        raise no_folder(name)
    try:
        known = backbone(name)
    except UnknownBackbone:
        if not HUB_ID.fullmatch(name) or name in method_classes():
            what = f"'{name}' is neither a folder, a model of the hub nor run:METHOD"
            raise UserError(f"{what}; name one of them") from None
        return None
    return None if known.source == "hub" else known.folder()


def fingerprint(name: str) -> str:
    """Return what identifies an encoder: the sum of its folder's files, else its name.

    Raises:
        UserError: the name is a path, and there is no such folder.
    """
    folder = encoder_folder(name)
    return name if folder is None else f"sha256-{files_sum(folder)}"


def files_sum(folder: Path) -> str:
    """Return a SHA-256 over the names and checksums of a folder's files, without hidden ones."""
    files = sorted(
        path
        for path in (folder.rglob("*") if folder.is_dir() else [folder])
        if path.is_file() and not any(p.startswith(".") for p in path.relative_to(folder).parts)
    )
    sums = [f"{_file_sum(path, *_state(path))}  {path.relative_to(folder)}" for path in files]
    return sha256_text("\n".join(sums))


def _state(path: Path) -> tuple[int, int]:
    found = os.stat(path)
    return found.st_size, found.st_mtime_ns


@cache
def _file_sum(path: Path, size: int, changed: int) -> str:
    """Return the checksum of a file, read once in a process until size or time changes."""
    return sha256_file(path)
