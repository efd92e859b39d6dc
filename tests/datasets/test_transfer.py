"""Transfer tasks: reading the files in all their quirks, in the order on which folds depend."""

import os
import re
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.datasets import labelled
from bench.datasets.labelled import LabelledTask, Samples, ordered
from bench.datasets.manifest import manifest
from bench.datasets.tasks import TRANSFER_TASKS
from bench.evaluation.scoring import sentences
from bench.utils.errors import UserError
from bench.utils.files import write_json
from tests.datasets.files import cases, put

COUNTS = {
    "MR": {"positive": 3, "negative": 4},
    "CR": {"positive": 3, "negative": 2},
    "SUBJ": {"objective": 2, "subjective": 2},
    "MPQA": {"positive": 2, "negative": 3},
    "SST2": {"train": 3, "dev": 2, "test": 2},
    "TREC": {"train": 7, "test": 2},
    "MRPC": {"train": 4, "test": 2},
}
CLASSES = ("NUM:date", "LOC:city", "HUM:ind", "ENTY:food", "DESC:manner", "ABBR:exp")
MRPC_HEADER = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
FILES: dict[str, str | bytes] = {
    "MR/rt-polarity.pos": b"caf\xe9  is \xa0 good\nz y\na b\n",
    "MR/rt-polarity.neg": "c d\nno\ne f\n bad\tone  . \n",
    "CR/custrev.pos": "good .\n\nfine\n",
    "CR/custrev.neg": " \nbad",
    "SUBJ/subj.objective": "he walks .\nshe runs\n",
    "SUBJ/subj.subjective": "so dull\nhow lovely it is\n",
    "MPQA/mpqa.pos": "\nlike\n",
    "MPQA/mpqa.neg": "\nhate\n\n",
    "SST/binary/sentiment-train": "a  fine film \t1\nso bad\t0\nno café\t1\n",
    "SST/binary/sentiment-dev": "b a\t1\na b\t0",
    "SST/binary/sentiment-test": "c\t0\r\nd\t1\r\n",
    "TREC/train_5500.label": b"%b what  is it ?\n" * 6 % tuple(map(str.encode, CLASSES))
    + b"HUM:gr Caf\xe9 ?\n",
    "TREC/TREC_10.label": "LOC:other Where ?\nABBR:abb What : this ?\n",
    "MRPC/msr_paraphrase_train.txt": f"\ufeff{MRPC_HEADER[:-1]}\r\n".encode()
    + b"1\t1\t2\ta b\tc d e\r\n0\t3\t4\tf g\th  i\r\n1\t5\t6\tj\tk l m n\r\n"
    b"0\t7\t8\to p\tq r s\r\n",
    "MRPC/msr_paraphrase_test.txt": MRPC_HEADER + '1\t1\t2\t"a\tb\n0\t1\t2\tc\td',
}


def put_counts(folder: Path, **changed: dict[str, int]) -> None:
    write_json(folder / "manifest.json", {"name": "tiny", "transfer": COUNTS | changed})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    put_counts(tmp_path)
    for name, content in FILES.items():
        put(tmp_path, f"downstream/{name}", content)
    return tmp_path


def rows(samples: Samples) -> list[tuple[object, ...]]:
    """(sentence, label) or (sentence, sentence, label) of each sample."""
    assert samples.labels.dtype == np.int64
    return list(zip(*samples.columns, samples.labels.tolist(), strict=True))


def sort_keys(samples: Samples) -> list[tuple[int, ...]]:
    """Numbers of tokens and label of each sample."""
    return [(*(len(text.split()) for text in texts), label) for *texts, label in rows(samples)]


def described(task: LabelledTask) -> tuple[str, str, int, str]:
    return task.name, task.protocol, task.classes, " ".join(task.splits)


