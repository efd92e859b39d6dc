"""Transfer and probing tasks: reading the files in all their quirks, in the order on which folds
depend."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bench.datasets import labelled, sts
from bench.datasets.labelled import LabelledTask, Samples, task_sums
from bench.datasets.manifest import manifest
from bench.datasets.tasks import PROBING_TASKS, TRANSFER_TASKS, XPROBE_TASKS
from bench.utils.files import write_json
from tests.support.data_files import put
from tests.support.refusals import refused

TRANSFER = {
    "MR": {"positive": 3, "negative": 4},
    "CR": {"positive": 3, "negative": 2},
    "SUBJ": {"objective": 2, "subjective": 2},
    "MPQA": {"positive": 2, "negative": 3},
    "SST2": {"train": 3, "dev": 2, "test": 2},
    "TREC": {"train": 7, "test": 2},
    "MRPC": {"train": 4, "test": 2},
}
PROBING = {
    "Depth": {"train": 4, "dev": 2, "test": 2},
    "CoordinationInversion": {"train": 2, "dev": 2, "test": 2},
    "xprobe-Length": {"train": 3, "test": 2},
    "xprobe-Depth": {"all": 3},
}
CLASSES = ("NUM:date", "LOC:city", "HUM:ind", "ENTY:food", "DESC:manner", "ABBR:exp")
MRPC = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
DEPTH = (
    "tr\t9\tc  d \nva\t10\te\ntr\t10\ta b\nte\t5\tf g\n"
    "tr\t5\th\nte\t9\té i\ntr\t10\tz y\nva\t5\tj k\n"
)
FILES = {
    "downstream/MR/rt-polarity.pos": b"caf\xe9  is \xa0 good\nz y\na b\n",
    "downstream/MR/rt-polarity.neg": "c d\nno\ne f\n bad\tone  . \n",
    "downstream/CR/custrev.pos": "good .\n\nfine\n",
    "downstream/CR/custrev.neg": " \nbad",
    "downstream/SUBJ/subj.objective": "he walks .\nshe runs\n",
    "downstream/SUBJ/subj.subjective": "so dull\nhow lovely it is\n",
    "downstream/MPQA/mpqa.pos": "\nlike\n",
    "downstream/MPQA/mpqa.neg": "\nhate\n\n",
    "downstream/SST/binary/sentiment-train": "a  fine film \t1\nso bad\t0\nno café\t1\n",
    "downstream/SST/binary/sentiment-dev": "b a\t1\na b\t0",
    "downstream/SST/binary/sentiment-test": "c\t0\r\nd\t1\r\n",
    "downstream/TREC/train_5500.label": b"%b what  is it ?\n" * 6 % tuple(map(str.encode, CLASSES))
    + b"HUM:gr Caf\xe9 ?\n",
    "downstream/TREC/TREC_10.label": "LOC:other Where ?\nABBR:abb What : this ?\n",
    "downstream/MRPC/msr_paraphrase_train.txt": f"\ufeff{MRPC}".replace("\n", "\r\n")
    + "1\t1\t2\ta b\tc d e\r\n0\t3\t4\tf g\th  i\r\n1\t5\t6\tj\tk l m n\r\n"
    "0\t7\t8\to p\tq r s\r\n",
    "downstream/MRPC/msr_paraphrase_test.txt": MRPC + '1\t1\t2\t"a\tb\n0\t1\t2\tc\td',
    "probing/tree_depth.txt": DEPTH,
    "probing/coordination_inversion.txt": "tr\tO\tx\tthey ran , she\tslept\ntr\tI\tb\nva\tI\tc\n"
    "te\tO\td\nva\tO\te\nte\tI\tf\n",
    "probing-xprobe-en/sentence_length/va.txt.gz": "a b c\t1\n d  e\t0\nf g\t1\n",
    "probing-xprobe-en/sentence_length/te.txt.gz": "h\t1\ni\t0\n",
    "probing-xprobe-en/tree_depth/te.txt.gz": "a b\t4\nc\t10\nd\t4\n",
}


@pytest.fixture
def folder(tmp_path):
    listed = {"name": "tiny", "transfer": TRANSFER, "probing": PROBING}
    write_json(tmp_path / "manifest.json", listed)
    for name, content in FILES.items():
        put(tmp_path, name, content)
    return tmp_path


def rows(samples):
    """(sentence, label) or (sentence, sentence, label) of each sample."""
    assert samples.labels.dtype == np.int64
    return list(zip(*samples.columns, samples.labels.tolist(), strict=True))


def described(task):
    return task.name, task.protocol, task.classes, " ".join(task.splits)


@pytest.mark.parametrize(
    ("task", "texts", "labels"),
    [
        ("MR", "no|c d|e f|z y|a b|bad one .|café is good", [0, 0, 0, 1, 1, 0, 1]),
        ("CR", "||bad|fine|good .", [0, 1, 0, 1, 1]),
        ("SUBJ", "so dull|she runs|he walks .|how lovely it is", [0, 1, 1, 0]),
        ("MPQA", "|||hate|like", [0, 0, 1, 0, 1]),
        ("xprobe-Depth", "c|d|a b", [0, 1, 1]),
    ],
)
def test_tasks_of_one_part_are_ordered(task, texts, labels, folder):
    """By number of tokens, then label, else as in the file: not by the alphabet. Blank lines are
    samples."""
    read = labelled.read(task, folder)
    assert described(read) == (task, "nested", 2, "all")
    assert rows(read.splits["all"]) == list(zip(texts.split("|"), labels, strict=True))


SST2_ROWS = {
    "train": [("so bad", 0), ("no café", 1), ("a fine film", 1)],
    "dev": [("a b", 0), ("b a", 1)],
    "test": [("c", 0), ("d", 1)],
}
# Coarse classes are numbered by the alphabet.
TREC_ROWS = {
    "train": [("Café ?", 3), *(("what is it ?", label) for label in range(6))],
    "test": [("Where ?", 4), ("What : this ?", 0)],
}
# Ordered by both sentences, then label. The header goes, quotes are no quoting, and the byte-order
# mark is no part of anything.
MRPC_ROWS = {
    "train": [("j", "k l m n", 1), ("f g", "h i", 0), ("o p", "q r s", 0), ("a b", "c d e", 1)],
    "test": [("c", "d", 0), ('"a', "b", 1)],
}
# Labels 10, 5, 9 are names; in every split the numbers are those of training.
DEPTH_ROWS = {
    "train": [("h", 1), ("a b", 0), ("z y", 0), ("c d", 2)],
    "dev": [("e", 0), ("j k", 1)],
    "test": [("f g", 1), ("é i", 2)],
}
# The sentence is the last column.
INVERSION_ROWS = {
    "train": [("b", 0), ("slept", 1)],
    "dev": [("c", 0), ("e", 1)],
    "test": [("f", 0), ("d", 1)],
}
# Cross-validated on the validation part.
XPROBE_ROWS = {"train": [("d e", 0), ("f g", 1), ("a b c", 1)], "test": [("i", 0), ("h", 1)]}


@pytest.mark.parametrize(
    ("task", "protocol", "classes", "expected"),
    [
        ("SST2", "split", 2, SST2_ROWS),
        ("TREC", "kfold", 6, TREC_ROWS),
        ("MRPC", "kfold", 2, MRPC_ROWS),
        ("Depth", "probing", 3, DEPTH_ROWS),
        ("CoordinationInversion", "probing", 2, INVERSION_ROWS),
        ("xprobe-Length", "kfold", 2, XPROBE_ROWS),
    ],
)
def test_tasks_of_several_parts_are_ordered(task, protocol, classes, expected, folder):
    read = labelled.read(task, folder)
    assert described(read) == (task, protocol, classes, " ".join(expected))
    assert {split: rows(samples) for split, samples in read.splits.items()} == expected


# Features


def task_of(*columns):
    labels = np.zeros(len(columns[0]), dtype=np.int64)
    return LabelledTask("X", "kfold", 2, {"train": Samples(tuple(map(tuple, columns)), labels)})


@pytest.mark.parametrize(
    ("vectors", "problem"),
    [
        (
            np.ones((3, 4)),
            "X: the encoder gave an array of float64 of shape (3, 4) for 2 sentences",
        ),
        (
            [[1, 2], [3, np.nan]],
            "X: the vector of 'b' is not finite, or its squares are beyond float32; "
            "the encoder has diverged",
        ),
        ([[1e39, 2], [3, 4]], "X: the vector of 'a' is not finite"),  # above float32's range
        (np.ones((2, 4)), "X: all vectors are equal"),
    ],
)
@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
def test_vectors_that_cannot_be_classified(vectors, problem):
    task = task_of(["a", "b"])
    refused(lambda: task.features("train", lambda texts: np.array(vectors)), problem)


@pytest.mark.parametrize("scale", [1e-30, 1e10])
def test_features_whose_squares_float32_lacks_are_refused(scale):
    """Accuracies would be those of chance: optimisers square the features, of pairs u * v."""
    task, told = task_of("ab", "bc"), "the vector of 'a' is not finite, or its squares are"
    refused(lambda: task.features("train", lambda texts: np.full((len(texts), 2), scale)), told)


# Wrong files

MR = "downstream/MR/rt-polarity.pos"
SST, TREC = "downstream/SST/binary/sentiment-dev", "downstream/TREC/TREC_10.label"
TREE, XPROBE = "probing/tree_depth.txt", "probing-xprobe-en/sentence_length/va.txt.gz"


@pytest.mark.parametrize(
    ("task", "name", "content", "problem"),
    [
        ("MR", MR, "a\nb\n", "rt-polarity.pos: 2 positive samples, the man"),
        ("SST2", SST, "a\t1\nb\n", "sentiment-dev, line 2: 1 tab-separated fields, expected 2"),
        ("SST2", SST, "a\t1\nb\t2\n", "line 2: unknown label '2' (known: 0, 1); fix"),
        ("TREC", TREC, "LOC:x a\nLOK:y b\n", "line 2: unknown label 'LOK'; did you mean 'LOC'?"),
        # X-Probe's file of this task is there.
        ("Depth", TREE, None, "probing/tree_depth.txt does not exist"),
        ("Depth", TREE, DEPTH + "tr\t5\tx\n", "5 train samples, the manifest expects 4"),
        ("Depth", TREE, DEPTH + "xx\t5\tx\n", "line 9: split 'xx' is not tr, va or te"),
        ("Depth", TREE, "tr\t5\t\n" + DEPTH, "line 1: no sentence; fix it or fetch it again"),
        (
            "Depth",
            TREE,
            DEPTH.replace("tr\t10", "tr\t5").replace("tr\t9", "tr\t5"),
            "Depth: its tr",
        ),
    ],
)
def test_wrong_files_are_named(task, name, content, problem, folder):
    put(folder, name, content)
    refused(lambda: labelled.read(task, folder), problem)


# The real files

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


def test_the_shipped_manifest_adds_up():
    """Probing tasks have 100k, 10k and 10k sentences (Conneau et al., 2018)."""
    listed = manifest(Path("nowhere"))
    assert tuple(listed.transfer) == TRANSFER_TASKS
    for task, published in PUBLISHED.items():
        sizes = listed.transfer[task]
        assert published in (sizes, {"all": sum(sizes.values())})
    assert tuple(listed.probing) == (*PROBING_TASKS, *XPROBE_TASKS)
    expected = {"train": 100_000, "dev": 10_000, "test": 10_000}
    assert all(listed.probing[task] == expected for task in PROBING_TASKS)
    own = {"xprobe-Depth": {"all": 10_000}, "xprobe-Length": {"train": 4998, "test": 4998}}
    halves = {"train": 10_000, "test": 10_000}
    assert all(listed.probing[task] == own.get(task, halves) for task in XPROBE_TASKS)


@pytest.mark.slow
def test_the_real_files(senteval):
    """Of the sizes of the manifest, which reading checks."""
    tasks = {task: labelled.read(task, senteval) for task in TRANSFER_TASKS}
    blank = {task: sum(not text for text in read.sentences()) for task, read in tasks.items()}
    assert {task: count for task, count in blank.items() if count} == {"CR": 4, "MPQA": 3}


@pytest.mark.slow
def test_the_real_files_of_xprobe(real_data):
    if not (real_data / "probing-xprobe-en").is_dir():
        pytest.skip("BENCH_DATA holds no X-Probe")
    classes = {}
    for task in XPROBE_TASKS:
        read = labelled.read(task, real_data)
        classes[task.removeprefix("xprobe-")] = read.classes
    two = ("BigramShift", "Tense", "SubjNumber", "ObjNumber", "OddManOut", "CoordinationInversion")
    assert classes == {"Length": 6, "WordContent": 1000, "Depth": 5} | dict.fromkeys(two, 2)


# Sums of tasks


def test_sums_of_tasks_see_sentences_scores_and_order(tiny_data):
    task = sts.read("STS13", tiny_data)
    subset = task.subsets[0]
    first, second = subset.first, subset.second
    changes = [
        {},
        {"first": second, "second": first},
        {"first": first[::-1], "second": second[::-1], "gold": subset.gold[::-1]},
        {"gold": subset.gold + 1e-9},
        {"first": ("a word", *first[1:])},
        {"second": ("a word", *second[1:])},
    ]
    changed = [replace(task, subsets=(replace(subset, **change),)) for change in changes]
    assert len({task_sums([each])["STS13"]["test"] for each in changed}) == len(changes)


def test_sums_of_tasks_see_labels_by_split(world, tmp_path):
    data = shutil.copytree(world, tmp_path / "data")
    label = data / "downstream" / "TREC" / "TREC_10.label"
    before = task_sums([labelled.read("TREC", data)])["TREC"]
    label.write_text(label.read_text().replace("NUM:", "LOC:", 1))
    now = task_sums([labelled.read("TREC", data)])["TREC"]
    assert [part for part in now if now[part] != before[part]] == ["test"]
