"""The order of printed rows: Kendall's tau and its interval, against brute force."""

from itertools import combinations, product
from math import isnan, nan, sqrt

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import kendalltau

from bench.judge.orders import expected_tau, kendall, orders, resampled_means, tau_interval
from bench.judge.stage import judge_plans
from bench.judge.systems import board_rows
from bench.results.suite_results import read_results
from tests.oracles.order_coverage import below_expected, covered
from tests.oracles.rule import DOCUMENT, percent
from tests.support.rows import numbers_of, rows_of
from tests.support.synthetic_suite import seeds, write_suite

# --- Kendall's tau-b ---


def brute_force(x, y):
    """Tau-b by counting pairs."""
    found = {"same": 0, "other": 0, "x": 0, "y": 0}
    for (a, b), (c, d) in combinations(zip(x, y, strict=True), 2):
        if a != c and b != d:
            found["same" if (a < c) == (b < d) else "other"] += 1
        found["x"] += a != c
        found["y"] += b != d
    untied = sqrt(found["x"] * found["y"])
    return (found["same"] - found["other"]) / untied if untied else nan


RANKS = st.integers(0, 5)


@given(st.lists(st.tuples(RANKS, RANKS), min_size=2, max_size=9))
def test_tau_is_that_of_brute_force_and_of_scipy(pairs):
    x, y = np.array(pairs, dtype=float).T
    found = kendall(x, np.stack([y, -y, x]))
    expected = pytest.approx(brute_force(x, y), nan_ok=True)
    assert (found[0], -found[1]) == (expected, expected)
    assert kendalltau(x, y).statistic == expected
    assert isnan(found[2]) == (len(set(x)) == 1)


# --- Bootstrap ---


def exact_interval(printed, ours):
    """The interval over all bootstrap samples of all rows, each as likely as the others."""

    def means(scores):
        mean, scale = np.mean(scores), sqrt(len(scores) / max(1, len(scores) - 1))
        samples = product(scores, repeat=len(scores))
        return [mean + scale * (np.mean(sample) - mean) for sample in samples]

    taus = [brute_force(printed, drawn) for drawn in product(*map(means, ours))]
    return tuple(np.quantile(taus, (0.025, 0.975), method="inverted_cdf"))


@pytest.mark.parametrize(
    "ours",
    [
        [[1.0, 2.0, 4.0], [3.0, 3.5, 5.0], [5.5]],  # the last row has no seeds
        [[3.0], [2.9, 2.95, 3.3], [1.0], [0.8, 1.01, 1.4]],
    ],
)
def test_interval_is_that_of_all_samples(ours, monkeypatch):
    monkeypatch.setattr("bench.judge.orders.DRAWS", 20_000)
    printed = list(range(len(ours)))
    assert tau_interval(printed, ours) == pytest.approx(exact_interval(printed, ours))
    assert all(map(isnan, tau_interval([1] * len(ours), ours)))


def test_expected_tau():
    assert expected_tau([[1.0, 2.0, 3.0], [11.0, 12.0, 13.0], [21.0]]) == 1.0
    # One seed of the first row in three is above the second: one of three pairs is reversed.
    assert expected_tau([[1.0, 2.0, 9.0], [6.0, 6.0, 6.0], [21.0]]) == pytest.approx(1 / 3)


@given(st.lists(st.floats(0, 100), min_size=2, max_size=8))
def test_the_drawn_means_vary_as_a_mean_does(scores):
    assume(np.std(scores) > 0.01)
    drawn = resampled_means(scores, np.random.default_rng(1), 20_000)
    assert drawn.mean() == pytest.approx(np.mean(scores), abs=0.05 * np.std(scores))
    assert drawn.var() == pytest.approx(np.var(scores, ddof=1) / len(scores), rel=0.1)


@pytest.mark.nightly
def test_the_document_has_the_least_coverage_and_the_most_below_the_expected():
    lowest, highest = (percent(share(12, 0.3, 3)) for share in (covered, below_expected))
    text = " ".join(DOCUMENT.read_text(encoding="utf-8").split())
    assert f"{lowest} % (12 rows, 0.3 points apart, 3 seeds) to" in text
    assert f"to {highest} % have a tau below the expected one" in text


