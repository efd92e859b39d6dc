"""Files of the Hugging Face hub, compared with what the hub lists and with their pins."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from bench.download import pins
from bench.download.http import one_sentence, retry
from bench.download.local import cache_folder, locked
from bench.download.pins import COMMIT
from bench.utils.errors import UserError
from bench.utils.files import disk_errors, sha256_file
from bench.utils.lines import read_lines

DATASET = "datasets/princeton-nlp/datasets-for-simcse"


class Entry(NamedTuple):
    """A listed file. `digest` is its SHA-256 if it is stored in LFS, else its git blob id."""

    size: int
    digest: str


class Listing(NamedTuple):
    """The files of a repository at one commit."""

    commit: str
    files: dict[str, Entry]


def repository_of(key: str) -> dict[str, str]:
    """The arguments by which huggingface_hub names the repository of a key of the pins.

    Args:
        key: the repository of a model, or `datasets/` and that of a data set; `@` and a revision
            may follow.
    """
    name, kind = key.partition("@")[0], "dataset" if key.startswith("datasets/") else "model"
    return {"repo_id": name.removeprefix("datasets/"), "repo_type": kind}


def list_files(key: str, revision: str | None) -> Listing:
    """List a repository at a commit, branch or pull request; by default at its main branch."""
    from huggingface_hub import HfApi, constants
    from huggingface_hub.errors import FileMetadataError

    api = HfApi(library_name="sentbench")
    # Without `timeout`, HfApi waits for ever.
    options = {"files_metadata": True, "timeout": constants.HF_HUB_DOWNLOAD_TIMEOUT}
    try:
        info = retry(lambda: api.repo_info(**repository_of(key), revision=revision, **options))
        files = {
            file.rfilename: Entry(int(file.size), file.lfs.sha256 if file.lfs else file.blob_id)
            for file in info.siblings
        }
        is_other = COMMIT.fullmatch(revision or "") and info.sha != revision
        if COMMIT.fullmatch(info.sha) and not is_other:  # it becomes the name of a folder
            return Listing(info.sha, files)
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        # HFValidationError and BadRequestError are ValueErrors.
        if type(error).__module__.startswith("huggingface_hub"):
            raise
    raise FileMetadataError(f"no listing of {key} at {revision}")


def verify_file(key: str, name: str, path: Path, entry: Entry | None = None) -> str:
    """Return the SHA-256 of a file that is what its pin says, and the hub's `entry` if given.

    Raises:
        UserError: it is not; it is removed then, because any program would use it.
    """
    try:
        return _verified(key, name, path, entry)
    except UserError:
        with suppress(OSError):  # a read-only cache
            path.resolve().unlink(missing_ok=True)  # in the hub's cache, `path` is a link to it
            path.unlink(missing_ok=True)
        raise


def _verified(key: str, name: str, path: Path, entry: Entry | None) -> str:
    digest = sha256_file(path)
    actual = digest if entry is None or len(entry.digest) == 64 else pins.git_blob(path)
    if entry and actual != entry.digest:
        raise UserError(
            f"{name} of {key} is corrupt: {path.stat().st_size} bytes with the digest {actual}, "
            f"but the hub lists {entry.size} bytes with {entry.digest}; fetch it again"
        )
    pin = pins.pinned(key)["files"].get(name, {})
    if pin.get("sha256") not in (None, digest):
        raise UserError(
            f"{name} of {key} has the SHA-256 {digest}, but {pin['sha256']} is pinned: it was "
            f"altered or truncated; fetch it again, or, if its publisher replaced it, remove its "
            f"entry from {pins.LOCK.name}"
        )
    if rows := pin.get("rows"):
        count = sum(1 for _ in read_lines(path))
        if count not in rows:
            expected = " or ".join(map(str, rows))
            raise UserError(f"{name} has {count} rows, expected {expected}; fetch it again")
    return digest


def fetch_listed(key: str, listing: Listing, name: str, folder: Path | None = None) -> str:
    """Download a listed file, verify it, and return its SHA-256.

    Args:
        key: as in `repository_of`.
        folder: where to; by default the hub's own cache.
    """
    from huggingface_hub import constants, hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError

    if name not in listing.files:
        raise EntryNotFoundError(name)
    constants.HF_HUB_DISABLE_XET = True  # plain HTTP, whose errors `one_sentence` knows
    options = repository_of(key) | {"revision": listing.commit, "library_name": "sentbench"}
    with disk_errors((folder or Path(constants.HF_HUB_CACHE)) / name):
        path = retry(lambda: hf_hub_download(filename=name, local_dir=folder, **options))
    return verify_file(key, name, Path(path), listing.files[name])


def fetch_file(name: str, key: str = DATASET) -> Path:
    """Return a file of the hub in the cache, verified; download it if it is not there.

    Args:
        name: path within the repository.
        key: as in `repository_of`.

    Raises:
        UserError: it cannot be downloaded, or differs from its pin.
    """
    target = cache_folder() / name

    def is_cached() -> bool:
        expected = pins.pinned(key)["files"].get(name, {}).get("sha256")
        return bool(expected) and target.is_file() and sha256_file(target) == expected

    if is_cached():  # without the lock: the cache may be read-only
        return target
    data, models = "BENCH_DATA to a local data folder", "BENCH_MODELS to a folder that holds it"
    with locked(), one_sentence(f"{name} of {key}", f"set {data if key == DATASET else models}"):
        if not is_cached():
            target.unlink(missing_ok=True)
            listing = list_files(key, pins.pinned(key)["revision"])
            digest = fetch_listed(key, listing, name, cache_folder())
            pins.record(key, listing.commit, {name: digest})
    return target
