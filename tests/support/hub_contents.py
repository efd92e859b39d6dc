"""What the hubs of the tests of downloads hold; archives, and the files in a cache."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

from bench.__main__ import main

WIKI = b"".join(b"Sentence %d.\n" % row for row in range(7))
SMALL = "someone/small-bert"  # a repository with files of the right names
CORPUS = "wiki1m_for_simcse.txt"
TEXT = b"".join(b"Sentence number %d of the corpus.\n" % row for row in range(30))
BERT = "google-bert/bert-base-uncased"
NO_PINS = json.dumps({"repositories": {}, "corpora": {}})


def tar(members: dict[str, bytes | tarfile.TarInfo]) -> bytes:
    """An archive of files (name -> content) and of other members as they are."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name, content in members.items():
            if isinstance(content, tarfile.TarInfo):
                archive.addfile(content)
            else:
                info = tarfile.TarInfo(name)
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
    return stream.getvalue()


def member(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def left_behind(folder: Path) -> list[str]:
    """Files in the cache, without the lock file and huggingface_hub's own notes."""
    paths = (path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    notes = (".lock", ".gitignore", ".metadata", "CACHEDIR.TAG")
    return sorted(path for path in paths if not path.endswith(notes))


def fetch(tmp_path: Path, *words: str) -> int:
    """The status of `python -m bench fetch`."""
    places = ["--suite", str(tmp_path), "--out", str(tmp_path / "fetched.json")]
    return main(["fetch", *words, *places])
