"""Reading training corpora and their documents."""

import gzip
import hashlib
import json
import os
import re
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import download
from bench.datasets import corpora
from bench.utils.errors import UserError
from bench.utils.files import read_lines
from tests.datasets.files import put

# Text of one line: anything but LF, which ends it, a CR at its end, and what UTF-8 cannot hold.
LINES = st.lists(
    st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\n")).map(
        lambda text: text.rstrip("\r")
    ),
    min_size=1,
    max_size=20,
)


def write(path: Path, content: str | bytes) -> Path:
    return put(path.parent, path.name, content)


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
def test_lines_are_sentences_and_an_empty_one_is_a_space(name: str, tmp_path: Path) -> None:
    """str.splitlines would break at the separators in the third, and shift all later rows."""
    separators = "a\x0bb\x0cc\x1cd\x85e\u2028f\u2029g\rh"
    text = f"\ufeffGröße .\r\n\n{separators}\n  indented\t\n\ufefflast without end"
    path = write(tmp_path / name, text.encode())
    rows = ["Größe .", " ", separators, "  indented\t", "\ufefflast without end"]
    assert corpora.read_sentences(path) == rows
    assert corpora.read_sentences(path, limit=2) == rows[:2]
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert corpora.corpus_identity(path) == {"name": "a", "sha256": digest, "rows": 5}


