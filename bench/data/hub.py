"""Files and models of the Hugging Face hub, each compared with what the hub announces and with its pin."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.data.cache import alone, cache_folder
from bench.data.pins import Sums, enforce, pinned, record
from bench.data.reading import read_lines
from bench.errors import UserError
from bench.files import atomic_file, sha256_file

if TYPE_CHECKING:
    from huggingface_hub import HfApi

DATASET = "datasets/princeton-nlp/datasets-for-simcse"

# All that an encoder needs; above all no pickled weights and no code.
BACKBONE_FILES = (
    "config.json",
    "model.safetensors",
    "model-*.safetensors",
    "model.safetensors.index.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
)


def _endpoint() -> str:
    return (os.environ.get("HF_ENDPOINT") or "https://huggingface.co").rstrip("/")


def _hub() -> HfApi:
    from huggingface_hub import HfApi

    return HfApi(endpoint=_endpoint(), library_name="sentbench")


@contextmanager
def _one_sentence(what: str, remedy: str) -> Iterator[None]:
    """Turn whatever goes wrong between here and the hub into one sentence."""
    from huggingface_hub import errors

    try:
        yield
        return
    except errors.GatedRepoError:
        reason = "its publisher asks for a login"
    except errors.RepositoryNotFoundError:
        reason = f"{_endpoint()} has no such repository, or it is private"
    except errors.RevisionNotFoundError:
        reason = "the repository has no such revision"
    except errors.OfflineModeIsEnabled:
        reason = "HF_HUB_OFFLINE forbids connections and it is not in the cache"
    except errors.LocalEntryNotFoundError:
        reason = f"no connection to {_endpoint()}"
    except errors.EntryNotFoundError:
        reason = "the repository has no such file"
    except errors.HfHubHTTPError as error:
        reason = f"{_endpoint()} answers with status {error.response.status_code}"
    except errors.HFValidationError:
        reason = "that is not the form of a repository's name"
    except errors.HTTPError:  # of the HTTP library underneath: no name, no route, no answer
        reason = f"no connection to {_endpoint()}"
    except OSError as error:
        reason = f"the download was cut short or cannot be stored ({str(error).splitlines()[0]})"
    raise UserError(f"cannot fetch {what}: {reason}; {remedy}")


def _repository(key: str) -> tuple[str, str]:
    """Name and kind of a repository."""
    return key.removeprefix("datasets/"), "dataset" if key.startswith("datasets/") else "model"


def _listing(key: str, revision: str | None) -> tuple[str, dict[str, str | None]]:
    """Ask the hub for the commit behind a revision, and for its files with the sums that it announces."""
    name, kind = _repository(key)
    info: Any = _hub().repo_info(name, repo_type=kind, revision=revision, files_metadata=True)
    return str(info.sha), {file.rfilename: file.lfs.sha256 if file.lfs else None for file in info.siblings or ()}


def _check_announced(key: str, name: str, digest: str, announced: Sums) -> None:
    if announced.get(name) not in (None, digest):
        raise UserError(
            f"{name} of {key} arrived altered: SHA-256 {digest}, announced {announced[name]}; fetch it again"
        )


def fetch_file(name: str, key: str = DATASET) -> Path:
    """A file of a repository of the hub, verified: of SimCSE's data set unless another is named.

    Args:
        key: a model's repository, or `datasets/` and a data set's.

    Raises:
        UserError: it cannot be fetched, or is not what its pin says; nothing is left behind then.
    """
    target = cache_folder() / name
    with alone():
        pin = pinned(key)
        entry = pin["files"].get(name, {})
        if target.is_file() and entry.get("sha256") == sha256_file(target):
            return target
        local = (
            "BENCH_DATA to a local data folder" if key == DATASET else "BENCH_MODELS to a local folder that holds it"
        )
        remedy = f"connect and try again, or set {local}"
        with _one_sentence(f"{name} of {key}", remedy), atomic_file(target) as temporary:
            commit, announced = _listing(key, pin["revision"])
            staging = cache_folder() / ".fetching"  # kept when interrupted, so that the next attempt goes on from there
            repository, kind = _repository(key)
            arrived = Path(_hub().hf_hub_download(repository, name, repo_type=kind, revision=commit, local_dir=staging))
            os.replace(arrived, temporary)
            digest = sha256_file(temporary)
            _check_announced(key, name, digest, announced)
            enforce(key, {name: digest})
            rows = entry.get("rows")
            if rows and (found := sum(1 for _ in read_lines(temporary))) not in rows:
                raise UserError(f"{name} has {found} rows, expected {' or '.join(map(str, rows))}; fetch it again")
            record(key, commit, {name: digest})
    return target


def fetch_backbone(repository: str, revision: str | None = None) -> Path:
    """The folder of a hub model, in the hub's own cache: configuration, tokeniser and safetensors weights, verified.

    Args:
        repository: for example "google-bert/bert-base-uncased".
        revision: a commit, branch or pull request ("refs/pr/1"); by default the pinned commit.

    Raises:
        UserError: it cannot be fetched, has pickled weights alone, or is not what its pin says.
    """
    key = f"{repository}@{revision}" if revision else repository
    with alone(), _one_sentence(key, "connect and try again, or name a local folder that holds the model"):
        pin = pinned(key)
        commit = pin["revision"] or (revision if re.fullmatch("[0-9a-f]{40}", revision or "") else None)
        announced: dict[str, str | None] = {}
        folder = _cached_snapshot(repository, commit, {"config.json", *pin["files"]})
        if folder is None:
            commit, announced = _listing(repository, commit or revision)
            if not any(fnmatch(name, "model*.safetensors") for name in announced):
                raise UserError(
                    f"{key} offers only pickled weights, which can run code when loaded: refused; name a revision that "
                    f"holds model.safetensors, or convert them to a local folder"
                )
            folder = Path(_hub().snapshot_download(repository, revision=commit, allow_patterns=list(BACKBONE_FILES)))
        sums = {}
        for path in sorted(path for pattern in BACKBONE_FILES for path in folder.glob(pattern)):
            sums[path.name] = sha256_file(path)
            try:
                _check_announced(key, path.name, sums[path.name], announced)
                enforce(key, {path.name: sums[path.name]})
            except UserError:
                # The hub's client trusts what its cache holds: a wrong file must go before it can be fetched again.
                path.resolve().unlink()
                path.unlink(missing_ok=True)
                raise
        record(key, commit or folder.name, sums)
    return folder


def _cached_snapshot(repository: str, commit: str | None, needed: set[str]) -> Path | None:
    """The folder in the hub's cache, which others fill as well; None unless it has weights and all of `needed`."""
    from huggingface_hub.errors import LocalEntryNotFoundError

    if commit is None:
        return None
    try:
        folder = Path(
            _hub().snapshot_download(
                repository, revision=commit, allow_patterns=list(BACKBONE_FILES), local_files_only=True
            )
        )
    except LocalEntryNotFoundError:
        return None
    whole = any(folder.glob("model*.safetensors")) and all((folder / name).is_file() for name in needed)
    return folder if whole else None
