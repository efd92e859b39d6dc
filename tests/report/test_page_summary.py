"""The summary of a page.

Mutations caught: verdicts in the order of the table; numbers that cannot be compared counted among
those that can; the largest instead of the furthest difference; untrained methods counted against
the baseline.
"""

from collections.abc import Sequence
from pathlib import Path

import pytest

from bench.comparison.reproduction import judge
from bench.comparison.verdict import VERDICT_SYMBOLS
from bench.datasets.tasks import STS_TASKS, TRANSFER_TASKS
from bench.report.page import summary, verdict_counts
from bench.report.tables import leaderboards
from bench.results.suite_results import SuiteResults, read_suite
from tests.support.synthetic_suite import seeds, with_plan, write_suite


def rows(*values: float) -> list[dict[str, float]]:
    return [dict.fromkeys(STS_TASKS, value) for value in values]


def lines(suite: SuiteResults) -> dict[str, str]:
    return dict(summary(suite, judge(suite), leaderboards(suite), 1))


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> SuiteResults:
    runs = [
        *seeds("simcse", rows(76.0, 76.25, 76.5), label="SimCSE"),
        *seeds("sscl", rows(66.0, 66.25, 66.5)),
        *seeds("is-cse", rows(86.0, 86.25, 86.5)),
        {"method": "untrained", "setting": "paper", "scores": rows(50.0)[0]},
    ]
    made = read_suite(write_suite(tmp_path_factory.mktemp("suite"), runs))
    return with_plan(made, baseline="simcse")


def test_what_is_said(suite: SuiteResults) -> None:
    said = lines(suite)
    assert said["Averages"].startswith("Of ")
    # 66.25 of ours beside 79.03 in print
    assert said["Averages"].endswith("SSCL, Table 1, SSCL-SimCSE on bert-base-uncased, −12.78.")
    assert said["Highest STS average"] == "bert-base-uncased: is-cse, official, 86.25 ± 0.25"
    pairs = "1 better, 1 worse, 0 undecided, paired by seed on the STS average."
    assert said["Trained methods against SimCSE, official"] == pairs
    assert said["Print alone"].startswith("8 of 10 printed gains over SimCSE are within")
    assert said["Print alone"].endswith("the audit has 1 finding.")


def test_verdicts_are_counted_in_one_order(suite: SuiteResults) -> None:
    counts = verdict_counts(judge(suite)[::-1])
    assert list(counts) == [kind for kind in VERDICT_SYMBOLS if kind in counts]
    assert 0 not in counts.values()


def test_nothing_is_said_of_what_is_not_there(suite: SuiteResults, tmp_path: Path) -> None:
    assert len(lines(with_plan(suite, baseline=""))) == 3
    planned = read_suite(write_suite(tmp_path, [{"method": "simcse", "seed": 1}]))
    said = lines(with_plan(planned, baseline="simcse"))
    assert list(said) == ["Averages", "Print alone"]
    assert said["Averages"] == "None can be compared with print."
    names = {"bert-base-uncased": "toy-bert"}
    elsewhere = seeds("simcse", rows(50.0, 51.0), backbone="toy-bert")
    toy = read_suite(write_suite(tmp_path / "toy", elsewhere, stand_ins=names))
    assert lines(toy)["Averages"] == "None can be compared with print."


@pytest.mark.parametrize(
    ("tasks", "title", "where"),
    [
        (("STS12", "STS-B"), "Highest on STS-B", "STS-B"),
        (("SICK-R",), "Highest on SICK-R", "SICK-R"),
        (TRANSFER_TASKS, "Highest Transfer average", "the Transfer average"),
    ],
    ids=str,
)
def test_a_suite_without_an_sts_average(
    tmp_path: Path, tasks: Sequence[str], title: str, where: str
) -> None:
    values = [dict.fromkeys(tasks, value) for value in (50.0, 51.0, 52.0, 60.0, 61.0, 62.0)]
    runs = [*seeds("simcse", values[:3]), *seeds("sscl", values[3:])]
    for run in runs:
        run["tasks"] = list(tasks)
        if tasks == TRANSFER_TASKS:
            accuracy = {"metric": "accuracy", "aggregation": "all"}
            values = run.pop("scores").items()
            run["records"] = [{"task": task, "value": value} | accuracy for task, value in values]
            run["scores"] = {}
    said = lines(with_plan(read_suite(write_suite(tmp_path, runs)), baseline="simcse"))
    assert said[title] == "bert-base-uncased: sscl, official, 61.00 ± 1.00"
    pairs = f"1 better, 0 worse, 0 undecided, paired by seed on {where}."
    assert said["Trained methods against simcse, official"] == pairs
