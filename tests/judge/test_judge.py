"""The rows of runs: each value comes from the right part of what a run left."""

from bench.judge.judge import judge
from bench.results.records import CurvePoint, Outcome, Provenance
from tests.support.compared_runs import scored, suite


def test_a_row_has_the_seconds_of_training_apart_from_those_of_scoring():
    """Both files have a field of that name, as of status and reason."""
    curve = [CurvePoint(step=125, dev=79.0), CurvePoint(step=250, dev=80.5)]
    outcome = Outcome(
        status="finished", steps=300, best_step=250, best_dev=80.5, seconds=171.49, curve=curve
    )
    made = Provenance(outcome=outcome, seconds=495.71, date="2026-11-01")
    (row,) = judge(suite(scored("simcse", 1, 76.0, provenance=made))).runs
    assert (row.seconds, row.scoring_seconds, row.date) == (171.49, 495.71, "2026-11-01")
    assert (row.status, row.reason) == ("finished", "")
    assert (row.steps, row.best_step, row.best_dev) == (300, 250, 80.5)
    assert row.curve == {"step": [125, 250], "dev": [79.0, 80.5]}
