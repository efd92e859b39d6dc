"""Data that change between two scorings: nothing old passes for new, and nothing is mixed.

Mutations caught: the workflow's stamp as the sum of the data; no comparison of sums between runs; a
path as the name of the data; no comparison of dev sets; analyses left out of the comparison.
"""

import json
import os
import re
import shutil
from pathlib import Path

import pytest

from bench.datasets.labelled import task_sums
from bench.download import sums
from bench.download.sums import file_sum
from bench.evaluation.scoring import read_tasks
from bench.results.suite_results import read_results
from bench.runs import paths
from bench.runs.resolve import resolve
from bench.stages.inputs import compare
from bench.stages.jobs import score_run, train_run
from bench.utils.errors import UserError
from bench.utils.files import read_json, sha256_file, write_json
from tests.support.synthetic_suite import write_suite
from tests.support.tiny_suite import SMALL, tiny_run


@pytest.fixture
def data(tiny_data, tmp_path):
    """A data folder to change, which is called "tiny" in its manifest."""
    return Path(shutil.copytree(tiny_data, tmp_path / "mine"))


def change(data, split):
    """Other gold scores of STS-B."""
    path = data / "downstream" / "STS" / "STSBenchmark" / f"sts-{split}.csv"
    path.write_text(re.sub(r"\t[1-5]\.", "\t0.", path.read_text()))


def test_the_sums_are_those_of_the_files_that_were_scored(tiny_bert, data, tiny_corpus, tmp_path):
    run, suite, out = tiny_run("untrained", tiny_bert, data, tiny_corpus), tmp_path, tmp_path / "o"
    stamp = paths.describe_input("data", str(data), suite)
    write_json(suite / "inputs" / "data.json", stamp)
    change(data, "test")
    score_run(run, suite, ["STS-B"], "test", out, "cpu")
    described = read_json(out)["provenance"]
    assert described["data"] == paths.describe_data(data)
    assert described["data"]["sha256"] != stamp["sha256"]
    assert described["tasks"] == task_sums(read_tasks(["STS-B"], data))


def test_an_encoder_is_not_scored_if_its_dev_set_changed(tiny_bert, data, tiny_corpus, tmp_path):
    run, out = tiny_run("simcse", tiny_bert, data, tiny_corpus), tmp_path / "scores.json"
    write_json(paths.result_file(tmp_path, run.id, "train"), train_run(run, tmp_path, "cpu"))
    change(data, "test")
    score_run(run, tmp_path, ["STS-B"], "test", out, "cpu")
    change(data, "dev")
    with pytest.raises(UserError, match=r"sts-dev.csv is not the one that .* was made with"):
        score_run(run, tmp_path, ["STS-B"], "test", out, "cpu")


TASK = {"tasks": {"STS-B": {"train": "8", "test": "SUM"}}}
CORPUS = {"corpora": [{"name": "wiki1m", "sha256": "SUM", "rows": 3}]}


@pytest.mark.parametrize(
    ("first", "second", "read", "part"),
    [
        ("scores", "scores", TASK, "STS-B test"),
        ("scores", "analyses", CORPUS, "corpus wiki1m"),
        ("analyses", "analyses", TASK, "STS-B test"),
    ],
)
def test_results_of_different_data_are_not_put_together(first, second, read, part, tmp_path):
    results = {"alignment": {"STS-B": {"all": {"uniformity": -2.0}}}}
    common = {"seed": 1, "scores": {"STS-B": 70.0}, "analyses": results}
    suite = write_suite(tmp_path, [{"method": name, **common} for name in ("simcse", "sscl")])

    def record(kind, number, digest):
        path = suite / kind / f"run{number:03d}.json"
        content = read_json(path)
        content["provenance"] |= json.loads(json.dumps(read).replace("SUM", digest))
        content["provenance"]["date"] = f"2026-01-0{2 - number}"
        write_json(path, content)

    record(first, 0, "0123")
    record(second, 1, "0123")
    assert len(read_results(suite).runs) == 2
    record(second, 1, "4567")
    pair = rf"the {first} of run000 \(2026-01-02\) and the {second} of run001 \(2026-01-01\)"
    told = rf"{pair} in suite paper are of different data \({part} has the checksums 0123"
    with pytest.raises(UserError, match=told):
        read_results(suite)


