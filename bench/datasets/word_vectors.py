"""Tables of word vectors in GloVe's text format.

A line of the format is a word and its values, between single spaces; word2vec's first line "count width" may be there.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from bench.utils.errors import UserError
from bench.utils.progress import Progress

# Rows that a published table has at least: another file of its name is cut short, or not that table.
MIN_ROWS = {"glove.6B.300d": 400_000}


class WordVectors(NamedTuple):
    """Words, each once, and their vectors: float32 (n, d)."""

    words: list[str]
    vectors: np.ndarray


def load_words(path: Path, name: str, width: int) -> WordVectors:
    """Read the table `name` from the file `path`.

    Raises:
        UserError: the file does not exist, cannot be read, or is not the table of that name and width.
    """
    table = read_vectors(path)
    rows, found = table.vectors.shape
    if found != width or rows < MIN_ROWS.get(name, 1):
        raise UserError(f"{path} holds {rows} vectors of width {found}, so it is not {name}; fetch it again")
    return table


def _fields(line: bytes) -> list[bytes]:
    """Word and values of a line; nothing but spaces separates them, for a word may be another kind of white space."""
    return line.rstrip(b" \r\n").split(b" ")


def _is_header(fields: Sequence[bytes]) -> bool:
    return len(fields) == 2 and all(field.isdigit() for field in fields)


def _first(file: BinaryIO, path: Path) -> tuple[list[bytes], list[int]]:
    """The fields of the first word, and what a line before it announces: how many vectors, and their width."""
    fields, announced = _fields(file.readline()), []
    if _is_header(fields):
        announced, fields = [int(field) for field in fields], _fields(file.readline())
    if fields == [b""]:
        raise UserError(f"{path} holds no word vectors; each line is a word and its values")
    if len(fields) == 1:
        line = 1 + bool(announced)
        raise UserError(f"{path}, line {line}: a word without values; each line is a word and its values")
    return fields, announced


def width(path: Path) -> int:
    """How many values a word has, by the first line.

    Raises:
        UserError: there is none, or it is not a word and at least two numbers, as in any other kind of file.
    """
    with open(path, "rb") as file:
        values = _first(file, path)[0][1:]
    try:
        numbers = [float(value) for value in values]
    except ValueError:
        numbers = []
    if len(numbers) < 2:
        raise UserError(
            f"{path} is no table of word vectors, for its first line is not a word and at least two numbers; "
            "name another file"
        )
    return len(numbers)


def read_vectors(path: Path) -> WordVectors:
    """Read a table. Of a word that stands twice the first is kept. Memory is that of the table and its words.

    Raises:
        UserError: the file holds no vectors, or a line is not UTF-8 or not a word and as many numbers as the first one;
            the message names the line.
    """
    with open(path, "rb") as file:
        lines = sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b"")) + 1
        file.seek(0)
        first, announced = _first(file, path)
        columns, held = len(first) - 1, 0
        vectors = np.empty((lines, columns), dtype=np.float32)
        rows: dict[str, int] = {}
        file.seek(0)
        with Progress(lines, "read word vectors", unit="line") as progress:
            for number, line in enumerate(file, start=1):
                progress.advance()
                if number <= bool(announced) or not line.strip(b" \r\n"):
                    continue
                word, *values = _fields(line)
                if len(values) != columns:
                    raise UserError(
                        f"{path}, line {number}: {len(values)} values, the first word has {columns}; mend it"
                    )
                try:
                    name = word.decode()
                    vectors[len(rows)] = values
                except UnicodeDecodeError:
                    raise UserError(f"{path}, line {number}: not UTF-8; convert the file") from None
                except ValueError:
                    raise UserError(f"{path}, line {number}: a value is not a number; mend it") from None
                rows.setdefault(name, len(rows))
                held += 1
    vectors = vectors[: len(rows)]
    if announced and announced != [held, columns]:
        raise UserError(
            f"{path} announces {announced[0]} vectors of width {announced[1]} and holds {held} of width {columns}; "
            "it was cut short or altered, fetch it again"
        )
    if not np.isfinite(vectors).all():
        odd = next(name for name, row in rows.items() if not np.isfinite(vectors[row]).all())
        raise UserError(f"{path}: the vector of '{odd}' is not finite; mend it")
    return WordVectors(list(rows), vectors)
