"""Commits and digests of what is downloaded: published ones, and those of the first download."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.download.local import cache_folder, locked
from bench.utils.files import read_json, write_json

PINS = Path(__file__).with_name("pins.json")
COMMIT = re.compile("[0-9a-f]{40}")


def lock_file() -> Path:
    """The commits and digests of the first downloads, in the cache."""
    return cache_folder() / "pins.lock.json"


def _recorded() -> dict[str, Any]:
    return read_json(lock_file()) if lock_file().exists() else {}


def pinned(key: str) -> tuple[str | None, dict[str, str]]:
    """Return the pinned revision of a repository, and the SHA-256 of its pinned files.

    `pins.json` goes before what the first download recorded, but a pull request that it names may
    move, so the recorded commit goes before that.

    Args:
        key: the repository of a model, or `datasets/` and that of a data set.
    """
    pin = read_json(PINS)["repositories"].get(key, {})
    recorded = _recorded().get(key, {"revision": None, "files": {}})
    revision = pin.get("revision")
    if not COMMIT.fullmatch(revision or ""):
        revision = recorded["revision"] or revision
    known = {name: entry.get("sha256") for name, entry in pin.get("files", {}).items()}
    return revision, recorded["files"] | {name: digest for name, digest in known.items() if digest}


def record(key: str, commit: str, sums: Mapping[str, str]) -> None:
    """Record the commit and the SHA-256 of downloaded files; they are enforced from now on.

    Nothing is written if all of it is recorded: the cache may be read-only.
    """
    entry = _recorded().get(key, {})
    if entry.get("revision") == commit and sums.items() <= entry["files"].items():
        return
    with locked():
        recorded = _recorded()
        entry = recorded.get(key, {})
        known = entry["files"] if entry.get("revision") == commit else {}
        recorded[key] = {"revision": commit, "files": dict(sorted({**known, **sums}.items()))}
        write_json(lock_file(), dict(sorted(recorded.items())))


def git_blob(content: bytes) -> str:
    """The id of a file in git, in hex: SHA-1 of a header with the size, and of the bytes."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
