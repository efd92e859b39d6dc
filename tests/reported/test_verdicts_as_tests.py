"""The `reported` tests pass, fail and skip as expected, on a suite with every verdict."""

import re
import sys
import xml.etree.ElementTree as ET
from collections import Counter

import pytest

from bench.judge.stage import read_suite
from tests.support.programs import ROOT, ended
from tests.support.synthetic_suite import claims, seeds, write_suite
from tests.support.table_suite import ENTRIES

BERT, LARGE = "bert-large-uncased", "roberta-large"


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    """Claims with the printed gains as margins, of differences that are the same at every seed."""
    base, large, bert = ({"backbone": name} for name in ("roberta-base", LARGE, BERT))
    other = [
        *[entry for entry in ENTRIES if entry.get("backbone") != LARGE],
        *seeds("sscl", [78.0], **bert, corpus="wiki-mini"),
        *seeds("gs-infonce", [78.0, 79.0, 79.5], **base),  # + 2
        *seeds("simcse", [78.0, 79.0, 80.0], **bert),
        *seeds("is-cse", [78.5, 79.5, 80.5], **bert),
        *seeds("simcse", [78.0, 79.0, 80.0], **large),
        *seeds("gs-infonce", [77.0, 78.0, 79.0], **large),
        *seeds("is-cse", [78.0, 79.0, 80.0], **large),
    ]
    claimed = [
        *claims("gs-infonce", margin=1.38),
        *claims("gs-infonce", margin=1.17, **base),
        *claims("is-cse", margin=1.06, **bert),
        *claims("gs-infonce", margin=0.31, **large),
        *claims("is-cse", margin=0.52, **large),
    ]
    folder = tmp_path_factory.mktemp("suite")
    return write_suite(folder, other, baseline="simcse", claims=claimed)


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


@pytest.mark.slow
@pytest.mark.parametrize("strict", [False, True])
def test_every_verdict_ends_as_it_should(suite, tmp_path, strict):
    report = tmp_path / "report.xml"
    options = ["-m", "reported", f"--junitxml={report}", *["--fail-consistent"] * strict]
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
    assert set(verdicts) == OUTCOMES.keys()
    assert set(quoted) == {"higher", "not run"}
    outcomes = OUTCOMES | ({"consistent": "failure"} if strict else {})
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
