"""Corpora and SentEval's data: from the folder BENCH_DATA, else fetched."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from bench.download.archive import take, unpack
from bench.download.cache import alone, cache_folder
from bench.download.hub import fetch_file
from bench.download.local import CORPORA, corpus_path, local_folder
from bench.download.pins import PINS
from bench.utils.errors import UserError, did_you_mean
from bench.utils.files import atomic_folder, read_json, sha256_file


def fetch_corpus(name: str) -> Path:
    """The file of a corpus by name: from the folder BENCH_DATA, else from the hub.

    Raises:
        UserError: it is not there, or cannot be fetched.
    """
    folder = local_folder()
    if folder:
        return corpus_path(name, folder)
    if name not in CORPORA:
        raise _unknown(name)
    return fetch_file(CORPORA[name])


def check_corpus(name: str) -> None:
    """Raise `UserError` for a name that is of no known corpus, and of no file in the folder BENCH_DATA if that is set.

    A known one may still be absent here.
    """
    if name in CORPORA or name in read_json(PINS)["corpora"]:
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
    """A table of word vectors that is published in a zip archive with others.

    Raises:
        UserError: the archive cannot be fetched or verified, or lacks it.
    """
    whole = fetch_file(archive, repository)
    table = cache_folder() / f"{sha256_file(whole)[:12]}-{member}"
    if table.is_file():
        return table
    with alone():
        if not table.is_file():
            _sweep(table)
            take(whole, member, table)
    return table


def fetch_senteval() -> Path:
    """The folder that holds `downstream/` with the tasks' files: BENCH_DATA, else made of the hub's `senteval.tar`.

    Raises:
        UserError: BENCH_DATA names no such folder; or the archive cannot be fetched, verified or unpacked.
    """
    local = local_folder()
    if local:
        if not (local / "downstream").is_dir():
            raise UserError(f"BENCH_DATA names {local}, which holds no folder downstream/; name the folder above it")
        return local
    archive = fetch_file("senteval.tar")
    # Named by what it holds, so that a replaced archive is unpacked anew.
    folder = cache_folder() / f"senteval-{sha256_file(archive)[:12]}"
    if folder.is_dir():
        return folder
    with alone():
        if not folder.is_dir():
            _sweep(folder)
            with atomic_folder(folder) as temporary:
                unpack(archive, temporary / "unpacked")
                tasks = next((path.parent for path in (temporary / "unpacked").rglob("STS") if path.is_dir()), None)
                if tasks is None:
                    raise UserError(f"{archive} holds no folder STS/, so it is not SentEval's data; delete it")
                os.replace(tasks, temporary / "downstream")
                shutil.rmtree(temporary / "unpacked", ignore_errors=True)
    return folder


def _sweep(target: Path) -> None:
    """Remove what a killed process left of a file or folder half-made; nobody else may be making it."""
    for path in target.parent.glob(f".{target.name}.*.part"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
