"""Consistency checks of the printed numbers: within their rows, with each other, with the size of
the test sets, and with what the papers say of them. docs/audit.md has the rules and their reasons,
findings.yaml the sentences."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations, pairwise, product
from math import ceil
from statistics import mean
from typing import Any

import pandas as pd
import yaml

from bench.datasets.tasks import BOARDS, CHINESE_TASKS, PROBING_TASKS, STS_TASKS, TASKS
from bench.reported import FOLDER
from bench.reported.number import numbers
from bench.reported.rows import (
    DIFFERENCE,
    FINDING_KINDS,
    Finding,
    Row,
    Rows,
    cells_of,
    described,
    finding,
    last_place,
    misfit,
    nested,
    read,
    same,
    shown,
)
from bench.utils.errors import listed

FEWEST = 3  # numbers that must agree for rows to count as equal; fewer may agree by chance
# SentEval's published sizes: task -> split, or class for cross-validated tasks -> items.
SIZES = {task.name: task.sizes for task in TASKS.values() if task.kind != "sts"}
# Items of the most frequent class in test sets with a fixed split, counted in SentEval's files.
MOST_FREQUENT = {"SST2": 912, "TREC": 138, "MRPC": 1147}
# Number of classes of the probing tasks, which SentEval describes as balanced; two of all others.
CLASSES = dict.fromkeys(PROBING_TASKS, 2)
CLASSES |= {"Length": 6, "WordContent": 1000, "Depth": 8, "TopConstituents": 20}
STATEMENTS = yaml.safe_load((FOLDER / "claims.yaml").read_text(encoding="utf-8"))["claims"]
# Findings that make a row an unsafe operand of a difference.
UNSAFE = ("average", "shift", "copy", "partial")


# --- Within a row


def averages(rows: Rows) -> Iterator[Finding]:
    """`average`, `rounding`: averages that are not the mean of their row."""
    boards = [{*board.tasks} for board in BOARDS.values() if len(board.tasks) > 1]
    for row in rows:
        if "Avg" in row.cells and {*row.tasks} in boards and abs(misfit(row)) > row.unit / 2:
            kind = "average" if abs(misfit(row)) > row.unit * 3 / 2 else "rounding"
            facts = {"mean": float(mean(row.figures)), "gap": float(misfit(row))}
            yield finding(kind, [row], printed=shown(row.cells["Avg"]), **facts)


def majority(task: str) -> Fraction:
    """Accuracy in points of a constant prediction of the most frequent class; 0 if unknown."""
    if task in CLASSES:
        return Fraction(100, CLASSES[task])
    counts = SIZES.get(task, {"": 0})
    if task in MOST_FREQUENT:
        return Fraction(100 * MOST_FREQUENT[task], counts["test"])
    return Fraction(100 * max(counts.values()), max(sum(counts.values()), 1))


def attainable(value: Fraction, unit: Fraction, items: int, runs: int = 1) -> bool:
    """Whether the mean accuracy of some runs, each perhaps rounded before, can be `value`, rounded
    or truncated to `unit`."""
    slack = unit / 2 if runs > 1 and Fraction(100, items) % unit else Fraction(0)
    step = Fraction(100, runs * items)
    # Rounded from [value - unit/2, value + unit/2], or truncated from [value, value + unit).
    above = ceil((value - unit / 2 - slack) / step) * step
    return above < value + unit + slack


def scales(rows: Rows) -> Iterator[Finding]:
    """`range`: scores outside their scale; `chance`: accuracies of a constant prediction;
    `unattainable`, `runs`: accuracies that no whole number of correct items gives."""
    for row, task, value in cells_of(rows):
        facts: dict[str, Any] = {"task": task, "printed": shown(value)}
        if abs(value) > 100:
            yield finding("range", [row], **facts)
        if row.metric != "accuracy":
            continue
        constant = majority(task)
        if value <= constant:
            relation = "exactly" if value == constant else "below"
            yield finding("chance", [row], **facts, relation=relation, constant=shown(constant))
        items = SIZES.get(task, {}).get("test")  # cross-validated tasks have no test set
        if items and row.split == "test" and not attainable(value, row.unit, items):
            correct = value * items // 100
            near = [shown(Fraction(100 * count, items)) for count in (correct, correct + 1)]
            able = {runs: attainable(value, row.unit, items, runs) for runs in (3, 5)}
            means = [f"the mean of {k} {'can' if able[k] else 'cannot'} give it" for k in able]
            facts |= {"items": items, "near": " or ".join(near), "means": ", ".join(means)}
            yield finding("runs" if any(able.values()) else "unattainable", [row], **facts)


# --- Between rows


def leading(rows: Rows) -> list[Row]:
    """The rows, first one whose numbers the fewest share and that, if possible, quotes nobody."""
    figures = [row.figures for row in rows]
    ranks = [(figures.count(row.figures), row.quoted_from not in ("", "unknown")) for row in rows]
    first = rows[ranks.index(min(ranks))]
    return [first, *(row for row in rows if row is not first)]


def copies(rows: Rows) -> Iterator[Finding]:
    """`copy`, `partial`, `shift`: rows of different labels with equal or shifted numbers."""
    prints: dict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        if len(row.tasks) >= FEWEST:
            prints[row.metric, row.split, row.tasks, row.figures].append(row)
    for equal in map(leading, prints.values()):
        # A row that quotes the paper of another row may use another label.
        papers = {row.paper for row in equal}
        independent = [
            row for row in equal if not any(name in row.quoted_from.lower() for name in papers)
        ]
        if len({(row.method, row.backbone) for row in independent}) > 1:
            facts = {"labels": described(equal), "count": len(equal[0].tasks)}
            are_averages_equal = len({row.cells.get("Avg", row.name) for row in equal}) == 1
            average = " and the same average" if are_averages_equal else ""
            yield finding("copy", equal, **facts, average=average)
    for first, second in combinations(prints.values(), 2):
        if same(first[0], second[0], "metric", "split", "tasks"):
            is_in_order = leading(first + second)[0] in first
            yield from likeness(*((first, second) if is_in_order else (second, first)))


def likeness(lefts: Rows, rights: Rows) -> Iterator[Finding]:
    """`partial`, `shift`: of the rows with two sets of figures of the same tasks."""
    left, right = lefts[0], rights[0]
    gaps = {task: left.cells[task] - right.cells[task] for task in left.tasks}
    differing = [task for task in gaps if gaps[task]]
    equal, average = len(gaps) - len(differing), ""
    share_label = {row.label for row in lefts} & {row.label for row in rights}
    facts = {"count": len(gaps), "labels": described(lefts), "others": described(rights)}
    if len({*gaps.values()}) == 1:
        shift = gaps[left.tasks[0]]
        pairs = [(a.cells, b.cells) for a, b in product(lefts, rights)]
        shifts = {a["Avg"] - b["Avg"] for a, b in pairs if "Avg" in a and "Avg" in b}
        if shift in shifts:
            several = " in one print of several" if len(shifts) > 1 else ""
            average = f", and so is the average{several}"
        facts["shift"] = f"{shown(abs(shift))} {'above' if shift > 0 else 'below'}"
        yield finding("shift", [*lefts, *rights], **facts, average=average)
    # Rows of one label are left to `labels`.
    elif FEWEST <= equal > len(differing) and not share_label:
        facts["changed"] = listed(
            f"{task} ({shown(left.cells[task])}, there {shown(right.cells[task])})"
            for task in differing
        )
        if "Avg" in left.cells and left.cells["Avg"] == right.cells.get("Avg"):
            average = f"; the average, {shown(left.cells['Avg'])}, is the same"
            fitting = [row for row in (left, right) if abs(misfit(row)) <= row.unit * 3 / 2]
            average += f" and fits {fitting[0].place} alone" if len(fitting) == 1 else ""
        yield finding("partial", [*lefts, *rights], **facts, equal=equal, average=average)


def labels(tables: Rows) -> Iterator[Finding]:
    """`label`, `cells`, `untrained`: one label printed several times with different numbers."""
    groups = defaultdict(list)
    for row in tables:
        groups[row.label].append(row)
    for (words, *_), group in groups.items():
        prints: dict[str, dict[Fraction, list[str]]] = defaultdict(lambda: defaultdict(list))
        for row, task, value in cells_of(group):
            prints[task][value].append(row.place)
        contested = [task for task, values in prints.items() if len(values) > 1]
        if not contested:
            continue
        concerned = leading([row for row in group if row.cells.keys() & {*contested}])
        trained = [row for row in concerned if row.words != words]
        kind = "label"
        if len({row.figures for row in trained}) > 1:
            kind = "untrained"
        elif contested == ["Avg"] and all(len(row.tasks) >= FEWEST for row in concerned):
            kind = "cells"
            # Reported for the average that fits its row worse.
            concerned.sort(key=lambda row: abs(misfit(row)), reverse=True)
        # Of many tasks, one is given as an example.
        example = "Avg" if "Avg" in contested else contested[0]
        values = []
        for task in contested if len(contested) <= 2 else [example]:
            printed = [f"{shown(value)} [{listed(at)}]" for value, at in prints[task].items()]
            values.append(f"{task} is {listed(printed)}")
        first, average = concerned[0], prints.get("Avg", {Fraction(0)})
        between = [
            f"{row.method} ({shown(row.cells['Avg'])})"
            for row in tables
            if same(row, first, "place", "backbone", "metric", "split")
            and not row.quoted_from
            and first.words <= row.words
            and min(average) < row.cells.get("Avg", 0) < max(average)
        ]
        yield finding(
            kind,
            concerned,
            count=f"{len(contested)} of {len(prints)}",
            settings=listed(sorted(word for row in trained for word in row.words - words) or [""]),
            values="; ".join(values),
            between=f"; between them, in {first.place}: {listed(between)}" if between else "",
        )


# --- Between text and tables


def comparable(claim: Row, method: str, rows: Rows) -> Rows:
    """The rows that a text may speak of; it may leave the split open."""
    return [
        row
        for row in rows
        if (row.method, row.metric) == (method, claim.metric.removesuffix(DIFFERENCE))
        and same(row, claim, "source", "backbone")
        and (row.split == claim.split or "" in (row.split, claim.split))
    ]


def quotations(rows: Rows) -> Iterator[Finding]:
    """`text`: scores in running text that differ from the paper's tables, or its other text."""
    for claim, task, value in cells_of(row for row in rows if row.in_text):
        # A text may speak of the STS tasks rather than of one.
        tasks = (*STS_TASKS, *CHINESE_TASKS, "Avg") if task == "STS" else (task,)
        cells = [
            (row, cell)
            for row, name, cell in cells_of(comparable(claim, claim.method, rows))
            if name in tasks and row.table != claim.table and claim.words <= row.words
        ]
        cells = [(row, cell) for row, cell in cells if not row.in_text] or cells
        # The text may round or truncate the table's number.
        unit = last_place(value)
        if cells and not any(-unit / 2 <= cell - value < unit for _, cell in cells):
            facts = {"task": task, "printed": shown(value)}
            facts["tables"] = listed(row.table for row, _ in cells)
            facts["values"] = listed(shown(cell) for _, cell in cells)
            yield finding("text", [claim, *(row for row, _ in cells)], **facts)


