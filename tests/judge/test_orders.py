"""The order of printed rows: which rows are ranked, and their tau."""

import pytest

from bench.judge.orders import orders
from bench.judge.stage import judge_plans
from bench.judge.systems import board_rows
from bench.results.suite_results import read_results
from tests.support.rows import numbers_of, rows_of
from tests.support.synthetic_suite import seeds, write_suite

# Averages in IS-CSE's Table 1 on bert-base-uncased: 56.80, 76.25 and 78.30.
ROWS = ("untrained", "simcse", "is-cse")
TABLE = ("is-cse", "Table 1", "bert-base-uncased")


def runs_of(method, mean):
    """Runs of a method, each of equal scores on all tasks."""
    return seeds(method, [mean - 0.3, mean, mean + 0.3])


def suite_of(folder, means, *, more=()):
    """A suite with the methods of `ROWS` and these means; the first is untrained."""
    untrained = {"method": "untrained", "setting": "paper", "scores": float(means[0])}
    rest = zip(ROWS[1:], means[1:], strict=True)
    trained = [run for method, mean in rest for run in runs_of(method, mean)]
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
        assert row.tau == pytest.approx(tau)
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
