"""The rows of a suite: each value comes from the right part of what a run left, and a name is of
one system everywhere."""

from bench.judge.judge import judge
from bench.results.records import Outcome, Provenance
from tests.support.compared_runs import BASE, claim, scored, suite
from tests.support.rows import row_of, rows_of


def test_the_seconds_of_a_training_are_not_those_of_its_scoring():
    outcome = Outcome(status="finished", steps=300, best_step=250, seconds=171.49)
    made = Provenance(outcome=outcome, seconds=495.71)
    (row,) = judge(suite(scored("simcse", 1, 76.0, provenance=made))).runs
    assert (row.seconds, row.scoring_seconds) == (171.49, 495.71)
    assert (row.steps, row.best_step) == (300, 250)


def test_of_two_corpora_verdicts_and_comparisons_have_the_same_runs():
    """Those that are comparable with print, though the others were planned first: a page that
    judged the one and compared the other would have two systems under one name."""
    runs = [
        scored(method, seed, points + seed, corpus=corpus, id=f"{method}-{corpus}-{seed}")
        for corpus, points in (("other", 60.0), ("wiki1m", 76.0))
        for method in ("simcse", "sscl")
        for seed in (1, 2, 3)
    ]
    rows = judge(suite(*runs, baseline="simcse@official"))
    printed = {"source": "sscl", "table": "Table 2", "run": "sscl@official", "backbone": BASE}
    judged = row_of(rows.numbers, task="STS12", **printed)
    compared = row_of(rows.pairs, task="STS12", method="sscl")
    ids = tuple(f"sscl-wiki1m-{seed}" for seed in (1, 2, 3))
    assert (judged.runs[0].runs, compared.runs) == (ids, ids)
    assert (judged.ours.mean, compared.mean_a) == (78.0, 78.0)
    baseline = rows_of(rows.systems, leaderboard="sts", is_baseline=True)
    assert [row.corpus for row in baseline] == ["wiki1m"]
    told = [
        row.corpus for row in rows_of(rows.systems, leaderboard="sts") if row.difference is not None
    ]
    assert told == ["wiki1m"]


def test_a_claim_is_answered_from_its_own_training():
    runs = [
        scored(method, seed, 75.0 + 5 * (method == "sscl") + seed / 10)
        for method in ("simcse", "sscl")
        for seed in (1, 2, 3)
    ]
    for corpus, verdict in (("wiki1m", "better"), ("other", None)):
        rows = judge(suite(*runs, baseline="simcse", claims=[claim("sscl", corpus=corpus)]))
        assert row_of(rows.pairs).verdict == verdict
