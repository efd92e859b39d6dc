"""What one row of figures can tell by itself: its average, its accuracies, its scale."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from functools import cache
from math import ceil
from pathlib import Path

from bench.datasets.tasks import BOARDS
from bench.reported.audit.rows import DIFFERENCE, Finding, Row, finding, mean, shown
from bench.utils.files import read_json

MEANS = (3, 5)  # runs that a printed accuracy may be the mean of

# The most frequent class of test sets that SentEval splits itself, counted in its files; of probing tasks, which
# SentEval describes as balanced, the number of classes.
MOST_FREQUENT = {"SST2": 912, "TREC": 138, "MRPC": 1147}
CLASSES = {
    "Length": 6,
    "WordContent": 1000,
    "Depth": 8,
    "TopConstituents": 20,
    **dict.fromkeys(("BigramShift", "Tense", "SubjNumber", "ObjNumber", "OddManOut", "CoordinationInversion"), 2),
}

# The tasks that an "Avg" beside them is the mean of.
_AVERAGED = [board.tasks for board in BOARDS.values() if len(board.tasks) > 1]


@cache
def _counts() -> dict[str, dict[str, int]]:
    """SentEval's published sizes, by task and by part: a split, or (where it cross-validates) a class."""
    content = read_json(Path(__file__).parents[2] / "datasets" / "senteval.json")
    return content["transfer"] | content["probing"]


def items(task: str) -> int | None:
    """The number of items of the one test set behind an accuracy; None where it is a mean over folds."""
    return _counts().get(task, {}).get("test")


def majority(task: str) -> Fraction | None:
    """The accuracy in points of an answer that is always the same class; None where it is not known."""
    if task in CLASSES:
        return Fraction(100, CLASSES[task])
    if task in MOST_FREQUENT:
        return Fraction(100 * MOST_FREQUENT[task], _counts()[task]["test"])
    counts = _counts().get(task, {})
    return Fraction(100 * max(counts.values()), sum(counts.values())) if counts and "test" not in counts else None


def averages(rows: Iterable[Row]) -> Iterator[Finding]:
    """`average` and `rounding`, as docs/audit.md reasons them."""
    for row in rows:
        board = next((tasks for tasks in _AVERAGED if {*tasks, "Avg"} <= row.cells.keys()), None)
        if board is None:
            continue
        center, printed = mean(row.cells[task] for task in board), row.cells["Avg"]
        gap = printed - center
        if abs(gap) <= row.unit / 2:
            continue
        said = f"{row.who}: the average is printed as {shown(printed)}, "
        said += f"the mean of the row is {float(center):.4f} ({float(gap):+.4f})"
        if abs(gap) > row.unit * 3 / 2:
            yield finding("average", [row], said)
        else:
            yield finding("rounding", [row], f"{said}; unrounded figures, or truncated ones, can give both")


def attainable(value: Fraction, unit: Fraction, n: int, runs: int = 1) -> bool:
    """Whether the mean accuracy of `runs` runs on `n` items, rounded or truncated to `unit`, can be `value`.

    The runs may have been rounded before their mean was taken, where that changes anything.
    """
    slack = unit / 2 if runs > 1 and Fraction(100, n) % unit else Fraction(0)
    step = Fraction(100, runs * n)
    # Rounded from [value - unit/2, value + unit/2], or truncated from [value, value + unit).
    above = ceil((value - unit / 2 - slack) / step) * step
    return above < value + unit + slack


def accuracies(rows: Iterable[Row]) -> Iterator[Finding]:
    """`unattainable` and `runs`: accuracies against the number of test items."""
    for row in rows:
        if row.metric != "accuracy" or row.split != "test":
            continue
        for task, value in row.cells.items():
            n = items(task)
            if n is None or attainable(value, row.unit, n):
                continue
            correct = value * n // 100
            near = " or ".join(shown(Fraction(100 * count, n)) for count in (correct, correct + 1))
            said = f"{row.who}: {task} is printed as {shown(value)}; one run on its {n:,} items gives {near}"
            able = {k: attainable(value, row.unit, n, k) for k in MEANS}
            for k in MEANS:
                said += f", the mean of {k} can{'' if able[k] else 'not'} be it"
            yield finding("runs" if any(able.values()) else "unattainable", [row], said)


def scales(rows: Iterable[Row]) -> Iterator[Finding]:
    """`range` and `chance`."""
    for row in rows:
        least, most = (0, 100) if row.metric.startswith("accuracy") else (-100, 100)
        if row.metric.endswith(DIFFERENCE):
            least, most = least - most, most - least
        for task, value in row.cells.items():
            said = f"{row.who}: {task} is printed as {shown(value)}"
            always = majority(task) if row.metric == "accuracy" else None
            if not least <= value <= most:
                yield finding("range", [row], f"{said}, outside {least} to {most}")
            elif always is not None and value <= always:
                relation = "just what" if value == always else "below what"
                said += f", {relation} naming one class throughout gives ({shown(always)})"
                yield finding("chance", [row], said)
