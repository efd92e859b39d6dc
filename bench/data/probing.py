"""SentEval's ten probing files, which the hub's archive lacks: in a data folder, else from its repository."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from bench.data.cache import alone, cache_folder
from bench.data.local import local_folder
from bench.data.pins import pinned
from bench.errors import UserError
from bench.files import atomic_file

REPOSITORY = "github.com/facebookresearch/SentEval"
SILENCE = 60  # seconds without a byte after which a connection counts as lost


def probing_file(name: str, data: Path) -> Path:
    """The file `DATA/probing/NAME.txt`; fetched and verified where `data` is what `fetch_senteval` made.

    Args:
        name: for example "tree_depth".
        data: the folder that holds `downstream/`.

    Raises:
        UserError: it is not there, and cannot be fetched or is not what its pin says; nothing is left behind then.
    """
    path = Path(data) / "probing" / f"{name}.txt"
    if not _is_fetched(Path(data)):
        if not path.is_file():
            raise UserError(
                f"{path} does not exist; copy data/probing/{path.name} of {REPOSITORY} there, or choose other tasks"
            )
        return path
    pin = pinned(REPOSITORY)
    source = f"data/probing/{path.name}"
    wanted = pin["files"][source]["blob"]
    with alone():
        if path.is_file() and git_blob(path) == wanted:
            return path
        url = f"{_endpoint()}/{REPOSITORY.removeprefix('github.com/')}/{pin['revision']}/{source}"
        with atomic_file(path) as temporary:
            _download(url, temporary)
            if (found := git_blob(temporary)) != wanted:
                raise UserError(
                    f"{url} arrived altered or cut short: git blob {found}, pinned is {wanted}; fetch it again"
                )
    return path


def git_blob(path: Path) -> str:
    """The id that git gives a file's content: SHA-1 of a header with its size and of its bytes, in hex."""
    content = path.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def _is_fetched(data: Path) -> bool:
    inside = data.resolve().parent == cache_folder().resolve() and data.name.startswith("senteval-")
    return inside and local_folder() is None


def _endpoint() -> str:
    return (os.environ.get("GITHUB_RAW_ENDPOINT") or "https://raw.githubusercontent.com").rstrip("/")


def _download(url: str, path: Path) -> None:
    from huggingface_hub import errors, get_session

    try:
        with get_session().stream("GET", url, timeout=SILENCE) as response, open(path, "wb") as stream:
            if response.status_code == 200:
                for chunk in response.iter_bytes():
                    stream.write(chunk)
                return
            reason = f"the server answers with status {response.status_code}"
    except errors.OfflineModeIsEnabled:
        reason = "HF_HUB_OFFLINE forbids connections and it is not in the cache"
    except errors.HTTPError:
        reason = f"no connection to {_endpoint()}, or it broke off"
    except OSError as error:
        reason = f"it cannot be stored ({error.strerror})"
    raise UserError(
        f"cannot fetch {url}: {reason}; connect and try again, or set BENCH_DATA to a data folder that holds probing/"
    )
