"""Copied results have times in any order. What they record tells whether they are current."""

import os

import pytest

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