def differences(rows: Rows, tables: Rows, known: Sequence[Finding]) -> Iterator[Finding]:
    """`difference`, `resting`: claimed differences that the `tables` do not give, or that use rows
    with `known` findings."""
    flaws = defaultdict(list)
    for flaw in known:
        for name in flaw.rows if flaw.kind in UNSAFE else ():
            flaws[name].append(flaw.kind)
    for claim, task, value in cells_of(row for row in rows if " minus " in row.method):
        sides = []
        for method in claim.method.split(" minus "):
            like = [row for row in comparable(claim, method, tables) if task in row.cells]
            exactly = [row for row in like if row.words == claim.words]
            sides.append(exactly or [row for row in like if nested(row, claim)])
        gaps = [(a.cells[task] - b.cells[task], a, b) for a, b in product(*sides)]
        if not gaps:
            continue
        gap, *pair = min(gaps, key=lambda entry: abs(entry[0] - value))
        facts = {"task": task, "printed": shown(value)}
        # Both sides and the claim are rounded.
        if abs(gap - value) >= max(row.unit for row in pair) + last_place(value):
            facts["terms"] = " - ".join(shown(row.cells[task]) for row in pair)
            facts |= {"gap": shown(gap), "tables": listed(row.table for row in pair)}
            yield finding("difference", [claim, *pair], **facts)
        flawed = [row.name for row in pair if row.name in flaws]
        unsafe = [f"{name} (see: {', '.join(flaws[name])})" for name in flawed]
        if unsafe:
            means = ""
            if task == "Avg" and any("average" in flaws[name] for name in flawed):
                gap = mean(pair[0].figures) - mean(pair[1].figures)
                means = f"; between the means of the rows it is {shown(gap)}"
            yield finding("resting", [claim, *pair], **facts, unsafe=listed(unsafe), means=means)


