"""The data folder: where it is, fetching, verifying, unpacking.

Text comes from a local folder (`BENCH_DATA`), else from the hub's data set `princeton-nlp/datasets-for-simcse`, fetched
once into a cache (`SENTBENCH_CACHE`, by default `.cache/data`). What is fetched is compared with a pin: a commit of its
repository and the sums of its files, from `pins.json` where they could be looked up, else from `pins.lock.json`, where
the first download writes them. HF_ENDPOINT, HF_HOME and HF_HUB_OFFLINE mean what they mean everywhere.
"""

from __future__ import annotations

import fcntl
import gzip
import os
import re
import shutil
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from bench.errors import UserError, nearest
from bench.files import atomic_file, atomic_folder, read_json, sha256_file, write_json

if TYPE_CHECKING:
    from huggingface_hub import HfApi

DATASET = "datasets/princeton-nlp/datasets-for-simcse"
# Corpora of the data set, by their short names.
CORPORA = {"wiki1m": "wiki1m_for_simcse", "wiki1m_for_simcse": "wiki1m_for_simcse"}
PINS = Path(__file__).with_name("pins.json")
LOCK = Path(__file__).with_name("pins.lock.json")  # tracked, so that everybody gets what the first one got

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
# No sentence comes near it; a longer "line" is a file of another kind, and would be read into memory whole.
LONGEST_LINE = 1 << 20
# SentEval's text is far below this many bytes; an archive that unpacks to more is hostile.
LARGEST_ARCHIVE = 1 << 32

Sums = Mapping[str, str | None]  # name of a file -> SHA-256 in hex, None where unknown


# --- reading ----------------------------------------------------------------------------------------------------------


def read_lines(path: Path, encoding: str = "utf-8") -> Iterator[str]:
    """Yield the lines of a text file, plain or `.gz`, without line ends and without a leading byte-order mark.

    Lines end at LF or CRLF only: other separators (form feed, U+2028) are text, so line numbers are those of an editor.

    Raises:
        UserError: the file is missing, is cut short, holds bytes that `encoding` forbids or a line above 1 MiB.
    """
    path = Path(path)
    number = 0
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else open(path, "rb") as stream:
            while line := stream.readline(LONGEST_LINE + 2):
                number += 1
                line = line.removesuffix(b"\n").removesuffix(b"\r")
                if number == 1:
                    line = line.removeprefix(b"\xef\xbb\xbf")
                if len(line) > LONGEST_LINE:
                    raise UserError(
                        f"{path}, line {number}: longer than 1 MiB; is this a text of one sentence per line?"
                    )
                yield line.decode(encoding)
    except FileNotFoundError:
        raise UserError(f"{path} does not exist; name the data folder with --data or BENCH_DATA") from None
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path}, line {number}: byte 0x{error.object[error.start]:02x} is not valid {encoding}; "
            f"convert the file to {encoding}, or fetch it again"
        ) from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UserError(f"{path} is damaged or cut short after line {number} ({error}); fetch it again") from None
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}); mend its permissions or fetch it again") from None


# --- where ------------------------------------------------------------------------------------------------------------


def local_folder() -> Path | None:
    """The folder that BENCH_DATA names, or None where it is unset or empty.

    Raises:
        UserError: it names no folder.
    """
    named = os.environ.get("BENCH_DATA")
    if not named:
        return None
    if not Path(named).is_dir():
        raise UserError(f"BENCH_DATA names {named}, which is no folder; set it to a data folder, or unset it")
    return Path(named)


def corpus_name(path: Path) -> str:
    """The name of a corpus: its file's, without `.txt` or `.txt.gz`."""
    return Path(path).name.removesuffix(".gz").removesuffix(".txt")


def corpus_path(name: str, folder: Path) -> Path:
    """The file of a corpus: `name` is that of `NAME.txt` or `NAME.txt.gz` in a data folder, or a path.

    Raises:
        UserError: there is no such file.
    """
    stem = CORPORA.get(name, name)
    for path in (Path(folder) / f"{stem}.txt", Path(folder) / f"{stem}.txt.gz", Path(name)):
        if path.is_file():
            return path
    present = {corpus_name(path) for path in Path(folder).glob("*.txt*") if path.name.endswith((".txt", ".txt.gz"))}
    present |= {alias for alias, stem in CORPORA.items() if stem in present}
    raise UserError(f"corpus '{name}' is neither a file nor in {folder}{nearest(name, present)}")


def fetch_corpus(name: str) -> Path:
    """The file of a corpus by name: from the folder BENCH_DATA, else from the hub.

    Raises:
        UserError: it is not there, or cannot be fetched.
    """
    folder = local_folder()
    if folder:
        return corpus_path(name, folder)
    if name not in CORPORA:
        raise UserError(
            f"corpus '{name}' is not on the hub{nearest(name, CORPORA)}; set BENCH_DATA to a folder with it"
        )
    return fetch_file(f"{CORPORA[name]}.txt")


