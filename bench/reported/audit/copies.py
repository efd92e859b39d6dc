"""Checks between rows: equal numbers under different labels, different numbers under one label."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import combinations, product

from bench.reported.audit.rows import ANONYMOUS, Finding, Row, finding, shown
from bench.utils.text import listed

FEWEST = 3  # numbers that must agree for rows to count as equal; fewer may agree by chance


def leading(rows: Sequence[Row]) -> list[Row]:
    """The rows, with the one that a finding is reported for first.

    That is the row whose numbers are shared by the fewest others; among several, one that quotes no
    named source; then the first.
    """
    numbers = [row.figures or row.cells for row in rows]

    def rank(index: int) -> tuple[int, bool]:
        return numbers.count(numbers[index]), rows[index].quoted_from not in ANONYMOUS

    first = rows[min(range(len(rows)), key=rank)]
    return [first, *(row for row in rows if row is not first)]


def _described(rows: Iterable[Row]) -> str:
    """Rows by label, each with its places: `BERT (cls), bert-base-uncased [sscl Table 2 and sscl
    Table 7]`."""
    places: dict[str, list[str]] = {}
    for row in rows:
        places.setdefault(row.who, []).append(row.place)
    return " and ".join(f"{who} [{listed(tables)}]" for who, tables in places.items())


def copies(rows: Iterable[Row]) -> Iterator[Finding]:
    """Findings `copy`, `partial` and `shift`: rows of different labels with equal or shifted
    numbers."""
    # Rows by what makes them comparable, then by their numbers.
    blocks: dict[object, dict[object, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if len(row.tasks) >= FEWEST:
            blocks[row.metric, row.split, row.tasks][row.figures].append(row)
    for block in blocks.values():
        for equal in block.values():
            # A row that quotes the paper of another row may use another label.
            independent = [row for row in equal if not any(row.quotes(other) for other in equal)]
            if len({row.model for row in independent}) > 1:
                averages = {row.cells.get("Avg") for row in equal}
                same = " and the same average" if len(averages) == 1 and averages != {None} else ""
                ordered = leading(equal)
                text = f"{_described(ordered)} have the same {len(ordered[0].tasks)} figures{same}"
                yield finding("copy", ordered, text)
        for some, others in combinations(block.values(), 2):
            if leading([*some, *others])[0] in some:
                yield from _compared(some, others)
            else:
                yield from _compared(others, some)


def _compared(rows: list[Row], others: list[Row]) -> Iterator[Finding]:
    """The finding `shift` or `partial` about rows and others, each with equal numbers."""
    row, other = rows[0], others[0]
    gaps = {task: row.cells[task] - other.cells[task] for task in row.tasks}
    differing = [task for task, gap in gaps.items() if gap]
    equal = len(gaps) - len(differing)
    # Rows of one label are left to `labels`.
    same_label = {row.label for row in rows} & {other.label for other in others}
    if len(set(gaps.values())) == 1:
        shift = gaps[row.tasks[0]]
        text = f"each of the {len(gaps)} figures of {_described(rows)} is {shown(abs(shift))} "
        text += f"{'above' if shift > 0 else 'below'} that of {_described(others)}"
        cells = [(here.cells, there.cells) for here, there in product(rows, others)]
        averages = {a["Avg"] - b["Avg"] for a, b in cells if "Avg" in a and "Avg" in b}
        if shift in averages:
            text += ", and so is the average"
            text += " in one print of several" if len(averages) > 1 else ""
        yield finding("shift", [*rows, *others], text)
    elif equal >= FEWEST and equal > len(differing) and not same_label:
        text = f"{equal} of {len(gaps)} figures of {_described(rows)} "
        text += f"are those of {_described(others)}, but not "
        text += listed(
            f"{task} ({shown(row.cells[task])}, there {shown(other.cells[task])})"
            for task in differing
        )
        if "Avg" in row.cells and row.cells["Avg"] == other.cells.get("Avg"):
            text += f"; the average, {shown(row.cells['Avg'])}, is the same"
            fitting = [print_ for print_ in (row, other) if print_.misfit <= print_.unit * 3 / 2]
            text += f" and fits {fitting[0].place} alone" if len(fitting) == 1 else ""
        yield finding("partial", [*rows, *others], text)


def labels(rows: Sequence[Row]) -> Iterator[Finding]:
    """Findings `label`, `cells` and `untrained`: one label printed several times with different
    numbers."""
    groups: dict[object, list[Row]] = defaultdict(list)
    for row in rows:
        if not row.in_text:
            groups[(*row.label, row.metric, row.split)].append(row)
    for group in groups.values():
        printed: dict[str, dict[Fraction, list[Row]]] = defaultdict(lambda: defaultdict(list))
        for row in group:
            for task, value in row.cells.items():
                printed[task][value].append(row)
        contested = {task: values for task, values in printed.items() if len(values) > 1}
        concerned = leading([row for row in group if contested.keys() & row.cells.keys()] or group)
        if not contested:
            continue
        kind, text = (
            "label",
            f"{len(contested)} of {len(printed)} figures are not the same everywhere",
        )
        settings = _settings_of_training(concerned)
        if settings:
            kind = "untrained"
            text = f"the model is not trained, yet with {settings} its figures are not the same"
        elif [*contested] == ["Avg"] and all(len(row.tasks) >= FEWEST for row in concerned):
            kind, text = "cells", "the same figures have another average"
            # Reported for the average that fits its row worse.
            concerned = sorted(
                (row for row in group if row in concerned), key=lambda row: -row.misfit
            )
        # Of many tasks, one is given as an example.
        example = "Avg" if "Avg" in contested else next(iter(contested))
        for task in contested if len(contested) <= 2 else [example]:
            prints = contested[task].items()
            values = (f"{shown(value)} [{listed(row.place for row in at)}]" for value, at in prints)
            text += f"; {task} is {listed(values)}"
        if kind == "label" and "Avg" in contested:
            text += _between(concerned[0], contested["Avg"], rows)
        yield finding(kind, concerned, f"{concerned[0].who}: {text}")


def _settings_of_training(rows: Iterable[Row]) -> str:
    """The settings of training with which a table prints different numbers for a model that is not
    trained; empty if none does."""
    versions: dict[str, dict[object, list[str]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if row.training_words:
            numbers = row.figures or row.cells["Avg"]
            versions[row.place][numbers] += row.training_words
    for words in versions.values():
        if len(words) > 1:
            return listed(sorted(word for some in words.values() for word in some))
    return ""


def _between(row: Row, averages: Iterable[Fraction], rows: Iterable[Row]) -> str:
    """The paper's own rows that lie between the `averages` of `row`, as the end of a sentence."""
    kin = [
        other
        for other in rows
        if (other.place, other.backbone, other.metric, other.split)
        == (row.place, row.backbone, row.metric, row.split)
        and not other.quoted_from
        and row.words <= other.words
        and "Avg" in other.cells
    ]
    names = [
        f"{other.method} ({shown(other.cells['Avg'])})"
        for other in kin
        if min(averages) < other.cells["Avg"] < max(averages)
    ]
    return f"; between them, in {row.place}: {listed(names)}" if names else ""