# Names whose content changes between two starts of a suite


@pytest.fixture
def named(tiny_bert, tiny_data, tiny_corpus, tmp_path, monkeypatch):
    """BENCH_DATA with a corpus `mine` and its documents, BENCH_MODELS with a copy of the hub's
    `maker/encoder`; and a suite made with them, of a training and an encoder."""
    folder, models, suite = tmp_path / "data", tmp_path / "models", tmp_path / "suite"
    shutil.copytree(tiny_data, folder)
    shutil.copy(tiny_corpus, folder / "mine.txt")
    (folder / "mine.docs.tsv").write_text("first\tlines\n1\t20\n21\t24\n")
    shutil.copytree(tiny_bert, models / "maker" / "encoder")
    monkeypatch.setenv("BENCH_DATA", str(folder))
    monkeypatch.setenv("BENCH_MODELS", str(models))
    places = {"corpus": "mine", "data": "senteval", "seed": 1}
    encoder = "published[model=maker/encoder,pooler=avg]@paper"
    runs = [
        resolve("cropping[unit=document]", backbone_name=str(tiny_bert), recipe=SMALL, **places),
        resolve(encoder, backbone_name="none", **places),
    ]
    for run in runs:
        if run.trained:
            write_json(paths.result_file(suite, run.id, "train"), train_run(run, suite, "cpu"))
        score_run(run, suite, ["STS-B"], "test", paths.result_file(suite, run.id, "score"), "cpu")
    write_json(suite / "inputs" / "data.json", paths.describe_input("data", "senteval", suite))
    return runs, suite, tmp_path


def append(path):
    path.write_text(path.read_text() + "\n")


@pytest.mark.parametrize(
    ("file", "told"),
    [
        ("data/mine.txt", "corpus mine"),
        ("data/mine.docs.tsv", "mine.docs.tsv"),
        ("models/maker/encoder/tokenizer_config.json", "maker/encoder/tokenizer_config.json"),
    ],
)
def test_another_input_of_a_training_is_refused_before_the_next(file, told, named):
    runs, suite, folder = named
    assert compare(runs, suite)[0] == []
    append(folder / file)
    with pytest.raises(UserError, match=f"^{told} is not the one that .* was made with; restore"):
        compare(runs, suite)


def test_other_test_sets_are_scored_again_and_the_former_ones_are_not(named):
    runs, suite, folder = named
    stamp, gold = suite / "inputs" / "data.json", folder / "data/downstream/STS/STSBenchmark"
    scores = [paths.result_file(suite, run.id, "score") for run in runs]
    before = (gold / "sts-test.csv").read_text()

    def outdated(write=True):
        os.utime(stamp, (10, 10))
        for file in scores:
            os.utime(file, (5, 5))
        changed, older = compare(runs, suite, write)
        return changed, [not older[str(file)] for file in scores]

    append(folder / "data/downstream/STS/STS12-en-test/STS.gs.first.txt")  # which nothing reads
    assert outdated() == ([], [False, False])
    change(folder / "data", "test")
    stored = stamp.read_bytes()
    assert outdated(write=False) == ([str(gold / "sts-test.csv")], [True, True])
    assert stamp.read_bytes() == stored
    assert outdated() == ([str(gold / "sts-test.csv")], [True, True])
    assert read_json(stamp)["sha256"] == paths.describe_data(folder / "data")["sha256"]
    (gold / "sts-test.csv").write_text(before)
    assert outdated() == ([], [False, False])


def test_the_sum_of_a_large_file_is_kept_until_the_file_changes(tmp_path, monkeypatch):
    """Content is read again where size and modification time are as before."""
    monkeypatch.setenv("SENTBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(sums, "LARGE", 4)
    file = tmp_path / "large"
    file.write_text("first")
    before = file.stat().st_mtime_ns
    assert file_sum(file) == sha256_file(file)
    (kept,) = (tmp_path / "cache" / "sums").iterdir()
    kept.write_text("kept")
    sums._large_sum.cache_clear()
    assert file_sum(file) == "kept"
    file.write_text("other")
    os.utime(file, ns=(before, before))
    assert file_sum(file) == sha256_file(file)
