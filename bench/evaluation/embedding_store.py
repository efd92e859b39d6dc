"""Vectors of sentences on disk: each distinct sentence is encoded once, and an interrupted encoding goes on."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np
from filelock import lock_descriptor

from bench.models.encoder import Encoder
from bench.utils.errors import UserError
from bench.utils.files import read_json, write_json
from bench.utils.progress import Progress

CHUNK = 2048  # sentences between two writes: what an interruption can cost
FILES = ("encoder.json", "keys", "vectors.f32")  # what a store consists of
KEY = 16  # bytes of a sentence's sum


def _key(sentence: str) -> bytes:
    return hashlib.sha256(sentence.encode("utf-8")).digest()[:KEY]


class VectorStore:
    """A folder with the vectors of one encoder, float32 [n, d], found by the sum of their sentence.

    `vectors.f32` and `keys` only grow, vectors first: what a crash leaves is a valid store, one chunk shorter.
    """

    def __init__(self, folder: Path, encoder: Encoder) -> None:
        """Open or begin a store.

        Raises:
            UserError: the folder cannot be written, holds another encoder's vectors, or is in use.
        """
        self.folder, self.encoder = Path(folder), encoder
        self._description = self.folder / "encoder.json"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._keys: BinaryIO = open(self.folder / "keys", "a+b")  # noqa: SIM115 (held open, for its lock)
            self._vectors: BinaryIO = open(self.folder / "vectors.f32", "a+b")  # noqa: SIM115
        except OSError as error:
            raise UserError(
                f"cannot write {self.folder}: {error.strerror}; choose a folder that can be written"
            ) from None
        if not lock_descriptor(self._keys.fileno(), blocking=False):
            raise UserError(f"{self.folder} is in use by another process; wait for it or write elsewhere")
        self.identity = encoder.identity
        known = read_json(self._description) if self._description.is_file() else None
        if known is None or known["encoder"] != self.identity:
            known = {"encoder": self.identity, "width": 0}  # of no width there are no rows, so the files are emptied
            write_json(self._description, known)
        self.width = int(known["width"])
        self._rows = self._read_keys()

    def _read_keys(self) -> dict[bytes, int]:
        self._keys.seek(0)
        content = self._keys.read()
        written = self._vectors.seek(0, 2) // (4 * self.width) if self.width else 0
        count = min(len(content) // KEY, written)
        self._keys.truncate(count * KEY)
        self._vectors.truncate(count * self.width * 4)
        return {content[i * KEY : (i + 1) * KEY]: i for i in range(count)}

    def add(self, sentences: Iterable[str]) -> None:
        """Encode what is not there yet, longest first, so that the time left is never promised too short.

        Raises:
            UserError: the encoder does not give one vector per sentence, all of one length.
        """
        missing = [text for text in dict.fromkeys(sentences) if _key(text) not in self._rows]
        missing.sort(key=lambda text: (-len(text), text))
        with Progress(len(missing), "encode", unit="sentence") as progress:
            for start in range(0, len(missing), CHUNK):
                chunk = missing[start : start + CHUNK]
                self._append(chunk, np.ascontiguousarray(self.encoder.encode(chunk), dtype=np.float32))
                progress.advance(len(chunk))

    def _append(self, sentences: Sequence[str], vectors: np.ndarray) -> None:
        if vectors.ndim != 2 or len(vectors) != len(sentences) or self.width not in (0, vectors.shape[1]):
            raise UserError(
                f"the encoder gave an array of shape {vectors.shape} for {len(sentences)} sentences; "
                f"it must give one vector per sentence, all of one length"
            )
        if not self.width:
            self.width = vectors.shape[1]
            write_json(self._description, {"encoder": self.identity, "width": self.width})
        keys = [_key(text) for text in sentences]
        for stream, content in ((self._vectors, vectors.tobytes()), (self._keys, b"".join(keys))):
            stream.write(content)
            stream.flush()
        self._rows |= {key: row for row, key in enumerate(keys, start=len(self._rows))}

    def __call__(self, sentences: Sequence[str]) -> np.ndarray:
        """Vectors float32 [n, d] of sentences that were added."""
        mapped = np.memmap(self.folder / "vectors.f32", np.float32, "r", shape=(len(self._rows), self.width))
        return mapped[[self._rows[_key(text)] for text in sentences]]

    def close(self) -> None:
        """Let go of the files."""
        self._vectors.close()
        self._keys.close()