def comparisons(claim: dict[str, Any], rows: Rows) -> Iterator[tuple[bool, str, Row, Row]]:
    """What a statement compares: whether it is as it says, the figures as a clause, and the rows,
    first the one that it says is higher."""
    for high, low in product(rows, repeat=2):
        are_named = claim.get("above", {}).get(high.method) == low.method
        # GS-InfoNCE has a variant that SimCSE cannot have; SSCL-BERT (avg) is not BERT (cls).
        if are_named and same(high, low, "backbone", "metric", "split") and nested(high, low):
            for task in high.tasks:
                clause = f"{task} is {shown(high.cells[task])} for {high.who}"
                clause += f" and {shown(low.cells[task])} for {low.method}"
                yield high.cells[task] > low.cells[task], clause, high, low
    at = {row.variant: row for row in rows if claim.get("method", row.method) == row.method}
    for order in ("rising", "falling"):
        swept = [at[variant] for variant in claim.get(order, []) if variant in at]
        for pair in pairwise(swept):
            figures = [f"{shown(row.cells['Avg'])} at {row.variant}" for row in pair]
            high, low = pair if order == "falling" else pair[::-1]
            is_so = high.cells["Avg"] > low.cells["Avg"]
            yield is_so, f"Avg is {' and '.join(figures)}", high, low


