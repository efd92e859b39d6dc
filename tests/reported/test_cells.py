"""One test for each printed score: does the suite reproduce it?

The suite is the folder in SENTBENCH_RESULTS, by default results/paper. What says nothing either way
is skipped with its reason, so `pytest -m reported -rs` is the account of what is missing.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

RESULTS = Path(
    os.environ.get("SENTBENCH_RESULTS") or Path(__file__).parents[2] / "results" / "paper"
)


def _parameters() -> list[object]:
    if not (RESULTS / "plan.json").is_file():
        # Nothing to import or compare: the default test run pays nothing for this file.
        reason = f"{RESULTS} holds no suite; run it, or set SENTBENCH_RESULTS"
        return [pytest.param(None, marks=pytest.mark.skip(reason), id="no-results")]
    from bench.comparison.reproduction import cells
    from bench.reported import LABEL
    from bench.results.suite_results import read_suite

    parameters = []
    for cell in cells(read_suite(RESULTS)).itertuples():
        parts = (getattr(cell, name) for name in (*LABEL, "task", "split"))
        name = "-".join(filter(None, parts))
        silent = cell.verdict in ("inconclusive", "not comparable", "not run")
        skip = [pytest.mark.skip(reason=f"{cell.verdict}: {cell.reason}")] if silent else []
        parameters.append(pytest.param(cell, marks=skip, id=name))
    return parameters


@pytest.mark.reported
@pytest.mark.parametrize("cell", _parameters())
def test_printed_score_is_borne_out(cell):
    ours = f"{cell.mean:.2f} is the mean of {cell.n} ({cell.reason})"
    told = f"{cell.verdict}: {cell.printed:.2f} is printed, {ours}"
    assert cell.verdict in ("reproduced", "consistent"), told
