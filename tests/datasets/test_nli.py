"""The corpus "nli": the distinct sentences of nli_for_simcse.csv, from BENCH_DATA, a path or the
hub."""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path

import pytest

from bench import download
from bench.datasets import corpora
from bench.utils.errors import UserError

HEADER = "sent0,sent1,hard_neg\n"
TABLE = (
    HEADER
    + "One thing.,Another .,A third\n"
    + '"He said, ""yes"".", Another . ,\n'
    + "One thing.,The last one,One thing.\n"
)
SENTENCES = ["One thing.", "Another .", "A third", 'He said, "yes".', "The last one"]


def write(path: Path, content: str) -> Path:
    path.write_bytes(gzip.compress(content.encode()) if path.suffix == ".gz" else content.encode())
    return path


@pytest.mark.parametrize("name", ["nli_for_simcse.csv", "nli_for_simcse.csv.gz"])
def test_distinct_sentences_row_by_row(name: str, tmp_path: Path) -> None:
    path = write(tmp_path / name, TABLE)
    assert (
        corpora.corpus_path("nli", tmp_path)
        == corpora.corpus_path("nli_for_simcse", tmp_path)
        == path
    )
    assert corpora.read_sentences(path) == SENTENCES
    assert corpora.read_sentences(path, 2) == SENTENCES[:2]
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert corpora.corpus_identity(path) == {"name": "nli_for_simcse", "sha256": digest, "rows": 5}


def test_lines_may_end_as_on_windows(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "\ufeff" + TABLE.replace("\n", "\r\n"))
    assert corpora.read_sentences(path) == SENTENCES


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "the header is , not sent0,sent1,hard_neg"),
        (
            "premise,hypothesis\na,b\n",
            "the header is premise,hypothesis, not sent0,sent1,hard_neg; name a .txt file",
        ),
        (HEADER, "contains no sentence"),
        (HEADER + "a,b\n", "line 2: 2 columns, not 3; fetch it again"),
        (HEADER + "a,b,c\n\n", "line 3: 0 columns, not 3"),
        (HEADER + 'a,b,c\na,"b,c\n', "line 3: unexpected end of data; fetch it again"),
        (HEADER + 'a,"b"b,c\n', "line 2: ',' expected after '\"'"),
    ],
)
def test_what_is_no_such_table_is_one_sentence(content: str, problem: str, tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", content)
    with pytest.raises(UserError) as caught:
        corpora.read_sentences(path)
    assert problem in str(caught.value)


def test_another_file_does_not_pass_for_it(tmp_path: Path) -> None:
    """A run's identity holds the corpus's name, so that name means one file alone."""
    write(tmp_path / "nli.txt", "a\n")
    with pytest.raises(UserError, match=rf"corpus 'nli' is not in {tmp_path}; name another"):
        corpora.corpus_path("nli", tmp_path)


def test_it_comes_from_bench_data_else_from_the_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "nli_for_simcse.csv", TABLE)
    monkeypatch.setenv("BENCH_DATA", str(tmp_path))
    assert download.fetch_corpus("nli") == path
    asked: list[str] = []
    monkeypatch.delenv("BENCH_DATA")
    monkeypatch.setattr(download.fetch, "fetch_file", lambda name: asked.append(name) or path)
    assert download.fetch_corpus("nli") == path
    download.fetch_corpus("wiki1m")
    assert asked == ["nli_for_simcse.csv", "wiki1m_for_simcse.txt"]
