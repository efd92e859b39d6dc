"""SentEval's ten probing files, which the hub's archive lacks: in a data folder, else from its repository."""

from __future__ import annotations

import os
from pathlib import Path

from bench.download.cache import alone, cache_folder
from bench.download.http import Failure, fetch_verified
from bench.download.local import local_folder
from bench.download.pins import git_blob, pinned
from bench.utils.errors import UserError

REPOSITORY = "github.com/facebookresearch/SentEval"


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

        def verified(part: Path) -> str:
            if (found := git_blob(part)) != wanted:
                raise UserError(
                    f"{url} arrived altered or cut short: git blob {found}, pinned is {wanted}; fetch it again"
                )
            return found

        try:
            # A part does not lie in the data folder, whose files are summed.
            fetch_verified(url, cache_folder() / f".{path.name}.fetching", path, verified)
        except Failure as failure:
            raise UserError(
                f"cannot fetch {url}: {failure.reason}; {failure.remedy}, "
                f"or set BENCH_DATA to a data folder that holds probing/"
            ) from None
    return path


def _is_fetched(data: Path) -> bool:
    inside = data.resolve().parent == cache_folder().resolve() and data.name.startswith("senteval-")
    return inside and local_folder() is None


def _endpoint() -> str:
    return (os.environ.get("GITHUB_RAW_ENDPOINT") or "https://raw.githubusercontent.com").rstrip("/")