@pytest.mark.parametrize(
    ("task", "texts", "labels"),
    [
        ("MR", "no|c d|e f|z y|a b|bad one .|café is good", [0, 0, 0, 1, 1, 0, 1]),
        ("CR", "||bad|fine|good .", [0, 1, 0, 1, 1]),
        ("SUBJ", "so dull|she runs|he walks .|how lovely it is", [0, 1, 1, 0]),
        ("MPQA", "|||hate|like", [0, 0, 1, 0, 1]),
    ],
)
def test_binary_tasks(task: str, texts: str, labels: list[int], folder: Path) -> None:
    """By number of tokens, then label, else as in the file: not by the alphabet. Blank lines are
    samples."""
    read = labelled.read(task, folder)
    assert described(read) == (task, "nested", 2, "all")
    assert rows(read.splits["all"]) == list(zip(texts.split("|"), labels, strict=True))


def test_sst_has_three_splits(folder: Path) -> None:
    read = labelled.read("SST2", folder)
    assert described(read) == ("SST2", "split", 2, "train dev test")
    assert rows(read.splits["train"]) == [("so bad", 0), ("no café", 1), ("a fine film", 1)]
    assert rows(read.splits["dev"]) == [("a b", 0), ("b a", 1)]
    assert rows(read.splits["test"]) == [("c", 0), ("d", 1)]


def test_trec_numbers_its_coarse_classes_by_the_alphabet(folder: Path) -> None:
    read = labelled.read("TREC", folder)
    assert described(read) == ("TREC", "kfold", 6, "train test")
    assert rows(read.splits["train"]) == [("Café ?", 3), *(("what is it ?", i) for i in range(6))]
    assert rows(read.splits["test"]) == [("Where ?", 4), ("What : this ?", 0)]


def test_mrpc_is_ordered_by_both_sentences_then_label(folder: Path) -> None:
    """The header goes, quotes are no quoting, and the byte-order mark is no part of anything."""
    read = labelled.read("MRPC", folder)
    assert described(read) == ("MRPC", "kfold", 2, "train test")
    assert rows(read.splits["train"]) == [
        ("j", "k l m n", 1),
        ("f g", "h i", 0),
        ("o p", "q r s", 0),
        ("a b", "c d e", 1),
    ]
    assert rows(read.splits["test"]) == [("c", "d", 0), ('"a', "b", 1)]


@given(
    samples=st.lists(
        st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(0, 1)), min_size=1, max_size=30
    ),
    pairs=st.booleans(),
)
def test_the_order_is_stable(samples: list[tuple[int, int, int]], pairs: bool) -> None:
    """By number of tokens, then label; equal ones as in the file."""
    rows = [
        (tuple(" ".join([str(place)] * count) for count in counts[: 1 + pairs]), label)
        for place, (*counts, label) in enumerate(samples)
    ]
    found = ordered(rows)
    expected = sorted(rows, key=lambda row: (*(len(text.split()) for text in row[0]), row[1]))
    assert (
        list(zip(zip(*found.columns, strict=True), found.labels.tolist(), strict=True)) == expected
    )


# --- features


def task_of(*columns: Sequence[str]) -> LabelledTask:
    labels = np.zeros(len(columns[0]), dtype=np.int64)
    return LabelledTask("X", "kfold", 2, {"train": Samples(tuple(map(tuple, columns)), labels)})


def look_up(table: dict[str, list[float]]) -> Callable[[Sequence[str]], np.ndarray]:
    return lambda texts: np.array([table[text] for text in texts])


def test_features_of_single_sentences_are_their_vectors() -> None:
    found = task_of(["a", "b", "a"]).features("train", look_up({"a": [1, 2], "b": [-3, 0.5]}))
    assert found.dtype == np.float32
    assert found.tolist() == [[1, 2], [-3, 0.5], [1, 2]]


def test_features_of_pairs_are_distance_and_product() -> None:
    table = look_up({"a": [1, 2, -1], "b": [3, -0.5, -2], "c": [0, 4, 1]})
    found = task_of(["a", "c"], ["b", "a"]).features("train", table)
    assert found.dtype == np.float32
    assert found.tolist() == [[2, 2.5, 1, 3, -1, 2], [1, 2, 2, 0, 8, -1]]


