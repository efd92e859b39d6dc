"""Models of the Hugging Face hub: safetensors weights, configuration and tokenizer."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatch
from pathlib import Path

from bench.download.http import one_sentence
from bench.download.hub import fetch_listed, list_files, repository_of, verify_file
from bench.download.local import locked
from bench.download.pins import COMMIT, pinned, record
from bench.utils.errors import UserError
from bench.utils.files import read_json

INDEX = "model.safetensors.index.json"
# Everything an encoder needs; no pickled weights, no code.
JSON = ["config", "tokenizer", "tokenizer_config", "special_tokens_map", "added_tokens", "vocab"]
JSON += ["modules", "sentence_bert_config", "config_sentence_transformers"]
BACKBONE_FILES = [f"{name}.json" for name in JSON]
BACKBONE_FILES += ["vocab.txt", "merges.txt", "model.safetensors", "model-*.safetensors", INDEX]
# Each further module of sentence-transformers has a folder of this name.
MODULE = re.compile(r"\d+_\w+")
MODULE_FILES = ("config.json", "model.safetensors", "tokenizer.json", "sentence_bert_config.json")


def fetch_backbone(repository: str, revision: str | None = None) -> Path:
    """Return the folder of a hub model in the hub's own cache, verified; download what is missing.

    Args:
        repository: for example "google-bert/bert-base-uncased"; `@` and a revision may follow.
        revision: a commit, branch or pull request ("refs/pr/1"); by default the pinned commit.

    Raises:
        UserError: it cannot be downloaded, has only pickled weights, or differs from its pin.
    """
    if revision is None:
        repository, _, revision = repository.partition("@")
    key = f"{repository}@{revision}" if revision else repository
    pin = pinned(key)
    commit = pin["revision"] or revision
    sums = _cached_files(key, commit) if COMMIT.fullmatch(commit) else {}
    recorded = {name: entry.get("sha256") for name, entry in pin["files"].items()}
    if not sums or not pin["revision"] or not sums.items() <= recorded.items():
        with locked(), one_sentence(key, "name a local folder that holds the model"):
            if not sums:
                commit, sums = _fetch_files(key, commit or None)
            record(key, commit, sums)
    return _snapshot(key, commit)


def _snapshot(key: str, commit: str) -> Path:
    from huggingface_hub import constants
    from huggingface_hub.file_download import repo_folder_name

    storage = repo_folder_name(**repository_of(key))
    return Path(constants.HF_HUB_CACHE).resolve() / storage / "snapshots" / commit


def _cached_files(key: str, commit: str) -> dict[str, str]:
    """The SHA-256 of the files of a complete snapshot in the hub's cache, else nothing."""
    folder = _snapshot(key, commit)
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    names = filter(_is_needed, (path.relative_to(folder).as_posix() for path in paths))
    sums = {name: verify_file(key, name, folder / name) for name in names}
    expected = {"config.json", *pinned(key)["files"], *_shards(folder)}
    return sums if _has_weights(sums) and expected <= sums.keys() else {}


def _fetch_files(key: str, revision: str | None) -> tuple[str, dict[str, str]]:
    """Complete a snapshot in the hub's cache; return its commit and the SHA-256 of its files."""
    listing = list_files(key, revision)
    if not _has_weights(listing.files):
        raise UserError(
            f"{key} has only pickled weights, which can run code when they are loaded: refused; "
            f"name a revision with model.safetensors ({key.partition('@')[0]}@REVISION), or "
            f"convert them to a local folder"
        )
    # config.json last: without it a snapshot counts as incomplete.
    names = sorted(filter(_is_needed, listing.files), key=lambda name: name == "config.json")
    sums = {name: fetch_listed(key, listing, name) for name in names}
    _shards(_snapshot(key, listing.commit))
    return listing.commit, sums


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
        what = f"{index} names weights in '{others[0]}', which is not a safetensors file: refused"
        raise UserError(f"{what}; choose another model")
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
