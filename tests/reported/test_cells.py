"""One test for each printed score: does the suite reproduce it?

    SENTBENCH_RESULTS=results/paper pytest -m reported [--fail-consistent]

The suite is the folder in SENTBENCH_RESULTS; results/paper if that is not set or empty. A test
passes for `reproduced` and fails for `lower`, `higher` and `diverged`. `consistent` is an expected
failure; with `--fail-consistent` it fails. A printed gain that the suite claims passes if it is
`better`; better, and smaller than printed, is an expected failure; `worse`, or smaller than printed
alone, fails. What is open is skipped with its next look, and what says nothing either way with its
reason. A number that is quoted from a published checkpoint has a second test: the checkpoint itself
must score it. A suite of the toy data has a test for each of the world's own numbers. The
last lines count the verdicts.
"""

import os
from functools import cache
from pathlib import Path

import pytest

from tests.support.ends import end

OWN = os.environ.get("SENTBENCH_RESULTS")
RESULTS = Path(OWN or Path(__file__).parents[2] / "results" / "paper")


@cache
def _suite():
    """The suite; None if there is none."""
    if not (OWN or (RESULTS / "plan.json").is_file()):
        # Nothing to import or compare: the default test run pays nothing for this file.
        return None
    from bench.judge.judge import judge
    from bench.results.suite_results import read_results
    from bench.utils.errors import UserError

    try:
        return judge(read_results(RESULTS))  # anew, whatever rows are stored
    except UserError as error:
        raise pytest.Collector.CollectError(f"SENTBENCH_RESULTS: {error}") from None


def _parameters(rows, name):
    """The rows of a suite that a function gives, each with the name of its test."""
    if _suite() is None:
        reason = f"{RESULTS} holds no suite; run it, or set SENTBENCH_RESULTS"
        return [pytest.param(None, marks=pytest.mark.skip(reason=reason), id="no-results")]
    return [pytest.param(row, id=name.format(row=row)) for row in rows(_suite())]


@pytest.mark.reported
@pytest.mark.parametrize("row", _parameters(lambda suite: suite.numbers, "{row.address}"))
def test_printed_score_is_reproduced(row, request, record_property):
    record_property("verdict", row.ours.verdict.kind)
    scores = f"{row.value:.2f} is printed"
    if row.ours.n:
        scores += f", {row.ours.mean:.2f} is the mean of {row.ours.n}"
    end(row.ours.verdict, scores, strict=request.config.getoption("fail_consistent"))


def _quoting(suite):
    return [row for row in suite.numbers if row.checkpoint]


@pytest.mark.reported
@pytest.mark.parametrize("row", _parameters(_quoting, "{row.address}-checkpoint"))
def test_published_checkpoint_scores_what_is_printed(row, record_property):
    side = row.checkpoint
    record_property("checkpoint", side.verdict.kind)
    mean = f"{side.mean:.2f}" if side.n else "no score"
    end(side.verdict, f"{row.value:.2f} is printed, {mean} is that of {row.published}")


WORLD = "{row.run}-{row.backbone}-{row.seed}-{row.task}-{row.metric}"


@pytest.mark.reported
@pytest.mark.parametrize("row", _parameters(lambda suite: suite.world, WORLD))
def test_score_is_as_on_the_reference_machine(row):
    score = "no score" if row.score is None else f"{row.score:.2f}"
    end(row.verdict, f"{row.number:.2f} on the reference machine, {score} here")
