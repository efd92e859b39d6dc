"""What fetched files must be: `pins.json`, what could be looked up; `pins.lock.json`, what the first download gave."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.utils.errors import UserError
from bench.utils.files import read_json, write_json

PINS = Path(__file__).with_name("pins.json")
LOCK = Path(__file__).with_name("pins.lock.json")  # tracked, so that everybody gets what the first one got

Sums = Mapping[str, str | None]  # name of a file -> SHA-256 in hex, None where unknown


def pinned(key: str) -> dict[str, Any]:
    """What is known of a repository: `{"revision": commit or None, "files": {name: {"sha256": sum or None, ...}}}`.

    `key` is a model's repository, or `datasets/` and a data set's; what `pins.json` says goes before the lock.
    """
    known = read_json(PINS)["repositories"].get(key, {})
    locked = _read_lock().get(key, {})
    files = {name: dict(entry) for name, entry in known.get("files", {}).items()}
    for name, digest in locked.get("files", {}).items():
        entry = files.setdefault(name, {})
        entry["sha256"] = entry.get("sha256") or digest
    return {"revision": known.get("revision") or locked.get("revision"), "files": files}


def _read_lock() -> dict[str, Any]:
    return read_json(LOCK) if LOCK.exists() else {}


def enforce(key: str, sums: Sums) -> None:
    """Compare files with their pins; those without one pass.

    Raises:
        UserError: one of them differs.
    """
    files = pinned(key)["files"]
    for name, digest in sums.items():
        wanted = files.get(name, {}).get("sha256")
        if wanted not in (None, digest):
            raise UserError(
                f"{name} of {key} has the SHA-256 {digest}, but {wanted} is pinned: it was altered or cut short; "
                f"fetch it again, or, if its publisher replaced it, remove its entry from {LOCK.name}"
            )


def record(key: str, revision: str, sums: Sums) -> None:
    """Write into the lock what `pins.json` does not know of a repository, so that it is enforced from now on."""
    known = read_json(PINS)["repositories"].get(key, {})
    lock = _read_lock()
    entry: dict[str, Any] = dict(lock.get(key, {}))
    if not known.get("revision"):
        entry["revision"] = revision
    unknown = {name: digest for name, digest in sums.items() if not known.get("files", {}).get(name, {}).get("sha256")}
    if unknown:
        entry["files"] = dict(sorted((entry.get("files", {}) | unknown).items()))
    if entry and entry != lock.get(key):
        write_json(LOCK, dict(sorted((lock | {key: entry}).items())))


def git_blob(path: Path) -> str:
    """The id that git gives a file's content: SHA-1 of a header with its size and of its bytes, in hex."""
    digest = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
    with open(path, "rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
