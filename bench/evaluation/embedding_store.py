"""Sentence vectors on disk, so that interrupted encodings can be resumed."""

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np
from filelock import lock_descriptor

from bench.datasets.manifest import check_vectors
from bench.models.encoder import Encoder
from bench.utils.errors import UserError
from bench.utils.files import read_json, write_json
from bench.utils.progress import Progress

# Sentences between two writes, the most that an interruption loses. A GPU, which waits for each
# write, takes more at once.
CHUNK, GPU_CHUNKS = 2048, 8
KEY = 16  # bytes of a sentence's hash


def _key(sentence: str) -> bytes:
    return hashlib.sha256(sentence.encode("utf-8")).digest()[:KEY]


class VectorStore:
    """A folder with vectors of one encoder, float32 (n, d), looked up by the hash of the sentence.

    `vectors.f32` and `keys` are appended in this order, so a crash loses at most the last chunk.
    """

    def __init__(self, folder: Path, encoder: Encoder) -> None:
        """Open or create a store. Vectors of another encoder are discarded."""
        self.folder, self.encoder, self.identity = Path(folder), encoder, encoder.identity
        self._description = self.folder / "encoder.json"
        self.folder.mkdir(parents=True, exist_ok=True)
        self._keys: BinaryIO = open(self.folder / "keys", "a+b")  # noqa: SIM115 (held open, for its lock)
        self._vectors: BinaryIO = open(self.folder / "vectors.f32", "a+b")  # noqa: SIM115
        if not lock_descriptor(self._keys.fileno(), blocking=False):
            raise UserError(
                f"{self.folder} is in use by another process; wait for it or write elsewhere"
            )
        stored = read_json(self._description) if self._description.is_file() else {}
        # Of another encoder the width is 0, too, so that its files are emptied.
        self.width: int = stored["width"] if stored.get("encoder") == self.identity else 0
        self._keys.seek(0)
        content = self._keys.read()
        written = self._vectors.seek(0, 2) // (4 * self.width) if self.width else 0
        count = min(len(content) // KEY, written)
        self._keys.truncate(count * KEY)
        self._vectors.truncate(count * self.width * 4)
        self._rows = {content[i * KEY : (i + 1) * KEY]: i for i in range(count)}

    def add(self, sentences: Iterable[str], device: str = "cpu") -> None:
        """Encode the sentences that are missing, the longest first: a progress that never
        underestimates."""
        missing = [text for text in dict.fromkeys(sentences) if _key(text) not in self._rows]
        missing.sort(key=lambda text: (-len(text), text))
        size = CHUNK if device == "cpu" else CHUNK * GPU_CHUNKS
        with Progress(len(missing), "encode", unit="sentence") as progress:
            for start in range(0, len(missing), size):
                chunk = missing[start : start + size]
                vectors = self.encoder.encode(chunk)
                self._append(chunk, np.ascontiguousarray(vectors, dtype=np.float32))
                progress.advance(len(chunk))

    def _append(self, sentences: Sequence[str], vectors: np.ndarray) -> None:
        # What is written is not encoded again.
        check_vectors(sentences, vectors, self.width or vectors.shape[-1])
        if not self.width:
            self.width = vectors.shape[1]
            write_json(self._description, {"encoder": self.identity, "width": self.width})
        keys = [_key(text) for text in sentences]
        for stream, content in ((self._vectors, vectors.tobytes()), (self._keys, b"".join(keys))):
            stream.write(content)
            stream.flush()
        self._rows |= {key: row for row, key in enumerate(keys, start=len(self._rows))}

    def __call__(self, sentences: Sequence[str]) -> np.ndarray:
        """Vectors of sentences that were added, float32 (n, d)."""
        shape = (len(self._rows), self.width)
        mapped = np.memmap(self.folder / "vectors.f32", np.float32, "r", shape=shape)
        return mapped[[self._rows[_key(text)] for text in sentences]]

    def close(self) -> None:
        self._vectors.close()
        self._keys.close()