@given(lines=LINES, compress=st.booleans())
def test_what_was_written_is_read(lines: list[str], compress: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        content = "".join(f"{line}\n" for line in lines).encode()
        path = write(Path(folder) / ("a.txt.gz" if compress else "a.txt"), content)
        first = [lines[0].removeprefix("\ufeff"), *lines[1:]]
        assert list(read_lines(path)) == first
        if any(line.strip() for line in first):
            assert corpora.read_sentences(path) == [line or " " for line in first]


def test_bad_bytes_are_named_with_their_line(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", b"one\ntwo\nclich\xe9\nfour\n")
    with pytest.raises(UserError, match=r"a\.txt, line 3: byte 0xe9 is not valid utf-8"):
        corpora.read_sentences(path)
    assert len(corpora.read_sentences(path, limit=2)) == 2
    assert list(read_lines(path, "latin-1"))[2] == "cliché"


@pytest.mark.parametrize("content", [b"", b" \n\t\n"])
def test_an_empty_corpus_is_refused(content: bytes, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="contains no sentence"):
        corpora.read_sentences(write(tmp_path / "a.txt", content))


def test_damaged_files(tmp_path: Path) -> None:
    whole = gzip.compress(os.urandom(4000).hex().encode() + b"\n")
    altered = whole[:500] + b"\0\0\0" + whole[503:]
    for name, content in {"cut": whole[:900], "altered": altered}.items():
        (tmp_path / f"{name}.txt.gz").write_bytes(content)
        with pytest.raises(UserError, match=f"{name}.txt.gz cannot be read beyond line"):
            corpora.read_sentences(tmp_path / f"{name}.txt.gz")
    with pytest.raises(UserError, match=r"missing.txt does not exist"):
        corpora.read_sentences(tmp_path / "missing.txt")
    with pytest.raises(UserError, match=r"no list of documents; add a.docs.tsv"):
        corpora.read_documents(tmp_path / "a.txt.gz", 100)


def test_a_corpus_is_found_by_name_or_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = write(tmp_path / "world.txt", "a\n")
    packed = write(tmp_path / "wiki1m_for_simcse.txt.gz", "a\n")
    assert download.corpus_path("world", tmp_path) == plain
    for known in ("wiki1m", "wiki1m_for_simcse"):
        assert download.corpus_path(known, tmp_path) == packed
    assert download.corpus_path(str(plain), tmp_path / "elsewhere") == plain
    unknown = r"'wrld' is not in .*did you mean 'world'\? \(known: wiki1m, .*\); name another"
    with pytest.raises(UserError, match=unknown):
        download.corpus_path("wrld", tmp_path)
    monkeypatch.chdir(tmp_path)  # a bare name would identify a run, whatever is in the file later
    assert download.corpus_path("./world.txt", tmp_path / "elsewhere") == Path("world.txt")
    with pytest.raises(UserError, match=r"a text file by its path, as \./FILE\.txt"):
        download.corpus_path("world.txt", tmp_path)


@pytest.fixture
def pins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    path = tmp_path / "pins.json"
    path.write_text('{"repositories": {}, "corpora": {}}')
    monkeypatch.setattr(download.hub, "PINS", path)
    monkeypatch.setenv("SENTBENCH_CACHE", str(tmp_path / "cache"))
    return path


def test_a_corpus_of_known_length_or_sum_has_them(pins: Path, tmp_path: Path) -> None:
    path = write(tmp_path / "known.txt", b"a\nb\n")
    digest = hashlib.sha256(b"a\nb\n").hexdigest()
    for entry, problem in [
        ({"rows": [2, 3]}, None),
        ({"rows": [3, 4]}, "has 2 rows .* known has 3 or 4 rows"),
        ({"rows": [2], "sha256": ["0" * 64, digest]}, None),
        ({"rows": [2], "sha256": ["0" * 64]}, f"the SHA-256 {digest}, but known has 2 rows and 00"),
    ]:
        pins.write_text(json.dumps({"repositories": {}, "corpora": {"known": entry}}))
        if problem:
            with pytest.raises(UserError, match=problem):
                corpora.corpus_identity(path)
        else:
            assert corpora.corpus_identity(path)["rows"] == 2


def test_a_local_wiki1m_is_the_one_that_was_fetched(pins: Path, tmp_path: Path) -> None:
    path = write(tmp_path / "wiki1m_for_simcse.txt", b"a\nb\n")
    assert corpora.corpus_identity(path)["rows"] == 2  # nobody knows its sum
    download.hub.record(download.hub.DATASET, "c" * 40, {path.name: "0" * 64})
    with pytest.raises(UserError, match="the SHA-256"):
        corpora.corpus_identity(path)


DOCUMENTS = (
    "first_line\tlines\tsource\tcurid\ttitle\n1\t3\tx\t5\tOne\n4\t1\tx\t6\tTwo\n6\t4\ty\t7\tThree\n"
)


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_documents_are_ranges_of_rows(suffix: str, tmp_path: Path) -> None:
    write(tmp_path / f"a.docs.tsv{suffix}", DOCUMENTS.encode())
    for length, expected in [
        (9, [range(0, 3), range(3, 4), range(5, 9)]),
        (6, [range(0, 3), range(3, 4), range(5, 6)]),
        (5, [range(0, 3), range(3, 4)]),
        (2, [range(0, 2)]),
    ]:
        assert corpora.read_documents(tmp_path / f"a.txt{suffix}", length) == expected


@pytest.mark.parametrize(
    ("line", "problem"),
    [("x\t1", "line 3: exp"), ("4", "line 3: 1 tab"), ("3\t1", "behind"), ("4\t0", "line 3: exp")],
)
def test_wrong_documents_are_refused(line: str, problem: str, tmp_path: Path) -> None:
    write(tmp_path / "a.docs.tsv", f"first_line\tlines\n1\t3\n{line}\n".encode())
    with pytest.raises(UserError, match=problem):
        corpora.read_documents(tmp_path / "a.txt", 100)


# The sentences of nli_for_simcse.csv.
HEADER = "sent0,sent1,hard_neg\n"
TABLE = f"""{HEADER}One thing.,Another .,A third
"He said, ""yes"".", Another . ,
One thing.,The last one,One thing.
"""
SENTENCES = ["One thing.", "Another .", "A third", 'He said, "yes".', "The last one"]


@pytest.mark.parametrize("name", ["nli_for_simcse.csv", "nli_for_simcse.csv.gz"])
def test_an_nli_table_is_read_row_by_row(name: str, tmp_path: Path) -> None:
    path = write(tmp_path / name, TABLE)
    for known in ("nli", "nli_for_simcse"):
        assert download.corpus_path(known, tmp_path) == path
    assert corpora.read_sentences(path) == SENTENCES
    assert corpora.read_sentences(path, 2) == SENTENCES[:2]
    windows = write(tmp_path / "a.csv", "\ufeff" + TABLE.replace("\n", "\r\n"))
    assert corpora.read_sentences(windows) == SENTENCES
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert corpora.corpus_identity(path) == {"name": "nli_for_simcse", "sha256": digest, "rows": 5}


def test_triples_are_rows_of_the_sentences(tmp_path: Path) -> None:
    """A row with an empty sentence, or one beyond those in use, is left out."""
    path = write(tmp_path / "a.csv", TABLE)
    assert corpora.read_triples(path, SENTENCES) == [(0, 1, 2), (0, 4, 0)]
    assert corpora.read_triples(path, SENTENCES[:4]) == [(0, 1, 2)]
    with pytest.raises(UserError, match="no triple among its first 2 sentences"):
        corpora.read_triples(path, SENTENCES[:2])
    with pytest.raises(UserError, match="corpus b has no labelled triples; use the corpus nli"):
        corpora.read_triples(tmp_path / "b.txt", SENTENCES)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("premise,b\na,b\n", "the header is not sent0,sent1,hard_neg; fetch it again, or name"),
        (HEADER, "contains no sentence"),
        (HEADER + "a,b\n", "line 2: 2 columns, not 3; fetch it again"),
        (HEADER + 'a,b,c\na,"b,c\n', "line 3: unexpected end of data; fetch it again"),
    ],
)
def test_what_is_no_nli_table_is_one_sentence(content: str, problem: str, tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", content)
    with pytest.raises(UserError, match=re.escape(problem)):
        corpora.read_sentences(path)


def test_another_file_does_not_pass_for_the_nli_table(tmp_path: Path) -> None:
    """A run's identity holds the corpus's name, so that name means one file alone."""
    write(tmp_path / "nli.txt", "a\n")
    with pytest.raises(UserError, match=rf"corpus 'nli' is not in {tmp_path}; name another"):
        download.corpus_path("nli", tmp_path)


def test_the_nli_table_comes_from_bench_data_else_from_the_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "nli_for_simcse.csv", TABLE)
    monkeypatch.setenv("BENCH_DATA", str(tmp_path))
    assert download.fetch_corpus("nli") == path
    asked: list[str] = []
    monkeypatch.delenv("BENCH_DATA")
    monkeypatch.setattr(download, "fetch_file", lambda name: asked.append(name) or path)
    assert download.fetch_corpus("nli") == path
    download.fetch_corpus("wiki1m")
    assert asked == ["nli_for_simcse.csv", "wiki1m_for_simcse.txt"]


@pytest.mark.slow
@pytest.mark.skipif("BENCH_DATA" not in os.environ, reason="BENCH_DATA is not set")
def test_the_real_corpora() -> None:
    folder = Path(os.environ["BENCH_DATA"])
    seen = 0
    for name, rows in {"wiki1m_fallback": 1_000_000, "wiki1m_for_simcse.head11914": 11_914}.items():
        if not (folder / f"{name}.txt.gz").is_file():
            continue
        path = download.corpus_path(name, folder)
        assert corpora.corpus_identity(path)["rows"] == rows  # and its pinned sum
        sentences = corpora.read_sentences(path)
        assert len(sentences) == rows
        assert corpora.read_sentences(path, 100) == sentences[:100]
        seen += 1
        if name == "wiki1m_fallback":
            documents = corpora.read_documents(path, rows)
            assert len(documents) == 14_108
            assert [row for document in documents for row in document] == list(range(rows))
    if not seen:
        pytest.skip("BENCH_DATA holds none of the corpora")
