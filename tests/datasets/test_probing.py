"""Probing tasks: SentEval's files and X-Probe's, their labels, and what must not be confused."""

import os
import re
from pathlib import Path

import numpy as np
import pytest

from bench.datasets import labelled
from bench.datasets.labelled import Samples
from bench.datasets.manifest import manifest
from bench.datasets.tasks import GROUPS, PROBING_TASKS, XPROBE_TASKS
from bench.utils.errors import UserError
from bench.utils.files import write_json
from tests.datasets.files import cases, put

COUNTS = {
    "Depth": {"train": 4, "dev": 2, "test": 2},
    "CoordinationInversion": {"train": 2, "dev": 1, "test": 1},
    "xprobe-Length": {"train": 3, "test": 2},
    "xprobe-Depth": {"all": 3},
}
DEPTH = (
    "tr\t9\tc  d \nva\t10\te\ntr\t10\ta b\nte\t5\tf g\n"
    "tr\t5\th\nte\t9\té i\ntr\t10\tz y\nva\t5\tj k\n"
)
COORDINATION = "tr\tO\tx\tthey ran , she\tslept\ntr\tI\tb\nva\tI\tc\nte\tO\td\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_json(tmp_path / "manifest.json", {"name": "tiny", "version": 1, "probing": COUNTS})
    (tmp_path / "downstream").mkdir()
    put(tmp_path, "probing/tree_depth.txt", DEPTH)
    put(tmp_path, "probing/coordination_inversion.txt", COORDINATION)
    put(tmp_path, "probing-xprobe-en/sentence_length/va.txt.gz", "a b c\t1\n d  e\t0\nf g\t1\n")
    put(tmp_path, "probing-xprobe-en/sentence_length/te.txt.gz", "h\t1\ni\t0\n")
    put(tmp_path, "probing-xprobe-en/tree_depth/te.txt.gz", "a b\t4\nc\t10\nd\t4\n")
    return tmp_path


def rows(samples: Samples) -> list[tuple[str, int]]:
    assert samples.labels.dtype == np.int64
    (column,) = samples.columns
    return list(zip(column, samples.labels.tolist(), strict=True))


def test_labels_are_numbered_in_the_order_of_their_names(folder: Path) -> None:
    """10, 5, 9: they are names, and in every split the numbers are those of training."""
    read = labelled.read("Depth", folder)
    assert (read.name, read.protocol, read.classes) == ("Depth", "probing", 3)
    assert list(read.splits) == ["train", "dev", "test"]
    assert rows(read.splits["train"]) == [("h", 1), ("a b", 0), ("z y", 0), ("c d", 2)]
    assert rows(read.splits["dev"]) == [("e", 0), ("j k", 1)]
    assert rows(read.splits["test"]) == [("f g", 1), ("é i", 2)]


def test_the_sentence_is_the_last_column(folder: Path) -> None:
    read = labelled.read("CoordinationInversion", folder)
    assert rows(read.splits["train"]) == [("b", 0), ("slept", 1)]


def test_xprobe_is_cross_validated_on_its_validation_part(folder: Path) -> None:
    read = labelled.read("xprobe-Length", folder)
    assert (read.protocol, read.classes, list(read.splits)) == ("kfold", 2, ["train", "test"])
    assert rows(read.splits["train"]) == [("d e", 0), ("f g", 1), ("a b c", 1)]
    assert rows(read.splits["test"]) == [("i", 0), ("h", 1)]


def test_xprobe_depth_has_one_part(folder: Path) -> None:
    read = labelled.read("xprobe-Depth", folder)
    assert (read.protocol, read.classes, list(read.splits)) == ("nested", 2, ["all"])
    assert rows(read.splits["all"]) == [("c", 0), ("d", 1), ("a b", 1)]


def test_the_two_sources_share_no_name_and_no_file(folder: Path) -> None:
    assert not set(XPROBE_TASKS) & set(GROUPS["all"])
    (folder / "probing" / "tree_depth.txt").unlink()
    with pytest.raises(UserError, match=r"probing/tree_depth\.txt does not exist"):
        labelled.read("Depth", folder)


SENTEVAL, XPROBE = "probing/tree_depth.txt", "probing-xprobe-en/sentence_length/va.txt.gz"
# Task and file -> contents and what is wrong with them.
WRONG: dict[tuple[str, str], list[tuple[str | bytes, str]]] = {
    ("Depth", SENTEVAL): [
        (DEPTH + "tr\t5\tx\n", "tree_depth.txt: 5 train samples, the manifest expects 4"),
        (DEPTH + "xx\t5\tx\n", "tree_depth.txt, line 9: split 'xx' is not tr, va or te"),
        ("tr\t5\n" + DEPTH, "line 1: 2 tab-separated fields, expected 3 or more"),
        ("tr\t5\t\n" + DEPTH, "line 1: no sentence; fix it or fetch it again"),
        (DEPTH.replace("te\t9", "te\t11"), "tree_depth.txt, line 6: unknown label '11'"),
    ],
    ("xprobe-Length", XPROBE): [
        ("a\t0\nb\nc\t1\n", "va.txt.gz, line 2: 1 tab-separated fields, expected 2"),
        ("a\t0\nb\t0\nc\t0\n", "te.txt.gz, line 1: unknown label '1' (known: 0)"),
    ],
}


@pytest.mark.parametrize(("file", "content", "problem"), cases(WRONG))
def test_wrong_files_are_named(
    file: tuple[str, str], content: str | bytes, problem: str, folder: Path
) -> None:
    task, name = file
    put(folder, name, content)
    with pytest.raises(UserError, match=re.escape(problem)):
        labelled.read(task, folder)


# --- the real files


def test_the_shipped_manifest_is_that_of_the_paper() -> None:
    """100k, 10k and 10k sentences a task (Conneau et al., 2018)."""
    listed = manifest(Path("nowhere")).probing
    assert tuple(listed) == (*PROBING_TASKS, *XPROBE_TASKS)
    expected = {"train": 100_000, "dev": 10_000, "test": 10_000}
    assert all(listed[task] == expected for task in PROBING_TASKS)


@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get("BENCH_DATA"), reason="BENCH_DATA is not set")
def test_the_real_files_of_xprobe() -> None:
    data = Path(os.environ["BENCH_DATA"])
    if not (data / "probing-xprobe-en").is_dir():
        pytest.skip("BENCH_DATA holds no X-Probe")
    classes = {}
    for task in XPROBE_TASKS:
        read = labelled.read(task, data)
        found = {split: len(samples.labels) for split, samples in read.splits.items()}
        if task == "xprobe-Depth":
            assert (read.protocol, found) == ("nested", {"all": 10000})
        else:
            size = 4998 if task == "xprobe-Length" else 10000
            assert (read.protocol, found) == ("kfold", {"train": size, "test": size})
        assert all(text and text == " ".join(text.split()) for text in read.sentences())
        assert set(next(iter(read.splits.values())).labels.tolist()) == set(range(read.classes))
        classes[task.removeprefix("xprobe-")] = read.classes
    two = ("BigramShift", "Tense", "SubjNumber", "ObjNumber", "OddManOut", "CoordinationInversion")
    assert classes == {"Length": 6, "WordContent": 1000, "Depth": 5} | dict.fromkeys(two, 2)
