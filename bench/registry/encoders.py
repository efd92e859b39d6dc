"""Encoders that were not trained here."""

import re
from functools import cache
from pathlib import Path

from bench.registry.backbones import UnknownBackbone, backbone
from bench.registry.methods import method_classes
from bench.utils.errors import UserError
from bench.utils.files import sha256_file, sha256_text

# What a folder is, by the file that says so: an encoder that `bench.models.load.save_encoder`
# wrote, modules of sentence-transformers, or a transformer.
KINDS = SAVED, MODULES, TRANSFORMER = "encoder.json", "modules.json", "config.json"
HUB_ID = re.compile(r"\w[\w.-]*(/[\w.-]+)?(@[^\s\[\]@]+)?")  # name or owner/name, and revision
BACKBONE = "backbone"  # in place of a name: the initial weights of a run's own backbone


def folder_kind(folder: Path) -> str:
    """Return the kind of a folder, of `KINDS`; `UserError` if it is none of them."""
    for kind in KINDS:
        if (folder / kind).is_file():
            return kind
    raise UserError(f"{folder} holds no {TRANSFORMER}; give a folder in Hugging Face format")


def encoder_folder(name: str) -> Path | None:
    """Return the local folder of an encoder, None for one of the hub; `UserError` if the name is
    neither."""
    folder = Path(name)
    if folder.is_dir():
        if (folder / "encoder" / SAVED).is_file():
            return folder / "encoder"
        folder_kind(folder)
        return folder
    # An id of the hub has at most one "/", and an owner that is no folder here.
    owner, slash, rest = name.partition("/")
    is_here = folder.is_file() or (bool(slash) and Path(owner).is_dir())
    is_path = name.startswith((".", "/", "~")) or "/" in rest.partition("@")[0]
    if is_here or is_path:
        raise UserError(
            f"model folder {name} does not exist; give a Hugging Face folder or a hub id"
        )
    try:
        known = backbone(name)
    except UnknownBackbone:
        if not HUB_ID.fullmatch(name) or name in method_classes():
            raise UserError(
                f"'{name}' is neither a folder, a model of the hub nor run:METHOD; name one of them"
            ) from None
        return None
    return None if known.source == "hub" else known.folder()


def hub_repository(name: str) -> str:
    """Return the hub id of an encoder without a local folder, as it is downloaded."""
    try:
        return backbone(name).location
    except UnknownBackbone:
        return name


def fingerprint(name: str) -> str:
    """Return what identifies an encoder: the sum of its folder's files, else its name."""
    folder = encoder_folder(name)
    return name if folder is None else f"sha256-{files_sum(folder)}"


def files_sum(folder: Path, endings: tuple[str, ...] = ("",)) -> str:
    """Return a SHA-256 over the names and checksums of a file or a folder's files without hidden
    ones, of those with some `endings`."""
    sums = []
    for path in sorted((folder, *folder.rglob("*"))):
        name = path.relative_to(folder)
        is_hidden = any(part.startswith(".") for part in name.parts)
        if path.is_file() and not is_hidden and path.name.endswith(endings):
            state = path.stat()
            sums.append(f"{_file_sum(path, state.st_size, state.st_mtime_ns)}  {name}")
    return sha256_text("\n".join(sums))


@cache
def _file_sum(path: Path, size: int, changed: int) -> str:
    """The checksum of a file, read once in a process until size or time changes."""
    return sha256_file(path)
