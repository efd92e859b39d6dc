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
def _suite():
    """The suite; None if there is none."""
    if not (OWN or (RESULTS / "plan.json").is_file()):
        # Nothing to import or compare: the default test run pays nothing for this file.
        return None
    from bench.results.suite_results import read_suite
    from bench.utils.errors import UserError

    try:
        return read_suite(RESULTS)
    except UserError as error:
        raise pytest.Collector.CollectError(f"SENTBENCH_RESULTS: {error}") from None


@cache
def _cells():
    """Each cell of the suite with a name of its own; none if there is no suite."""
    if _suite() is None:
        return []
    from tests.support.cells import cells

    frame = cells(_suite())
    named, seen = [], Counter()
    for cell in frame.itertuples():
        name = "-".join(filter(None, (getattr(cell, part) for part in LABEL)))
        seen[name] += 1
        named.append((cell, name if seen[name] == 1 else f"{name}-{seen[name]}"))
    return named


def _parameters(*, checkpoints=False):
    if not _cells():
        reason = f"{RESULTS} holds no suite; run it, or set SENTBENCH_RESULTS"
        return [pytest.param(None, marks=pytest.mark.skip(reason=reason), id="no-results")]
    return [
        pytest.param(cell, id=f"{name}-checkpoint" if checkpoints else name)
        for cell, name in _cells()
        if cell.checkpoint or not checkpoints
    ]


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
    if cell.verdict == "consistent" and not request.config.getoption("fail_consistent"):
        pytest.xfail(sentence)
    if cell.verdict != "reproduced":
        pytest.fail(sentence, pytrace=False)


@pytest.mark.reported
@pytest.mark.parametrize("cell", _parameters(checkpoints=True))
def test_published_checkpoint_scores_what_is_printed(cell, record_property):
    verdict, reason = cell.checkpoint_verdict, cell.checkpoint_reason
    record_property("checkpoint", verdict)
    if verdict in ("not comparable", "not run"):
        pytest.skip(f"{verdict}: {reason}")
    if verdict != "reproduced":
        scores = f"{cell.printed:.2f} is printed, {cell.checkpoint_mean:.2f} is its score"
        pytest.fail(f"{verdict}: {scores} ({reason}): {cell.checkpoint}", pytrace=False)


def _world_cells():
    """The cells of the world's own numbers; none without a suite of it."""
    if _suite() is None:
        return []
    from bench.judge.world import judge_world

    cells = judge_world(_suite())
    return [pytest.param(cell, id=f"{cell.run.id}-{cell.task}-{cell.metric}") for cell in cells]


@pytest.mark.reported
@pytest.mark.parametrize("cell", _world_cells())
def test_score_is_as_on_the_reference_machine(cell):
    verdict = cell.verdict
    if verdict.kind in ("not comparable", "not run"):
        pytest.skip(f"{verdict.kind}: {verdict.reason}")
    if verdict.kind == "consistent":
        pytest.xfail(verdict.reason)
    if verdict.kind != "reproduced":
        scores = f"{cell.number:.2f} on the reference machine, {cell.score:.2f} here"
        pytest.fail(f"{verdict.kind}: {scores} ({verdict.reason})", pytrace=False)
