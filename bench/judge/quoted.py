"""Scores of methods of other papers, as they print them, beside ours."""

from collections.abc import Iterator

from bench.judge.numbers import deviations_from_print, select
from bench.judge.statistics import known, mean_and_sd
from bench.judge.systems import points
from bench.judged.rows import BoardRow, QuotedRow, Score
from bench.reported import quoted
from bench.results.suite_results import SuiteResults


def quoted_rows(suite: SuiteResults, board: BoardRow) -> Iterator[QuotedRow]:
    """A row for each quoted row of a board; ours, if they can be compared."""
    tasks = (*board.whole.tasks, "Avg")
    for entry in quoted(board.name).to_dict("records"):
        runs = [
            run
            for run in select(suite, entry["run"], entry["backbone"])
            if not deviations_from_print(run, entry["backbone"], board.whole.metric)
        ]
        ours = []
        for task in tasks:
            values = points(runs, board.whole, task)
            mean, sd = mean_and_sd(values)
            ours.append(Score(task=task, values=values, mean=known(mean), sd=known(sd)))
        n = max(score.n for score in ours)
        yield QuotedRow(
            board=board.name,
            backbone=entry["backbone"],
            name=entry["name"],
            quoted_from=entry["quoted_from"],
            printed={task: entry[task] for task in tasks},
            setting=entry["run"].partition("@")[2] if n else "",
            n=n,
            ours=tuple(ours) if n else (),
        )
