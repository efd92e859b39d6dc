"""From the results of a suite to its rows (`bench.judged.rows`)."""

from bench.judge.heading import heading
from bench.judge.numbers import judge_numbers, number_rows, setting_rows
from bench.judge.orders import orders
from bench.judge.pairs import against, find, results_on
from bench.judge.quoted import quoted_rows
from bench.judge.runs import run_row
from bench.judge.series import figures
from bench.judge.systems import board_rows, system_rows
from bench.judge.world import judge_world
from bench.judged.rows import Judged, PairRow, QuotedRow, SystemRow
from bench.results.suite_results import RunResults, SuiteResults
from bench.utils.errors import UserError


def judge(suite: SuiteResults) -> Judged:
    """All rows of a suite."""
    tables = board_rows(suite)
    numbers = number_rows(suite, judge_numbers(suite))
    baseline: list[RunResults] = []
    pairs: list[PairRow] = []
    uncompared = ""
    baseline_ids: list[str] = []
    if suite.plan.baseline:
        text = find(suite, suite.plan.baseline).text
        for backbone in dict.fromkeys(result.run.backbone for result in suite.runs):
            baseline += results_on(suite, text, backbone)
        try:
            pairs = against(suite, suite.plan.baseline)
            baseline_ids = [result.run.id for result in baseline]
        except UserError as error:
            uncompared = str(error)
    systems: list[SystemRow] = []
    quoted: list[QuotedRow] = []
    for board in tables:
        systems += system_rows(suite, board, pairs, baseline_ids)
        quoted += quoted_rows(suite, board)
    world = judge_world(suite)
    if all(row.verdict.kind == "not comparable" for row in world):
        world = []  # a suite of its own recipe
    return Judged.of(
        suite=heading(suite, tables, baseline, uncompared, orders(numbers, tables)),
        numbers=numbers,
        settings=setting_rows(),
        quoted=quoted,
        world=world,
        systems=systems,
        pairs=pairs,
        series=figures(suite),
        runs=[run_row(result) for result in suite.runs],
    )
