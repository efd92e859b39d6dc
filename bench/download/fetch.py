"""Corpora, word vectors and SentEval's data: from the folder BENCH_DATA, else downloaded."""

import os
import shutil
import tarfile
import zipfile
from pathlib import Path

from bench.download.hub import fetch_file
from bench.download.local import CORPORA, cache_folder, corpus_path, local_folder, locked
from bench.utils.errors import UserError, did_you_mean
from bench.utils.files import atomic_file, atomic_folder, remove_partial, sha256_file


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
    return fetch_file(CORPORA[name])


def fetch_words(archive: str, repository: str, member: str) -> Path:
    """Return a table of word vectors, the `member` of a zip archive of a hub repository."""
    packed = fetch_file(archive, repository)
    table = cache_folder() / f"{sha256_file(packed)[:12]}-{member}"
    if not table.is_file():
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
    archive = fetch_file("senteval.tar")
    # The name holds the archive's digest, so another archive is unpacked elsewhere.
    folder = cache_folder() / f"senteval-{sha256_file(archive)[:12]}"
    if folder.is_dir():
        return folder
    with locked():
        if not folder.is_dir():
            remove_partial(cache_folder())
            with atomic_folder(folder) as temporary, tarfile.open(archive) as tar:
                unpacked = temporary / "unpacked"
                tar.extractall(unpacked, filter="data")
                tasks = next(unpacked.rglob("STS")).parent
                os.replace(tasks, temporary / "downstream")
                shutil.rmtree(unpacked, ignore_errors=True)  # gone if it held STS/ itself
    return folder
