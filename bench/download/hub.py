"""Downloads from the Hugging Face hub and from GitHub, verified by pinned digests: huggingface_hub
transfers and caches files, but compares sizes only."""

import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from filelock import FileLock
from tenacity import retry, retry_if_exception, stop_after_attempt, wait_exponential

from bench.utils.errors import TransientError, UserError, library_errors, warn
from bench.utils.files import (
    atomic_file,
    disk_errors,
    read_json,
    read_settings,
    sha256_file,
    write_json,
)

PINS = Path(__file__).with_name("pins.json")
DATASET = "datasets/princeton-nlp/datasets-for-simcse"
SENTEVAL = "github.com/facebookresearch/SentEval"
ADAPTER = "adapter_config.json"  # says that a folder holds an adapter, which is refused
# Everything an encoder needs; no pickled weights, no code. Each further module of
# sentence-transformers has a folder, such as 1_Pooling.
BACKBONE_FILES = [
    "config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
    "added_tokens.json", "vocab.json", "vocab.txt", "merges.txt",
    "model.safetensors", "model-*.safetensors", "model.safetensors.index.json",
    "modules.json", "sentence_*_config.json", "config_sentence_transformers.json",
    "[0-9]*_*/config.json", "[0-9]*_*/model.safetensors", "[0-9]*_*/tokenizer.json",
    "[0-9]*_*/sentence_*_config.json", "[0-9]*_*/adapter_config.json", ADAPTER,
]  # fmt: skip
# What describes an encoder without its weights.
DESCRIPTION = ["config.json", "tokenizer.json", "tokenizer_config.json", "vocab.txt", ADAPTER]

_TOKEN = "set HF_TOKEN to a token that may read it"  # noqa: S105 (not a password)
UNTRUSTED = "CERTIFICATE_VERIFY_FAILED"  # in the error of a connection
# Errors that another attempt meets again: class of an error of huggingface_hub, or a part of its
# message -> the sentence.
_LASTING = {
    "socksio": "a SOCKS proxy needs the package socksio; install it, set HTTPS_PROXY and ALL_PROXY "
    "to an http proxy",
    UNTRUSTED: "its certificate is not trusted; set SSL_CERT_FILE to one of your institute",
    "Invalid filename": "a file of it has a name that leads out of its folder; name another model",
    "Consistency check failed": "the download has another size than announced; fetch it again",
    "OfflineModeIsEnabled": "{cache} lacks it or a part of it, and HF_HUB_OFFLINE is set; unset it",
    "GatedRepoError": f"the repository is gated; accept its terms on its page and {_TOKEN}",
    "RepositoryNotFoundError": f"the repository does not exist or is private; check its name, "
    f"{_TOKEN}",
    "RevisionNotFoundError": "the repository has no such revision; name another",
    "HFValidationError": "this is not a repository name; write owner/name",
    # InvalidURL, or "Unknown scheme for proxy URL".
    "URL": "HTTPS_PROXY, ALL_PROXY or HF_ENDPOINT is not of the form http://HOST:PORT; correct it",
}


# --- folders


def cache_folder() -> Path:
    """The folder of downloaded data, safe to delete: SENTBENCH_CACHE, by default `.cache/data`."""
    return Path(os.environ.get("SENTBENCH_CACHE") or ".cache/data")


@contextmanager
def locked() -> Iterator[None]:
    """Hold the lock of the cache, which also guards `pins.lock.json`; other processes wait."""
    path = cache_folder() / ".lock"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Writable for its group, as huggingface_hub's locks: a group can share the cache.
        lock = FileLock(path, mode=0o664).acquire()
    except OSError as error:
        raise UserError(
            f"cannot write {path} ({error.strerror}); set SENTBENCH_CACHE to a folder for data "
            "that you can write to"
        ) from None
    with lock:
        yield


