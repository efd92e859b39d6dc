"""The folder of downloaded data and its lock; the folder BENCH_DATA, and corpora in a folder."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock

from bench.utils.errors import UserError, did_you_mean

# Name of a corpus -> its file in the hub's data set.
CORPORA = {
    "wiki1m": "wiki1m_for_simcse.txt",
    "wiki1m_for_simcse": "wiki1m_for_simcse.txt",
    "nli": "nli_for_simcse.csv",
    "nli_for_simcse": "nli_for_simcse.csv",
}


def cache_folder() -> Path:
    """The folder of downloaded data, safe to delete: SENTBENCH_CACHE, by default `.cache/data`."""
    return Path(os.environ.get("SENTBENCH_CACHE") or Path(".cache") / "data")


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


def local_folder() -> Path | None:
    """The folder BENCH_DATA, or None if it is unset or empty."""
    folder = os.environ.get("BENCH_DATA")
    if not folder:
        return None
    if not Path(folder).is_dir():
        raise UserError(
            f"BENCH_DATA is {folder}, which is not a folder; set it to a data folder, or unset it"
        )
    return Path(folder)


def corpus_name(path: Path) -> str:
    """The name of a corpus: its file name without `.txt` or `.csv`, and without `.gz`."""
    return path.name.removesuffix(".gz").removesuffix(".txt").removesuffix(".csv")


def corpus_path(name: str, folder: Path) -> Path:
    """Return the file of a corpus: `NAME.txt` or `NAME.txt.gz` in a data folder, or a path with a
    `/`. A corpus of the hub's data set has its file name there."""
    # A name without `/` is never a path: a run is identified by the name of its corpus, or by the
    # bytes at its path.
    plain = Path(name) if "/" in name else folder / CORPORA.get(name, f"{name}.txt")
    packed = plain.with_name(f"{plain.name}.gz")
    for path in (plain,) if "/" in name else (plain, packed):
        if path.is_file():
            return path
    files = {path.name.removesuffix(".gz") for path in folder.iterdir()}
    texts = {corpus_name(Path(file)) for file in files if file.endswith(".txt")}
    # The file `nli.txt` is not the corpus `nli`.
    present = texts - CORPORA.keys() | {name for name in CORPORA if CORPORA[name] in files}
    raise UserError(
        f"corpus '{name}' is not in {folder}{did_you_mean(name, present)}; name another, or a text "
        "file by its path, as ./FILE.txt"
    )
