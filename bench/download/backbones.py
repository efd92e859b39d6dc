"""Models of the Hugging Face hub: safetensors weights, configuration and tokenizer."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatch
from pathlib import Path

from bench.download.cache import locked
from bench.download.http import one_sentence
from bench.download.hub import COMMIT, fetch_listed, list_files, verify_file
from bench.download.pins import enforce, pinned, record
from bench.utils.errors import UserError
from bench.utils.files import disk_errors, read_json, sha256_file

INDEX = "model.safetensors.index.json"
# Everything an encoder needs; no pickled weights, no code.
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
    # sentence-transformers: these, and a folder for each further module.
    "modules.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
)
MODULE = re.compile(r"\d+_\w+")  # name of such a folder
MODULE_FILES = ("config.json", "model.safetensors", "tokenizer.json", "sentence_bert_config.json")


def fetch_backbone(repository: str, revision: str | None = None) -> Path:
    """Return the folder of a hub model in the hub's own cache, verified; download what is missing.

    Args:
        repository: for example "google-bert/bert-base-uncased"; `@` and a revision may follow.
        revision: a commit, branch or pull request ("refs/pr/1"); by default the pinned commit.

    Raises:
        UserError: it cannot be downloaded, has only pickled weights, or differs from its pin.
    """
    if revision is None and "@" in repository:
        repository, _, revision = repository.partition("@")
    key = f"{repository}@{revision}" if revision else repository
    folder, sums = _cached_snapshot(key, repository, revision)
    if folder and _is_recorded(key, sums):
        return folder
    with locked(), one_sentence(key, "name a local folder that holds the model"):
        if folder is None:
            folder, sums = _fetch_snapshot(key, repository, revision)
        record(key, folder.name, sums)
    return folder


def _is_recorded(key: str, sums: dict[str, str]) -> bool:
    pin = pinned(key)
    return bool(pin["revision"]) and all(
        pin["files"].get(name, {}).get("sha256") == sums[name] for name in sums
    )


def _cached_snapshot(
    key: str, repository: str, revision: str | None
) -> tuple[Path | None, dict[str, str]]:
    """Look for a complete snapshot in the hub's cache.

    Returns:
        Its folder and the SHA-256 of its files, or (None, {}).

    Raises:
        UserError: a file differs from its pin. It is removed, because any program would use it.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    pin = pinned(key)
    commit = pin["revision"] or (revision if COMMIT.fullmatch(revision or "") else None)
    if commit is None:
        return None, {}
    try:
        folder = Path(
            snapshot_download(repository, revision=commit, allow_patterns=[], local_files_only=True)
        )
    except (LocalEntryNotFoundError, HFValidationError):
        return None, {}
    paths = [
        path
        for path in folder.rglob("*")
        if path.is_file() and _is_needed(path.relative_to(folder).as_posix())
    ]
    sums = {}
    for path in sorted(paths):
        name = path.relative_to(folder).as_posix()
        sums[name] = sha256_file(path)
        try:
            enforce(key, name, sums[name])
        except UserError:
            _remove(path)
            raise
    is_complete = (
        _has_weights(sums) and {"config.json", *pin["files"], *_shards(folder)} <= sums.keys()
    )
    return (folder, sums) if is_complete else (None, {})


def _fetch_snapshot(key: str, repository: str, revision: str | None) -> tuple[Path, dict[str, str]]:
    """Complete a snapshot in the hub's cache; return its folder and the SHA-256 of its files."""
    from huggingface_hub import constants, hf_hub_download
    from huggingface_hub.file_download import repo_folder_name

    listing = list_files(repository, pinned(key)["revision"] or revision)
    if not _has_weights(listing.files):
        raise UserError(
            f"{key} has only pickled weights, which can run code when they are loaded: refused; name a revision with "
            f"model.safetensors ({repository}@REVISION), or convert them to a local folder"
        )
    cache = Path(constants.HF_HUB_CACHE)
    storage = repo_folder_name(repo_id=repository, repo_type="model")
    sums = {}
    # config.json last: without it a snapshot counts as incomplete.
    for name in sorted(
        filter(_is_needed, listing.files), key=lambda name: (name == "config.json", name)
    ):
        entry = listing.files[name]
        blob = cache / storage / "blobs" / entry.digest
        # hf_hub_download locks the same file. It finds the blob, and links it into the snapshot.
        digest = None
        with locked(cache / ".locks" / storage / f"{entry.digest}.lock"):
            if (
                not blob.exists()
                and not (cache / storage / "snapshots" / listing.commit / name).exists()
            ):
                digest = fetch_listed(key, repository, listing, name, blob)
        with disk_errors(blob):
            path = Path(
                hf_hub_download(repository, name, revision=listing.commit, library_name="sentbench")
            )
        try:
            sums[name] = (
                digest if digest and path.samefile(blob) else verify_file(key, name, path, entry)
            )
        except UserError:
            _remove(path)
            raise
    folder = cache.resolve() / storage / "snapshots" / listing.commit
    _shards(folder)
    return folder, sums


def _remove(path: Path) -> None:
    """Remove a file of a snapshot and its blob."""
    try:
        path.resolve().unlink(missing_ok=True)
        path.unlink(missing_ok=True)
    except OSError:  # a read-only cache; the caller reports the wrong file in any case
        pass


def _shards(folder: Path) -> set[str]:
    """The weight files that a snapshot's index names; empty without an index.

    Raises:
        UserError: it names a file that is not safetensors, which a loader would unpickle.
    """
    index = folder / INDEX
    content = read_json(index) if index.is_file() else {}
    weight_map = content.get("weight_map") if isinstance(content, dict) else None
    names = set(map(str, weight_map.values())) if isinstance(weight_map, dict) else set()
    if others := sorted(name for name in names if not _has_weights([name])):
        raise UserError(
            f"{index} names weights in '{others[0]}', which is not a safetensors file: refused; choose another model"
        )
    return names


def _is_needed(name: str) -> bool:
    folder, _, file = name.rpartition("/")
    if not name.isprintable():
        return False
    if folder:
        return bool(MODULE.fullmatch(folder)) and file in MODULE_FILES
    return any(fnmatch(file, pattern) for pattern in BACKBONE_FILES)


def _has_weights(names: Iterable[str]) -> bool:
    return any(_is_needed(name) and name.endswith(".safetensors") for name in names)
