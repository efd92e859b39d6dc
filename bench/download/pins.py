"""Digests of downloaded files: published ones, and those of the first download (the lock)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.utils.files import read_json, write_json

PINS = Path(__file__).with_name("pins.json")
COMMIT = re.compile("[0-9a-f]{40}")
LOCK = Path(__file__).with_name("pins.lock.json")  # tracked, so that everybody gets the same files


def pinned(key: str) -> dict[str, Any]:
    """Return the pin of a repository; `pins.json` goes before the lock.

    A pull request in `pins.json` may move, so the lock's commit goes before it.

    Args:
        key: the repository of a model, or `datasets/` and that of a data set.

    Returns:
        `{"revision": commit, "refs/pr/" and a number, or None,
        "files": {name: {"sha256": digest or None, ...}}}`.
    """
    pin = read_json(PINS)["repositories"].get(key, {})
    locked = _read_lock().get(key, {})
    files = {name: dict(entry) for name, entry in pin.get("files", {}).items()}
    for name, digest in locked.get("files", {}).items():
        entry = files.setdefault(name, {})
        entry["sha256"] = entry.get("sha256") or digest
    revision = pin.get("revision")
    if not _is_commit(revision):
        revision = locked.get("revision") or revision
    return {"revision": revision, "files": files}


def _is_commit(revision: str | None) -> bool:
    return bool(COMMIT.fullmatch(revision or ""))


def _read_lock() -> dict[str, Any]:
    return read_json(LOCK) if LOCK.exists() else {}


def record(key: str, revision: str, digests: Mapping[str, str]) -> None:
    """Add to the lock what `pins.json` lacks about a repository; it is enforced from now on.

    Args:
        key: as `pinned` has it.
        revision: the commit.
        digests: file name -> SHA-256 in hex.
    """
    pin = read_json(PINS)["repositories"].get(key, {})
    lock = _read_lock()
    entry: dict[str, Any] = dict(lock.get(key, {}))
    if not _is_commit(pin.get("revision")):
        entry["revision"] = revision
    new = {
        name: digest
        for name, digest in digests.items()
        if not pin.get("files", {}).get(name, {}).get("sha256")
    }
    if new:
        entry["files"] = dict(sorted((entry.get("files", {}) | new).items()))
    if entry and entry != lock.get(key):
        write_json(LOCK, dict(sorted((lock | {key: entry}).items())))


def git_blob(path: Path) -> str:
    """The git blob id of a file, in hex: SHA-1 of a header with the size, and of the bytes."""
    digest = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
    with open(path, "rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
