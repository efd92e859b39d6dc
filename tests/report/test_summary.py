"""The lines with which a suite ends on the terminal."""

import pytest

from bench.judge.against_baseline import with_baseline
from bench.judge.reproduction import judge
from bench.judge.world import judge_world
from bench.report.summary import summary
from bench.results.suite_results import read_suite
from tests.support.synthetic_suite import seeds, with_plan, write_suite


@pytest.fixture
def text(tmp_path):
    """Of two methods and a control; one is 10 points worse at every seed, one the same on average,
    and each training took a minute."""
    plain, worse, near = [70.0, 71.0, 72.0], [60.0, 61.1, 61.9], [71.0, 70.0, 72.1]
    outcome = {"seconds": 60.0}
    entries = [
        *seeds("simcse", plain, label="SimCSE", outcome=outcome),
        *seeds("sscl", near, label="SSCL", outcome=outcome),
        *seeds("cropping", worse, label="Cropping", outcome=outcome),
    ]
    folder = write_suite(tmp_path / "mine", entries, name="mine")
    suite = read_suite(folder)
    suite = with_plan(suite, baseline="simcse")
    figures = tmp_path / "figures"
    return summary(suite, judge(suite), judge_world(suite), with_baseline(suite), folder, figures)


def test_the_first_line_counts_systems_seeds_trainings_and_minutes(text):
    assert text.splitlines()[0] == (
        "mine: 3 systems, 3 seeds, 9 trainings, 9.0 minutes of computing."
    )


def test_each_method_stands_beside_the_baseline_with_its_interval_and_word(text):
    """t(0.975, 2) = 4.3027; differences of SSCL 1, -1, 0.1, of cropping -10, -9.9, -10.1."""
    lines = text.splitlines()
    (start,) = [index for index, line in enumerate(lines) if line.startswith("against SimCSE")]
    assert lines[start + 1 : start + 3] == [
        "  bert-base-uncased, undecided: SSCL +0.0 ± 2.5",
        "  bert-base-uncased, worse: Cropping -10.0 ± 0.2",
    ]


def test_it_ends_with_the_places_of_tables_figures_and_page(text):
    assert [line.split()[0] for line in text.splitlines()[-3:]] == ["tables:", "figures:", "page:"]
    assert max(map(len, text.splitlines()[:-3])) <= 120


def test_a_suite_without_an_average_is_compared_on_its_first_task(tmp_path):
    """As its leaderboard is."""
    entries = [
        *seeds("simcse", [{"STS-B": score} for score in (70.0, 71.0, 72.0)], tasks=["STS-B"]),
        *seeds("sscl", [{"STS-B": score} for score in (60.0, 61.1, 61.9)], tasks=["STS-B"]),
    ]
    folder = write_suite(tmp_path / "mine", entries, name="mine")
    suite = with_plan(read_suite(folder), baseline="simcse")
    text = summary(suite, judge(suite), [], with_baseline(suite), folder, tmp_path)
    assert "  bert-base-uncased, worse: sscl -10.0 ± 0.2" in text.splitlines()
