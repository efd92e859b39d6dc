"""Reading training corpora and their documents."""

import gzip
import hashlib
import json
import random
import re
from functools import partial

import pytest

from bench import download
from bench.datasets import corpora
from bench.datasets.manifest import listed_task
from bench.registry.backbones import backbone, folder_kind
from tests.support.data_files import put
from tests.support.refusals import refused


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
def test_lines_are_sentences_and_an_empty_one_is_a_space(name, tmp_path):
    """str.splitlines would break at the separators in the third, and shift all later rows."""
    separators = "a\x0bb\x0cc\x1cd\x85e\u2028f\u2029g\rh"
    text = f"\ufeffGröße .\r\n\n{separators}\n  indented\t\n\ufefflast without end"
    path = put(tmp_path, name, text)
    rows = ["Größe .", " ", separators, "  indented\t", "\ufefflast without end"]
    assert corpora.read_sentences(path) == rows
    assert corpora.read_sentences(path, limit=2) == rows[:2]
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert corpora.corpus_identity(path) == {"name": "a", "sha256": digest, "rows": 5}


def test_distinct_sentences_of_a_number_of_words(tmp_path):
    path = put(tmp_path, "a.txt", "one two three\none\n\none two three\none\nfour five  six\n")
    each_once = ["one two three", "one", "four five  six"]
    assert corpora.read_sentences(path, distinct=1) == each_once
    assert corpora.read_sentences(path, distinct=3) == ["one two three", "four five  six"]
    assert corpora.read_sentences(path, 2, distinct=3) == ["one two three"]
    refused(lambda: corpora.read_sentences(path, distinct=4), "contains no sentence")


WHOLE = gzip.compress(random.Random(1).randbytes(40).hex().encode() + b"\n", mtime=0)
HEADER = "sent0,sent1,hard_neg\n"


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("a.gz", WHOLE[:-20], "a.gz cannot be read beyond line"),
        ("a.csv", HEADER, "contains no sentence"),
        ("a.csv", HEADER + "a,b\n", "line 2: 2 columns, not 3; fetch it again"),
        ("a.csv", HEADER + 'a,b,c\na,"b,c\n', "line 3: unexpected end of data; fetch it again"),
    ],
)
def test_wrong_corpora_are_named(name, content, problem, tmp_path):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    refused(lambda: corpora.read_sentences(path), problem)


LFS = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"
LINES = "A pilot is here.\nTwo dogs run.\n"
JSON = '{"id": 0, "text": "A pilot is here."}\n{"id": 1, "text": "Two dogs run."}\n'


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("a.txt", JSON, "is JSON"),
        ("a.txt.gz", JSON, "is JSON"),
        ("a.txt", LFS, "is a pointer to a file that is not here; get it by git lfs pull"),
        ("a.txt", "/annex/objects/SHA256E-s12--4d7a.txt\n", "is a pointer"),
        ("a.txt", "\n<!DOCTYPE html>\n<html>\n", "is XML or a web page"),
        ("a.txt", "404: Not Found", "is XML or a web page"),
        ("a.txt", LINES.encode("utf-16"), "is binary or UTF-16"),
        ("a.txt", b"PAR1\x15\0\x15", "is binary or UTF-16"),
        ("a.txt", WHOLE, "is compressed; add .gz to its name"),
        ("a.txt", LINES.replace("\n", "\r"), "its lines end in CR alone"),
        ("a.txt", b"one\ntwo\n" * 3000 + b"clich\xe9\n", "line 6001: byte 0xe9 is not valid utf-8"),
        ("a.CSV", "premise,b\na,b\n", "the header is not sent0,sent1,hard_neg; fetch it again, or"),
        ("a.txt", "", "contains no sentence"),
        ("a.txt", " \n\t\n", "contains no sentence"),
    ],
)
def test_a_corpus_that_is_no_text_is_refused_in_the_plan(name, content, problem, tmp_path):
    path = put(tmp_path, name, content)
    refused(lambda: corpora.check_name(str(path)), str(path), problem)
    refused(lambda: corpora.read_sentences(path), problem)


FORMS = [
    "9\teng\tShe has read nine books .\n",
    "She has read nine books . ||| Elle a lu neuf livres .\n",
    "__label__books She has read nine books .\n",
    '9,"She said, there are nine books .",1\n',
    "She has read nine books .;positive\n",
    "9\n00:00:09,100 --> 00:00:09,900\nShe has read\nnine books .\n\n",
    "00:09.100 --> 00:09.900\nShe has read\nnine\nbooks .\n\n",
    "She\tPRP\tO\nread\tVBD\tO\nbooks\tNNS\tO\n\n",
    "Ann NNP B-NP B-PER\nread VBD B-VP O\nbooks NNS B-NP O\n\n",
    "She PRP\nread VBD\nbooks NNS\n\n",
    "She/PRP read/VBD books/NNS ./.\n",
    "( (S (NP She) (VP read (NP books))) )\n",
    "[00:09.10]She has read nine books .\n",
    ' {"id": 9, "text": "She has read nine books ."},\n',
    "<p>She has read nine books .</p>\n",
]


