"""The lines with which a suite ends on the terminal (`rendered/suite/summary.txt`)."""

from pathlib import Path

import pytest

from bench.report.summary import summary
from tests.support.judged_rows import (
    WITH_BASELINE,
    heading,
    judged,
    leaderboard,
    measured,
    number,
    of_world,
    pair,
    run,
)
from tests.support.rendered import assert_as_read


def lines(suite):
    return summary(suite, Path("out"), Path("figures")).splitlines()


def test_a_summary_is_what_was_read(compared_suite, tmp_path):
    text = "\n".join(lines(compared_suite.model_copy(update={"numbers": ()}))) + "\n"
    (tmp_path / "summary.txt").write_text(text, encoding="utf-8")
    assert_as_read(tmp_path / "summary.txt", "suite/summary.txt")


def test_the_first_line_counts_systems_seeds_trainings_and_minutes():
    runs = [run(method, seed) for method in ("simcse", "sscl", "cropping") for seed in range(3)]
    runs.append(run("dclr", 7, status="missing", seconds=None, scoring_seconds=None))
    suite = heading(partial="Partial: 9 of 10 runs have been made.")
    world = [of_world("STS12", "reproduced", 60.0)]
    numbers = [number(76.0, measured([75.0])), number(77.0)]
    assert lines(judged((), suite, runs=runs, world=world, numbers=numbers))[:-3] == [
        "s: 4 systems, 3 seeds, 9 trainings, 9.0 minutes of computing. "
        "Partial: 9 of 10 runs have been made.",
        "1 scores of the toy data: 1 as on the reference machine",
        "2 numbers of 1 papers: 1 open; 1 not run",
    ]


@pytest.mark.parametrize(
    ("more", "how", "line"),
    [
        ({}, "paired by seed; verdicts answer claims:", "not claimed: SSCL"),
        ({"verdict": "worse"}, "paired by seed; verdicts", "worse: SSCL"),
        ({"outside": True, "kind": "items", "verdict": "lower"}, "over the test items:",
         "lower: SSCL (outside encoder)"),
    ],
)  # fmt: skip
def test_a_suite_without_an_average_is_compared_on_its_first_task(more, how, line):
    """As its leaderboard is."""
    part = heading(leaderboard(planned=["STS-B", "SICK-R"]), **WITH_BASELINE)
    pairs = [pair("sscl", [-10.0], task="STS-B", label="SSCL", **more)]
    pairs.append(pair("sscl", [5.0], task="SICK-R"))
    result = lines(judged((), part, pairs=pairs))
    assert result[1].startswith(f"Against SimCSE, official, Spearman x 100 on STS-B, {how}")
    assert result[2] == f"  bert-base-uncased, {line} -10.00 ± 0.50"
