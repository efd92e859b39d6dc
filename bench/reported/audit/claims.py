"""Checks across a paper: numbers in its text, hyper-parameter sweeps, splits."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, product
from typing import Any

from bench.datasets.tasks import CHINESE_TASKS, STS_TASKS
from bench.reported.audit.rows import (
    ANONYMOUS,
    DIFFERENCE,
    Finding,
    Row,
    finding,
    last_place,
    mean,
    shown,
)
from bench.utils.text import listed

# Running text may name a family of tasks rather than a task.
FAMILIES = {"STS": (*STS_TASKS, *CHINESE_TASKS, "Avg")}
# Findings that make a row an unsafe operand of a difference.
UNSAFE = ("average", "shift", "copy", "partial")


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
            cells = [(row, row.cells[name]) for row in like for name in family if name in row.cells]
            cells = [(row, cell) for row, cell in cells if not row.in_text] or cells
            # The text may round or truncate the table's number.
            unit = last_place(value)
            if not cells or any(-unit / 2 <= cell - value < unit for _, cell in cells):
                continue
            text = f"{claim.table} gives {shown(value)} for {claim.who} ({task}); "
            text += f"{listed(row.table for row, _ in cells)} has "
            text += listed(shown(cell) for _, cell in cells)
            yield finding("text", [claim, *(row for row, _ in cells)], text)


def _operands(claim: Row, method: str, task: str, rows: Iterable[Row]) -> list[Row]:
    """The rows that may be one side of a difference: those of the claim's variant, else of a
    compatible one."""
    like = [row for row in rows if _comparable(claim, row) and row.method == method]
    like = [row for row in like if task in row.cells]
    exactly = [row for row in like if row.words == claim.words]
    return exactly or [row for row in like if row.words <= claim.words or claim.words <= row.words]


def differences(rows: Sequence[Row], others: Sequence[Finding]) -> Iterator[Finding]:
    """Findings `difference` and `resting`: claimed differences that the rows do not give, or that
    use rows with `others`, the findings of the other checks."""
    tables = [row for row in rows if not row.in_text]
    known = {(one.kind, name) for one in others for name in one.rows}
    for claim in rows:
        left, _, right = claim.method.partition(" minus ")
        for task, value in claim.cells.items() if right else ():
            sides = [_operands(claim, method, task, tables) for method in (left, right)]
            if not all(sides):
                continue
            gaps = {(a, b): a.cells[task] - b.cells[task] for a, b in product(*sides)}
            pair = min(gaps, key=lambda pair: abs(gaps[pair] - value))
            text = f"{claim.table} gives {shown(value)} for {claim.who} ({task})"
            # Both sides and the claim are rounded.
            if abs(gaps[pair] - value) >= max(row.unit for row in pair) + last_place(value):
                tables_of = listed(row.table for row in pair)
                figures = " - ".join(shown(row.cells[task]) for row in pair)
                told = f"{text}; {tables_of} {figures} = {shown(gaps[pair])}"
                yield finding("difference", [claim, *pair], told)
            kinds = {row: [kind for kind in UNSAFE if (kind, row.name) in known] for row in pair}
            if unsafe := [row for row in pair if kinds[row]]:
                text += ", which rests on "
                text += listed(f"{row.name} (see: {', '.join(kinds[row])})" for row in unsafe)
                if task == "Avg" and any("average" in names for names in kinds.values()):
                    gap = mean(pair[0].figures) - mean(pair[1].figures)
                    text += f"; between the means of the rows it is {shown(gap)}"
                yield finding("resting", [claim, *pair], text)


def sweeps(rows: Sequence[Row]) -> Iterator[Finding]:
    """Finding `sweep`: a sweep agrees with the paper's other tables at one setting, except for a
    method at another.

    Splits are ignored here; `splits` checks them.
    """
    tables = [row for row in rows if not row.in_text]
    groups: dict[tuple[str, ...], dict[str, dict[str, Row]]] = {}
    for row in tables:
        for word in row.words:
            parameter, equals, _ = word.partition("=")
            if equals:
                rest = ", ".join(sorted(row.words - {word}))
                method = f"{row.method} ({rest})" if rest else row.method
                place = (row.source, row.table, row.backbone, row.metric, row.split, parameter)
                groups.setdefault(place, {}).setdefault(method, {})[word] = row
    for methods in groups.values():
        yield from _sweep(methods, tables)


def _sweep(methods: dict[str, dict[str, Row]], tables: Iterable[Row]) -> Iterator[Finding]:
    """The findings about one sweep (method -> setting -> row), given all rows of tables."""
    # method -> setting -> rows of other tables with the same numbers
    meeting: dict[str, dict[str, list[Row]]] = defaultdict(dict)
    for other, (method, settings) in product(tables, methods.items()):
        for setting, row in settings.items():
            alike = (other.source, other.model, other.metric) == (row.source, row.model, row.metric)
            if alike and other.table != row.table:
                shared = row.cells.keys() & other.cells.keys()
                if shared and all(row.cells[task] == other.cells[task] for task in shared):
                    meeting[method].setdefault(setting, []).append(other)
    settings_met = Counter(setting for met in meeting.values() for setting in met)
    usual, methods_there = max(settings_met.items(), key=lambda item: item[1], default=("", 0))
    if methods_there < 2:  # methods may have different defaults
        return
    like = listed(method for method in methods if usual in meeting[method])
    for method, met in meeting.items():
        if not met or usual in met or usual not in methods[method]:
            continue
        setting, elsewhere = next(iter(met.items()))
        here, there = methods[method][setting], methods[method][usual]
        task = "Avg" if "Avg" in here.cells else here.tasks[0]
        text = f"with {usual} the figures of {like} are printed in other tables too, "
        text += f"those of {method} with {setting} ({shown(here.cells[task])}, "
        text += f"as in {listed(row.table for row in elsewhere)}; "
        text += f"with {usual} {shown(there.cells[task])})"
        yield finding("sweep", [there, here, *elsewhere], text)


def _setting(word: str) -> tuple[str, str] | None:
    """Parameter and value of a word of a variant: `tau=0.05`, `12 transformer layers`."""
    if named := re.fullmatch(r"(.+?)=(.+)", word):
        return named[1], named[2]
    counted = re.fullmatch(r"(\d+) (.+)", word)
    return (counted[2], counted[1]) if counted else None


def _named_source(row: Row, rows: Iterable[Row]) -> str:
    """Who is quoted: by the row, or by another table of the paper for the same model and numbers;
    empty if nobody is named."""
    if row.quoted_from not in ANONYMOUS:
        return row.quoted_from
    for other in rows:
        alike = (other.source, *other.model, other.metric) == (row.source, *row.model, row.metric)
        shared = row.cells.keys() & other.cells.keys()
        equal = shared and all(row.cells[task] == other.cells[task] for task in shared)
        if alike and equal and other.quoted_from not in ANONYMOUS:
            return other.quoted_from
    return ""


def mixed(rows: Sequence[Row]) -> Iterator[Finding]:
    """Finding `mixed`: a sweep in which some points are quoted and the others are the paper's own.

    A method at a single setting that no other method has (no noise at all) belongs to the sweep of
    the others.
    """
    tables = [row for row in rows if not row.in_text]
    groups: dict[tuple[str, ...], dict[str, dict[str, Row]]] = {}
    for row in tables:
        for parameter, value in filter(None, map(_setting, sorted(row.words))):
            place = (row.source, row.table, row.backbone, row.metric, row.split, parameter)
            groups.setdefault(place, {}).setdefault(row.method, {})[value] = row
    for (*_, parameter), methods in groups.items():
        printed = Counter(value for settings in methods.values() for value in settings)
        ends = {
            value: row
            for settings in methods.values()
            for value, row in settings.items()
            if len(settings) == printed[value] == 1
        }
        for settings in methods.values():
            points = (ends | settings) if len(settings) > 1 else {}
            sources = {row: _named_source(row, tables) for row in points.values()}
            quoted = [row for row, source in sources.items() if source]
            if quoted and len(quoted) < len(sources):
                own = [row for row, source in sources.items() if not source]
                text = f"along {parameter}, {listed(row.who for row in quoted)} is quoted from "
                text += f"{listed(sources[row] for row in quoted)}; the paper's own runs are "
                text += listed(f"{row.method} ({row.variant})" for row in own)
                yield finding("mixed", [*quoted, *own], text)


Place = tuple[str, str, str]  # source, table, split


def splits(rows: Iterable[Row]) -> Iterator[Finding]:
    """Finding `split`: several numbers of a table that another table of the paper prints for
    another split."""
    figures: dict[Place, dict[tuple[Any, ...], Row]] = defaultdict(dict)
    for row in rows:
        if not row.in_text and row.split:
            own = figures[row.source, row.table, row.split]
            for task, value in row.cells.items():
                own.setdefault((row.model, row.metric, task, value), row)
    shared: dict[tuple[Place, str, tuple[Any, ...]], list[Place]] = defaultdict(list)
    for one, other in combinations(figures, 2):
        same = tuple(sorted(figures[one].keys() & figures[other].keys()))
        # A single number may agree by chance.
        if one[0] == other[0] and one[2] != other[2] and len(same) > 1:
            # Reported for the smaller table, of which a larger share is equal.
            small, large = sorted((one, other), key=lambda place: len(figures[place]))
            shared[small, large[2], same].append(large)
    for (here, split, same), places in shared.items():
        values = listed(f"{shown(cell[-1])} ({figures[here][cell].who})" for cell in same)
        tables = listed(table for _, table, _ in places)
        text = f"{values} are printed for {here[2]} here and for {split} in {tables}"
        concerned = [figures[place][cell] for place in (here, *places) for cell in same]
        yield finding("split", concerned, text)