@pytest.mark.parametrize("lines", FORMS)
def test_a_corpus_of_another_format_is_known_by_its_lines(lines, tmp_path):
    path = put(tmp_path, "a.txt.gz", f"A title\n{lines * 30}")
    refused(lambda: corpora.check_name(str(path)), "has lines that are no sentences, as of tables")


def test_a_text_with_some_such_lines_is_a_corpus(tmp_path):
    """Tabs, numbers, brackets, and commas as in any text, also where every line has one."""
    lines = 'Hello , world\nIn 2,000 years, he said: "a,b" .\n\n我们,他们。\n\tindented\nO\n'
    corpora.check_name(str(put(tmp_path, "a.txt", "".join(FORMS) + lines * 40)))


def test_names_of_other_formats_are_refused_and_no_other_names(tmp_path):
    names = "a.jsonl,a.JSON,a.ndjson,a.tsv,a.parquet,a.arrow,a.xml,a.jsonl.gz,a.tar.gz,a.txt.bz2"
    for name in names.split(","):
        path = put(tmp_path, name, LINES)
        refused(partial(corpora.check_name, str(path)), f"{name} has a name of another format")
    for name in ("a", "wiki.en", "a.v1.2.txt", "a.gz"):
        path = put(tmp_path, name, LINES.replace("\n", "\r\n"))
        assert corpora.check_name(str(path)) is None
        assert corpora.read_sentences(path) == LINES.splitlines()


def test_a_named_corpus_that_is_here_is_checked_too(tmp_path, monkeypatch):
    monkeypatch.setenv("BENCH_DATA", str(tmp_path))
    corpora.check_name("wiki1m")  # may be fetched later
    (tmp_path / "wiki1m_for_simcse.txt.gz").write_text(LFS)
    refused(lambda: corpora.check_name("wiki1m"), "wiki1m_for_simcse.txt.gz is a pointer")


def test_an_evaluation_file_of_another_format_is_refused_in_the_plan(tmp_path):
    put(tmp_path, "downstream/MR/rt-polarity.pos", "a film\n")
    assert listed_task("MR", tmp_path).name == "MR"  # the other file may be fetched later
    put(tmp_path, "downstream/MR/rt-polarity.neg", "<!DOCTYPE html>\n")
    refused(lambda: listed_task("MR", tmp_path), "rt-polarity.neg is XML or a web page")


def test_a_pointer_is_no_model_and_no_table_of_words(tmp_path):
    for file in ("model.safetensors", "tokenizer.json", "vocab.txt"):
        folder = put(tmp_path, f"{file}-missing/{file}", LFS).parent
        refused(partial(folder_kind, folder), f"{file} is a pointer to a file that is not here")
    refused(
        lambda: backbone(str(put(tmp_path, "glove.txt", LFS))),
        "glove.txt is a pointer to a file that is not here",
    )


def test_a_corpus_is_found_by_name_or_path(tmp_path, monkeypatch):
    plain = put(tmp_path, "world.txt", "a\n")
    packed = put(tmp_path, "wiki1m_for_simcse.txt.gz", "a\n")
    assert download.corpus_path("world", tmp_path) == plain
    for known in ("wiki1m", "wiki1m_for_simcse"):
        assert download.corpus_path(known, tmp_path) == packed
    assert download.corpus_path(str(plain), tmp_path / "elsewhere") == plain
    told = "'wrld' is not in ", "did you mean 'world'? (known: wiki1m, ", "); name another"
    refused(lambda: download.corpus_path("wrld", tmp_path), *told)
    # A run's identity holds the name of its corpus, so that a name means one file alone.
    monkeypatch.chdir(tmp_path)
    refused(
        lambda: download.corpus_path("world.txt", tmp_path),
        "a text file by its path, as ./FILE.txt",
    )
    put(tmp_path, "nli.txt", "a\n")
    refused(lambda: download.corpus_path("nli", tmp_path), f"corpus 'nli' is not in {tmp_path} ")


@pytest.mark.parametrize(
    ("text", "lines"),
    [("it rains\n", 1), ("a\n" * 7, 7), ("\na\nb\n", None), ("a\na\nb\n" * 3, None)],
)
def test_copies_of_one_sentence_are_counted(text, lines, tmp_path, capsys):
    corpora.check_name(str(put(tmp_path, "c.txt", text)))
    told = re.findall(r"has one sentence alone, on (\d+)", capsys.readouterr().err)
    assert told == ([str(lines)] if lines else [])


@pytest.fixture
def pins(monkeypatch, tmp_path):
    path = tmp_path / "pins.json"
    path.write_text('{"repositories": {}, "corpora": {}}')
    monkeypatch.setattr(download.hub, "PINS", path)
    monkeypatch.setenv("SENTBENCH_CACHE", str(tmp_path / "cache"))
    return path


