"""Tables of word vectors: what is read, what is refused, and where they are found."""

from pathlib import Path

import numpy as np
import pytest

from bench.datasets import word_vectors
from bench.datasets.word_vectors import read_vectors, width
from bench.registry.backbones import TOY_FOLDER, backbone
from bench.utils.errors import UserError
from tools.world.backbones import WIDTH, make_vectors

# Reading


@pytest.mark.parametrize(
    "content",
    [
        b"dog 1 -2.5\ncat 3e-1 4\n",
        b"dog 1 -2.5\ncat 3e-1 4",
        b"2 2\ndog 1 -2.5\ncat 3e-1 4\n",
        b"dog 1 -2.5 \r\ncat 3e-1 4 \r\n\r\n",
        b"dog 1 -2.5\ncat 3e-1 4\ndog 9 9\ncat 8 8\n",
    ],
    ids=["plain", "no end", "header", "spaces and blank lines", "twice"],
)
def test_a_table_is_read(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "table.txt"
    path.write_bytes(content)
    table = read_vectors(path)
    assert table.words == ["dog", "cat"]
    assert table.vectors.dtype == np.float32
    assert table.vectors.tolist() == np.array([[1, -2.5], [0.3, 4]], dtype=np.float32).tolist()
    assert width(path) == 2


def test_only_spaces_and_line_feeds_separate(tmp_path: Path) -> None:
    odd = ["a\u00a0b", "c\u0085", "\u2028", "\r", "\t", "2", "caf\u00e9"]
    path = tmp_path / "table.txt"
    path.write_bytes("".join(f"{word} {number} 0 0\n" for number, word in enumerate(odd)).encode())
    table = read_vectors(path)
    assert table.words == odd
    assert table.vectors[:, 0].tolist() == list(range(7))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not a table of word vectors"),
        (b"dog 1 2\ncat 1\n", "line 2: 1 values, the first word has 2"),
        (b"dog 1 2\ncat 1 two\n", "line 2: could not convert string to float"),
        (b"dog 1 2\ncaf\xe9 1 2\n", "line 2: 'utf-8' codec can't decode"),
    ],
)
def test_what_is_no_table_is_refused(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "table.txt"
    path.write_bytes(content)
    with pytest.raises(UserError) as caught:
        read_vectors(path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


# Finding


def test_tables_by_name_and_by_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "mine.txt"
    path.write_text("dog 1 2 3\n")
    known = backbone(str(path))
    assert (known.name, known.kind, known.shape.width, known.table()) == ("mine", "words", 3, path)
    assert known.reference == str(path)
    monkeypatch.setenv("BENCH_MODELS", str(tmp_path))
    named = backbone("mine")
    assert (named.fingerprint, named.reference, named.table()) == (known.fingerprint, "mine", path)
    other = tmp_path / "sub" / "mine.txt"
    other.parent.mkdir()
    other.write_text("dog 1 2 4\n")
    assert backbone(str(other)).fingerprint != known.fingerprint


def test_the_toy_table_and_the_published_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy = backbone("toy-glove")
    assert (toy.source, toy.kind, toy.shape.width, toy.shape.depth) == ("toy", "words", 24, 0)
    assert toy.table() == TOY_FOLDER / "toy-glove" / "vectors.txt"
    monkeypatch.delenv("BENCH_MODELS", raising=False)
    published = backbone("glove.6B.300d")  # known without its file, so that a plan needs none
    assert (published.kind, published.shape.width, published.shape.depth) == ("words", 300, 0)
    monkeypatch.setenv("BENCH_MODELS", str(tmp_path))
    path = tmp_path / "glove.6B.300d.txt"
    path.write_text(f"dog {' '.join(['0.5'] * 300)}\n")
    assert backbone("glove.6B.300d") == published
    with pytest.raises(UserError, match=r"1 vectors of width 300, so it is not glove\.6B\.300d"):
        word_vectors.load_words(path, published.name, 300)
    monkeypatch.setitem(word_vectors.MIN_ROWS, "glove.6B.300d", 1)
    assert word_vectors.load_words(path, published.name, 300).words == ["dog"]
    with pytest.raises(UserError, match="is the name of a built-in backbone"):
        backbone(str(path))


@pytest.mark.parametrize("line", ["# A suite", "a dog sees two birds", "dog 1  2"])
def test_another_kind_of_file_is_no_backbone(line: str, tmp_path: Path) -> None:
    path = tmp_path / "README.md"
    path.write_text(f"{line}\ncat 1 2\n")
    expected = r"README\.md is not a table of word vectors: its first line is not a word and"
    with pytest.raises(UserError, match=expected):
        backbone(str(path))


# The toy table


def test_toy_vectors_tell_company(tmp_path: Path) -> None:
    """Of two topics whose words never meet, "king" and "queen" keep the same company."""
    rows = []
    for number in range(120):
        ruler, food = ("King", "queen")[number % 2], ("bread", "cake")[number % 3 % 2]
        rows += [f"the {ruler} rules the old land .", f"a baker bakes {food} in an oven ."]
    rows += [f"word{number % 70} goes" for number in range(350)]
    make_vectors(tmp_path / "vectors.txt", [*rows, "once only"])
    table = read_vectors(tmp_path / "vectors.txt")
    assert table.vectors.shape[1] == WIDTH
    assert table.words[0] == "goes"  # the most frequent first
    assert "once" not in table.words
    assert "King" not in table.words
    unit = table.vectors / np.linalg.norm(table.vectors, axis=1, keepdims=True)
    vectors = dict(zip(table.words, unit, strict=True))
    for near, also, far in (("king", "queen", "cake"), ("bread", "cake", "queen")):
        assert vectors[near] @ vectors[also] > 0.5 > vectors[near] @ vectors[far] + 0.3


@pytest.mark.parametrize("first", ["3 2", "2 3", "9 9"])
def test_a_table_that_announces_something_else_is_refused(first: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.txt"
    path.write_text(f"{first}\ndog 1 2\ncat 3 4\n")
    expected = "announces . vectors of width . but has 2 of width 2; it is truncated"
    with pytest.raises(UserError, match=expected):
        word_vectors.read_vectors(path)
    path.write_text("2 2\ndog 1 2\ncat 3 4\n")
    assert word_vectors.read_vectors(path).words == ["dog", "cat"]
