"""Consistency checks of the printed numbers: within their rows, with each other, and with the size
of the test sets. docs/audit.md has the rules and their reasons, findings.yaml the sentences."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations, product
from math import ceil
from statistics import mean, mode
from typing import Any

import pandas as pd

from bench.datasets.tasks import BOARDS, PROBING_TASKS, TASKS
from bench.reported import claims
from bench.reported import printed as all_printed
from bench.reported.rows import (
    FINDING_KINDS,
    Finding,
    Row,
    Rows,
    cells_of,
    described,
    finding,
    read,
    same,
    shown,
)
from bench.utils.errors import listed

ANONYMOUS = ("", "unknown")  # values of quoted_from: the paper's own result, or an unnamed source
FEWEST = 3  # numbers that must agree for rows to count as equal; fewer may agree by chance
# SentEval's published sizes: task -> split, or class for cross-validated tasks -> items.
SIZES = {task.name: task.sizes for task in TASKS.values() if task.kind != "sts"}
# Items of the most frequent class in test sets with a fixed split, counted in SentEval's files.
MOST_FREQUENT = {"SST2": 912, "TREC": 138, "MRPC": 1147}
# Number of classes of the probing tasks, which SentEval describes as balanced; two of all others.
CLASSES = dict.fromkeys(PROBING_TASKS, 2)
CLASSES |= {"Length": 6, "WordContent": 1000, "Depth": 8, "TopConstituents": 20}


def averages(rows: Rows) -> Iterator[Finding]:
    """`average`, `rounding`: averages that are not the mean of their row."""
    boards = [board.tasks for board in BOARDS.values() if len(board.tasks) > 1]
    for row, tasks in product(rows, boards):
        if {*tasks, "Avg"} <= row.cells.keys():
            expected, average = mean(row.cells[task] for task in tasks), row.cells["Avg"]
            gap = average - expected
            if abs(gap) > row.unit / 2:
                kind = "average" if abs(gap) > row.unit * 3 / 2 else "rounding"
                facts = {"printed": shown(average), "mean": float(expected), "gap": float(gap)}
                yield finding(kind, [row], **facts)


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
        if abs(value) > 100 and row.metric == row.score:
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
            words = [f"the mean of {k} {'can' if able[k] else 'cannot'} give it" for k in able]
            facts |= {"items": items, "near": " or ".join(near), "means": ", ".join(words)}
            yield finding("runs" if any(able.values()) else "unattainable", [row], **facts)


def leading(rows: Rows) -> Rows:
    """The rows, first one whose numbers the fewest share and that, if possible, quotes nobody."""
    numbers = [row.figures for row in rows]
    ranks = [(numbers.count(row.figures), row.quoted_from not in ANONYMOUS) for row in rows]
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
            has_another = len({row.cells.get("Avg", row.name) for row in equal}) > 1
            average = "" if has_another else " and the same average"
            facts = {"labels": described(equal), "count": len(equal[0].tasks)}
            yield finding("copy", equal, **facts, average=average)
    for pair in combinations(prints.values(), 2):
        if not same(pair[0][0], pair[1][0], "metric", "split", "tasks"):
            continue
        is_first = leading([*pair[0], *pair[1]])[0] in pair[0]
        lefts, rights = pair if is_first else pair[::-1]
        left, right = lefts[0], rights[0]
        shared = {row.label for row in lefts} & {row.label for row in rights}
        gaps = {task: left.cells[task] - right.cells[task] for task in left.tasks}
        differing = [task for task in gaps if gaps[task]]
        facts = {"count": len(gaps), "labels": described(lefts), "others": described(rights)}
        if len({*gaps.values()}) == 1:
            shift = gaps[left.tasks[0]]
            pairs = [(a.cells, b.cells) for a, b in product(lefts, rights)]
            averages = {a["Avg"] - b["Avg"] for a, b in pairs if "Avg" in a and "Avg" in b}
            average = ", and so is the average" if shift in averages else ""
            if average and len(averages) > 1:
                average += " in one print of several"
            facts["shift"] = f"{shown(abs(shift))} {'above' if shift > 0 else 'below'}"
            yield finding("shift", [*lefts, *rights], **facts, average=average)
        # Rows of one label are left to `labels`.
        elif FEWEST <= len(gaps) - len(differing) > len(differing) and not shared:
            facts["equal"] = len(gaps) - len(differing)
            facts["changed"] = listed(
                f"{task} ({shown(left.cells[task])}, there {shown(right.cells[task])})"
                for task in differing
            )
            average = ""
            if "Avg" in left.cells and left.cells["Avg"] == right.cells.get("Avg"):
                average = f"; the average, {shown(left.cells['Avg'])}, is the same"
                fitting = [row for row in (left, right) if misfit(row) <= row.unit * 3 / 2]
                average += f" and fits {fitting[0].place} alone" if len(fitting) == 1 else ""
            yield finding("partial", [*lefts, *rights], **facts, average=average)


def misfit(row: Row) -> Fraction:
    # How far the printed average is from the mean of the row.
    return abs(row.cells["Avg"] - mean(row.figures))


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
            concerned = sorted(concerned, key=misfit, reverse=True)
        # Of many tasks, one is given as an example.
        example = "Avg" if "Avg" in contested else contested[0]
        values = []
        for task in contested if len(contested) <= 2 else [example]:
            printed = [f"{shown(value)} [{listed(at)}]" for value, at in prints[task].items()]
            values.append(f"{task} is {listed(printed)}")
        first, averages = concerned[0], prints.get("Avg", {Fraction(0)})
        between = [
            f"{row.method} ({shown(row.cells['Avg'])})"
            for row in tables
            if same(row, first, "place", "backbone", "metric", "split")
            and not row.quoted_from
            and first.words <= row.words
            and min(averages) < row.cells.get("Avg", 0) < max(averages)
        ]
        yield finding(
            kind,
            concerned,
            count=f"{len(contested)} of {len(prints)}",
            settings=listed(sorted(word for row in trained for word in row.words - words) or [""]),
            values="; ".join(values),
            between=f"; between them, in {first.place}: {listed(between)}" if between else "",
        )


def elsewhere(row: Row, tables: Rows) -> Rows:
    """The rows of the paper's other tables with the same numbers for the same model, as far as both
    have some."""
    rows = []
    for again in tables:
        if again.table != row.table and same(row, again, "source", "method", "backbone", "metric"):
            tasks = row.cells.keys() & again.cells.keys()
            if tasks and all(row.cells[task] == again.cells[task] for task in tasks):
                rows.append(again)
    return rows


def sweeps(tables: Rows) -> Iterator[Finding]:
    """`sweep`: the paper's other tables have a sweep's numbers at one setting, but those of a
    method at another; `mixed`: some points are quoted and the others are the paper's own."""
    places: dict[Any, dict[str, dict[str, Row]]] = defaultdict(lambda: defaultdict(dict))
    for row in tables:
        for word in (word for word in row.words if "=" in word):
            place = (row.place, row.backbone, row.metric, row.split, word.partition("=")[0])
            method = ", ".join([row.method, *sorted(row.words - {word})])
            places[place][method][word] = row
    for (*_, parameter), sweep in places.items():
        points = [row for rows in sweep.values() for row in rows.values()]
        again = {row.name: elsewhere(row, tables) for row in points}
        printed = {m: [w for w in rows if again[rows[w].name]] for m, rows in sweep.items()}
        usual = mode([word for words in printed.values() for word in words] or [""])
        like = [method for method, words in printed.items() if usual in words]
        for method, words in printed.items():
            # Two methods alone may each have a default of its own.
            if len(like) > 1 and words and usual not in words and usual in sweep[method]:
                here, there = sweep[method][words[0]], sweep[method][usual]
                yield finding(
                    "sweep",
                    [there, here, *again[here.name]],
                    usual=usual,
                    methods=listed(like),
                    method=method,
                    setting=words[0],
                    printed=shown([*here.cells.values()][-1]),
                    tables=listed(row.table for row in again[here.name]),
                    instead=shown([*there.cells.values()][-1]),
                )
        counts = Counter(word for rows in sweep.values() for word in rows)
        # A method at a single setting (no noise at all) belongs to the sweep of the others.
        ends = {w: rows[w] for rows in sweep.values() for w in rows if len(rows) == counts[w] == 1}
        for rows in sweep.values():
            sources = {}
            for row in (ends | rows).values() if len(rows) > 1 else ():
                quoted = [like.quoted_from for like in (row, *again[row.name])]
                sources[row.name] = next((name for name in quoted if name not in ANONYMOUS), "")
            named = [row for row in points if sources.get(row.name)]
            unnamed = [row for row in points if sources.get(row.name) == ""]
            if named and unnamed:
                yield finding(
                    "mixed",
                    [*named, *unnamed],
                    parameter=parameter,
                    quoted=listed(row.who for row in named),
                    sources=listed(sources[row.name] for row in named),
                    own=listed(f"{row.method} ({row.variant})" for row in unnamed),
                )