SUM = hashlib.sha256(b"a\nb\n").hexdigest()


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ({"rows": [2, 3]}, None),
        ({"rows": [3, 4]}, f"2 rows and the SHA-256 {SUM}, but known has 3 or 4 rows"),
        ({"rows": [2], "sha256": ["0" * 64, SUM]}, None),
        ({"rows": [2], "sha256": ["0" * 64]}, f"the SHA-256 {SUM}, but known has 2 rows and 00"),
    ],
)
def test_a_corpus_of_known_length_or_sum_has_them(entry, problem, pins, tmp_path):
    path = put(tmp_path, "known.txt", "a\nb\n")
    pins.write_text(json.dumps({"repositories": {}, "corpora": {"known": entry}}))
    if problem:
        refused(lambda: corpora.corpus_identity(path), problem)
    else:
        assert corpora.corpus_identity(path)["rows"] == 2


def test_a_local_wiki1m_is_the_one_that_was_fetched(pins, tmp_path):
    path = put(tmp_path, "wiki1m_for_simcse.txt", "a\nb\n")
    assert corpora.corpus_identity(path)["rows"] == 2  # nobody knows its sum
    download.hub.record(download.hub.DATASET, "c" * 40, {path.name: "0" * 64})
    refused(lambda: corpora.corpus_identity(path), "the SHA-256")


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_documents_are_ranges_of_rows(suffix, tmp_path):
    table = "first_line\tlines\tsource\ttitle\n1\t3\tx\tOne\n4\t1\tx\tTwo\n6\t4\ty\tThree\n"
    put(tmp_path, f"a.docs.tsv{suffix}", table)
    for length, expected in [
        (9, [range(0, 3), range(3, 4), range(5, 9)]),
        (6, [range(0, 3), range(3, 4), range(5, 6)]),
        (5, [range(0, 3), range(3, 4)]),
        (2, [range(0, 2)]),
    ]:
        assert corpora.read_documents(tmp_path / f"a.txt{suffix}", length) == expected


@pytest.mark.parametrize(
    ("line", "problem"),
    [("4", "line 3: 1 tab"), ("3\t1", "behind the document before"), ("4\t0", "line 3: expected")],
)
def test_wrong_documents_are_refused(line, problem, tmp_path):
    refused(
        lambda: corpora.read_documents(tmp_path / "a.txt", 100),
        "no list of documents; add a.docs.tsv",
    )
    put(tmp_path, "a.docs.tsv", f"first_line\tlines\n1\t3\n{line}\n")
    refused(lambda: corpora.read_documents(tmp_path / "a.txt", 100), problem)


# The sentences of nli_for_simcse.csv.
TABLE = f"""{HEADER}One thing.,Another .,A third
"He said, ""yes"".", Another . ,
One thing.,The last one,One thing.
"""
SENTENCES = ["One thing.", "Another .", "A third", 'He said, "yes".', "The last one"]


@pytest.mark.parametrize("name", ["nli_for_simcse.csv", "nli_for_simcse.csv.gz"])
def test_an_nli_table_is_read_row_by_row(name, tmp_path):
    path = put(tmp_path, name, TABLE)
    for known in ("nli", "nli_for_simcse"):
        assert download.corpus_path(known, tmp_path) == path
    assert corpora.read_sentences(path) == SENTENCES
    assert corpora.read_sentences(path, 2) == SENTENCES[:2]
    windows = put(tmp_path, "a.csv", "\ufeff" + TABLE.replace("\n", "\r\n"))
    assert corpora.read_sentences(windows) == SENTENCES
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert corpora.corpus_identity(path) == {"name": "nli_for_simcse", "sha256": digest, "rows": 5}


def test_triples_are_rows_of_the_sentences(tmp_path):
    """A row with an empty sentence, or one beyond those in use, is left out."""
    path = put(tmp_path, "a.csv", TABLE)
    assert corpora.read_triples(path, SENTENCES) == [(0, 1, 2), (0, 4, 0)]
    assert corpora.read_triples(path, SENTENCES[:4]) == [(0, 1, 2)]
    refused(
        lambda: corpora.read_triples(path, SENTENCES[:2]), "no triple among its first 2 sentences"
    )
    refused(
        lambda: corpora.read_triples(tmp_path / "b.txt", SENTENCES),
        "corpus b has no labelled triples; use the corpus nli",
    )


REAL = {"wiki1m_fallback": 1_000_000, "wiki1m_for_simcse.head11914": 11_914}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "rows"), REAL.items())
def test_the_real_corpora(name, rows, real_data):
    if not (real_data / f"{name}.txt.gz").is_file():
        pytest.skip("BENCH_DATA holds none of the corpora")
    path = download.corpus_path(name, real_data)
    assert corpora.corpus_identity(path)["rows"] == rows  # and its pinned sum
    if name == "wiki1m_fallback":
        documents = corpora.read_documents(path, rows)
        assert len(documents) == 14_108
        assert [row for document in documents for row in document] == list(range(rows))
