"""Tables of word vectors: what is read, what is refused, and where they are found."""

import numpy as np
import pytest

from bench.datasets import word_vectors
from bench.datasets.word_vectors import read_vectors, width
from bench.registry.backbones import backbone
from tests.support.data_files import put
from tests.support.refusals import refused


@pytest.mark.parametrize(
    "content",
    [
        "dog 1 -2.5\ncat 3e-1 4",
        "dog 1 -2.5 \r\ncat 3e-1 4 \r\n\r\n",
        "dog 1 -2.5\ncat 3e-1 4\ndog 9 9\ncat 8 8\n",
    ],
    ids=["no end", "spaces and blank lines", "twice"],
)
def test_a_table_is_read(content, tmp_path):
    path = put(tmp_path, "table.txt", content)
    table = read_vectors(path)
    assert table.words == ["dog", "cat"]
    assert table.vectors.dtype == np.float32
    assert table.vectors.tolist() == np.array([[1, -2.5], [0.3, 4]], dtype=np.float32).tolist()
    assert width(path) == 2


def test_only_spaces_and_line_feeds_separate(tmp_path):
    odd = ["a\u00a0b", "c\u0085", "\u2028", "\r", "\t", "2", "caf\u00e9"]
    lines = [f"{word} {number} 0 0\n" for number, word in enumerate(odd)]
    table = read_vectors(put(tmp_path, "table.txt", "".join(lines)))
    assert table.words == odd
    assert table.vectors[:, 0].tolist() == list(range(7))


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "is not a table of word vectors"),
        ("dog 1  2\ncat 1 2\n", "is not a table of word vectors"),
        ("dog 1 2\ncat 1\n", "line 2: 1 values, the first word has 2"),
        ("dog 1 2\ncat 1 two\n", "line 2: could not convert string to float"),
        (b"dog 1 2\ncaf\xe9 1 2\n", "line 2: byte 0xe9 is not valid utf-8"),
        ("3 2\ndog 1 2\ncat 3 4\n", "its first line is not a word"),  # the header of word2vec
    ],
)
def test_what_is_no_table_is_refused(content, problem, tmp_path):
    path = put(tmp_path, "mine.txt", content)
    refused(lambda: read_vectors(path), str(path), problem)


def test_tables_by_name_and_by_path(tmp_path, monkeypatch):
    path = put(tmp_path, "mine.txt", "dog 1 2 3\n")
    known = backbone(str(path))
    assert (known.name, known.kind, known.shape.width, known.table()) == ("mine", "words", 3, path)
    assert known.reference == str(path)
    monkeypatch.setenv("BENCH_MODELS", str(tmp_path))
    local = backbone("mine")
    assert (local.fingerprint, local.reference, local.table()) == (known.fingerprint, "mine", path)
    changed = put(tmp_path, "sub/mine.txt", "dog 1 2 4\n")
    assert backbone(str(changed)).fingerprint != known.fingerprint


def test_the_published_table_has_its_size(tmp_path):
    path = put(tmp_path, "glove.6B.300d.txt", f"dog {' '.join(['0.5'] * 300)}\n")
    refused(
        lambda: word_vectors.load_words(path, "glove.6B.300d", 300),
        "1 vectors of width 300, so it is not glove.6B.300d",
    )
    refused(lambda: backbone(str(path)), "is the name of a built-in backbone")
