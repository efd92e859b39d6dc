"""Files of the Hugging Face hub, each compared with what the hub announces and with its pin."""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from bench.download.cache import alone, cache_folder
from bench.download.http import Failure, fetch_verified, receive
from bench.download.pins import enforce, git_blob, pinned, record
from bench.utils.errors import UserError
from bench.utils.files import sha256_file
from bench.utils.lines import read_lines

DATASET = "datasets/princeton-nlp/datasets-for-simcse"
COMMIT = re.compile("[0-9a-f]{40}")
_TOKEN = "set HF_TOKEN to a token that may read it"  # noqa: S105 (no password)
_REASONS = {  # by the hub's word for it, or its status: what is wrong, and what helps
    "RepoNotFound": ("the hub has no such repository, or it is private", f"check its name, {_TOKEN}"),
    "RevisionNotFound": ("the repository has no such revision", "name another, or a hub that has it in HF_ENDPOINT"),
    "EntryNotFound": ("the repository has no such file", "check HF_ENDPOINT"),
    "GatedRepo": ("its publisher asks for consent", f"give it on the repository's page and {_TOKEN}"),
    "401": ("the hub asks for a login (status 401)", _TOKEN),
    "403": ("the hub forbids it (status 403)", _TOKEN),
}


class Announced(NamedTuple):
    """What the hub says of a file: its bytes, and its SHA-256 (of large files) or git blob id (of the others)."""

    size: int | None
    sha256: str | None
    blob: str | None

    def fault(self, path: Path, digest: str) -> str:
        """How the file at `path`, with the SHA-256 `digest`, differs; empty where it does not."""
        if self.sha256:
            return "" if digest == self.sha256 else f"SHA-256 {digest}, announced {self.sha256}"
        if self.blob and (found := git_blob(path)) != self.blob:
            return f"git blob {found}, announced {self.blob}"
        return ""


class Listing(NamedTuple):
    """A repository at one commit."""

    commit: str
    files: dict[str, Announced]


def _endpoint() -> str:
    return (os.environ.get("HF_ENDPOINT") or "https://huggingface.co").rstrip("/")


def _headers() -> dict[str, str]:
    from huggingface_hub.utils import build_hf_headers

    return build_hf_headers(library_name="sentbench")


@contextmanager
def one_sentence(what: str, instead: str) -> Iterator[None]:
    """Turn whatever goes wrong between here and the hub into one sentence; `instead` does without the hub."""
    try:
        yield
    except Failure as failure:
        reason, remedy = _REASONS.get(failure.code, (failure.reason, failure.remedy))
        raise UserError(f"cannot fetch {what}: {reason}; {remedy}, or {instead}") from None


def list_files(key: str, revision: str | None) -> Listing:
    """Ask the hub for the commit behind a revision (by default of the main branch), and for its files.

    `key` is a model's repository, or `datasets/` and a data set's.
    """
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id

    kind, name = ("datasets", key.removeprefix("datasets/")) if key.startswith("datasets/") else ("models", key)
    try:
        validate_repo_id(name)
    except HFValidationError:
        raise Failure("that is not the form of a repository's name", "write owner/name") from None
    at = f"/revision/{quote(revision, safe='')}" if revision else ""
    answer = io.BytesIO()
    receive(f"{_endpoint()}/api/{kind}/{name}{at}?blobs=true", answer, headers=_headers())
    try:
        content = json.loads(answer.getvalue())
        files = {str(file["rfilename"]): _announced(file) for file in content["siblings"]}
        listing = Listing(content["sha"], files)
        if not COMMIT.fullmatch(listing.commit):
            raise ValueError("a commit is 40 hexadecimal digits")
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
        raise Failure(f"{_endpoint()} gives no listing of a repository", "check HF_ENDPOINT") from None
    if revision and COMMIT.fullmatch(revision) and listing.commit != revision:
        raise Failure(f"asked for the commit {revision}, the hub lists {listing.commit}", "check HF_ENDPOINT")
    return listing


def _announced(file: dict[str, Any]) -> Announced:
    """One file of a listing; its sums become names of files, so they have the form of sums or are refused."""
    size, large = file.get("size"), file.get("lfs")
    sha256, blob = large["sha256"] if isinstance(large, dict) else None, file.get("blobId")
    for digest, length in ((sha256, 64), (blob, 40)):
        if digest is not None and not re.fullmatch(f"[0-9a-f]{{{length}}}", digest):
            raise ValueError("no sum")
    if size is not None and not (isinstance(size, int) and size >= 0):
        raise ValueError("no size")
    return Announced(size, sha256, None if sha256 else blob)


def check(key: str, name: str, path: Path, announced: Announced) -> str:
    """The SHA-256 of a file that is what the hub announces and what its pin says.

    Raises:
        UserError: it is not.
    """
    digest = sha256_file(path)
    if fault := announced.fault(path, digest):
        raise UserError(f"{name} of {key} arrived altered: {fault}; fetch it again")
    enforce(key, {name: digest})
    return digest


def fetch_listed(key: str, repository: str, listing: Listing, name: str, target: Path) -> str:
    """Bring a file of a repository to `target`, whole and verified, or not at all; its SHA-256.

    Nobody else may be fetching it.
    """
    if name not in listing.files:
        raise Failure("the repository has no such file", "check HF_ENDPOINT", "EntryNotFound")

    def verified(path: Path) -> str:
        digest = check(key, name, path, listing.files[name])
        rows = pinned(key)["files"].get(name, {}).get("rows")
        if rows and (found := sum(1 for _ in read_lines(path))) not in rows:
            raise UserError(f"{name} has {found} rows, expected {' or '.join(map(str, rows))}; fetch it again")
        return digest

    url = f"{_endpoint()}/{repository}/resolve/{listing.commit}/{quote(name)}"
    part, size = target.with_name(f".{target.name}.fetching"), listing.files[name].size
    return fetch_verified(url, part, target, verified, headers=_headers(), size=size, title=name)


def fetch_file(name: str, key: str = DATASET) -> Path:
    """A file of a repository of the hub, verified: of SimCSE's data set unless another is named.

    Args:
        key: a model's repository, or `datasets/` and a data set's.

    Raises:
        UserError: it cannot be fetched, or is not what its pin says; nothing is left under its name then.
    """
    target = cache_folder() / name

    def there() -> bool:
        wanted = pinned(key)["files"].get(name, {}).get("sha256")
        return bool(wanted) and target.is_file() and sha256_file(target) == wanted

    if there():  # so a cache that is full need not be one that can be written
        return target
    local = "BENCH_DATA to a local data folder" if key == DATASET else "BENCH_MODELS to a local folder that holds it"
    with alone(), one_sentence(f"{name} of {key}", f"set {local}"):
        if not there():
            listing = list_files(key, pinned(key)["revision"])
            digest = fetch_listed(key, key, listing, name, target)
            record(key, listing.commit, {name: digest})
    return target
