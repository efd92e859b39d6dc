"""Checks between rows: equal numbers under different labels, different numbers under one label."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import combinations, product

from bench.reported.audit.rows import ANONYMOUS, Finding, Row, finding, mean, shown
from bench.utils.text import listed

FEWEST = 3  # numbers that must agree for rows to count as equal; fewer may agree by chance

Figures = tuple[Fraction, ...]
# (metric, split, tasks) -> numbers -> the rows that have them. Rows of one key can be compared.
Blocks = dict[tuple[str, str, tuple[str, ...]], dict[Figures, list[Row]]]


def leading(rows: Sequence[Row]) -> list[Row]:
    """The rows, with the one that a finding is reported for first.

    That is the row whose numbers are shared by the fewest others; among several, one that quotes no
    named source; then the first.
    """

    def rank(row: Row) -> tuple[int, bool]:
        alike = sum((row.figures or row.cells) == (other.figures or other.cells) for other in rows)
        return alike, row.quoted_from not in ANONYMOUS

    first = min(rows, key=rank)
    return [first, *(row for row in rows if row is not first)]


def _described(rows: Iterable[Row]) -> str:
    """Rows by label, each with its places: `BERT (cls), bert-base-uncased [sscl Table 2 and sscl
    Table 7]`."""
    places: dict[str, list[str]] = {}
    for row in rows:
        places.setdefault(row.who, []).append(row.place)
    return " and ".join(f"{who} [{listed(tables)}]" for who, tables in places.items())


def _blocks(rows: Iterable[Row]) -> Blocks:
    blocks: Blocks = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if len(row.tasks) >= FEWEST:
            blocks[row.metric, row.split, row.tasks][row.figures].append(row)
    return blocks


def _shift(first: Figures, second: Figures) -> Fraction | None:
    """The constant difference first - second, if all numbers differ by the same."""
    differences = {one - other for one, other in zip(first, second, strict=True)}
    return differences.pop() if len(differences) == 1 else None


def _swapped(one: Row, other: Row) -> list[str]:
    """The two tasks whose numbers are exchanged, if nothing else differs; else none."""
    differing = [task for task in one.tasks if one.cells[task] != other.cells[task]]
    there = [other.cells[task] for task in reversed(differing)]
    exchanged = len(differing) == 2 and [one.cells[task] for task in differing] == there
    return differing if exchanged else []


def copies(rows: Iterable[Row]) -> Iterator[Finding]:
    """Findings `copy`, `partial` and `shift`: rows of different labels with equal or shifted
    numbers."""
    for block in _blocks(rows).values():
        for alike in block.values():
            # A row that quotes the paper of another row may use another label.
            independent = [row for row in alike if not any(row.quotes(other) for other in alike)]
            if len({row.model for row in independent}) > 1:
                averages = {row.cells.get("Avg") for row in alike}
                what = "figures"
                if len(averages) == 1 and None not in averages:
                    what += " and the same average"
                ordered = leading(alike)
                text = f"{_described(ordered)} have the same {len(ordered[0].tasks)} {what}"
                yield finding("copy", ordered, text)
        for pair in combinations(block.values(), 2):
            if _alike(*pair):
                first = leading([*pair[0], *pair[1]])[0]
                yield _compared(*(pair if first in pair[0] else pair[::-1]))


def _equal(one: Row, other: Row) -> int:
    return sum(value == figure for value, figure in zip(one.figures, other.figures, strict=True))


def _alike(ones: list[Row], others: list[Row]) -> bool:
    """Whether rows differ by a constant, or share most of their numbers under different labels."""
    if _shift(ones[0].figures, others[0].figures) is not None:
        return True
    equal = _equal(ones[0], others[0])
    # Rows of one label are left to `labels`.
    labelled = {row.label for row in ones} & {row.label for row in others}
    return equal >= FEWEST and 2 * equal > len(ones[0].figures) and not labelled


def _compared(ones: list[Row], others: list[Row]) -> Finding:
    """The finding `shift` or `partial` about rows that are `_alike`."""
    one, other = ones[0], others[0]
    shift = _shift(one.figures, other.figures)
    if shift is not None:
        text = f"each of the {len(one.tasks)} figures of {_described(ones)} is {shown(abs(shift))} "
        text += f"{'above' if shift > 0 else 'below'} that of {_described(others)}"
        both = [(a.cells, b.cells) for a, b in product(ones, others)]
        gaps = [a["Avg"] - b["Avg"] for a, b in both if "Avg" in a and "Avg" in b]
        text += ", and so is the average" if shift in gaps else ""
        text += " in one print of several" if shift in gaps and len(set(gaps)) > 1 else ""
        return finding("shift", [*ones, *others], text)
    differing = [task for task in one.tasks if one.cells[task] != other.cells[task]]
    text = f"{_equal(one, other)} of {len(one.tasks)} figures of {_described(ones)} "
    text += f"are those of {_described(others)}, but not "
    text += listed(
        f"{task} ({shown(one.cells[task])}, there {shown(other.cells[task])})" for task in differing
    )
    if "Avg" in one.cells and one.cells["Avg"] == other.cells.get("Avg"):
        text += f"; the average, {shown(one.cells['Avg'])}, is the same"
        fitting = [row for row in (one, other) if _misfit(row) <= row.unit * 3 / 2]
        text += f" and fits {fitting[0].place} alone" if len(fitting) == 1 else ""
    return finding("partial", [*ones, *others], text)


def _misfit(row: Row) -> Fraction:
    """How far the printed average is from the mean of the row."""
    return abs(row.cells["Avg"] - mean(row.figures))


def labels(rows: Sequence[Row]) -> Iterator[Finding]:
    """Findings `label`, `cells`, `swap` and `untrained`: one label printed several times with
    different numbers."""
    groups: dict[tuple[object, ...], list[Row]] = defaultdict(list)
    for row in rows:
        if not row.in_text:
            groups[(*row.label, row.metric, row.split)].append(row)
    for group in groups.values():
        printed: dict[str, dict[Fraction, list[Row]]] = defaultdict(lambda: defaultdict(list))
        for row in group:
            for task, value in row.cells.items():
                printed[task][value].append(row)
        contested = {task: values for task, values in printed.items() if len(values) > 1}
        concerned = [row for row in group if contested.keys() & row.cells.keys()]
        kind, text = _contradiction(concerned, list(contested), len(printed))
        if not kind:
            continue
        # Of many tasks, one is given as an example.
        example = "Avg" if "Avg" in contested else next(iter(contested))
        for task in contested if len(contested) <= 2 else [example]:
            prints = contested[task].items()
            values = (f"{shown(value)} [{listed(row.place for row in at)}]" for value, at in prints)
            text += f"; {task} is {listed(values)}"
        ordered = leading(concerned)
        if kind == "cells":  # reported for the average that fits its row worse
            ordered = sorted(concerned, key=_misfit, reverse=True)
        if kind == "label":
            text += _between(ordered[0], contested.get("Avg", ()), rows)
        yield finding(kind, ordered, f"{ordered[0].who}: {text}")


def _contradiction(concerned: list[Row], contested: list[str], figures: int) -> tuple[str, str]:
    """The kind of a contradiction between rows of one label, and its text; empty without one, or if
    `copies` reports it."""
    if not contested:
        return "", ""
    for place in dict.fromkeys(row.place for row in concerned):
        set_up = [row for row in concerned if row.place == place and row.training_words]
        if len({row.figures or row.cells["Avg"] for row in set_up}) > 1:
            words = listed(sorted(word for row in set_up for word in row.training_words))
            text = f"the model is not trained, yet with {words} its figures are not the same"
            return "untrained", text
    whole = [row for row in concerned if len(row.tasks) >= FEWEST]
    if contested == ["Avg"] and whole == concerned:
        return "cells", "the same figures have another average"
    versions = list({row.figures: row for row in whole}.values())
    if len(versions) == 2 and versions[0].tasks == versions[1].tasks:
        if _shift(versions[0].figures, versions[1].figures) is not None:
            return "", ""
        if swapped := _swapped(*versions):
            return "swap", f"{' and '.join(swapped)} have changed places"
    return "label", f"{len(contested)} of {figures} figures are not the same everywhere"


def _between(row: Row, averages: Iterable[Fraction], rows: Iterable[Row]) -> str:
    """The paper's own rows that lie between the `averages` of `row`, as the end of a sentence."""

    def kin(one: Row) -> tuple[str, ...]:
        return one.place, one.backbone, one.metric, one.split

    own = [other for other in rows if kin(other) == kin(row) and not other.quoted_from]
    low, *_, high = sorted(averages) or (Fraction(0), Fraction(0))
    own = [other for other in own if low < other.cells.get("Avg", low) < high]
    names = [f"{one.method} ({shown(one.cells['Avg'])})" for one in own if row.words <= one.words]
    return f"; between them, in {row.place}: {listed(names)}" if names else ""