def local_folder(variable: str = "BENCH_DATA") -> Path | None:
    """The folder BENCH_DATA, or BENCH_MODELS; None if it is unset or empty."""
    folder = os.environ.get(variable)
    if not folder:
        return None
    if not Path(folder).is_dir():
        raise UserError(
            f"{variable} is {folder}, which is not a folder; set it to a folder, or unset it"
        )
    return Path(folder)


# --- requests


def _cause(error: BaseException) -> BaseException:
    """The error of the request; huggingface_hub hides it behind "it is not in the cache"."""
    hidden = type(error).__name__ in ("LocalEntryNotFoundError", "IncompleteSnapshotError")
    return error.__cause__ or error if hidden else error


def _status(error: BaseException) -> int:
    """The HTTP status of an answer; 0 if there was none."""
    return getattr(getattr(_cause(error), "response", None), "status_code", 0)


def _is_transient(error: BaseException) -> bool:
    """Whether another attempt may succeed: a server error, too many requests, or a broken
    connection."""
    from httpx2 import TransportError

    cause, status = _cause(error), _status(error)
    if type(cause).__name__ in _LASTING or UNTRUSTED in str(cause):
        return False
    broken = (TransportError, ConnectionError, TimeoutError)
    return status == 429 or status >= 500 or isinstance(cause, broken)


_retry = partial(
    retry,
    retry=retry_if_exception(_is_transient),
    wait=wait_exponential(max=8),  # 1, 2, 4 and 8 seconds
    reraise=True,
)
retrying = _retry(stop=stop_after_attempt(5))


@_retry(stop=stop_after_attempt(2))
def _connect(endpoint: str) -> None:
    """Raise the error of a connection that cannot be made; any answer will do. Without a network
    the retries of a download, ours and those of huggingface_hub, take minutes."""
    from httpx2 import ReadError, ReadTimeout, RemoteProtocolError
    from huggingface_hub.utils import get_session

    with suppress(ReadError, ReadTimeout, RemoteProtocolError):
        get_session().head(endpoint, timeout=3, follow_redirects=False)  # in seconds


@contextmanager
def one_sentence(subject: str, alternative: str) -> Iterator[None]:
    """Turn errors of the network and of the hub, while the subject is fetched, into a `UserError`
    that names an `alternative`. It is a `TransientError` if another attempt may succeed."""
    from huggingface_hub import constants

    try:
        yield
    except Exception as error:
        cause, status, problem = _cause(error), _status(error), UserError
        names = {base.__name__ for base in type(cause).__mro__}
        reasons = (text for mark, text in _LASTING.items() if mark in f"{names} {cause}")
        reason = next(reasons, "").format(cache=constants.HF_HUB_CACHE)
        # An error that is neither known nor transient, and has no status, is a fault of the code:
        # it is raised as it is.
        if _is_transient(error):
            reason = (
                f"no answer from {constants.ENDPOINT} ({cause}); "
                "check the connection and the proxy, if there is one, or try again later"
            )
            problem = TransientError
        elif status and not reason:
            reason = f"the server answers with status {status}; check HF_ENDPOINT, {_TOKEN}"
        if not reason:
            raise
        message = f"cannot fetch {subject}: {' '.join(reason.split())}, or {alternative}"
        raise problem(message) from None


# --- pins


def pin(name: str, table: str = "repositories") -> dict[str, Any]:
    """The pin of a repository, or of a published corpus (table "corpora"); empty if unknown."""
    pins: dict[str, dict[str, Any]] = read_json(PINS)[table]
    return pins.get(name, {})


def lock_file() -> Path:
    """The commits and digests of the first downloads, in the cache."""
    return cache_folder() / "pins.lock.json"


