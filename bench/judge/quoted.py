"""Scores of methods of other papers, as they print them, beside ours."""

from collections.abc import Iterator

from bench.judge.numbers import deviations_from_print, select
from bench.judge.systems import scores_of
from bench.judged.rows import BoardRow, QuotedRow
from bench.reported import quoted
from bench.results.suite_results import SuiteResults


def quoted_rows(suite: SuiteResults, board: BoardRow) -> Iterator[QuotedRow]:
    """A row for each quoted row of a board; ours, if they can be compared."""
    for _, entry in quoted(board.name).iterrows():
        runs = [
            run
            for run in select(suite, entry.run, entry.backbone)
            if not deviations_from_print(run, entry.backbone, board.whole.metric)
        ]
        ours = scores_of(runs, board.whole)
        n = max(score.n for score in ours)
        yield QuotedRow.of(
            entry,
            board=board.name,
            name=entry["name"],
            printed={score.task: entry[score.task] for score in ours},
            setting=entry.run.partition("@")[2] if n else "",
            n=n,
            ours=ours if n else [],
        )
