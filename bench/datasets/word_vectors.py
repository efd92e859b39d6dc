"""Tables of word vectors in GloVe's text format.

A line is a word and its values, separated by single spaces. The first line may be word2vec's header
"count width".
"""

from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from bench.utils.errors import UserError
from bench.utils.progress import Progress

# Smallest number of rows of a published table; a shorter file is truncated or another table.
MIN_ROWS = {"glove.6B.300d": 400_000}


class WordVectors(NamedTuple):
    """Distinct words and their vectors, float32 (n, d)."""

    words: list[str]
    vectors: np.ndarray


def load_words(path: Path, name: str, width: int) -> WordVectors:
    """Read the table `name`; `UserError` if the file is not the table of that name and width."""
    table = read_vectors(path)
    rows, columns = table.vectors.shape
    if columns != width or rows < MIN_ROWS.get(name, 1):
        raise UserError(
            f"{path} has {rows} vectors of width {columns}, so it is not {name}; fetch it again"
        )
    return table


def _fields(line: bytes) -> list[bytes]:
    """Split a line at single spaces only: a word may be another white-space character."""
    return line.rstrip(b" \r\n").split(b" ")


def _header(file: BinaryIO) -> list[int]:
    """Read word2vec's header, if there is one; the next line is that of the first word."""
    fields = _fields(file.readline())
    if len(fields) == 2 and all(field.isdigit() for field in fields):
        return [int(field) for field in fields]
    file.seek(0)
    return []


def width(path: Path) -> int:
    """Return the width of the vectors, from the first line; `UserError` if that is not a word and
    at least two numbers."""
    with open(path, "rb") as file:
        _header(file)
        values = _fields(file.readline())[1:]
    try:
        np.array(values, dtype=np.float32)
    except ValueError:
        values = []
    if len(values) < 2:
        raise UserError(
            f"{path} is not a table of word vectors: its first line is not a word and at least two "
            "numbers; choose another file"
        )
    return len(values)


def read_vectors(path: Path) -> WordVectors:
    """Read a table. The first vector of a repeated word is kept. The table fits in memory once."""
    columns, count = width(path), 0
    rows: dict[str, int] = {}
    with open(path, "rb") as file:
        lines = sum(1 for _ in file)
        vectors = np.empty((lines, columns), dtype=np.float32)
        file.seek(0)
        announced = _header(file)
        progress = Progress(lines, "read word vectors")
        for number, line in enumerate(file, start=2 if announced else 1):
            progress.advance()
            word, *values = _fields(line)
            if not word and not values:
                continue
            try:
                if len(values) != columns:
                    raise ValueError(f"{len(values)} values, the first word has {columns}")
                name = word.decode()
                vectors[len(rows)] = values
            except ValueError as error:
                raise UserError(f"{path}, line {number}: {error}; fix it") from None
            rows.setdefault(name, len(rows))  # a repeated word's row is overwritten by the next
            count += 1
    vectors = vectors[: len(rows)]
    if announced and announced != [count, columns]:
        raise UserError(
            f"{path} announces {announced[0]} vectors of width {announced[1]} but has {count} of "
            f"width {columns}; it is truncated or modified, fetch it again"
        )
    return WordVectors(list(rows), vectors)