def fetch_senteval() -> Path:
    """The folder that holds `downstream/` with the tasks' files: BENCH_DATA, else made of the hub's `senteval.tar`.

    Raises:
        UserError: BENCH_DATA names no such folder; or the archive cannot be fetched, verified or unpacked.
    """
    local = local_folder()
    if local:
        if not (local / "downstream").is_dir():
            raise UserError(f"BENCH_DATA names {local}, which holds no folder downstream/; name the folder above it")
        return local
    archive = fetch_file("senteval.tar")
    # Named by what it holds, so that a replaced archive is unpacked anew.
    folder = cache_folder() / f"senteval-{sha256_file(archive)[:12]}"
    with _alone():
        if not folder.is_dir():
            with atomic_folder(folder) as temporary:
                unpack(archive, temporary / "unpacked")
                tasks = next((path.parent for path in (temporary / "unpacked").rglob("STS") if path.is_dir()), None)
                if tasks is None:
                    raise UserError(f"{archive} holds no folder STS/, so it is not SentEval's data; delete it")
                os.replace(tasks, temporary / "downstream")
                shutil.rmtree(temporary / "unpacked", ignore_errors=True)
    return folder


def cache_folder() -> Path:
    """Where fetched text is kept; safe to delete."""
    return Path(os.environ.get("SENTBENCH_CACHE") or Path(".cache") / "data")


# --- pins -------------------------------------------------------------------------------------------------------------


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


# --- the hub ----------------------------------------------------------------------------------------------------------


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


@contextmanager
def _alone() -> Iterator[None]:
    """Let one process at a time fetch, so that no two download the same file or write the lock at once."""
    path = cache_folder() / ".lock"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        guard = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise UserError(f"cannot write {path} ({error.strerror}); name a folder for data in SENTBENCH_CACHE") from None
    try:
        fcntl.flock(guard, fcntl.LOCK_EX)
        yield
    finally:
        os.close(guard)


def _listing(key: str, revision: str | None) -> tuple[str, dict[str, str | None]]:
    """Ask the hub for the commit behind a revision, and for its files with the sums that it announces."""
    api = _hub()
    if key.startswith("datasets/"):
        info: Any = api.dataset_info(key.removeprefix("datasets/"), revision=revision, files_metadata=True)
    else:
        info = api.model_info(key, revision=revision, files_metadata=True)
    return str(info.sha), {file.rfilename: file.lfs.sha256 if file.lfs else None for file in info.siblings or ()}


def _check_announced(key: str, name: str, digest: str, announced: Sums) -> None:
    if announced.get(name) not in (None, digest):
        raise UserError(
            f"{name} of {key} arrived altered: SHA-256 {digest}, announced {announced[name]}; fetch it again"
        )


def fetch_file(name: str) -> Path:
    """A file of the hub's data set (`wiki1m_for_simcse.txt`, `nli_for_simcse.csv` or `senteval.tar`), verified.

    Raises:
        UserError: it cannot be fetched, or is not what its pin says; nothing is left behind then.
    """
    target = cache_folder() / name
    with _alone():
        pin = pinned(DATASET)
        entry = pin["files"].get(name, {})
        if target.is_file() and entry.get("sha256") == sha256_file(target):
            return target
        remedy = "connect and try again, or set BENCH_DATA to a local data folder"
        with _one_sentence(f"{name} of {DATASET}", remedy), atomic_file(target) as temporary:
            commit, announced = _listing(DATASET, pin["revision"])
            staging = cache_folder() / ".fetching"  # kept when interrupted, so that the next attempt goes on from there
            repository = DATASET.removeprefix("datasets/")
            arrived = Path(
                _hub().hf_hub_download(repository, name, repo_type="dataset", revision=commit, local_dir=staging)
            )
            os.replace(arrived, temporary)
            digest = sha256_file(temporary)
            _check_announced(DATASET, name, digest, announced)
            enforce(DATASET, {name: digest})
            rows = entry.get("rows")
            if rows and (found := sum(1 for _ in read_lines(temporary))) not in rows:
                raise UserError(f"{name} has {found} rows, expected {' or '.join(map(str, rows))}; fetch it again")
            record(DATASET, commit, {name: digest})
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
    with _alone(), _one_sentence(key, "connect and try again, or name a local folder that holds the model"):
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


# --- the archive ------------------------------------------------------------------------------------------------------


def unpack(archive: Path, folder: Path) -> None:
    """Unpack a tar archive of plain files and folders, after looking at every member.

    Raises:
        UserError: it is damaged, or holds a link, a device, or a path that leads out of `folder`; nothing is written.
    """
    try:
        with tarfile.open(archive) as tar:
            members = tar.getmembers()
            for member in members:
                name = PurePosixPath(member.name)
                if name.is_absolute() or ".." in name.parts or "\\" in member.name:
                    raise UserError(f"{archive} is refused: its member {member.name!r} leads out of the folder")
                if not (member.isreg() or member.isdir()):
                    raise UserError(f"{archive} is refused: its member {member.name!r} is a link or a device")
            if sum(member.size for member in members) > LARGEST_ARCHIVE:
                raise UserError(f"{archive} is refused: it unpacks to more than {LARGEST_ARCHIVE >> 30} GiB")
            tar.extractall(folder, members, filter="data")
    except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
        raise UserError(f"{archive} cannot be unpacked ({error}); delete it and fetch it again") from None
