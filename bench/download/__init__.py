"""The data folder and downloads.

Text comes from a local folder (BENCH_DATA), else from the hub; SentEval's probing files come from
its repository on GitHub. Every file is compared with its pin: a commit and digests in `pins.json`
or, where nobody published them, in `pins.lock.json` of the cache, which the first download writes.
"""

import os
import shutil
import tarfile
import zipfile
from pathlib import Path

from bench.download.hub import (
    DATASET,
    cache_folder,
    copying,
    fetched,
    fetched_archive,
    local_folder,
    locked,
)
from bench.utils.errors import UserError, did_you_mean
from bench.utils.files import atomic_file, atomic_folder, is_complete, sha256_file

# Name of a corpus -> its file in the hub's data set.
CORPORA = {
    "wiki1m": "wiki1m_for_simcse.txt",
    "wiki1m_for_simcse": "wiki1m_for_simcse.txt",
    "nli": "nli_for_simcse.csv",
    "nli_for_simcse": "nli_for_simcse.csv",
}


def corpus_name(path: Path) -> str:
    """The name of a corpus: its file name without `.txt` or `.csv`, and without `.gz`."""
    return path.name.removesuffix(".gz").removesuffix(".txt").removesuffix(".csv")


def local_corpus(name: str, folder: Path | None) -> Path | None:
    """Return the file of a corpus, `NAME.txt` or `NAME.txt.gz` in a data folder or a path with a
    `/`, None if it is not here. A corpus of the hub's data set has its file name there."""
    # A name without `/` is never a path: a run is identified by the name of its corpus, or by the
    # bytes at its path.
    file = CORPORA.get(name, f"{name}.txt")
    paths = []
    if "/" in name:
        paths = [Path(name)]
    elif folder:
        paths = [folder / file, folder / f"{file}.gz"]
    return next(filter(Path.is_file, paths), None)


def corpus_path(name: str, folder: Path) -> Path:
    """Return the `local_corpus` of a data folder; `UserError` if there is none."""
    path = local_corpus(name, folder)
    if path:
        return path
    if name in CORPORA:
        remedy = (
            "; copy it there, or unset BENCH_DATA to download it; scores after training on another "
            "corpus are not comparable with those of papers"
        )
    else:
        present = [
            corpus
            for corpus in {*CORPORA, *map(corpus_name, folder.iterdir())}
            if local_corpus(corpus, folder)
        ]
        hint = did_you_mean(name, present)
        remedy = f"{hint}; name another, or a text file by its path, as ./FILE.txt"
    file = CORPORA.get(name, f"{name}.txt")
    raise UserError(f"corpus '{name}' is not in {folder} ({file}, plain or .gz){remedy}")


def fetch_corpus(name: str) -> Path:
    """Return the file of a corpus: in the folder BENCH_DATA if that is set, else from the hub."""
    folder = local_folder()
    if folder:
        return corpus_path(name, folder)
    if name not in CORPORA:
        raise UserError(
            f"corpus '{name}' is not on the hub{did_you_mean(name, CORPORA)}; "
            "set BENCH_DATA to a folder with it, or name a text file by its path, as ./FILE.txt"
        )
    file = CORPORA[name]
    with fetched(DATASET, [file], f"set BENCH_DATA to a folder with {file}") as folder:
        return folder / file


def fetch_words(archive: str, repository: str, member: str) -> Path:
    """Return a table of word vectors, the `member` of a zip archive of a hub repository."""
    with fetched_archive(archive, copying("table", member), repository) as packed:
        table = cache_folder() / f"{sha256_file(packed)[:12]}-{member}"
        if not is_complete(table):
            with (
                zipfile.ZipFile(packed) as files,
                files.open(member) as source,
                atomic_file(table) as temporary,
                open(temporary, "wb") as copy,
            ):
                shutil.copyfileobj(source, copy, 1 << 20)
    return table


def fetch_senteval() -> Path:
    """Return the folder of `downstream/`: BENCH_DATA if it is set, else an unpacked archive."""
    local = local_folder()
    if local:
        if not (local / "downstream").is_dir():
            raise UserError(
                f"BENCH_DATA is {local}, which has no folder downstream/; "
                "set it to the folder above that"
            )
        return local
    alternative = "set BENCH_DATA to a folder with downstream/"
    with fetched_archive("senteval.tar", alternative) as archive:
        # The name holds the archive's digest, so another archive is unpacked elsewhere.
        folder = cache_folder() / f"senteval-{sha256_file(archive)[:12]}"
        if is_complete(folder):
            return folder
        with locked():
            if not folder.is_dir():
                with atomic_folder(folder) as temporary, tarfile.open(archive) as tar:
                    unpacked = temporary / "unpacked"
                    tar.extractall(unpacked, filter="data")
                    place = next(unpacked.rglob("STS/"), None)
                    if not place:
                        raise LookupError("it has no folder STS/")
                    os.replace(place.parent, temporary / "downstream")
                    shutil.rmtree(unpacked, ignore_errors=True)  # gone if it held STS/ itself
        return folder
