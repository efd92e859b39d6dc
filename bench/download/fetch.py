"""Corpora, word vectors and SentEval's data: from the folder BENCH_DATA, else downloaded."""

from __future__ import annotations

import os
import shutil
import tarfile
import zipfile
from pathlib import Path

from bench.download.hub import fetch_file, known_corpus
from bench.download.local import CORPORA, cache_folder, corpus_path, local_folder, locked
from bench.utils.errors import UserError, did_you_mean
from bench.utils.files import atomic_file, atomic_folder, remove_partial, sha256_file


def fetch_corpus(name: str) -> Path:
    """Return the file of a corpus: in the folder BENCH_DATA if that is set, else from the hub.

    Raises:
        UserError: it is not there, or cannot be downloaded.
    """
    folder = local_folder()
    if folder:
        return corpus_path(name, folder)
    if name not in CORPORA:
        raise _unknown(name)
    return fetch_file(CORPORA[name])


def check_corpus(name: str) -> None:
    """Check the name of a corpus. A known corpus need not be present.

    Raises:
        UserError: no corpus and no file in the folder BENCH_DATA has this name.
    """
    if name in CORPORA or known_corpus(name):
        return
    folder = local_folder()
    if not folder:
        raise _unknown(name)
    corpus_path(name, folder)


def _unknown(name: str) -> UserError:
    return UserError(
        f"corpus '{name}' is not on the hub{did_you_mean(name, CORPORA)}; "
        f"set BENCH_DATA to a folder with it, or name a text file by its path, as ./FILE.txt"
    )


def fetch_words(archive: str, repository: str, member: str) -> Path:
    """Return a table of word vectors that is published in a zip archive.

    Args:
        archive: name of the archive in the repository.
        repository: on the hub.
        member: name of the table in the archive.

    Raises:
        UserError: the archive cannot be downloaded, differs from its pin, or lacks the table.
    """
    packed = fetch_file(archive, repository)
    table = cache_folder() / f"{sha256_file(packed)[:12]}-{member}"
    if not table.is_file():
        try:
            with (
                zipfile.ZipFile(packed) as files,
                files.open(member) as source,
                atomic_file(table) as temporary,
                open(temporary, "wb") as copy,
            ):
                shutil.copyfileobj(source, copy, 1 << 20)
        except (KeyError, zipfile.BadZipFile) as error:
            raise UserError(f"{packed} cannot be unpacked ({error}); fetch it again") from None
    return table


def fetch_senteval() -> Path:
    """Return the folder of `downstream/`: BENCH_DATA if it is set, else an unpacked archive.

    Raises:
        UserError: BENCH_DATA has no such folder; or the hub's `senteval.tar` cannot be downloaded
            or unpacked, or differs from its pin.
    """
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
    if not folder.is_dir():
        with locked():
            if not folder.is_dir():
                remove_partial(cache_folder())
                _unpack_senteval(archive, folder)
    return folder


def _unpack_senteval(archive: Path, folder: Path) -> None:
    with atomic_folder(folder) as temporary:
        unpacked = temporary / "unpacked"
        try:
            with tarfile.open(archive) as tar:
                tar.extractall(unpacked, filter="data")
        except (tarfile.TarError, EOFError) as error:
            reason = " ".join(str(error).split())
            raise UserError(f"{archive} cannot be unpacked ({reason}); fetch it again") from None
        tasks = next((path.parent for path in unpacked.rglob("STS") if path.is_dir()), None)
        if tasks is None:
            raise UserError(f"{archive} holds no folder STS/, so it is not SentEval's data")
        os.replace(tasks, temporary / "downstream")
        shutil.rmtree(unpacked, ignore_errors=True)
