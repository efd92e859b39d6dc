"""A corpus as token ids: tokenized once a suite, on disk, and read where a batch needs it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np

from bench.utils.errors import UserError
from bench.utils.files import atomic_file
from bench.utils.progress import Progress

CHUNK = 10_000  # sentences between two reports of progress


def tokenizer_identity(tokenizer: Any) -> str:
    """Everything that decides what a fast tokenizer gives, as one text; what is set for each call is left out."""
    described = json.loads(tokenizer.backend_tokenizer.to_str())
    return json.dumps({key: value for key, value in described.items() if key not in ("truncation", "padding")})


class TokenFile(Sequence[list[int]]):
    """Token ids of sentences in a memory-mapped file: int32, how many sentences, where each ends, then all ids."""

    def __init__(self, path: Path) -> None:
        """Open a file that `write` made.

        Raises:
            UserError: it is cut short or something else.
        """
        try:
            content = np.load(path, mmap_mode="r")
            count = int(content[0])
            self._ends = np.concatenate([[0], content[1 : 1 + count]])
            self._ids = content[1 + count :]
            whole = len(self._ends) == count + 1 and self._ends[-1] == len(self._ids)
        except (OSError, EOFError, ValueError, IndexError):
            whole = False
        if not whole:
            raise UserError(f"{path} is damaged; delete it, and the corpus is tokenized again")

    def __len__(self) -> int:
        return len(self._ends) - 1

    @overload
    def __getitem__(self, row: int) -> list[int]: ...
    @overload
    def __getitem__(self, row: slice) -> list[list[int]]: ...
    def __getitem__(self, row: int | slice) -> list[int] | list[list[int]]:
        if isinstance(row, slice):
            return [self[each] for each in range(len(self))[row]]
        row = range(len(self))[row]
        return self._ids[self._ends[row] : self._ends[row + 1]].tolist()

    @staticmethod
    def write(path: Path, rows: Sequence[Sequence[int] | np.ndarray]) -> None:
        """Write token ids, whole or not at all."""
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        content = np.concatenate([[len(rows)], lengths.cumsum(), *rows]).astype(np.int32)
        with atomic_file(path) as temporary, open(temporary, "wb") as stream:
            np.save(stream, content)


def tokenized(sentences: Sequence[str], tokenizer: Any, longest: int, folder: Path) -> TokenFile:
    """Sentences as token ids with special tokens, cut to `longest`; from `folder` where they are there already.

    The file's name holds the sum of the sentences and of everything else that decides the ids, so nothing is stale.

    Args:
        longest: word pieces, special tokens included; the rest is cut off on the right.

    Raises:
        UserError: the folder cannot be written, or the file that is there is damaged.
    """
    digest = hashlib.sha256(f"{tokenizer_identity(tokenizer)}\n{longest}\n".encode())
    for sentence in sentences:
        digest.update(sentence.encode())
        digest.update(b"\n")
    path = folder / f"{digest.hexdigest()[:16]}.npy"
    if not path.is_file():
        rows: list[np.ndarray] = []
        with Progress(len(sentences), "tokenize", unit="sentence") as progress:
            for start in range(0, len(sentences), CHUNK):
                chunk = list(sentences[start : start + CHUNK])
                ids = tokenizer(chunk, truncation=True, max_length=longest, padding=False)["input_ids"]
                rows += [np.asarray(row, dtype=np.int32) for row in ids]
                progress.advance(len(chunk))
        TokenFile.write(path, rows)
    return TokenFile(path)
