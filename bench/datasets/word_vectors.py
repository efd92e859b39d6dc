"""Tables of word vectors in GloVe's text format.

A line is a word and its values, separated by single spaces.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from bench.utils.errors import UserError
from bench.utils.files import read_lines
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


def width(path: Path) -> int:
    """Return the width of the vectors, from the first line; `UserError` if that is not a word and
    at least two numbers."""
    values = _fields(next(read_lines(path), ""))[1:]
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


def _fields(line: str) -> list[str]:
    """Split a line at single spaces only: a word may be another white-space character."""
    return line.rstrip(" ").split(" ")


def read_vectors(path: Path) -> WordVectors:
    """Read a table. The first vector of a repeated word is kept. The table fits in memory once."""
    columns = width(path)
    # The file is read twice: with the number of its lines the array is made once, and no list of
    # rows stands beside it in memory.
    lines = sum(1 for _ in read_lines(path))
    rows: dict[str, int] = {}
    vectors = np.empty((lines, columns), dtype=np.float32)
    progress = Progress(lines, "read word vectors")
    for number, line in enumerate(read_lines(path), start=1):
        progress.advance()
        if not line:
            continue
        word, *values = _fields(line)
        try:
            if len(values) != columns:
                raise ValueError(f"{len(values)} values, the first word has {columns}")
            vectors[len(rows)] = values
        except ValueError as error:
            raise UserError(f"{path}, line {number}: {error}; fix it") from None
        rows.setdefault(word, len(rows))  # the next word overwrites the row of a repeated one
    return WordVectors(list(rows), vectors[: len(rows)])
