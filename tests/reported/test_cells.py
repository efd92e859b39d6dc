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
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

OWN = os.environ.get("SENTBENCH_RESULTS")
RESULTS = Path(OWN or Path(__file__).parents[2] / "results" / "paper")
LABEL = ("source", "table", "method", "backbone", "variant", "task", "split")


@cache
def _judged():
    """The rows of the suite; None if there is none."""
    if not (OWN or (RESULTS / "plan.json").is_file()):
        # Nothing to import or compare: the default test run pays nothing for this file.
        return None
    from bench.judge.stage import read_suite
    from bench.utils.errors import UserError

    try:
        return read_suite(RESULTS)
    except UserError as error:
        raise pytest.Collector.CollectError(f"SENTBENCH_RESULTS: {error}") from None


@cache
def _named():
    """Each printed number of the suite with a name of its own; none if there is no suite."""
    named, seen = [], Counter()
    for row in _judged().numbers if _judged() else ():
        name = "-".join(filter(None, (getattr(row, part) for part in LABEL)))
        seen[name] += 1
        named.append((row, name if seen[name] == 1 else f"{name}-{seen[name]}"))
    return named


def _parameters(*, checkpoints=False):
    if not _named():
        reason = f"{RESULTS} holds no suite; run it, or set SENTBENCH_RESULTS"
        return [pytest.param(None, marks=pytest.mark.skip(reason=reason), id="no-results")]
    return [
        pytest.param(row, id=f"{name}-checkpoint" if checkpoints else name)
        for row, name in _named()
        if row.checkpoint or not checkpoints
    ]


@pytest.mark.reported
@pytest.mark.parametrize("row", _parameters())
def test_printed_score_is_reproduced(row, request, record_property):
    ours, kind, reason = row.ours, row.ours.verdict.kind, row.ours.verdict.reason
    record_property("verdict", kind)
    if kind in ("inconclusive", "not comparable", "not run"):
        pytest.skip(f"{kind}: {reason}")
    mean = "nothing" if ours.mean is None else f"{ours.mean:.2f}"
    sentence = f"{kind}: {row.value:.2f} is printed, {mean} is the mean of {ours.n} ({reason})"
    if kind == "consistent" and not request.config.getoption("fail_consistent"):
        pytest.xfail(sentence)
    if kind != "reproduced":
        pytest.fail(sentence, pytrace=False)


@pytest.mark.reported
@pytest.mark.parametrize("row", _parameters(checkpoints=True))
def test_published_checkpoint_scores_what_is_printed(row, record_property):
    side, verdict = row.checkpoint, row.checkpoint.verdict
    record_property("checkpoint", verdict.kind)
    if verdict.kind in ("not comparable", "not run"):
        pytest.skip(f"{verdict.kind}: {verdict.reason}")
    if verdict.kind != "reproduced":
        scores = f"{row.value:.2f} is printed, {side.mean:.2f} is its score"
        pytest.fail(f"{verdict.kind}: {scores} ({verdict.reason}): {row.published}", pytrace=False)


def _world():
    """The scores of a suite of the embedded world; none of another suite."""
    rows = _judged().world if _judged() else ()
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
        scores = f"{row.number:.2f} on the reference machine, {row.score:.2f} here"
        pytest.fail(f"{verdict.kind}: {scores} ({verdict.reason})", pytrace=False)
