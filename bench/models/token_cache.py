"""Token ids of corpora and tasks on disk. All runs of a suite share them and read them
memory-mapped."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.utils.files import atomic_file
from bench.utils.progress import Progress

CHUNK = 10_000  # sentences between two updates of the progress bar


def tokenizer_identity(tokenizer: Any) -> str:
    """What determines a fast tokenizer's output, as JSON, without what is set per call."""
    state = json.loads(tokenizer.backend_tokenizer.to_str())
    per_call = ("truncation", "padding")
    return json.dumps({key: value for key, value in state.items() if key not in per_call})


class TokenFile(Sequence[list[int]]):
    """Token ids in a memory-mapped int32 file: number of sentences, end of each, then all ids."""

    def __init__(self, path: Path) -> None:
        content = np.load(path, mmap_mode="r")
        count = int(content[0])
        self._ends, self._ids = np.concatenate([[0], content[1 : 1 + count]]), content[1 + count :]

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __getitem__(self, row: Any) -> Any:
        if isinstance(row, slice):
            return [self[each] for each in range(len(self))[row]]
        row = range(len(self))[row]
        return self._ids[self._ends[row] : self._ends[row + 1]].tolist()

    @staticmethod
    def write(path: Path, rows: Sequence[Sequence[int] | np.ndarray]) -> None:
        """Write token ids atomically."""
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        content = np.concatenate([[len(rows)], lengths.cumsum(), *rows]).astype(np.int32)
        with atomic_file(path) as temporary, open(temporary, "wb") as stream:
            np.save(stream, content)


class TokensBySentence(Mapping[str, list[int]]):
    """The token ids of distinct sentences, which are the rows of a token file."""

    def __init__(self, sentences: Sequence[str], rows: Sequence[list[int]]) -> None:
        self._places, self._rows = {text: row for row, text in enumerate(sentences)}, rows

    def __getitem__(self, sentence: str) -> list[int]:
        return self._rows[self._places[sentence]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def tokenized(sentences: Sequence[str], tokenizer: Any, longest: int, folder: Path) -> TokenFile:
    """Tokenize sentences, or read them from `folder` if they were tokenized before.

    The file is named by a hash of the sentences, the tokenizer and `longest`, so it never is stale.

    Args:
        sentences: texts.
        tokenizer: a fast tokenizer.
        longest: maximum tokens of a sentence, special ones included; it is cut on the right.
        folder: of the token files.
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
                output = tokenizer(chunk, truncation=True, max_length=longest, padding=False)
                rows += [np.asarray(row, dtype=np.int32) for row in output["input_ids"]]
                progress.advance(len(chunk))
        TokenFile.write(path, rows)
    return TokenFile(path)
