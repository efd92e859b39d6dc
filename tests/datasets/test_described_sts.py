"""STS sets that a data folder's manifest describes: Chinese STS-B and a user's own, in any
language."""

import os
import re
import shutil
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.datasets import corpora, sts
from bench.datasets.tasks import CHINESE_TASKS, GROUPS, expand_tasks
from bench.evaluation.scoring import read_tasks, score_tasks
from bench.models.load import load_encoder
from bench.runs import config as suites
from bench.runs import paths
from bench.runs.resolve import resolve
from bench.training.loop import train
from bench.utils.errors import UserError
from bench.utils.files import read_json, write_json
from tests.datasets.files import put

CNSD = {"path": "CNSD-STS-B/cnsd-sts-{split}.txt", "separator": "||", "columns": [1, 2, 3]}
ROWS = ["1||一只猫||一只狗||2", "2||一条河||一条 路||5", "3||男人||女人||0"]


GERMAN: dict[str, Any] = {"path": "german/{split}/pairs.tsv", "columns": [1, 2, 0], "header": True}
GERMAN_ROWS = ["gold\tA\tB", "0.5\tein Hund\teine Katze", "4\tein Haus\tdas Haus"]


def put_rows(folder: Path, name: str, rows: list[str]) -> None:
    put(folder, f"downstream/{name}", "".join(f"{row}\n" for row in rows))