def statements(tables: Rows, claims: Sequence[dict[str, Any]]) -> Iterator[Finding]:
    """`statement`: statements in words that figures of their table contradict."""
    for claim in claims:
        place = claim["source"], claim["table"]
        rows = [row for row in tables if (row.source, row.table) == place]
        compared = [*comparisons(claim, rows)]
        against = [entry for entry in compared if not entry[0]]
        if against:
            facts = {"where": claim["where"], "quote": claim["quote"], "count": len(compared)}
            facts |= {"against": len(against), "clauses": "; ".join(entry[1] for entry in against)}
            concerned = [row for entry in against for row in entry[2:]]
            yield finding("statement", concerned, **facts)


def findings(
    printed: pd.DataFrame | None = None, claims: Sequence[dict[str, Any]] = STATEMENTS
) -> list[Finding]:
    """The findings about printed numbers (by default `numbers()`) and what is said of them."""
    rows = read(pd.DataFrame(numbers()) if printed is None else printed)
    tables = [row for row in rows if not row.in_text]
    known = [*averages(rows), *scales(rows), *copies(rows), *labels(tables), *quotations(rows)]
    known += statements(tables, claims)
    known += differences(rows, tables, known)
    return sorted(known, key=lambda finding: [*FINDING_KINDS].index(finding.kind))
