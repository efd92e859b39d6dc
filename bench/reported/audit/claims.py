"""Checks across a paper: numbers in its text, hyper-parameter sweeps, splits."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import combinations, product
from typing import Any

from bench.datasets.tasks import CHINESE_TASKS, STS_TASKS
from bench.reported.audit.rows import (
    DIFFERENCE,
    Finding,
    Row,
    decimals,
    finding,
    listed,
    mean,
    shown,
)

# Running text may name a family of tasks rather than a task.
FAMILIES = {"STS": (*STS_TASKS, *CHINESE_TASKS, "Avg")}
UNSAFE = (
    "average",
    "shift",
    "copy",
    "partial",
)  # findings that make a row an unsafe operand of a difference


def _unit(value: Fraction) -> Fraction:
    return Fraction(1, 10 ** decimals(value))


def _comparable(claim: Row, row: Row) -> bool:
    """Whether paper, backbone and metric are equal and splits are compatible; a text may leave the
    split open."""
    metric = claim.metric.removesuffix(DIFFERENCE)
    same = (row.source, row.backbone, row.metric) == (claim.source, claim.backbone, metric)
    return same and (row.split == claim.split or not row.split or not claim.split)


def quoted_figures(rows: Sequence[Row]) -> Iterator[Finding]:
    """Finding `text`: scores in running text that differ from the paper's tables, or from its other
    text."""
    for claim in rows:
        if not claim.in_text or claim.metric.endswith(DIFFERENCE):
            continue
        like = [row for row in rows if _comparable(claim, row) and row.method == claim.method]
        like = [row for row in like if row.table != claim.table and claim.words <= row.words]
        for task, value in claim.cells.items():
            family = FAMILIES.get(task, (task,))
            printed = [
                (row, row.cells[name]) for row in like for name in family if name in row.cells
            ]
            printed = [(row, cell) for row, cell in printed if not row.in_text] or printed
            # The text may round or truncate the table's number.
            if not printed or any(
                -_unit(value) / 2 <= cell - value < _unit(value) for _, cell in printed
            ):
                continue
            text = f"{claim.table} gives {shown(value)} for {claim.who} ({task}); "
            text += f"{listed(row.table for row, _ in printed)} has {listed(shown(cell) for _, cell in printed)}"
            yield finding("text", [claim, *(row for row, _ in printed)], text)


def _operands(claim: Row, method: str, task: str, rows: Iterable[Row]) -> list[Row]:
    """The rows that may be one side of a difference: those of the claim's variant, else of a
    compatible one."""
    like = [
        row
        for row in rows
        if _comparable(claim, row) and row.method == method and task in row.cells
    ]
    exactly = [row for row in like if row.words == claim.words]
    return exactly or [row for row in like if row.words <= claim.words or claim.words <= row.words]


def differences(rows: Sequence[Row], others: Sequence[Finding]) -> Iterator[Finding]:
    """Findings `difference` and `resting`: claimed differences that the rows do not give, or that
    use unsafe rows.

    Args:
        rows: all printed rows.
        others: the findings of the other checks.
    """
    tables = [row for row in rows if not row.in_text]
    for claim in rows:
        left, _, right = claim.method.partition(" minus ")
        for task, value in claim.cells.items() if right else ():
            pairs = list(
                product(_operands(claim, left, task, tables), _operands(claim, right, task, tables))
            )
            if not pairs:
                continue
            one, other = min(
                pairs, key=lambda pair: abs(pair[0].cells[task] - pair[1].cells[task] - value)
            )
            difference = one.cells[task] - other.cells[task]
            text = f"{claim.table} gives {shown(value)} for {claim.who} ({task})"
            # Both sides and the claim are rounded.
            if abs(difference - value) >= max(one.unit, other.unit) + _unit(value):
                sides = (
                    f"{shown(one.cells[task])} - {shown(other.cells[task])} = {shown(difference)}"
                )
                yield finding(
                    "difference",
                    [claim, one, other],
                    f"{text}; {listed((one.table, other.table))} {sides}",
                )
            kinds = {
                row: [kind for kind in UNSAFE if _has_finding(kind, row, others)]
                for row in (one, other)
            }
            unsafe = [
                f"{row.name} (see: {', '.join(kinds[row])})" for row in (one, other) if kinds[row]
            ]
            if unsafe:
                text += f", which rests on {listed(unsafe)}"
                if task == "Avg" and any("average" in names for names in kinds.values()):
                    text += f"; between the means of the rows it is {shown(mean(one.figures) - mean(other.figures))}"
                yield finding("resting", [claim, one, other], text)


def _has_finding(kind: str, row: Row, findings: Iterable[Finding]) -> bool:
    return any(one.kind == kind and row.name in one.rows for one in findings)


def sweeps(rows: Sequence[Row]) -> Iterator[Finding]:
    """Finding `sweep`: a sweep agrees with the paper's other tables at one setting, except for a
    method at another.

    Splits are ignored here; `splits` checks them.
    """
    tables = [row for row in rows if not row.in_text]
    groups: dict[tuple[str, ...], dict[str, dict[str, Row]]] = defaultdict(
        lambda: defaultdict(dict)
    )
    for row in tables:
        for word in row.words:
            parameter, equals, _ = word.partition("=")
            if equals:
                rest = ", ".join(sorted(row.words - {word}))
                method = f"{row.method} ({rest})" if rest else row.method
                groups[row.source, row.table, row.backbone, row.metric, row.split, parameter][
                    method
                ][word] = row
    for methods in groups.values():
        yield from _sweep(methods, tables)


def _sweep(methods: dict[str, dict[str, Row]], tables: Iterable[Row]) -> Iterator[Finding]:
    """The findings about one sweep.

    Args:
        methods: method -> setting -> row of the sweep.
        tables: all rows of tables.
    """
    # method -> setting -> rows of other tables with the same numbers
    meeting: dict[str, dict[str, list[Row]]] = defaultdict(dict)
    for other, (method, settings) in product(tables, methods.items()):
        for setting, row in settings.items():
            alike = (other.source, other.model, other.metric) == (row.source, row.model, row.metric)
            shared = row.cells.keys() & other.cells.keys()
            if (
                alike
                and other.table != row.table
                and shared
                and all(row.cells[t] == other.cells[t] for t in shared)
            ):
                meeting[method].setdefault(setting, []).append(other)
    settings_met = Counter(setting for met in meeting.values() for setting in met)
    usual, methods_there = max(settings_met.items(), key=lambda item: item[1], default=("", 0))
    if methods_there < 2:  # methods may have different defaults
        return
    like = [method for method in methods if usual in meeting[method]]
    for method, met in meeting.items():
        if not met or usual in met or usual not in methods[method]:
            continue
        setting, elsewhere = next(iter(met.items()))
        here, there = methods[method][setting], methods[method][usual]
        task = "Avg" if "Avg" in here.cells else here.tasks[0]
        text = f"with {usual} the figures of {listed(like)} are printed in other tables too, those of {method} with "
        text += f"{setting} ({shown(here.cells[task])}, as in {listed(row.table for row in elsewhere)}; "
        text += f"with {usual} {shown(there.cells[task])})"
        yield finding("sweep", [there, here, *elsewhere], text)


Place = tuple[str, str, str]  # source, table, split


def splits(rows: Iterable[Row]) -> Iterator[Finding]:
    """Finding `split`: several numbers of a table that another table of the paper prints for
    another split."""
    figures: dict[Place, dict[tuple[Any, ...], Row]] = defaultdict(dict)
    for row in rows:
        if not row.in_text and row.split:
            for task, value in row.cells.items():
                figures[row.source, row.table, row.split].setdefault(
                    (row.model, row.metric, task, value), row
                )
    shared: dict[tuple[Place, str, tuple[Any, ...]], list[Place]] = defaultdict(list)
    for one, other in combinations(figures, 2):
        same = tuple(sorted(figures[one].keys() & figures[other].keys()))
        if (
            one[0] == other[0] and one[2] != other[2] and len(same) > 1
        ):  # a single number may agree by chance
            # Reported for the smaller table, of which a larger share is equal.
            small, large = sorted((one, other), key=lambda place: len(figures[place]))
            shared[small, large[2], same].append(large)
    for (here, split, same), places in shared.items():
        values = listed(
            f"{shown(value)} ({figures[here][model, metric, task, value].who})"
            for model, metric, task, value in same
        )
        text = f"{values} are printed for {here[2]} here and for {split} in {listed(table for _, table, _ in places)}"
        yield finding(
            "split", [figures[place][cell] for place in (here, *places) for cell in same], text
        )