@pytest.mark.parametrize(
    ("vectors", "problem"),
    [
        (np.ones((3, 4)), r"X: the encoder gave an array of shape \(3, 4\) for 2 sentences"),
        ([[1, 2], [3, np.nan]], "X: the vector of 'b' is not finite; the encoder has diverged"),
        ([[1e39, 2], [3, 4]], "X: the vector of 'a' is not finite"),  # above float32's range
    ],
)
@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
def test_vectors_that_cannot_be_classified(vectors: object, problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        task_of(["a", "b"]).features("train", lambda texts: np.array(vectors))


# --- wrong files

# Task and file -> contents and what is wrong with them.
WRONG: dict[tuple[str, str], list[tuple[str | bytes | None, str]]] = {
    ("MR", "MR/rt-polarity.neg"): [(None, "rt-polarity.neg does not exist")],
    ("MR", "MR/rt-polarity.pos"): [("a\nb\n", "rt-polarity.pos: 2 positive samples, the man")],
    ("SUBJ", "SUBJ/subj.subjective"): [
        ("dull\n" * 20, "20 subjective samples, the manifest expects 2"),  # SimCSE's first archive
    ],
    ("SST2", "SST/binary/sentiment-dev"): [
        ("a\t1\n", "sentiment-dev: 1 dev samples, the manifest expects 2"),
        ("a\t1\nb\n", "sentiment-dev, line 2: 1 tab-separated fields, expected 2"),
        ("a\t1\nb\t2\n", "line 2: unknown label '2' (known: 0, 1); fix"),
    ],
    ("TREC", "TREC/TREC_10.label"): [
        ("LOC:x a ?\nLOK:y b ?\n", "line 2: unknown label 'LOK'; did you mean 'LOC'?"),
    ],
    ("MRPC", "MRPC/msr_paraphrase_test.txt"): [
        (MRPC_HEADER + "1\t1\t2\ta\n" * 2, "line 2: 4 tab-separated fields"),
    ],
}


@pytest.mark.parametrize(("file", "content", "problem"), cases(WRONG))
def test_wrong_files_are_named(
    file: tuple[str, str], content: str | bytes | None, problem: str, folder: Path
) -> None:
    task, name = file
    put(folder, f"downstream/{name}", content)
    with pytest.raises(UserError, match=re.escape(problem)):
        labelled.read(task, folder)


# --- the real files

# Samples of each split as SentEval's authors count them (Conneau and Kiela, 2018), SST2's as of the
# binary task.
PUBLISHED = {
    "MR": {"all": 10662},
    "CR": {"all": 3775},
    "SUBJ": {"all": 10000},
    "MPQA": {"all": 10606},
    "SST2": {"train": 67349, "dev": 872, "test": 1821},
    "TREC": {"train": 5452, "test": 500},
    "MRPC": {"train": 4076, "test": 1725},
}


def test_the_shipped_manifest_adds_up() -> None:
    listed = manifest(Path("nowhere")).transfer
    assert tuple(listed) == TRANSFER_TASKS
    for task, published in PUBLISHED.items():
        assert sum(listed[task].values()) == sum(published.values())


@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get("BENCH_DATA"), reason="BENCH_DATA is not set")
def test_the_real_files() -> None:
    data = Path(os.environ["BENCH_DATA"])
    if manifest(data).name != "senteval":
        pytest.skip("BENCH_DATA holds another data set")
    counts = manifest(data).transfer
    tasks = {task: labelled.read(task, data) for task in TRANSFER_TASKS}
    for task, read in tasks.items():
        sizes = {split: len(samples.labels) for split, samples in read.splits.items()}
        assert sizes == PUBLISHED[task]
        for samples in read.splits.values():
            keys = sort_keys(samples)
            assert keys == sorted(keys)
            assert all(text == " ".join(text.split()) for text in chain(*samples.columns))
            assert set(samples.labels.tolist()) == set(range(read.classes))
        if task in ("MR", "CR", "SUBJ", "MPQA"):
            found = Counter(read.splits["all"].labels.tolist())
            assert sorted(found.values()) == sorted(counts[task].values())
    blank = {task: sum(not text for text in read.sentences()) for task, read in tasks.items()}
    assert {task: count for task, count in blank.items() if count} == {"CR": 4, "MPQA": 3}
    objective = [text for text, label in rows(tasks["SUBJ"].splits["all"]) if label == 1]
    first = (data / "downstream/SUBJ/subj.objective").read_text("latin-1").split("\n")[0]
    assert " ".join(first.split()) in objective
    assert sentences([tasks["CR"]]).count("") == 1
