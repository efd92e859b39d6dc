"""STS: reading the files in all their quirks."""

import os
import re
from pathlib import Path

import numpy as np
import pytest

from bench.datasets import sts
from bench.datasets.manifest import manifest
from bench.datasets.tasks import STS_TASKS
from bench.evaluation.scoring import sentences
from bench.utils.errors import UserError
from bench.utils.files import write_json
from tests.datasets.files import cases, put

COUNTS = {
    "STS12": {"MSRpar": 3, "surprise.OnWN": 2},
    "STS15": {"belief": 2},
    "STS-B": {"train": 3, "dev": 2, "test": 2},
    "SICK-R": {"train": 2, "dev": 2, "test": 3},
}
YEAR = "downstream/STS/STS12-en-test"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_json(tmp_path / "manifest.json", {"name": "tiny", "version": 1, "sts": COUNTS})
    put(tmp_path, f"{YEAR}/STS.input.MSRpar.txt", "a  b .\tc d .\n e\tf\ng\th\n")
    put(tmp_path, f"{YEAR}/STS.gs.MSRpar.txt", "4.40\n0\n 5.000 \n")
    put(tmp_path, f"{YEAR}/STS.input.surprise.OnWN.txt", "i\tj\nk\tl\n")
    put(tmp_path, f"{YEAR}/STS.gs.surprise.OnWN.txt", "1.5\n2.25")
    fifteen = "downstream/STS/STS15-en-test"
    put(tmp_path, f"{fifteen}/STS.input.belief.txt", "a\tb\nc\td\ne\tf\ng\th\ni\tj\n")
    put(tmp_path, f"{fifteen}/STS.gs.belief.txt", "\n3.00\n\n \n1.80\n")
    for split, pairs in COUNTS["STS-B"].items():
        row = "genre\tfile\t2012\t000{0}\t{0}.5\t{1} one {0}\ttwo \xa0 {0}\n"
        text = "".join(row.format(i, split) for i in range(pairs))
        put(tmp_path, f"downstream/STS/STSBenchmark/sts-{split}.csv", text)
    for split, name in {"train": "train", "dev": "trial", "test": "test_annotated"}.items():
        rows = ["pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment"]
        for i in range(COUNTS["SICK-R"][split]):
            rows.append(f"{i}\tA {split}\tB {i}\t{i + 1.5}\tNEUTRAL")
        end = "\r\n" if split == "test" else "\n"
        put(tmp_path, f"downstream/SICK/SICK_{name}.txt", "".join(row + end for row in rows))
    return tmp_path


def test_years_are_read_with_their_subsets(folder: Path) -> None:
    task = sts.read("STS12", folder)
    assert (task.name, task.split) == ("STS12", "test")
    par, onwn = task.subsets
    assert (par.name, onwn.name) == ("MSRpar", "surprise.OnWN")
    assert par.first == ("a b .", "e", "g")
    assert par.second == ("c d .", "f", "h")
    assert par.gold.tolist() == [4.4, 0.0, 5.0]
    assert par.gold.dtype == np.float64
    assert onwn.first == ("i", "k")
    assert onwn.gold.tolist() == [1.5, 2.25]


def test_rows_without_gold_are_dropped(folder: Path) -> None:
    (belief,) = sts.read("STS15", folder).subsets
    assert (belief.first, belief.second) == (("c", "i"), ("d", "j"))
    assert belief.gold.tolist() == [3.0, 1.8]


@pytest.mark.parametrize("split", ["train", "dev", "test"])
def test_sts_b_and_sick_have_splits(split: str, folder: Path) -> None:
    (benchmark,) = sts.read("STS-B", folder, split).subsets
    pairs = COUNTS["STS-B"][split]
    assert benchmark.first == tuple(f"{split} one {i}" for i in range(pairs))
    assert benchmark.second == tuple(f"two {i}" for i in range(pairs))
    assert benchmark.gold.tolist() == [i + 0.5 for i in range(pairs)]
    (sick,) = sts.read("SICK-R", folder, split).subsets
    pairs = COUNTS["SICK-R"][split]
    assert sick.first == (f"A {split}",) * pairs
    assert sick.second == tuple(f"B {i}" for i in range(pairs))
    assert sick.gold.tolist() == [i + 1.5 for i in range(pairs)]


