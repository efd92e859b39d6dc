"""From the results of a suite to its rows (`bench.judged.rows`)."""

from bench.judge.best import with_standings
from bench.judge.heading import heading
from bench.judge.numbers import judge_numbers, number_rows
from bench.judge.orders import orders
from bench.judge.pairs import NothingToCompare, against, find
from bench.judge.quoted import quoted_rows
from bench.judge.runs import run_row
from bench.judge.series import figures
from bench.judge.settings import settings
from bench.judge.systems import beside_baseline, board_rows, system_rows
from bench.judge.world import judge_world
from bench.judged.rows import Judged, PairRow, QuotedRow, SystemRow
from bench.results.suite_results import RunResults, SuiteResults


def judge(suite: SuiteResults) -> Judged:
    """All rows of a suite."""
    tables = board_rows(suite)
    numbers = number_rows(suite, judge_numbers(suite))
    baseline: list[RunResults] = []
    pairs: list[PairRow] = []
    uncompared = ""
    if suite.plan.baseline:
        for results in find(suite, suite.plan.baseline).results.values():
            baseline += results
        try:
            pairs = against(suite, suite.plan.baseline)
        except NothingToCompare as error:
            uncompared = str(error)
    baseline_ids = {result.run.id for result in baseline}
    systems: list[SystemRow] = []
    quoted: list[QuotedRow] = []
    for board in tables:
        rows = system_rows(suite, board)
        if pairs:
            rows = beside_baseline(board, rows, pairs, baseline_ids)
        systems += with_standings(suite, board, rows)
        quoted += quoted_rows(suite, board)
    world = judge_world(suite)
    if all(row.verdict.kind == "not comparable" for row in world):
        world = []  # a suite of its own recipe
    return Judged(
        suite=heading(suite, tables, baseline, uncompared, orders(numbers, tables)),
        numbers=tuple(numbers),
        settings=tuple(settings()),
        quoted=tuple(quoted),
        world=tuple(world),
        systems=tuple(systems),
        pairs=tuple(pairs),
        series=tuple(figures(suite)),
        runs=tuple(map(run_row, suite.runs)),
    )
