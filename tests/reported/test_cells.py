"""One test for each printed score: does the suite reproduce it?

    SENTBENCH_RESULTS=results/paper pytest -m reported [--strict]

The suite is the folder in SENTBENCH_RESULTS, by default results/paper. A test passes for
`reproduced` and fails for `lower`, `higher` and `diverged`. `consistent` is an expected failure;
with `--strict` it fails. What says nothing either way is skipped with its reason. The last line
counts the verdicts.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

OWN = os.environ.get("SENTBENCH_RESULTS")
RESULTS = Path(OWN or Path(__file__).parents[2] / "results" / "paper")
LABEL = ("source", "table", "method", "backbone", "variant", "task", "split")


def _parameters() -> list[object]:
    if not (RESULTS / "plan.json").is_file():
        if OWN:
            raise pytest.Collector.CollectError(
                f"SENTBENCH_RESULTS is {OWN!r}, which holds no plan.json; name a suite's folder"
            )
        # Nothing to import or compare: the default test run pays nothing for this file.
        missing = pytest.mark.skip(
            reason=f"{RESULTS} holds no suite; run it, or set SENTBENCH_RESULTS"
        )
        return [pytest.param(None, marks=missing, id="no-results")]
    from bench.comparison.reproduction import cells
    from bench.results.suite_results import read_suite

    parameters, seen = [], Counter[str]()
    for cell in cells(read_suite(RESULTS)).itertuples():
        name = "-".join(filter(None, (getattr(cell, part) for part in LABEL)))
        seen[name] += 1
        unique = name if seen[name] == 1 else f"{name}-{seen[name]}"
        parameters.append(pytest.param(cell, id=unique))
    return parameters


@pytest.mark.reported
@pytest.mark.parametrize("cell", _parameters())
def test_printed_score_is_reproduced(cell, request, record_property):
    record_property("verdict", cell.verdict)
    sentence = (
        f"{cell.verdict}: {cell.printed:.2f} is printed, "
        f"{cell.mean:.2f} is the mean of {cell.n} ({cell.reason})"
    )
    if cell.verdict in ("inconclusive", "not comparable", "not run"):
        pytest.skip(f"{cell.verdict}: {cell.reason}")
    if cell.verdict == "consistent" and not request.config.getoption("strict"):
        pytest.xfail(sentence)
    if cell.verdict != "reproduced":
        pytest.fail(sentence, pytrace=False)