def pinned(key: str) -> tuple[str | None, dict[str, str]]:
    """Return the pinned revision of a repository, and the SHA-256 of its pinned files; the key of a
    data set begins with `datasets/`."""
    # `pins.json` goes before the record of the first download. Only a pull request that `pins.json`
    # names may move, so the recorded commit goes before it.
    published = pin(key)
    recorded = read_settings(lock_file()).get(key, {"revision": None, "files": {}})
    revision, files = published.get("revision"), recorded["files"]
    if not revision or revision.startswith("refs/"):
        revision = recorded["revision"] or revision
    for name, entry in published.get("files", {}).items():
        if entry.get("sha256"):
            files[name] = entry["sha256"]
    return revision, files


def record(key: str, commit: str, sums: Mapping[str, str]) -> None:
    """Record the commit and the SHA-256 of downloaded files; they are enforced from now on."""
    with locked():
        recorded = read_settings(lock_file())
        entry = recorded.get(key, {})
        if entry.get("revision") == commit:
            sums = entry["files"] | sums
        recorded[key] = {"revision": commit, "files": dict(sorted(sums.items()))}
        write_json(lock_file(), dict(sorted(recorded.items())))


# --- files


def local_model(key: str) -> Path | None:
    """The folder of a hub model in BENCH_MODELS: OWNER/NAME or, if it has a pin, NAME."""
    root = local_folder("BENCH_MODELS")
    if root is None:
        return None
    folders = [root / key]
    if pin(key):
        folders.append(root / Path(key).name)
    return next(filter(Path.is_dir, folders), None)


def _snapshot(key: str, patterns: list[str], alternative: str) -> Path:
    """Return the hub's folder of a revision with all files of these patterns."""
    from huggingface_hub import constants, snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    constants.HF_HUB_DISABLE_XET = True  # plain HTTP, whose errors `one_sentence` knows
    repository, _, revision = key.partition("@")
    name = repository.removeprefix("datasets/")
    subject = f"{patterns[0]} of {key}" if len(patterns) == 1 else key
    with one_sentence(subject, alternative), disk_errors(Path(constants.HF_HUB_CACHE)):
        download = partial(
            snapshot_download,
            name,
            repo_type="model" if name == repository else "dataset",
            revision=pinned(key)[0] or revision or None,
            allow_patterns=patterns,
        )
        # A complete snapshot of a commit needs no connection.
        try:
            download(local_files_only=True)
        except LocalEntryNotFoundError:
            _connect(constants.ENDPOINT)
        return Path(retrying(download)())


def _unpinned(key: str) -> str:
    return f"if its publisher replaced it, remove the entry '{key}' from {lock_file()}"


@contextmanager
def fetched(key: str, patterns: list[str], alternative: str) -> Iterator[Path]:
    """Yield a folder with all files of these patterns, verified. The files of a first download are
    pinned after the block, which may refuse them."""
    (revision, digests), local = pinned(key), local_model(key)
    folder = local or _snapshot(key, patterns, alternative)
    sums = {}
    for path in chain.from_iterable(map(folder.glob, patterns)):
        name, blob = path.relative_to(folder).as_posix(), path.resolve()
        sums[name] = digest = sha256_file(path)
        # The hub's cache names a large file by its SHA-256 and another one by its id in git, both
        # without a suffix. Where the file system has no links, the file keeps its name.
        expected = digests.get(name, digest if local or blob.suffix else blob.name)
        if len(expected) == 40:
            digest = git_blob(path.read_bytes())
        if digest != expected:
            if not local:
                path.unlink()
                blob.unlink(missing_ok=True)
            raise UserError(
                f"{path} of {key} has the checksum {digest}, expected {expected}; fetch it again, "
                f"or, {_unpinned(key)}"
            )
    absent = pin(key).get("files", {}).keys() & set(patterns) - sums.keys()
    if local and absent:
        raise UserError(f"{folder / min(absent)} does not exist; copy it from {key}")
    yield folder
    # Nothing is written if all of it is known: the cache may be read-only.
    is_known = folder.name == revision and sums.items() <= digests.items()
    if sums and not local and not is_known:
        record(key, folder.name, sums)


