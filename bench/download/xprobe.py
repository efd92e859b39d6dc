"""SentEval's ten probing files, which the hub's archive lacks: from a data folder or from
GitHub."""

from __future__ import annotations

import os
from pathlib import Path

from bench.download.cache import cache_folder, locked
from bench.download.http import download, one_sentence
from bench.download.local import local_folder
from bench.download.pins import git_blob, pinned
from bench.utils.errors import UserError

REPOSITORY = "github.com/facebookresearch/SentEval"


def probing_file(name: str, data: Path) -> Path:
    """Return the file `DATA/probing/NAME.txt`; download it if `fetch_senteval` made `data`.

    Args:
        name: for example "tree_depth".
        data: the folder that holds `downstream/`.

    Raises:
        UserError: the file does not exist, and cannot be downloaded or differs from its pin.
    """
    path = Path(data) / "probing" / f"{name}.txt"
    if not _is_downloaded(Path(data)):
        if not path.is_file():
            raise UserError(
                f"{path} does not exist; copy data/probing/{path.name} of {REPOSITORY} there, or choose other tasks"
            )
        return path
    pin = pinned(REPOSITORY)
    source = f"data/probing/{path.name}"
    expected = pin["files"][source]["blob"]
    endpoint = (
        os.environ.get("GITHUB_RAW_ENDPOINT") or "https://raw.githubusercontent.com"
    ).rstrip("/")
    url = f"{endpoint}/{REPOSITORY.removeprefix('github.com/')}/{pin['revision']}/{source}"

    def verify(part: Path) -> str:
        if (blob := git_blob(part)) != expected:
            raise UserError(
                f"{url} is corrupt: its git blob id is {blob}, pinned is {expected}; fetch it again"
            )
        return blob

    with locked(), one_sentence(url, "set BENCH_DATA to a data folder that holds probing/"):
        if not path.is_file() or git_blob(path) != expected:
            # The partial file is not in the data folder, because all files there are summed.
            download(url, path, verify, part=cache_folder() / f".{path.name}.fetching")
    return path


def _is_downloaded(data: Path) -> bool:
    is_ours = data.resolve().parent == cache_folder().resolve() and data.name.startswith(
        "senteval-"
    )
    return is_ours and local_folder() is None