def splits(tables: Rows) -> Iterator[Finding]:
    """`split`: numbers of a table that a larger table of the paper prints for another split."""
    prints: dict[Any, dict[Any, Row]] = defaultdict(dict)
    for row, task, value in cells_of([row for row in tables if row.split]):
        number = (row.method, row.backbone, row.metric, task, shown(value))
        prints[row.source, row.table, row.split].setdefault(number, row)
    for (source, _, split), rows in prints.items():
        again = {
            place: larger
            for place, larger in prints.items()
            if place[0] == source and place[2] != split and len(rows) < len(larger)
            # A single number may agree by chance.
            if len(rows.keys() & larger.keys()) > 1
        }
        numbers = sorted(rows.keys() & {number for larger in again.values() for number in larger})
        if numbers:
            concerned = [
                cells[n] for cells in (rows, *again.values()) for n in numbers if n in cells
            ]
            yield finding(
                "split",
                concerned,
                values=listed(f"{number[-1]} ({rows[number].who})" for number in numbers),
                split=listed(split for *_, split in again),
                tables=listed(table for _, table, _ in again),
            )


def findings(
    printed: pd.DataFrame | None = None, statements: Sequence[dict[str, Any]] | None = None
) -> list[Finding]:
    """The findings about numbers and what is said of them (claims.yaml), by default the papers'."""
    rows = read(all_printed() if printed is None else printed)
    tables = [row for row in rows if not row.in_text]
    known = [*averages(rows), *scales(rows), *copies(rows), *labels(tables), *sweeps(tables)]
    known += [*splits(tables), *claims.quotations(rows)]
    known += claims.statements(tables, claims.load() if statements is None else statements)
    known += claims.differences(rows, tables, known)
    return sorted(known, key=lambda finding: [*FINDING_KINDS].index(finding.kind))
