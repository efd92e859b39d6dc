"""Data that change between two scorings: nothing old passes for new, and nothing is mixed.

Mutations caught: the workflow's stamp as the sum of the data; no comparison of sums between runs; a
path as the name of the data; no comparison of dev sets; analyses left out of the comparison.
"""

import json
import random
import shutil
from pathlib import Path

import pytest

from bench.datasets.labelled import task_sums
from bench.evaluation.scoring import read_tasks
from bench.results.suite_results import read_suite
from bench.runs import paths
from bench.stages.jobs import score_run, train_run
from bench.utils.errors import UserError
from bench.utils.files import read_json, write_json
from tests.support.synthetic_suite import write_suite
from tests.support.tiny_suite import tiny_run

pytestmark = pytest.mark.usefixtures("global_state")


@pytest.fixture
def data(tiny_data, tmp_path):
    """A data folder to change, which is called "tiny" in its manifest."""
    return Path(shutil.copytree(tiny_data, tmp_path / "mine"))


def change(data, split):
    """Other gold scores of STS-B."""
    path, draw = data / "downstream" / "STS" / "STSBenchmark" / f"sts-{split}.csv", random.Random(3)
    rows = [line.split("\t") for line in path.read_text().splitlines()]
    changed = [[*row[:4], f"{draw.uniform(0, 5):.3f}", *row[5:]] for row in rows]
    path.write_text("".join("\t".join(row) + "\n" for row in changed))


def test_the_sums_are_those_of_the_files_that_were_scored(tiny_bert, data, tiny_corpus, tmp_path):
    run, suite, out = tiny_run("untrained", tiny_bert, data, tiny_corpus), tmp_path, tmp_path / "o"
    stamp = paths.describe_input("data", str(data), suite)
    write_json(suite / "inputs" / "data.json", stamp)
    change(data, "test")
    score_run(run, suite, ["STS-B"], "test", out, "cpu")
    described = read_json(out)["provenance"]
    assert described["data"] == {"name": "tiny", **paths.data_sums(data)}
    assert described["data"]["sha256"] != stamp["sha256"]
    assert described["tasks"] == task_sums(read_tasks(["STS-B"], data))


def test_an_encoder_is_not_scored_if_its_dev_set_changed(tiny_bert, data, tiny_corpus, tmp_path):
    run, out = tiny_run("simcse", tiny_bert, data, tiny_corpus), tmp_path / "scores.json"
    write_json(paths.result_file(tmp_path, run.id, "train"), train_run(run, tmp_path, "cpu"))
    change(data, "test")
    score_run(run, tmp_path, ["STS-B"], "test", out, "cpu")
    change(data, "dev")
    with pytest.raises(UserError, match="was selected on; restore it"):
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
        write_json(path, content)

    record(first, 0, "0123")
    record(second, 1, "0123")
    assert len(read_suite(suite).runs) == 2
    record(second, 1, "4567")
    told = f"the {first} of run000 and the {second} of run001 in suite paper are of different data "
    told += rf"\({part} has the checksums 0123 and 4567\); make those with"
    with pytest.raises(UserError, match=told):
        read_suite(suite)


def test_corpora_of_one_name_at_different_paths_are_different_corpora(tmp_path):
    """The sum of a corpus given by path is part of its runs' identity."""
    common = {"method": "simcse", "seed": 1, "scores": {"STS-B": 70.0}}
    suite = write_suite(tmp_path, [{**common, "corpus": f"./{place}/mine.txt"} for place in "ab"])
    for number, place in enumerate("ab"):
        path = suite / "scores" / f"run{number:03d}.json"
        content = read_json(path)
        content["provenance"]["corpora"] = [{"name": "mine", "sha256": place}]
        write_json(path, content)
    assert len(read_suite(suite).runs) == 2
