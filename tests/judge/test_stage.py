"""A pair has one row, whichever methods are chosen."""

import pytest

from bench.judge.stage import compared, read_suite
from bench.runs.naming import planned_text
from tests.support.refusals import refused
from tests.support.synthetic_suite import seeds, write_suite

BASE, OTHER = "bert-base-uncased", "roberta-base"
ENTRIES = [
    *seeds("simcse", [75.0, 76.0, 77.0]),
    *seeds("is-cse", [75.5, 76.1, 78.0]),
    *seeds("gs-infonce", [79.0, 80.2, 81.0]),
    *seeds("simcse", [76.0, 76.5, 77.0], backbone=OTHER),
    *seeds("is-cse", [76.5, 77.1, 77.4], backbone=OTHER),
    *seeds("sscl", [77.0], backbone="roberta-large"),
    {"method": "dclr", "seed": 1},
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_suite(tmp_path_factory.mktemp("suite"), ENTRIES, baseline="simcse")


@pytest.fixture(scope="module")
def judged(folder):
    return read_suite(folder)


@pytest.mark.parametrize(
    ("methods", "shown"),
    [
        ([], {("is-cse", BASE), ("gs-infonce", BASE), ("is-cse", OTHER)}),
        (["is-cse"], {("is-cse", BASE), ("is-cse", OTHER)}),
    ],
)
def test_chosen_comparisons_are_those_of_the_suite(folder, judged, methods, shown):
    """Each with the p, the interval and the word that it has among all of them."""
    methods = [planned_text(folder, name) for name in methods]
    expected = [pair for pair in judged.pairs if (pair.method, pair.backbone) in shown]
    for baseline in ("", "simcse@official"):  # its own may be named
        assert compared(judged, baseline, methods) == expected
    assert {pair.n for pair in expected} == {3}


def test_a_suite_without_a_baseline_needs_one(tmp_path):
    judged = read_suite(write_suite(tmp_path, ENTRIES[:6]))
    assert judged.pairs == ()
    refused(lambda: compared(judged), "suite paper has no baseline; name one")
    assert compared(judged, "simcse@official")
