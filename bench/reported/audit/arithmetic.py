"""Checks of a single printed row: its average, its accuracies, its scale."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from functools import cache
from math import ceil
from pathlib import Path

from bench.datasets.tasks import BOARDS, PROBING_TASKS
from bench.reported.audit.rows import DIFFERENCE, Finding, Row, finding, mean, shown
from bench.utils.files import read_json

MEANS = (3, 5)  # numbers of runs that a printed accuracy may average

# Items of the most frequent class in test sets with a fixed split, counted in SentEval's files.
MOST_FREQUENT = {"SST2": 912, "TREC": 138, "MRPC": 1147}
# Number of classes of the probing tasks, which SentEval describes as balanced; two of all others.
CLASSES = dict.fromkeys(PROBING_TASKS, 2) | {
    "Length": 6, "WordContent": 1000, "Depth": 8, "TopConstituents": 20
}  # fmt: skip

# The groups of tasks that an "Avg" can be the mean of.
_AVERAGED = [board.tasks for board in BOARDS.values() if len(board.tasks) > 1]


@cache
def _counts() -> dict[str, dict[str, int]]:
    """SentEval's published sizes: task -> split, or class for cross-validated tasks -> items."""
    content = read_json(Path(__file__).parents[2] / "datasets" / "senteval.json")
    return content["transfer"] | content["probing"]


def items(task: str) -> int | None:
    """Size of a task's test set; None for cross-validated tasks."""
    return _counts().get(task, {}).get("test")


def majority(task: str) -> Fraction:
    """Accuracy in points of a constant prediction of the most frequent class; 0 if unknown."""
    counts = _counts().get(task, {})
    if task in CLASSES:
        return Fraction(100, CLASSES[task])
    if task in MOST_FREQUENT:
        return Fraction(100 * MOST_FREQUENT[task], counts["test"])
    if not counts or "test" in counts:
        return Fraction(0)
    return Fraction(100 * max(counts.values()), sum(counts.values()))


def averages(rows: Iterable[Row]) -> Iterator[Finding]:
    """Findings `average` and `rounding`: averages that differ from the mean of their row."""
    for row in rows:
        board = next((tasks for tasks in _AVERAGED if {*tasks, "Avg"} <= row.cells.keys()), ())
        gap = row.cells["Avg"] - mean(row.cells[task] for task in board) if board else Fraction(0)
        if abs(gap) > row.unit / 2:
            printed = row.cells["Avg"]
            text = (
                f"{row.who}: the average is printed as {shown(printed)}, "
                f"the mean of the row is {float(printed - gap):.4f} ({float(gap):+.4f})"
            )
            if abs(gap) <= row.unit * 3 / 2:
                text += "; unrounded or truncated figures can give both"
                yield finding("rounding", [row], text)
            else:
                yield finding("average", [row], text)


def attainable(value: Fraction, unit: Fraction, n: int, runs: int = 1) -> bool:
    """Whether the mean accuracy of `runs` runs on `n` items, rounded or truncated to `unit`, can be
    `value`.

    Each run may have been rounded before averaging.
    """
    slack = unit / 2 if runs > 1 and Fraction(100, n) % unit else Fraction(0)
    step = Fraction(100, runs * n)
    # Rounded from [value - unit/2, value + unit/2], or truncated from [value, value + unit).
    above = ceil((value - unit / 2 - slack) / step) * step
    return above < value + unit + slack


def accuracies(rows: Iterable[Row]) -> Iterator[Finding]:
    """Findings `unattainable` and `runs`: accuracies that no whole number of correct test items
    gives."""
    cells = [
        (row, task, value)
        for row in rows
        if row.metric == "accuracy" and row.split == "test"
        for task, value in row.cells.items()
    ]
    for row, task, value in cells:
        n = items(task)
        if n is None or attainable(value, row.unit, n):
            continue
        correct = value * n // 100
        near = " or ".join(shown(Fraction(100 * count, n)) for count in (correct, correct + 1))
        able = {runs: attainable(value, row.unit, n, runs) for runs in MEANS}
        means = [f"the mean of {k} {'can' if able[k] else 'cannot'} give it" for k in MEANS]
        text = (
            f"{row.who}: {task} is printed as {shown(value)}; "
            f"one run on its {n:,} items gives {', '.join([near, *means])}"
        )
        yield finding("runs" if any(able.values()) else "unattainable", [row], text)


def scales(rows: Iterable[Row]) -> Iterator[Finding]:
    """Findings `range` and `chance`: scores outside their scale, and accuracies of a constant
    prediction."""
    for row in rows:
        for task, value in row.cells.items():
            text = f"{row.who}: {task} is printed as {shown(value)}"
            always = majority(task) if row.metric == "accuracy" else Fraction(0)
            if abs(value) > 100 and not row.metric.endswith(DIFFERENCE):
                yield finding("range", [row], f"{text}, outside -100 to 100")
            elif always and value <= always:
                relation = "exactly what" if value == always else "below what"
                text += f", {relation} a constant prediction gives ({shown(always)})"
                yield finding("chance", [row], text)
