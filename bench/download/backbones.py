"""Models of the Hugging Face hub, in the hub's own cache: all that an encoder needs, and nothing that could run."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path

from bench.download.cache import alone, held
from bench.download.hub import COMMIT, Announced, Listing, check, fetch_listed, list_files, one_sentence
from bench.download.pins import enforce, pinned, record
from bench.utils.errors import UserError
from bench.utils.files import disk_errors, read_json, sha256_file, sha256_text

INDEX = "model.safetensors.index.json"
# All that an encoder needs; above all no pickled weights and no code.
BACKBONE_FILES = (
    "config.json",
    "model.safetensors",
    "model-*.safetensors",
    INDEX,
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    # What sentence-transformers puts beside a transformer, and in a folder for each further module.
    "modules.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
)
MODULE = re.compile(r"\d+_\w+")  # of such a folder
MODULE_FILES = ("config.json", "model.safetensors", "tokenizer.json", "sentence_bert_config.json")


def fetch_backbone(repository: str, revision: str | None = None) -> Path:
    """The folder of a hub model, in the hub's own cache: configuration, tokeniser and safetensors weights, verified.

    Args:
        repository: for example "google-bert/bert-base-uncased"; a revision may follow it behind an `@`.
        revision: a commit, branch or pull request ("refs/pr/1"); by default the pinned commit.

    Raises:
        UserError: it cannot be fetched, has pickled weights alone, or is not what its pin says.
    """
    if revision is None and "@" in repository:
        repository, _, revision = repository.partition("@")
    key = f"{repository}@{revision}" if revision else repository
    if (folder := _cached_snapshot(repository, revision, key)) and _is_known(key, _sums(key, folder)):
        return folder
    with alone(), one_sentence(key, "name a local folder that holds the model"):
        folder = _cached_snapshot(repository, revision, key)
        sums = _sums(key, folder) if folder else {}
        if folder is None:
            listing = list_files(repository, pinned(key)["revision"] or revision)
            folder, sums = _fetch_snapshot(key, repository, listing)
        record(key, folder.name, sums)
    return folder


def _is_known(key: str, sums: dict[str, str]) -> bool:
    pin = pinned(key)
    return bool(pin["revision"]) and all(pin["files"].get(name, {}).get("sha256") == sums[name] for name in sums)


def _cached_snapshot(repository: str, revision: str | None, key: str) -> Path | None:
    """The folder in the hub's cache, which others fill as well; None unless it is whole."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    pin = pinned(key)
    commit = pin["revision"] or (revision if COMMIT.fullmatch(revision or "") else None)
    if commit is None:
        return None
    try:
        folder = Path(
            snapshot_download(
                repository,
                revision=commit,
                allow_patterns=[*BACKBONE_FILES, *(f"*/{name}" for name in MODULE_FILES)],
                local_files_only=True,
            )
        )
    except (LocalEntryNotFoundError, HFValidationError):
        return None
    present = set(_present(folder))
    whole = _has_weights(present) and not {"config.json", *pin["files"], *_shards(folder)} - present
    return folder if whole else None


def _shards(folder: Path) -> set[str]:
    """The files of weights that a snapshot's index names, if it has one.

    Raises:
        UserError: it names others than safetensors beside it, which a loader would take for pickles.
    """
    index = folder / INDEX
    content = read_json(index) if index.is_file() else {}
    names = content.get("weight_map") if isinstance(content, dict) else None
    names = set(map(str, names.values())) if isinstance(names, dict) else set()
    if other := sorted(name for name in names if not _has_weights([name])):
        raise UserError(
            f"{index} names weights in '{other[0]}', which is no safetensors file: refused; choose another model"
        )
    return names


def _sums(key: str, folder: Path) -> dict[str, str]:
    """SHA-256 of all that an encoder needs of a cached snapshot, each compared with its pin.

    Raises:
        UserError: one differs; it is removed then, since whoever asks the cache for it would take it for right.
    """
    sums = {}
    for name in sorted(filter(_is_needed, _present(folder))):
        path = folder / name
        sums[name] = sha256_file(path)
        try:
            enforce(key, {name: sums[name]})
        except UserError:
            with suppress(OSError):  # of a cache that cannot be written: the error stands, and is told again
                path.resolve().unlink()
                path.unlink(missing_ok=True)
            raise
    return sums


def _present(folder: Path) -> list[str]:
    """Files in a snapshot and in the folders of its modules."""
    paths = (path for pattern in ("*", "*/*") for path in folder.glob(pattern) if path.is_file())
    return [path.relative_to(folder).as_posix() for path in paths]


def _is_needed(name: str) -> bool:
    place, _, file = name.rpartition("/")
    known = file in MODULE_FILES if place else any(fnmatch(file, pattern) for pattern in BACKBONE_FILES)
    return known and (not place or bool(MODULE.fullmatch(place))) and name.isprintable()


def _has_weights(names: Iterable[str]) -> bool:
    return any(_is_needed(name) and name.endswith(".safetensors") for name in names)


def _fetch_snapshot(key: str, repository: str, listing: Listing) -> tuple[Path, dict[str, str]]:
    """Complete a snapshot in the hub's cache; its folder and the SHA-256 of its files."""
    from huggingface_hub import constants

    if not _has_weights(listing.files):
        raise UserError(
            f"{key} offers only pickled weights, which can run code when loaded: refused; name a revision that holds "
            f"model.safetensors ({repository}@REVISION), or convert them to a local folder"
        )
    storage = Path(constants.HF_HUB_CACHE) / f"models--{repository.replace('/', '--')}"
    blobs, folder = storage / "blobs", storage / "snapshots" / listing.commit
    sums = {}
    with held(storage.parent / ".locks" / storage.name / "sentbench.lock", "name a folder for models in HF_HOME"):
        with disk_errors(folder):
            blobs.mkdir(parents=True, exist_ok=True)
            folder.mkdir(parents=True, exist_ok=True)
        # The configuration last: a snapshot without it is none.
        for name in sorted(filter(_is_needed, listing.files), key=lambda name: (name == "config.json", name)):
            announced = listing.files[name]
            digest = _right(key, name, folder / name, announced)
            if digest is None:
                blob = blobs / (announced.sha256 or announced.blob or sha256_text(f"{listing.commit}/{name}"))
                digest = _right(key, name, blob, announced) or fetch_listed(key, repository, listing, name, blob)
                (folder / name).parent.mkdir(exist_ok=True)
                _link(folder / name, blob)
            sums[name] = digest
        _shards(folder)
    return folder, sums


def _right(key: str, name: str, path: Path, announced: Announced) -> str | None:
    """The SHA-256 of a file in the cache; None unless it is there and is what it should be."""
    try:
        return check(key, name, path, announced) if path.is_file() else None
    except UserError:
        return None


def _link(path: Path, blob: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to(os.path.relpath(blob, path.parent))