def test_a_test_set_is_not_read_as_another_split(folder: Path) -> None:
    with pytest.raises(UserError, match="has no STS12 dev"):
        sts.read("STS12", folder, "dev")


def test_a_folder_without_manifest_is_held_to_senteval(folder: Path) -> None:
    (folder / "manifest.json").unlink()
    assert manifest(folder).name == "senteval"
    with pytest.raises(UserError, match=r"STS\.input\.MSRvid\.txt does not exist"):
        sts.read("STS12", folder)


TEXTS, GOLDS = f"{YEAR}/STS.input.MSRpar.txt", f"{YEAR}/STS.gs.MSRpar.txt"
SICK = "downstream/SICK/SICK_test_annotated.txt"
# Task and file -> contents and what is wrong with them.
WRONG: dict[tuple[str, str], list[tuple[str | bytes | None, str]]] = {
    ("STS12", GOLDS): [
        (None, "STS.gs.MSRpar.txt does not exist"),
        ("1\n2\n\n", "STS.input.MSRpar.txt: 2 pairs with a gold score, the manifest expects 3"),
        ("1\ntwo\n3\n", "STS.gs.MSRpar.txt, line 2: gold score 'two' is not a number from 0 to 5"),
        ("1\n5.5\n3\n", "line 2: gold score '5.5' is not a number from 0 to 5"),
    ],
    ("STS12", TEXTS): [
        ("a\tb\n", "STS.input.MSRpar.txt has 1 lines but STS.gs.MSRpar.txt has 3"),
        ("a\tb\n\td\ne\tf\n", "STS.gs.MSRpar.txt, line 2: no sentence"),
    ],
    ("SICK-R", SICK): [
        ("h\n" + "1\ta\tb\t\tN\n" * 3, "line 2: no gold score or label"),
    ],
    ("STS-B", "downstream/STS/STSBenchmark/sts-test.csv"): [
        ("g\tf\ty\t1\t5\ta\n" * 2, "line 1: 6 tab-separated")
    ],
    ("STS12", "manifest.json"): [
        ("{", "not a readable JSON file"),
        ('{"name": "x", "sts": {"STS13": {"a": 1}}}', "data set x has no task STS12"),
    ],
}


@pytest.mark.parametrize(("file", "content", "problem"), cases(WRONG))
def test_wrong_files_are_named(
    file: tuple[str, str], content: str | bytes | None, problem: str, folder: Path
) -> None:
    task, name = file
    put(folder, name, content)
    with pytest.raises(UserError, match=re.escape(problem)):
        sts.read(task, folder)


def test_the_shipped_manifest_adds_up() -> None:
    """Totals as the shared tasks publish them."""
    listed = manifest(Path("nowhere"))
    totals = {task: sum(counts.values()) for task, counts in listed.sts.items()}
    assert tuple(totals) == (*STS_TASKS, "CNSD-STS-B")
    assert list(totals.values()) == [3108, 1500, 3750, 3000, 1186, 8628, 9927, 8050]


@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get("BENCH_DATA"), reason="BENCH_DATA is not set")
def test_the_real_files() -> None:
    data = Path(os.environ["BENCH_DATA"])
    listed = manifest(data).sts
    for task in STS_TASKS:
        for split in sts.SPLITS if task in ("STS-B", "SICK-R") else ("test",):
            read = sts.read(task, data, split)
            counts = [listed[task][split]] if split in listed[task] else [*listed[task].values()]
            assert [len(subset.gold) for subset in read.subsets] == counts
            for subset in read.subsets:
                assert len(subset.first) == len(subset.second) == len(subset.gold)
                assert 0 <= subset.gold.min() < subset.gold.max() <= 5
                for text in subset.first + subset.second:
                    assert text
                    assert text == " ".join(text.split())
                    assert task == "SICK-R" or text == text.lower()
    if manifest(data).name == "senteval":
        assert len(sentences([sts.read(task, data) for task in STS_TASKS])) == 26083
