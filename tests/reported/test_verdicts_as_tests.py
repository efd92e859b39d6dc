"""The `reported` tests pass, fail and skip as expected, on a suite with every verdict."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path

import pytest

from bench.comparison.reproduction import cells
from bench.datasets.tasks import STS_TASKS
from bench.results.suite_results import read_suite
from tests.support.synthetic_suite import seeds, write_suite

ROOT = Path(__file__).parents[2]


def around(mean: float, sd: float, n: int) -> list[dict[str, float]]:
    """n rows of scores, equal on all tasks, with exactly this mean and standard deviation (n
    odd)."""
    half = n // 2
    step = sd * ((n - 1) / (2 * half)) ** 0.5
    return [
        dict.fromkeys(STS_TASKS, mean + step * (i % 2 * 2 - 1) * (i < 2 * half)) for i in range(n)
    ]


@pytest.fixture(scope="module")
def suite(tmp_path_factory) -> Path:
    """Averages in GS-InfoNCE's Table 2 and IS-CSE's Table 1, each with another verdict."""
    return write_suite(
        tmp_path_factory.mktemp("suite"),
        [
            *seeds("gs-infonce", around(77.5, 0.6, 5)),  # printed 77.63
            *seeds("simcse", around(75.0, 0.5, 5)),  # printed 76.25
            *seeds("is-cse", around(70.0, 0.5, 5)),  # printed 78.30
            *seeds("is-cse", around(90.0, 0.2, 5), backbone="roberta-base"),  # printed 77.73
            *seeds("simcse", around(76.0, 0.2, 2), backbone="roberta-base"),  # too few
            *seeds("simcse", around(78.0, 0.5, 3), backbone="roberta-large", corpus="wiki-mini"),
            *seeds("is-cse", around(79.0, 0.5, 3), backbone="roberta-large")[:2],
            {"method": "is-cse", "backbone": "roberta-large", "seed": 2, "status": "diverged", "reason": "loss is nan"},
        ],
    )  # fmt: skip


EXPECTED = {
    ("gs-infonce-v2", "GS-InfoNCE", "bert-base-uncased"): ("reproduced", "passed"),
    ("gs-infonce-v2", "SimCSE", "bert-base-uncased"): ("consistent", "passed"),
    ("is-cse", "IS-CSE", "bert-base-uncased"): ("lower", "failure"),
    ("is-cse", "IS-CSE", "roberta-base"): ("higher", "failure"),
    ("is-cse", "SimCSE", "roberta-base"): ("inconclusive", "skipped"),
    ("is-cse", "SimCSE", "roberta-large"): ("not comparable", "skipped"),
    ("is-cse", "IS-CSE", "roberta-large"): ("diverged", "failure"),
    ("is-cse", "CARDS", "roberta-large"): ("not run", "skipped"),
}


@pytest.mark.slow
def test_every_verdict_ends_as_it_should(suite, tmp_path):
    report = tmp_path / "report.xml"
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-m",
        "reported",
        f"--junitxml={report}",
    ]
    ended = subprocess.run(
        [*command, "tests/reported/test_cells.py"],
        cwd=ROOT, env=os.environ | {"SENTBENCH_RESULTS": str(suite)}, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert ended.returncode == 1, ended.stdout[-2000:]
    outcomes, texts = {}, {}
    for case in ET.parse(report).iter("testcase"):
        name = case.get("name", "").partition("[")[2].removesuffix("]")
        child = case.find("*")
        outcomes[name] = "passed" if child is None else child.tag
        texts[name] = "" if child is None else child.get("message", "")
    frame = cells(read_suite(suite))
    assert len(outcomes) == len(frame)
    assert (
        Counter(outcomes.values())["failure"]
        == frame["verdict"].isin(["lower", "higher", "diverged"]).sum()
    )
    tables = {"gs-infonce-v2": "Table 2", "is-cse": "Table 1"}
    averages = frame[(frame["task"] == "Avg") & (frame["split"] == "test")]
    for (source, method, backbone), (verdict, outcome) in EXPECTED.items():
        row = averages.query(
            "source == @source and table == @tables[@source] and method == @method and backbone == @backbone"
        )
        assert row["verdict"].tolist() == [verdict]
        name = "-".join(
            filter(
                None,
                (source, tables[source], method, backbone, row["variant"].item(), "Avg", "test"),
            )
        )
        assert outcomes[name] == outcome
        assert verdict in texts[name] or outcome == "passed"


@pytest.mark.slow
def test_without_results_there_is_one_skip_and_nothing_else(tmp_path):
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "tests/reported/test_cells.py",
    ]
    environment = os.environ | {"SENTBENCH_RESULTS": str(tmp_path / "none")}
    ended = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60
    )
    assert ended.returncode == 0
    assert "1 skipped" in ended.stdout
    assert "SENTBENCH_RESULTS" in ended.stdout
