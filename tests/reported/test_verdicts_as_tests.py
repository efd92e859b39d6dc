"""The `reported` tests pass, fail and skip as expected."""

import re
import sys
import xml.etree.ElementTree as ET
from collections import Counter

import pytest

from bench.judge.stage import read_suite
from bench.judged.rows import Verdict
from bench.judged.verdicts import VERDICT_SYMBOLS
from tests.support.ends import end
from tests.support.programs import ROOT, ended
from tests.support.synthetic_suite import write_suite
from tests.support.table_suite import ENTRIES


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    return write_suite(tmp_path_factory.mktemp("suite"), ENTRIES)


def collected(results, *options, status=1):
    """Run test_cells.py on the suite in `results`."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
    return ended(
        *command, "tests/reported/test_cells.py", cwd=ROOT, status=status,
        SENTBENCH_RESULTS=str(results),
    )  # fmt: skip


OUTCOMES = {
    "reproduced": "passed",
    "consistent": "pytest.xfail",
    "lower": "failure",
    "higher": "failure",
    "better": "passed",
    "better, gain below the margin": "pytest.xfail",
    "worse": "failure",
    "gain below the margin": "failure",
    "open": "pytest.skip",
    "diverged": "failure",
    "not comparable": "pytest.skip",
    "not run": "pytest.skip",
}
LOOK = r"(first|next) look at \d+ (classifier )?seeds, \d+ made"


TYPES = {"Skipped": "pytest.skip", "XFailed": "pytest.xfail", "Failed": "failure"}


def end_of(kind, **options):
    try:
        end(Verdict(kind=kind, reason="why"), "scores", **options)
    except BaseException as error:
        return TYPES[type(error).__name__]
    return "passed"


def test_every_verdict_ends_as_it_should():
    assert {kind: end_of(kind) for kind in VERDICT_SYMBOLS} == OUTCOMES
    assert end_of("consistent", strict=True) == "failure"


@pytest.mark.slow
def test_the_verdicts_of_a_suite_end_as_they_should(suite, tmp_path):
    report = tmp_path / "report.xml"
    options = ["-m", "reported", f"--junitxml={report}", "--fail-consistent"]
    output = collected(suite, *options).stdout
    result = []
    for case in ET.parse(report).iter("testcase"):
        if "reference_machine" in case.get("name"):  # of suites of the toy data
            continue
        ends = [child for child in case if child.tag != "properties"]
        end = ends[0] if ends else None
        outcome = "passed" if end is None else end.get("type") or end.tag
        result.append((outcome, "" if end is None else end.get("message", "")))

    numbers = read_suite(suite).numbers
    verdicts = [row.ours.verdict.kind for row in numbers]
    quoted = [row.checkpoint.verdict.kind for row in numbers if row.checkpoint]
    assert len({*verdicts}) > 6
    outcomes = OUTCOMES | {"consistent": "failure"}
    for verdict, (outcome, text) in zip([*verdicts, *quoted], result, strict=True):
        assert outcome == outcomes[verdict]
        assert verdict in text or outcome == "passed"
        assert verdict != "open" or re.search(LOOK, text)
    titles = {"printed numbers": verdicts, "scores of published checkpoints": quoted}
    for title, kinds in titles.items():
        line = next(row for row in output.splitlines() if f"{title}: " in row)
        told = re.findall(r"(\d+) ([a-z ,]+?)(?=, \d|$)", line.partition(": ")[2])
        assert {name: int(n) for n, name in told} == Counter(kinds)


@pytest.mark.slow
def test_a_wrong_folder_is_an_error(tmp_path):
    output = collected(tmp_path / "none", status=2).stdout
    told = "SENTBENCH_RESULTS: .*plan.json does not exist; name another folder"
    assert re.search(told, output)
    assert "Traceback" not in output