def describe(folder: Path, sizes: dict[str, Any], files: dict[str, Any]) -> Path:
    write_json(folder / "manifest.json", {"name": "own", "sts": sizes, "sts_files": files})
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Chinese STS-B of three pairs, and a German set with a header and without a training part."""
    put_rows(tmp_path, "CNSD-STS-B/cnsd-sts-train.txt", ROWS)
    put_rows(tmp_path, "CNSD-STS-B/cnsd-sts-dev.txt", ROWS[:2])
    put_rows(tmp_path, "CNSD-STS-B/cnsd-sts-test.txt", ROWS)
    put_rows(tmp_path, "german/test/pairs.tsv", GERMAN_ROWS)
    sizes = {"CNSD-STS-B": {"train": 3, "dev": 2, "test": 3}, "sts:german": {"test": 2}}
    return describe(tmp_path, sizes, {"CNSD-STS-B": CNSD, "sts:german": GERMAN})


def test_a_described_set_is_read_as_it_is_described(folder: Path) -> None:
    (chinese,) = sts.read("CNSD-STS-B", folder, "test").subsets
    assert chinese.name == "CNSD-STS-B"
    assert chinese.first == ("一只猫", "一条河", "男人")
    assert chinese.second == ("一只狗", "一条 路", "女人")
    assert chinese.gold.tolist() == [2, 5, 0]
    (german,) = sts.read("sts:german", folder).subsets
    assert (german.first, german.second) == (("ein Hund", "ein Haus"), ("eine Katze", "das Haus"))
    assert german.gold.tolist() == [0.5, 4]


def test_its_dev_set_is_scored_where_there_is_one(folder: Path) -> None:
    found = [(task.name, task.split) for task in read_tasks(["chinese", "sts:german"], folder)]
    assert found == [("CNSD-STS-B", "test"), ("CNSD-STS-B", "dev"), ("sts:german", "test")]


def test_it_is_in_no_other_group_and_in_no_average(folder: Path) -> None:
    assert expand_tasks(["chinese", "CNSD-STS-B", "sts:german"]) == ["CNSD-STS-B", "sts:german"]
    others = [tasks for name, tasks in GROUPS.items() if name != "chinese"]
    assert not set(CHINESE_TASKS) & {*chain(*others)}

    class Lengths:
        identity = kind = "lengths"

        def encode(self, sentences: list[str]) -> np.ndarray:
            return np.float32([[len(text), 1 + len(set(text))] for text in sentences])

    records = score_tasks(Lengths(), read_tasks(["CNSD-STS-B"], folder))  # type: ignore[arg-type]
    found = [(one["task"], one["split"], one["aggregation"]) for one in records]
    assert found == [("CNSD-STS-B", "test", "all"), ("CNSD-STS-B", "dev", "all")]


def test_a_separator_in_a_sentence_is_noticed(folder: Path) -> None:
    put_rows(folder, "german/test/pairs.tsv", [*GERMAN_ROWS[:2], "4\tein\tHaus\tdas Haus"])
    expected = "line 3: 4 tab-separated fields, expected 3 as in the first"
    with pytest.raises(UserError, match=expected):
        sts.read("sts:german", folder)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"sts_files": {}}, "does not describe the files of sts:german; add them to 'sts_files'"),
        ({"columns": [1, 2]}, "'sts_files.sts:german.columns' should have at least 3 items"),
        ({"sperator": "|"}, "unknown key 'sperator'; did you mean 'separator'?"),
        ({"header": False}, "3 pairs with a gold score, the manifest expects 2"),
        ({"separator": "||"}, "1 fields between '||', expected 3 or more"),
        ({"columns": [0, 1, 2]}, "gold score 'eine Katze' is not a number from 0 to 5"),
        ({"sts": {"sts:german": {"dev": 2, "test": 2}}, "path": "a.tsv"}, "german share one path"),
        ({"sts": {"sts:germna": {"test": 2}}}, "does not describe the files of sts:germna"),
        ({"sts": {"german": {"test": 2}}}, "a set of your own is called sts:NAME"),
    ],
)
def test_a_wrong_description_is_named(change: dict[str, Any], problem: str, folder: Path) -> None:
    content = {"name": "own", "sts": {"sts:german": {"test": 2}}}
    of_files = (*GERMAN, "separator", "sperator")
    form = {key: value for key, value in change.items() if key in of_files}
    content["sts_files"] = {"sts:german": GERMAN | form}
    content |= {key: value for key, value in change.items() if key not in form}
    write_json(folder / "manifest.json", content)
    with pytest.raises(UserError, match=re.escape(problem)):
        sts.read("sts:german", folder)


def test_the_training_pairs_are_a_corpus(folder: Path, tmp_path: Path) -> None:
    path = paths.corpus_file("cnsd", tmp_path / "suite", str(folder))
    assert corpora.read_sentences(path) == ["一只猫", "一只狗", "一条河", "一条 路", "男人", "女人"]
    assert corpora.corpus_identity(path)["name"] == "cnsd"


@pytest.mark.parametrize("select", ["CNSD-STS-B", "sts:mine", "CNSD-STS-B+STS-B"])
def test_it_can_decide_what_is_selected(
    select: str, tiny_bert: Path, tiny_data: Path, tiny_corpus: Path, tmp_path: Path
) -> None:
    data, out = tmp_path / "data", tmp_path / "run"
    shutil.copytree(tiny_data, data)
    rows = (tiny_data / "downstream/STS/STSBenchmark/sts-dev.csv").read_text().splitlines()
    fields = [row.split("\t") for row in rows]
    chinese = ["||".join(("0", *row[5:7], row[4])) for row in fields]
    put_rows(data, "CNSD-STS-B/cnsd-sts-dev.txt", chinese)
    listed = read_json(data / "manifest.json")
    listed["sts"] |= {"CNSD-STS-B": {"dev": 12}, "sts:mine": {"dev": 12}}
    listed["sts_files"] = {"CNSD-STS-B": CNSD, "sts:mine": CNSD}
    write_json(data / "manifest.json", listed)

    def outcome(select_on: str) -> dict[str, Any]:
        recipe = {"batch_size": 16, "select_every": 2, "select_on": select_on}
        inputs = {"backbone_name": str(tiny_bert), "corpus": str(tiny_corpus), "data": str(data)}
        run = resolve("simcse", **inputs, seed=1, recipe=recipe)
        return train(run, out, out / select_on)["outcome"]

    found = outcome(select)
    same = outcome("STS-B")  # the same pairs under another name
    assert (found["best_dev"], found["best_step"]) == (same["best_dev"], same["best_step"])
    task = sts.read(select.split("+")[0], data, "dev")
    (record,) = score_tasks(load_encoder(out / select / "encoder"), [task])
    assert record["value"] == found["best_dev"]


@pytest.mark.slow
@pytest.mark.skipif("BENCH_DATA" not in os.environ, reason="BENCH_DATA is not set")
def test_the_real_chinese_sts_b(tmp_path: Path) -> None:
    """docs/methods.md#word-noise: 5,231, 1,458 and 1,361 pairs; 10,462 training sentences, 9,424 of
    them distinct."""
    data = Path(os.environ["BENCH_DATA"])
    pairs = {split: sts.read("CNSD-STS-B", data, split).subsets[0] for split in sts.SPLITS}
    assert [len(subset.gold) for subset in pairs.values()] == [5231, 1458, 1361]
    assert all(set(subset.gold.tolist()) == {0, 1, 2, 3, 4, 5} for subset in pairs.values())
    assert pairs["train"].first[0] == "一架飞机要起飞了。"
    sentences = corpora.cnsd_sentences(data)
    assert len(sentences) == 10_462
    assert len(set(sentences)) == 9_424


def test_a_training_whose_data_lack_its_dev_set_is_not_planned(folder: Path) -> None:
    content: dict[str, Any] = {"suite": "mine", "data": str(folder), "corpus": "world"}
    content |= {"seeds": [1], "tasks": ["sts:german"], "backbones": {"toy-bert": None}}

    def planned(*methods: str, select_on: str) -> int:
        changes = {"methods": list(methods), "recipe": {"select_on": select_on}}
        return len(suites.planned(suites.validate(content | changes)))

    assert planned("word-overlap", "untrained[pooler=avg]", select_on="STS-B") == 2  # no selection
    said = "the data set own has no dev set of {}, on which trainings select their weights; set "
    said += "'select_on' in 'recipe' to CNSD-STS-B"
    for select_on in ("STS-B", "sts:german"):
        with pytest.raises(UserError, match=re.escape(said.format(select_on))):
            planned("simcse", select_on=select_on)
        with pytest.raises(UserError, match="own has no dev set of"):
            planned("simcse", f"simcse[select_on={select_on}]", select_on="CNSD-STS-B")
    assert planned("simcse", select_on="CNSD-STS-B") == 1
    (folder / "downstream" / "CNSD-STS-B" / "cnsd-sts-dev.txt").unlink()
    with pytest.raises(UserError, match=r"cnsd-sts-dev\.txt does not exist"):
        planned("simcse", select_on="CNSD-STS-B")
