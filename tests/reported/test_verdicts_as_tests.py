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
from tests.support.synthetic_suite import seeds, write_suite
from tests.support.table_suite import ENTRIES

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    other = seeds("is-cse", [78.0], backbone="roberta-large", corpus="wiki-mini")
    return write_suite(tmp_path_factory.mktemp("suite"), [*ENTRIES, *other])


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
    assert set(quoted) == {"higher", "not run"}
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
