"""Names, averages and files of records."""

import json

import pytest

from bench.datasets.tasks import STS_TASKS, average, expand_tasks
from bench.results.records import read_scores, write_scores
from bench.utils.errors import did_you_mean

RECORD = {"task": "STS12", "split": "test", "metric": "spearman", "aggregation": "all"}


def test_the_average_is_that_of_the_printed_cells():
    # SimCSE on bert-base-uncased as its paper prints it: seven cells and 76.25
    cells = [68.40, 82.41, 74.38, 80.91, 78.56, 76.85, 72.23]
    assert round(average(cells), 2) == 76.25
    # Rounding first matters: 0.004 and 0.004 print as 0.00 and 0.00.
    assert average([0.004, 0.004]) == 0.0


def test_task_labels_of_papers_have_one_canonical_name():
    assert expand_tasks(["SICK15", " SST-2"]) == ["STS15", "SST2"]
    assert expand_tasks(["sts-b", "STSB", "mrpc", "STS-B"]) == ["STS-B", "MRPC"]
    assert expand_tasks(STS_TASKS) == list(STS_TASKS)


@pytest.mark.parametrize(
    "provenance",
    [
        {},
        {"corpora": [{"kind": "corpus", "name": "wiki", "sha256": "a1", "rows": 3}]},
        {"device": {"kind": "cpu", "threads": 1, "later": 2}, "later": {"field": [1]}},
        {"outcome": {"status": "diverged", "reason": "NaN", "step": 1, "sentences": [4]}},
    ],
)
def test_scores_and_older_and_newer_provenance_are_kept_in_their_order(tmp_path, provenance):
    records = [RECORD | {"value": 1 / 3}]
    write_scores(tmp_path / "s.json", provenance, records)
    read = read_scores(tmp_path / "s.json").as_written()
    assert read["records"] == records
    assert json.dumps(read["provenance"]) == json.dumps(provenance)


def test_a_guess_is_given_only_if_it_is_close():
    hint = did_you_mean("simsce", ["simcse", "sscl"])
    assert hint == "; did you mean 'simcse'? (known: simcse, sscl)"
    many = did_you_mean("a7", [f"a{i}" for i in range(14)])
    assert many.startswith("; did you mean 'a7'? (known: a7, ")
    assert many.endswith(", 4 more)")
    # Without a guess, by name: plain ones, then those with keys, ingredients or a setting.
    mixed = did_you_mean("xyz", ["b[x=1]", "a+b", "c@paper", "b"])
    assert mixed == " (known: b, a+b, b[x=1], c@paper)"
