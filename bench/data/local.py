"""The data folder that BENCH_DATA names, and the corpora in a folder."""

from __future__ import annotations

import os
from pathlib import Path

from bench.errors import UserError, nearest

# Corpora of the data set, by their short names.
CORPORA = {"wiki1m": "wiki1m_for_simcse", "wiki1m_for_simcse": "wiki1m_for_simcse"}


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
