"""The `reported` tests pass, fail and skip as expected, on a suite with every verdict."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
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
    values = [mean + step * (i % 2 * 2 - 1) * (i < 2 * half) for i in range(n)]
    return [dict.fromkeys(STS_TASKS, value) for value in values]


@pytest.fixture(scope="module")
def suite(tmp_path_factory) -> Path:
    """Averages in GS-InfoNCE's Table 2 and IS-CSE's Table 1, each with another verdict."""
    lost = {"method": "is-cse", "backbone": "roberta-large", "seed": 2, "status": "diverged"}
    runs = [
        *seeds("gs-infonce", around(77.5, 0.6, 5)),  # printed 77.63
        *seeds("simcse", around(75.0, 0.5, 5)),  # printed 76.25
        *seeds("is-cse", around(70.0, 0.5, 5)),  # printed 78.30
        *seeds("is-cse", around(90.0, 0.2, 5), backbone="roberta-base"),  # printed 77.73
        *seeds("simcse", around(76.0, 0.2, 2), backbone="roberta-base"),  # too few
        *seeds("simcse", around(78.0, 0.5, 3), backbone="roberta-large", corpus="wiki-mini"),
        *seeds("is-cse", around(79.0, 0.5, 3), backbone="roberta-large")[:2],
        lost | {"reason": "loss is nan"},
    ]
    return write_suite(tmp_path_factory.mktemp("suite"), runs)


def collected(results: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run test_cells.py on the suite in `results`."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
    environment = os.environ | {"SENTBENCH_RESULTS": str(results)}
    return subprocess.run(
        [*command, "tests/reported/test_cells.py"],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300,
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
    ended = collected(suite, "-m", "reported", f"--junitxml={report}")
    assert ended.returncode == 1, ended.stdout[-2000:]
    outcomes, texts = {}, {}
    for case in ET.parse(report).iter("testcase"):
        name = case.get("name", "").partition("[")[2].removesuffix("]")
        child = case.find("*")
        outcomes[name] = "passed" if child is None else child.tag
        texts[name] = "" if child is None else child.get("message", "")
    frame = cells(read_suite(suite))
    assert len(outcomes) == len(frame)
    failing = frame["verdict"].isin(["lower", "higher", "diverged"]).sum()
    assert list(outcomes.values()).count("failure") == failing
    tables = {"gs-infonce-v2": "Table 2", "is-cse": "Table 1"}
    averages = frame[(frame["task"] == "Avg") & (frame["split"] == "test")]
    for (source, method, backbone), (verdict, outcome) in EXPECTED.items():
        rows = averages[averages["table"] == tables[source]]
        row = rows.query("source == @source and method == @method and backbone == @backbone")
        assert row["verdict"].tolist() == [verdict]
        parts = (source, tables[source], method, backbone, row["variant"].item(), "Avg", "test")
        name = "-".join(filter(None, parts))
        assert outcomes[name] == outcome
        assert verdict in texts[name] or outcome == "passed"


@pytest.mark.slow
def test_without_results_there_is_one_skip_and_nothing_else(tmp_path):
    ended = collected(tmp_path / "none")
    assert ended.returncode == 0
    assert "1 skipped" in ended.stdout
    assert "SENTBENCH_RESULTS" in ended.stdout
