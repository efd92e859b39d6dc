"""The lines with which a suite ends on the terminal."""

from pathlib import Path

import pytest

from bench.report.summary import summary
from tests.report.test_printed_tables import of_world
from tests.support.judged_rows import (
    WITH_BASELINE,
    board,
    heading,
    judged,
    measured,
    number,
    pair,
    run,
)

METHODS = ["simcse", "sscl", "cropping"]
PAIRS = [
    pair("sscl", [0.1] * 3, label="SSCL", half_width=2.5),
    pair("cropping", [-10.0] * 3, label="Cropping", half_width=0.2, verdict="worse"),
    pair("cropping", [-9.0] * 3, task="STS12", verdict="worse"),
    pair("is-cse", [0.4] * 3, label="IS-CSE", half_width=None),
]


def lines(pairs=PAIRS, suite=None, **more):
    """Of three methods with three seeds each, whose runs took a minute, and one without a run."""
    runs = [run(method, seed) for method in METHODS for seed in range(3)]
    runs.append(run("dclr", 7, status="missing", seconds=None, scoring_seconds=None))
    suite = suite or heading(**WITH_BASELINE, partial="Partial: 9 of 10 runs have been made.")
    text = summary(judged((), suite, pairs=pairs, runs=runs, **more), Path("out"), Path("figures"))
    return text.splitlines()


def compared(found):
    start = next(place for place, line in enumerate(found) if line.startswith("against "))
    return found[start:-3]


def test_the_first_line_counts_systems_seeds_trainings_and_minutes():
    assert lines()[0] == (
        "s: 4 systems, 3 seeds, 9 trainings, 9.0 minutes of computing. "
        "Partial: 9 of 10 runs have been made."
    )


def test_each_method_stands_beside_the_baseline_with_its_interval_and_word():
    """Of every backbone and word the greatest difference is first."""
    assert compared(lines()) == [
        "against SimCSE, official, Spearman x 100 on seven STS tasks, paired by seed, words after "
        "Holm's correction:",
        "  bert-base-uncased, undecided: IS-CSE +0.4; SSCL +0.1 ± 2.5",
        "  bert-base-uncased, worse: Cropping -10.0 ± 0.2",
    ]


@pytest.mark.parametrize(
    ("more", "line"),
    [
        ({}, "  bert-base-uncased, undecided: SSCL +1.0 ± 0.5"),
        ({"backbone": "none"}, "  undecided: SSCL +1.0 ± 0.5"),
        ({"outside": True}, "  bert-base-uncased, undecided: SSCL (outside encoder) +1.0 ± 0.5"),
        ({"difference": None}, "  bert-base-uncased, undecided: SSCL –"),
    ],
)
def test_a_method_in_the_summary(more, line):
    assert compared(lines([pair("sscl", [1.0], label="SSCL", **more)]))[1] == line


def test_names_have_a_setting_where_they_would_be_the_same():
    pairs = [pair("sscl", [1.0], label="SSCL"),
             pair("sscl", [2.0], label="SSCL", setting="paper"),
             pair("sscl", [3.0], label="SSCL", backbone="roberta-base")]  # fmt: skip
    assert compared(lines(pairs))[1:] == [
        "  bert-base-uncased, undecided: SSCL, paper +2.0 ± 0.5; SSCL, official +1.0 ± 0.5",
        "  roberta-base, undecided: SSCL +3.0 ± 0.5",
    ]


def test_a_suite_without_an_average_is_compared_on_its_first_task():
    """As its leaderboard is."""
    part = heading(board(planned=["STS-B", "SICK-R"]), **WITH_BASELINE)
    pairs = [pair("sscl", [-10.0], task="STS-B"), pair("sscl", [5.0], task="SICK-R")]
    first, line = compared(lines(pairs, part))
    assert first.startswith("against SimCSE, official, Spearman x 100 on STS-B, paired by seed,")
    assert line == "  bert-base-uncased, undecided: sscl -10.0 ± 0.5"


def test_encoders_without_seeds_are_compared_over_items():
    assert "over the test items" in compared(lines([pair("sscl", [1.0], kind="items")]))[0]


def test_printed_numbers_and_those_of_the_world_have_a_line_if_there_are_any():
    found = lines((), numbers=[number(76.0, measured([75.0])), number(77.0)],
                  world=[of_world("STS12", "reproduced", 60.0)])  # fmt: skip
    assert found[1:-3] == [
        "1 scores of the embedded world: 1 as on the reference machine",
        "2 numbers of 1 papers: 1 inconclusive, 1 not run",
    ]
    assert len(lines((), numbers=[number(77.0)])) == 4


def test_it_ends_with_the_places_of_tables_figures_and_page():
    assert lines()[-3:] == [
        "tables:  out/tables/   (sts.md is the suite's own)",
        "figures: figures/",
        "page:    out/report/index.html",
    ]
    assert max(map(len, lines()[:-3])) <= 120
