"""The data folder that BENCH_DATA names, and the corpora in a folder."""

from __future__ import annotations

import os
from pathlib import Path

from bench.utils.errors import UserError, did_you_mean

# Corpora of the data set: the files by the names that a corpus may be called by.
CORPORA = {
    "wiki1m": "wiki1m_for_simcse.txt",
    "wiki1m_for_simcse": "wiki1m_for_simcse.txt",
    "nli": "nli_for_simcse.csv",
    "nli_for_simcse": "nli_for_simcse.csv",
}


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
    """The name of a corpus: its file's, without `.txt` or `.csv`, and without `.gz`."""
    return Path(path).name.removesuffix(".gz").removesuffix(".txt").removesuffix(".csv")


def _packed(file: Path) -> tuple[Path, Path]:
    return file, file.with_name(f"{file.name}.gz")


def corpus_path(name: str, folder: Path) -> Path:
    """The file of a corpus: `name` is that of `NAME.txt` or `NAME.txt.gz` in a data folder, or a path with a `/`.

    A corpus of the hub's data set has its file's name there: `nli` is `nli_for_simcse.csv` or `.csv.gz`, and no other.

    Raises:
        UserError: there is no such file.
    """
    file = Path(folder) / CORPORA.get(name, f"{name}.txt")
    # A bare name is never a file here: a run is identified by the name of its corpus, or by the bytes at its path.
    for path in (*_packed(file), *([Path(name)] if "/" in name else [])):
        if path.is_file():
            return path
    present = {corpus_name(path) for path in Path(folder).glob("*.txt*") if path.name.endswith((".txt", ".txt.gz"))}
    present -= CORPORA.keys()  # another file of such a name is not that corpus
    present |= {alias for alias, file in CORPORA.items() if any(map(Path.is_file, _packed(Path(folder) / file)))}
    raise UserError(
        f"corpus '{name}' is not in {folder}{did_you_mean(name, present)}; "
        f"name another, or a text file by its path, as ./FILE.txt"
    )