@contextmanager
def fetched_archive(name: str, alternative: str, key: str = DATASET) -> Iterator[Path]:
    """Yield an archive of the hub, verified, to a block that unpacks it. One that cannot be
    unpacked is a `UserError` and is not pinned."""
    with fetched(key, [name], alternative) as folder:
        subject = f"{folder / name} of {key} cannot be unpacked"
        with library_errors(subject, f"{alternative}, or, {_unpinned(key)}"):
            yield folder / name


def copying(noun: str, name: str) -> str:
    """How a model, or a table of word vectors, gets into BENCH_MODELS."""
    return f"copy the {noun} to {Path(os.environ.get('BENCH_MODELS') or 'BENCH_MODELS', name)}"


def fetch_description(key: str) -> Path:
    """Return the hub's folder of a model with its configuration and tokenizer, verified, as
    `fetch_backbone`. The name of the folder is the commit. A first download is reported."""
    is_new = not pinned(key)[1]
    with fetched(key, DESCRIPTION, copying("model", key)) as folder:
        if not (folder / "config.json").is_file():
            raise UserError(f"{key} has no config.json; name a transformer of the hub")
    if is_new:
        warn(f"{key}: fetched configuration and tokenizer of commit {folder.name}")
    return folder


def fetch_backbone(key: str) -> Path:
    """Return the folder of a hub model, OWNER/NAME or OWNER/NAME@REVISION, verified: in
    BENCH_MODELS or, after a download of what it lacks, in the cache of the hub. The default of the
    revision, a commit, branch or "refs/pr/1", is the pinned commit."""
    with fetched(key, BACKBONE_FILES, copying("model", key)) as folder:
        # An adapter alone is refused where it is read.
        if any(chain(folder.rglob("*.safetensors"), folder.glob(ADAPTER))):
            return folder
        if local_model(key):
            raise UserError(f"{folder} holds no model.safetensors; copy it from {key}")
        raise UserError(
            f"{key} has only pickled weights, which can run code when they are loaded: refused; "
            f"name a revision with model.safetensors ({key.partition('@')[0]}@REVISION), or "
            "convert them to a local folder"
        )


def probing_file(path: Path) -> None:
    """Check that the file `DATA/probing/NAME.txt` of SentEval is there; download it from GitHub if
    `fetch_senteval` made DATA, from an archive without it."""
    if path.parents[2].resolve() != cache_folder().resolve() or local_folder():
        if not path.is_file():
            raise UserError(
                f"{path} does not exist; copy data/probing/{path.name} of {SENTEVAL} there, or "
                "choose other tasks"
            )
        return
    senteval = pin(SENTEVAL)
    source = f"data/probing/{path.name}"
    expected = senteval["files"][source]["blob"]
    # A file with another id is damaged, or was pinned anew, and is downloaded again.
    if not path.is_file() or git_blob(path.read_bytes()) != expected:
        endpoint = os.environ.get("GITHUB_RAW_ENDPOINT") or "https://raw.githubusercontent.com"
        url = f"{endpoint}/facebookresearch/SentEval/{senteval['revision']}/{source}"
        with one_sentence(url, "set BENCH_DATA to a data folder that holds probing/"):
            _connect(endpoint)
            content = _get(url)
        if git_blob(content) != expected:
            raise UserError(
                f"{url} has the git blob id {git_blob(content)}, but {expected} is pinned; "
                "fetch it again"
            )
        with atomic_file(path) as temporary:
            temporary.write_bytes(content)


@retrying
def _get(url: str) -> bytes:
    from huggingface_hub import constants
    from huggingface_hub.utils import get_session, hf_raise_for_status

    timeout = constants.HF_HUB_DOWNLOAD_TIMEOUT
    response = get_session().get(url, follow_redirects=True, timeout=timeout)
    hf_raise_for_status(response)
    return response.content


def git_blob(content: bytes) -> str:
    """The id of a file in git, in hex: SHA-1 of a header with the size, and of the bytes."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
