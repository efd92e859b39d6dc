"""One test for each printed score: does the suite reproduce it?

    SENTBENCH_RESULTS=results/paper pytest -m reported [--fail-consistent]

The suite is the folder in SENTBENCH_RESULTS; results/paper if that is not set or empty. A test
passes for `reproduced` and fails for `lower`, `higher` and `diverged`. `consistent` is an expected
failure; with `--fail-consistent` it fails. What says nothing either way is skipped with its reason.
A number that is quoted from a published checkpoint has a second test: the checkpoint itself must
score it. A suite of the embedded world has a test for each of the world's own numbers. The last
lines count the verdicts.
"""

import os
from functools import cache
from pathlib import Path

import pytest

OWN = os.environ.get("SENTBENCH_RESULTS")
RESULTS = Path(OWN or Path(__file__).parents[2] / "results" / "paper")


@cache
def _suite():
    """The suite; None if there is none."""
    if not (OWN or (RESULTS / "plan.json").is_file()):
        # Nothing to import or compare: the default test run pays nothing for this file.
        return None
    from bench.judge.judge import judge
    from bench.results.suite_results import read_suite
    from bench.utils.errors import UserError

    try:
        return judge(read_suite(RESULTS))  # anew, whatever rows are stored
    except UserError as error:
        raise pytest.Collector.CollectError(f"SENTBENCH_RESULTS: {error}") from None


def _parameters(*, checkpoints=False):
    if _suite() is None:
        reason = f"{RESULTS} holds no suite; run it, or set SENTBENCH_RESULTS"
        return [pytest.param(None, marks=pytest.mark.skip(reason=reason), id="no-results")]
    end = "-checkpoint" if checkpoints else ""
    return [
        pytest.param(row, id=f"{row.address}{end}")
        for row in _suite().numbers
        if row.checkpoint or not checkpoints
    ]


@pytest.mark.reported
@pytest.mark.parametrize("row", _parameters())
def test_printed_score_is_reproduced(row, request, record_property):
    ours, verdict = row.ours, row.ours.verdict
    record_property("verdict", verdict.kind)
    if verdict.kind in ("inconclusive", "not comparable", "not run"):
        pytest.skip(f"{verdict.kind}: {verdict.reason}")
    sentence = f"{verdict.kind}: {row.value:.2f} is printed ({verdict.reason})"
    if ours.n:
        mean = f"{ours.mean:.2f} is the mean of {ours.n}"
        sentence = f"{verdict.kind}: {row.value:.2f} is printed, {mean} ({verdict.reason})"
    if verdict.kind == "consistent" and not request.config.getoption("fail_consistent"):
        pytest.xfail(sentence)
    if verdict.kind != "reproduced":
        pytest.fail(sentence, pytrace=False)


@pytest.mark.reported
@pytest.mark.parametrize("row", _parameters(checkpoints=True))
def test_published_checkpoint_scores_what_is_printed(row, record_property):
    verdict = row.checkpoint.verdict
    record_property("checkpoint", verdict.kind)
    if verdict.kind in ("not comparable", "not run"):
        pytest.skip(f"{verdict.kind}: {verdict.reason}")
    if verdict.kind != "reproduced":
        scores = f"{row.value:.2f} is printed, {row.checkpoint.mean:.2f} is its score"
        pytest.fail(f"{verdict.kind}: {scores} ({verdict.reason}): {row.published}", pytrace=False)


def _world():
    """The rows of the world's own numbers; none without a suite of it."""
    rows = _suite().world if _suite() else ()
    return [
        pytest.param(row, id=f"{row.run}-{row.backbone}-{row.seed}-{row.task}-{row.metric}")
        for row in rows
    ]


@pytest.mark.reported
@pytest.mark.parametrize("row", _world())
def test_score_is_as_on_the_reference_machine(row):
    verdict = row.verdict
    if verdict.kind in ("not comparable", "not run"):
        pytest.skip(f"{verdict.kind}: {verdict.reason}")
    if verdict.kind == "consistent":
        pytest.xfail(verdict.reason)
    if verdict.kind != "reproduced":
        score = "no score" if row.score is None else f"{row.score:.2f}"
        scores = f"{row.number:.2f} on the reference machine, {score} here"
        pytest.fail(f"{verdict.kind}: {scores} ({verdict.reason})", pytrace=False)