# --- From scores to tables ---

# Averages in IS-CSE's Table 1 on bert-base-uncased: 56.80, 76.25 and 78.30.
ROWS = ("untrained", "simcse", "is-cse")
TABLE = ("is-cse", "Table 1", "bert-base-uncased")


def runs_of(method, *means, count=3):
    """Runs of a method, of equal scores on all tasks, for each of several means."""
    return seeds(method, [m + step for m in means for step in (-0.3, 0.0, 0.3)[:count]])


def suite_of(folder, means, *, count=3, more=()):
    """A suite with the methods of `ROWS` and these means; the first is untrained."""
    untrained = {"method": "untrained", "setting": "paper", "scores": float(means[0])}
    rest = zip(ROWS[1:], means[1:], strict=True)
    trained = [run for method, mean in rest for run in runs_of(method, mean, count=count)]
    return read_results(write_suite(folder, [untrained, *trained, *more]))


def orders_of(suite):
    return orders(numbers_of(suite), board_rows(suite))


def order_of(suite, source, table, backbone):
    """The order of a table, or of the board of STS; None if there is none."""
    board = "" if source else "sts"
    where = {"source": source, "table": table, "board": board, "backbone": backbone}
    found = rows_of(orders_of(suite), **where)
    assert len(found) <= 1
    return found[0] if found else None


@pytest.mark.parametrize(
    ("means", "tau"), [((57, 76, 78), 1.0), ((57, 78, 76), 1 / 3), ((79, 78, 76), -1.0)]
)
def test_the_order_of_a_table_and_of_a_board(tmp_path, means, tau):
    suite = suite_of(tmp_path, means)
    for where in (TABLE, ("", "", TABLE[2])):
        row = order_of(suite, *where)
        assert (row.rows, row.seeds) == (3, 3)
        assert (row.tau, row.low, row.high) == pytest.approx((tau, tau, tau))
    assert order_of(suite, "sscl", "Table 2", TABLE[2]) is None  # it shares only one row with ours


def test_rows_that_diverged_are_left_out(tmp_path):
    diverged = {"method": "simcse", "seed": 9, "status": "diverged", "reason": "loss is nan"}
    suite = suite_of(tmp_path, (57, 76, 78), more=[diverged])
    assert orders_of(suite) == []  # two rows are left


def test_rows_that_cannot_be_compared_with_print_are_left_out(tmp_path):
    untrained = {"method": "untrained", "setting": "paper", "scores": 57.0}
    elsewhere = [run | {"corpus": "wiki-mini"} for run in runs_of("is-cse", 78)]
    suite = read_results(write_suite(tmp_path, [untrained, *runs_of("simcse", 76), *elsewhere]))
    assert order_of(suite, *TABLE) is None  # two rows are left


def test_two_seeds_give_tau_without_an_interval(tmp_path):
    row = order_of(suite_of(tmp_path, (57, 76, 78), count=2), *TABLE)
    assert (row.tau, row.seeds, row.low, row.high, row.expected) == (1.0, 2, None, None, None)


def test_the_same_run_counts_once(tmp_path):
    """SSCL's Table 7 prints two numbers for the same run of BERT."""
    bert = {"method": "untrained[pooler=cls_before_pooler]", "setting": "paper", "scores": 30.0}
    suite = suite_of(tmp_path, (57, 76, 78), more=[bert, *runs_of("sscl", 78)])
    printed = rows_of(numbers_of(suite), source="sscl", table="Table 7", ranks=True)
    ranked = [row.run for row in printed if row.ours.n]
    assert len(ranked) == 4
    assert order_of(suite, "sscl", "Table 7", TABLE[2]).rows == len(set(ranked)) == 3


def test_averages_rank_the_rows_or_else_the_only_task():
    tasks = {}
    for row in rows_of(judge_plans([]).numbers, ranks=True):
        tasks.setdefault((row.source, row.table), set()).add(row.task)
        assert row.metric in ("spearman", "accuracy")
    assert tasks["is-cse", "Table 4"] == {"Avg"}  # prints STS-B and the average
    assert tasks["is-cse", "Table 5"] == {"STS-B"}
    assert ("sscl", "Table 4") not in tasks  # three tasks and no average
