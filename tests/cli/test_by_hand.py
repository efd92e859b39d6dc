"""Runs that `train` makes: their scores are printed, and one folder's runs form a table."""

import csv
import json

import pytest
import yaml

from bench.runs.run import read_runs
from tests.support.tiny_suite import tiny_configuration, train_words


@pytest.fixture
def by_hand(tiny_bert, tiny_data, tiny_corpus, tmp_path, said):
    """Make a run in a folder; what is printed."""

    def make(method, *more):
        words = train_words(method, tiny_bert, tiny_data, tiny_corpus)
        return said(*words, "--suite", tmp_path, "--tasks", "STS-B", *more)

    return make


def test_the_score_is_printed_and_shown_beside_earlier_ones(by_hand, tmp_path, said):
    shown = {}
    for method in "word-overlap", "untrained[pooler=avg]":
        printed = by_hand(method).out
        (run,) = [run for run in read_runs(tmp_path / "plan.json").runs if run.method == method]
        file = tmp_path / "scores" / f"{run.id}.json"
        test, *_ = json.loads(file.read_text())["records"]
        assert test["split"] == "test"
        assert f"{test['value']:.2f}" in printed
        assert str(file) in printed
        shown[method] = test["value"]
    rows = csv.DictReader(said("show", "--suite", tmp_path, "--format", "csv").out.splitlines())
    assert {row["method"]: float(row["STS-B"]) for row in rows} == shown


def test_another_version_of_a_run_takes_its_place(by_hand, tmp_path):
    by_hand("word-overlap")
    plan = tmp_path / "plan.json"
    plan.write_text(plan.read_text().replace(read_runs(plan).runs[0].id, "word-overlap_older"))
    by_hand("word-overlap")
    assert len(read_runs(plan).runs) == 1


@pytest.mark.parametrize("other", [["--mode", "dev"], ["--data", "world"]])
def test_runs_of_another_mode_or_other_data_are_in_no_table(other, by_hand, tmp_path):
    by_hand("word-overlap")
    before = (tmp_path / "plan.json").read_text()
    printed = by_hand("untrained[pooler=avg]", *other).out
    assert ("Spearman x 100" in printed, "show" in printed) == (True, False)
    assert (tmp_path / "plan.json").read_text() == before


def test_a_configurations_plan_stays(by_hand, tiny_bert, tiny_data, tiny_corpus, tmp_path, said):
    config, plan = tmp_path / "config.yaml", tmp_path / "plan.json"
    content = tiny_configuration(tiny_bert, tiny_data, tiny_corpus, methods=["simcse"])
    config.write_text(yaml.safe_dump(content))
    said("plan", config, "--out", plan)
    before = plan.read_text()
    assert "Spearman x 100" in by_hand("word-overlap").out
    assert plan.read_text() == before
