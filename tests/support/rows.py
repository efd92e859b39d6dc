"""Rows of a suite in memory, and one of them by its fields."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, TypeVar

from bench.judge import pairs
from bench.judge.numbers import judge_numbers, number_rows
from bench.judge.systems import leaderboard_rows, system_rows
from bench.judged.rows import NumberRow, PairRow, SystemRow
from bench.results.suite_results import SuiteResults

AnyRow = TypeVar("AnyRow")


def numbers_of(suite: SuiteResults) -> list[NumberRow]:
    return number_rows(judge_numbers(suite, leaderboard_rows(suite)))


def against(suite: SuiteResults, baseline: str) -> list[PairRow]:
    """All comparisons of a suite with a baseline, which needs no setting."""
    plan = suite.plan.model_copy(update={"baseline": baseline})
    return pairs.against(suite, leaderboard_rows(suite), replace(suite, plan=plan).baseline)


def systems_of(suite: SuiteResults, name: str = "sts") -> list[SystemRow]:
    """The systems on one of a suite's leaderboards."""
    leaderboard = next(
        leaderboard for leaderboard in leaderboard_rows(suite) if leaderboard.name == name
    )
    return system_rows(suite, leaderboard)


def rows_of(rows: Iterable[AnyRow], **fields: Any) -> list[AnyRow]:
    """The rows that have these fields."""
    return [row for row in rows if all(getattr(row, name) == fields[name] for name in fields)]


def row_of(rows: Iterable[AnyRow], task: str = "Avg", **fields: Any) -> AnyRow:
    """The only row of a task that has these fields."""
    (row,) = rows_of(rows, task=task, **fields)
    return row
