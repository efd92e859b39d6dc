"""Files of the Hugging Face hub, compared with what the hub lists and with their pins."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

from bench.download.cache import cache_folder, locked
from bench.download.http import download, one_sentence, retry
from bench.download.pins import enforce, git_blob, pinned, record
from bench.utils.errors import UserError
from bench.utils.files import sha256_file
from bench.utils.lines import read_lines

DATASET = "datasets/princeton-nlp/datasets-for-simcse"
COMMIT = re.compile("[0-9a-f]{40}")
DIGEST = re.compile("[0-9a-f]{40}|[0-9a-f]{64}")


class Entry(NamedTuple):
    """A listed file. `digest` is its SHA-256 if it is stored in LFS, else its git blob id."""

    size: int
    digest: str


class Listing(NamedTuple):
    """The files of a repository at one commit."""

    commit: str
    files: dict[str, Entry]


def list_files(key: str, revision: str | None) -> Listing:
    """List a repository.

    Args:
        key: the repository of a model, or `datasets/` and that of a data set.
        revision: a commit, branch or pull request; by default the main branch.
    """
    from huggingface_hub import HfApi, constants
    from huggingface_hub.errors import FileMetadataError

    def request() -> Any:
        # Without `timeout`, HfApi waits for ever.
        return HfApi(library_name="sentbench").repo_info(
            **_repository(key),
            revision=revision,
            files_metadata=True,
            timeout=constants.HF_HUB_DOWNLOAD_TIMEOUT,
        )

    try:
        info = retry(request)
        files = {
            file.rfilename: Entry(int(file.size), file.lfs.sha256 if file.lfs else file.blob_id)
            for file in info.siblings
        }
        # Digests become file names in the cache.
        well_formed = all(
            DIGEST.fullmatch(entry.digest) for entry in files.values()
        ) and COMMIT.fullmatch(info.sha)
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        # HFValidationError and BadRequestError are ValueErrors.
        if type(error).__module__.startswith("huggingface_hub"):
            raise
        well_formed = None
    if not well_formed or (revision and COMMIT.fullmatch(revision) and info.sha != revision):
        raise FileMetadataError(f"no listing of {key} at {revision}")
    return Listing(info.sha, files)


def _repository(key: str) -> dict[str, str]:
    """The arguments by which huggingface_hub names a repository."""
    kind, name = (
        ("dataset", key.removeprefix("datasets/"))
        if key.startswith("datasets/")
        else ("model", key)
    )
    return {"repo_id": name, "repo_type": kind}


def verify_file(key: str, name: str, path: Path, entry: Entry) -> str:
    """Return the SHA-256 of a file that is what the hub lists and what its pin says.

    Raises:
        UserError: it is not.
    """
    digest = sha256_file(path)
    actual = digest if len(entry.digest) == 64 else git_blob(path)
    if actual != entry.digest:
        raise UserError(
            f"{name} of {key} is corrupt: {path.stat().st_size} bytes with the digest {actual}, but the hub lists "
            f"{entry.size} bytes with {entry.digest}; fetch it again"
        )
    enforce(key, name, digest)
    rows = pinned(key)["files"].get(name, {}).get("rows")
    if rows and (count := sum(1 for _ in read_lines(path))) not in rows:
        raise UserError(
            f"{name} has {count} rows, expected {' or '.join(map(str, rows))}; fetch it again"
        )
    return digest


def fetch_listed(key: str, repository: str, listing: Listing, name: str, target: Path) -> str:
    """Download a listed file to `target`, verify it, return its SHA-256. The caller holds a lock.

    Args:
        key: the repository as `pins.json` names it, with a revision where one was asked for.
        repository: the same without a revision.
    """
    from huggingface_hub import hf_hub_url
    from huggingface_hub.errors import EntryNotFoundError
    from huggingface_hub.utils import build_hf_headers

    if name not in listing.files:
        raise EntryNotFoundError(name)
    entry = listing.files[name]
    return download(
        hf_hub_url(filename=name, revision=listing.commit, **_repository(repository)),
        target,
        lambda path: verify_file(key, name, path, entry),
        headers=build_hf_headers(library_name="sentbench"),
        size=entry.size,
    )


def fetch_file(name: str, key: str = DATASET) -> Path:
    """Return a file of the hub in the cache, verified; download it if it is not there.

    Args:
        name: path within the repository.
        key: the repository of a model, or `datasets/` and that of a data set.

    Raises:
        UserError: it cannot be downloaded, or differs from its pin.
    """
    target = cache_folder() / name

    def is_cached() -> bool:
        expected = pinned(key)["files"].get(name, {}).get("sha256")
        return bool(expected) and target.is_file() and sha256_file(target) == expected

    if is_cached():  # without the lock: the cache may be read-only
        return target
    alternative = (
        "BENCH_DATA to a local data folder"
        if key == DATASET
        else "BENCH_MODELS to a folder that holds it"
    )
    with locked(), one_sentence(f"{name} of {key}", f"set {alternative}"):
        if not is_cached():
            listing = list_files(key, pinned(key)["revision"])
            record(key, listing.commit, {name: fetch_listed(key, key, listing, name, target)})
    return target
