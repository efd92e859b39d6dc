"""The `reported` tests pass, fail and skip as expected, on a suite with every verdict."""

import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path

import pytest

from bench.judge.stage import read_suite
from tests.support.printed_numbers import printed
from tests.support.synthetic_suite import seeds, write_suite

ROOT = Path(__file__).parents[2]
BASE = "bert-base-uncased"


def around(mean, sd, n):
    """n (odd) scores with exactly this mean and standard deviation."""
    return [mean, *(mean + sign * sd for _ in range(n // 2) for sign in (-1, 1))]


def checkpoint(backbone, off):
    """The run of SimCSE's published checkpoint, whose tasks score `off` more than is printed."""
    where = "source == 'is-cse' and table == 'Table 1' and method == 'SimCSE'"
    row = printed().query(f"{where} and backbone == @backbone")
    model = "published"  # its default is that of bert-base-uncased
    if backbone != BASE:
        model = f"published[model=princeton-nlp/unsup-simcse-{backbone}]"
    scores = {task: value + off for task, value in zip(row["task"], row["value"], strict=True)}
    return {"method": model, "setting": "paper", "backbone": "none", "scores": scores}


# What runs of each method score on average, and the spread of a seed. Printed are 77.63
# (GS-InfoNCE), 76.25 (SimCSE) and 78.30 (IS-CSE) on bert-base.
RUNS = [
    *seeds("gs-infonce", around(77.5, 0.6, 9)),
    *seeds("simcse", around(74.9, 0.6, 25)),
    *seeds("is-cse", around(70.0, 0.5, 5)),
    *seeds("is-cse", around(90.0, 0.2, 5), backbone="roberta-base"),  # printed 77.73
    *seeds("simcse", around(76.0, 0.2, 3), backbone="roberta-base")[:2],  # too few
    *seeds("simcse", around(78.0, 0.5, 3), backbone="roberta-large", corpus="wiki-mini"),
    *seeds("is-cse", around(79.0, 0.5, 3), backbone="roberta-large")[:2],
    {"method": "is-cse", "backbone": "roberta-large", "seed": 2, "status": "diverged",
     "reason": "loss is nan"},
    checkpoint("bert-base-uncased", 0.02),
    checkpoint("roberta-base", -0.05),
]  # fmt: skip


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    return write_suite(tmp_path_factory.mktemp("suite"), RUNS)


def collected(results, *options):
    """Run test_cells.py on the suite in `results`."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
    return subprocess.run(
        [*command, "tests/reported/test_cells.py"], cwd=ROOT,
        env=os.environ | {"SENTBENCH_RESULTS": str(results)},
        capture_output=True, text=True, timeout=900,
    )  # fmt: skip


# An expected failure counts as skipped.
OUTCOMES = {
    "reproduced": "passed",
    "consistent": "skipped",
    "lower": "failure",
    "higher": "failure",
    "inconclusive": "skipped",
    "diverged": "failure",
    "not comparable": "skipped",
    "not run": "skipped",
}


@pytest.mark.slow
@pytest.mark.parametrize("strict", [False, True])
def test_every_verdict_ends_as_it_should(suite, tmp_path, strict):
    report = tmp_path / "report.xml"
    options = ["-m", "reported", f"--junitxml={report}", *["--fail-consistent"] * strict]
    ended = collected(suite, *options)
    assert ended.returncode == 1, ended.stdout[-2000:]
    found = []
    for case in ET.parse(report).iter("testcase"):
        if "reference_machine" in case.get("name"):  # of suites of the embedded world
            continue
        ends = [child for child in case if child.tag != "properties"]
        found.append((ends[0].tag, ends[0].get("message", "")) if ends else ("passed", ""))

    numbers = read_suite(suite).numbers
    verdicts = [row.ours.verdict.kind for row in numbers]
    quoted = [row.checkpoint.verdict.kind for row in numbers if row.checkpoint]
    assert set(verdicts) == OUTCOMES.keys()
    assert set(quoted) == {"reproduced", "lower", "not run"}
    outcomes = OUTCOMES | {"consistent": "failure" if strict else "skipped"}
    for verdict, (outcome, text) in zip([*verdicts, *quoted], found, strict=True):
        assert outcome == outcomes[verdict]
        assert verdict in text or outcome == "passed"
    titles = {"printed numbers": verdicts, "scores of published checkpoints": quoted}
    for title, kinds in titles.items():
        line = next(row for row in ended.stdout.splitlines() if f"{title}: " in row)
        told = re.findall(r"(\d+) ([a-z ]+)", line.partition(": ")[2])
        assert {name: int(n) for n, name in told} == Counter(kinds)


@pytest.mark.slow
def test_a_wrong_folder_is_an_error(tmp_path):
    ended = collected(tmp_path / "none")
    assert ended.returncode != 0
    told = "SENTBENCH_RESULTS: .*plan.json does not exist; name another folder"
    assert re.search(told, ended.stdout)
    assert "Traceback" not in ended.stdout
