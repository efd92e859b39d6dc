"""SentEval's probing files, which the hub's archive lacks: from a data folder or from GitHub."""

from __future__ import annotations

import os
from pathlib import Path

from bench.download.http import one_sentence, retry
from bench.download.local import cache_folder, local_folder, locked
from bench.download.pins import git_blob, pinned
from bench.utils.errors import UserError
from bench.utils.files import disk_errors

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
                f"{path} does not exist; copy data/probing/{path.name} of {REPOSITORY} "
                "there, or choose other tasks"
            )
        return path
    pin = pinned(REPOSITORY)
    source = f"data/probing/{path.name}"
    endpoint = os.environ.get("GITHUB_RAW_ENDPOINT") or "https://raw.githubusercontent.com"
    owner_and_name = REPOSITORY.removeprefix("github.com/")
    url = f"{endpoint.rstrip('/')}/{owner_and_name}/{pin['revision']}/{source}"
    expected = pin["files"][source]["blob"]
    with locked(), one_sentence(url, "set BENCH_DATA to a data folder that holds probing/"):
        if not path.is_file() or git_blob(path) != expected:
            _download(url, path, expected)
    return path


def _download(url: str, path: Path, expected: str) -> None:
    """Download a file that has the git blob id `expected`."""
    from huggingface_hub.file_download import http_get

    # The partial file is not in the data folder, because all files there are summed.
    part = cache_folder() / f".{path.name}.fetching"
    headers = {"Accept-Encoding": "identity"}  # a range of compressed bytes would not fit
    try:
        with disk_errors(path), open(part, "wb") as stream:
            retry(lambda: http_get(url, stream, resume_size=stream.tell(), headers=headers))
        if (blob := git_blob(part)) != expected:
            what = f"{url} is corrupt: its git blob id is {blob}, pinned is {expected}"
            raise UserError(f"{what}; fetch it again")
        path.parent.mkdir(parents=True, exist_ok=True)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def _is_downloaded(data: Path) -> bool:
    is_ours = data.resolve().parent == cache_folder().resolve()
    return is_ours and data.name.startswith("senteval-") and local_folder() is None
