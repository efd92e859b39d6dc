"""Copied results have times in any order. What they record tells whether they are current."""

import os

import pytest

from bench.datasets.metrics import FURTHER_SEEDS
from bench.runs import paths
from bench.stages.inputs import compare
from bench.utils.files import read_json, write_json
from tests.support.tiny_suite import tiny_run


@pytest.fixture
def copy(tiny_bert, tiny_data, tiny_corpus, tmp_path):
    """A run, and its score file, which is older than what it was made from."""
    run = tiny_run("simcse", tiny_bert, tiny_data, tiny_corpus)
    data = paths.describe_data(tiny_data)
    outcome = {"status": "finished", "best_dev": 1.0}
    write_json(tmp_path / "inputs" / "data.json", {"kind": "data", **data})
    write_json(paths.result_file(tmp_path, run.id, "train"), {"outcome": outcome})
    scores = paths.result_file(tmp_path, run.id, "score")
    write_json(scores, {"provenance": {"data": data, "outcome": outcome}, "records": []})
    os.utime(scores, (1, 1))
    return run, tmp_path, scores


def test_results_of_the_same_inputs_are_current(copy):
    """They are left as they are: they may be somebody else's, or a job may be writing them."""
    run, suite, scores = copy
    assert compare([run], suite) == ([], {str(scores): True})
    assert scores.stat().st_mtime == 1


@pytest.mark.parametrize("changed", ["data", "outcome"])
def test_results_of_others_are_not(copy, changed):
    run, suite, scores = copy
    stored = read_json(scores)
    stored["provenance"][changed] |= {"sha256": "2", "best_dev": 2.0}
    write_json(scores, stored)
    os.utime(scores, (1, 1))
    assert compare([run], suite) == ([], {str(scores): False})


@pytest.mark.parametrize(
    ("task", "seeds", "is_current"),
    [
        ("MR", [], False),
        ("MR", [1, 2, 3, 4], False),  # which a user chose
        ("MR", [*FURTHER_SEEDS], True),
        ("STS-B", [], True),
    ],
)
def test_scores_of_too_few_seeds_of_classifiers_are_not(
    task, seeds, is_current, tiny_bert, tiny_data, tiny_corpus, tmp_path
):
    """They are older than their inputs from then on, unless nothing is to be written."""
    run = tiny_run("untrained", tiny_bert, tiny_data, tiny_corpus)
    data = paths.describe_data(tiny_data)
    write_json(tmp_path / "inputs" / "data.json", {"kind": "data", **data})
    described = {"data": data, "tasks": {task: {}}, "probe_seeds": seeds}
    scores = paths.result_file(tmp_path, run.id, "score")
    write_json(scores, {"provenance": described, "records": []})
    assert compare([run], tmp_path, write=False) == ([], {})
    assert compare([run], tmp_path) == ([], {} if is_current else {str(scores): False})
