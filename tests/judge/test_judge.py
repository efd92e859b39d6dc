"""The rows of runs: each value comes from the right part of what a run left."""

from bench.judge.judge import judge
from bench.results.records import Outcome, Provenance
from tests.support.compared_runs import scored, suite


def test_the_seconds_of_a_training_are_not_those_of_its_scoring():
    outcome = Outcome(status="finished", steps=300, best_step=250, seconds=171.49)
    made = Provenance(outcome=outcome, seconds=495.71)
    (row,) = judge(suite(scored("simcse", 1, 76.0, provenance=made))).runs
    assert (row.seconds, row.scoring_seconds) == (171.49, 495.71)
    assert (row.steps, row.best_step) == (300, 250)
