"""Consistency checks of the printed numbers: within their rows, with each other, with the size of
the test sets, and with what the papers say of them. docs/explanation/audit.md has the rules and
their reasons, findings.yaml the sentences."""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from fractions import Fraction
from itertools import combinations, pairwise, product
from math import ceil
from statistics import mean
from typing import Any

import pandas as pd

from bench.datasets.tasks import LEADERBOARDS, task_of
from bench.reported import FOLDER, read_yaml
from bench.reported.number import Number, numbers
from bench.reported.rows import (
    DIFFERENCE,
    FINDING_KINDS,
    Finding,
    PrintedRow,
    PrintedRows,
    cells_of,
    finding,
    is_nested,
    points,
    read,
)
from bench.utils.errors import listed
from bench.utils.groups import grouped

# Numbers that must agree for rows to count as equal: one or two may agree by chance.
FEWEST = 3
STATEMENTS = read_yaml(FOLDER / "claims.yaml")["claims"]
# Kinds of finding that make a row an unsafe operand of a difference.
UNSAFE = ("average", "shift", "copy", "partial")


# --- Within a row


def _averages(rows: PrintedRows) -> Iterator[Finding]:
    """`average`, `rounding`: averages that are not the mean of their row."""
    leaderboards = [{*leaderboard.tasks} for leaderboard in LEADERBOARDS.values()]
    for row in rows:
        # Rounding and truncation explain a gap of up to 3/2 units, and the rounding of the average
        # alone up to 1/2 (docs/explanation/audit.md#the-rules).
        if {*row.tasks} in leaderboards and abs(row.gap) > row.unit / 2:
            kind = "average" if abs(row.gap) > row.unit * 3 / 2 else "rounding"
            yield finding(kind, [row])


def attainable(value: Fraction, unit: Fraction, items: int, runs: int = 1) -> bool:
    """Whether the mean accuracy of some runs, each perhaps rounded before, can be `value`, rounded
    or truncated to `unit`."""
    # Rounding each run before the mean changes nothing where the accuracies of one run have no more
    # decimals than the unit, such as TREC's steps of 0.2.
    slack = unit / 2 if runs > 1 and Fraction(100, items) % unit else 0
    step = Fraction(100, runs * items)
    # Rounded from [value - unit/2, value + unit/2], or truncated from [value, value + unit).
    above = ceil((value - unit / 2 - slack) / step) * step
    return above < value + unit + slack


def _scales(rows: PrintedRows) -> Iterator[Finding]:
    """`range`: scores outside their scale; `chance`: accuracies of a constant prediction;
    `unattainable`, `runs`: accuracies that no whole number of correct items gives."""
    for row, name, value in cells_of(rows):
        if abs(value) > 100:
            yield finding("range", [row], task=name, value=value)
        if row.metric != "accuracy" or name == "Avg":
            continue
        task = task_of(name)
        if value <= task.majority:
            yield finding("chance", [row], task=name, value=value, majority=task.majority)
        items = task.sizes.get("test")  # cross-validated tasks have no test set
        if items and row.split == "test" and not attainable(value, row.unit, items):
            three, five = (attainable(value, row.unit, items, runs) for runs in (3, 5))
            yield finding(
                "runs" if three or five else "unattainable",
                [row],
                task=name,
                value=value,
                items=items,
                below=value * items // 100,
                three=three,
                five=five,
            )


# --- Between rows


def _is_quoted(row: PrintedRow) -> bool:
    return row.quoted_from not in ("", "unknown")


def _leading(rows: PrintedRows) -> list[PrintedRow]:
    """The rows by suspicion, since a finding is filed under the first: numbers that the fewest rows
    share, then rows that quote nobody, then averages that fit their numbers least."""
    counts = Counter(row.numbers for row in rows)
    return sorted(rows, key=lambda row: (counts[row.numbers], _is_quoted(row), -abs(row.gap)))


def _copies(rows: PrintedRows) -> Iterator[Finding]:
    """`copy`, `partial`, `shift`: rows of different labels with equal or shifted numbers."""
    several = [row for row in rows if len(row.tasks) >= FEWEST]
    groups = [*map(_leading, grouped(several, "metric", "split", "tasks", "numbers"))]
    for equal in groups:
        # A row that quotes the paper of another row may use another label.
        papers = "|".join(row.paper for row in equal)
        models = {
            (row.method, row.backbone)
            for row in equal
            if not re.search(papers, row.quoted_from.lower())
        }
        if len(models) > 1:
            yield finding("copy", equal)
    # A finding is filed under its first row: as in `_leading`, numbers that few rows have come
    # first.
    groups.sort(key=lambda equal: (len(equal), _is_quoted(equal[0])))
    for lefts, rights in combinations(groups, 2):
        keys = [(rows[0].metric, rows[0].split, rows[0].tasks) for rows in (lefts, rights)]
        if keys[0] == keys[1]:
            yield from _alike(lefts, rights)


def _alike(lefts: PrintedRows, rights: PrintedRows) -> Iterator[Finding]:
    """`shift`, `partial`: numbers that differ by a constant from the numbers of other rows, or are
    partly equal. All `lefts` have the same numbers, and all `rights`."""
    row, other_row = lefts[0], rights[0]
    gaps, changed = set(), []
    for task in row.tasks:
        value, other_value = row.cells[task], other_row.cells[task]
        gaps.add(value - other_value)
        if value != other_value:
            changed.append(f"{task} ({points(value)}, there {points(other_value)})")
    equal = len(row.tasks) - len(changed)
    facts = {"lefts": lefts, "rights": rights}
    # `_labels` reports rows of one label.
    share_label = {x.label for x in lefts} & {x.label for x in rights}
    if len(gaps) == 1:
        yield finding("shift", [*lefts, *rights], gap=gaps.pop(), **facts)
    elif equal >= FEWEST and equal > len(changed) and not share_label:
        yield finding("partial", [*lefts, *rights], equal=equal, changed=changed, **facts)


def _labels(tables: PrintedRows) -> Iterator[Finding]:
    """`label`, `untrained`: one label printed several times with different numbers."""
    for group in grouped(tables, "label"):
        places: dict[str, dict[Fraction, list[str]]] = defaultdict(lambda: defaultdict(list))
        for row, task, value in cells_of(group):
            places[task][value].append(row.place)
        contested = [task for task, values in places.items() if len(values) > 1]
        if contested:
            concerned = _leading([row for row in group if row.cells.keys() & {*contested}])
            # One task with its values stands for all; readers compare averages.
            example = "Avg" if "Avg" in contested else contested[0]
            several = len({row.words for row in concerned}) > 1
            yield finding(
                "untrained" if several else "label",
                concerned,
                count=len(contested),
                tasks=len(places),
                example=example,
                values=[f"{points(v)} [{listed(at)}]" for v, at in places[example].items()],
                rivals=_rivals(concerned[0], places["Avg"], tables),
            )


def _rivals(leader: PrintedRow, averages: Collection[Fraction], tables: PrintedRows) -> list[str]:
    """The rows of the paper itself with averages between the contested ones: their rank depends on
    which of these is right."""
    low, high = min(averages, default=0), max(averages, default=0)
    return [
        f"{row.method} ({points(row.cells['Avg'])})"
        for row in tables
        if (row.scale, row.quoted_from) == (leader.scale, "")
        and leader.words <= row.words
        # A row without an average counts as `low`, which is not between.
        and low < row.cells.get("Avg", low) < high
    ]


# --- Between text and tables


_Terms = Sequence[tuple[PrintedRow, Fraction]]  # one or two rows, each with its number


def _value(terms: _Terms) -> Fraction:
    """The number of a term, or the difference of two."""
    return terms[0][1] - sum(cell for _, cell in terms[1:])


def _terms(claim: PrintedRow, task: str, rows: PrintedRows) -> _Terms:
    """The row of a score in the text, or the two rows of a difference "A minus B".

    A text is vague, so of all rows that it may mean those are taken that fit best: the audit must
    not blame a paper for a reading that it did not intend. Empty if a side is in no row.
    """
    methods = claim.method.split(" minus ")
    sides = []
    for method in methods:
        meant = (claim.source, method, claim.backbone, claim.metric.removesuffix(DIFFERENCE))
        sides.append(
            [
                (row, cell)
                for row, name, cell in cells_of(rows)
                if (row.source, row.method, row.backbone, row.metric) == meant
                and row.place != claim.place
                # A text may leave the split open, and speak of the STS tasks rather than of one.
                and claim.split in ("", row.split)
                and task in (name, "STS")
                # The variant of a difference belongs to A, or to both.
                and (claim.words <= row.words or (methods[1:] and row.words < claim.words))
            ]
        )

    def misfit(terms: _Terms) -> tuple[int, Fraction]:
        # Several tables may print a row; the text means the row in just its variant.
        variants = sum(row.words != claim.words for row, _ in terms)
        return variants, abs(_value(terms) - claim.cells[task])

    return min(product(*sides), key=misfit, default=())


def _claims(
    rows: PrintedRows, tables: PrintedRows, earlier: Sequence[Finding]
) -> Iterator[Finding]:
    """`text`, `difference`: scores in the text, and differences of two, that the `tables` do not
    have, or else other text; `resting`: differences that use rows with `earlier` findings."""
    texts = [row for row in rows if row not in tables]
    for claim, task, value in cells_of(texts):
        terms = _terms(claim, task, tables) or _terms(claim, task, texts)
        if not terms:
            continue
        concerned = [claim, *(row for row, _ in terms)]
        facts = {"task": task, "value": value, "ours": _value(terms)}
        # Each term is rounded or truncated, so each may be off by one unit.
        if abs(_value(terms) - value) >= len(terms) * max(row.unit for row in concerned):
            yield finding("difference" if terms[1:] else "text", concerned, **facts)
        unsafe, fitting = [], None
        for row, _ in terms:
            kinds = [x.kind for x in earlier if x.kind in UNSAFE and row.name in x.rows]
            if kinds:
                unsafe.append(f"{row.name} (see: {', '.join(kinds)})")
            # Only an average that does not fit its row has another value in its place.
            if task == "Avg" and "average" in kinds:
                fitting = _value([(row, mean(row.numbers)) for row, _ in terms])
        if unsafe and terms[1:]:
            yield finding("resting", concerned, **facts, unsafe=unsafe, fitting=fitting)


def _statements(tables: PrintedRows, claims: Sequence[dict[str, Any]]) -> Iterator[Finding]:
    """`statement`: statements in words that numbers of their table contradict."""
    for claim in claims:
        place = f"{claim['source']} {claim['table']}"
        rows = [row for row in tables if row.place == place]
        against, concerned = [], []
        comparisons = [*_orders(claim.get("above", {}), rows), *_sweeps(claim, rows)]
        for high, low, task, clause in comparisons:
            if high.cells[task] <= low.cells[task]:
                against.append(clause)
                concerned += [high, low]
        if against:
            count = len(comparisons)
            yield finding("statement", concerned, claim=claim, count=count, against=against)


# The row that a statement says is higher, the lower one, the task, and their numbers as a clause.
_Comparison = tuple[PrintedRow, PrintedRow, str, str]


def _orders(above: dict[str, str], rows: PrintedRows) -> Iterator[_Comparison]:
    """Comparisons of methods, of which one is `above` another."""
    for high, low in product(rows, repeat=2):
        is_named = above.get(high.method) == low.method
        # Variants may be nested: GS-InfoNCE has a hyper-parameter that SimCSE cannot have. But
        # SSCL-BERT (avg) is not compared with BERT (cls).
        if is_named and high.scale == low.scale and is_nested(high, low):
            for task in high.tasks:
                clause = f"{task} is {points(high.cells[task])} for {high.who}"
                clause += f" and {points(low.cells[task])} for {low.method}"
                yield high, low, task, clause


def _sweeps(claim: dict[str, Any], rows: PrintedRows) -> Iterator[_Comparison]:
    """Comparisons of the averages along variants, which are `rising` or `falling`."""
    at = {row.variant: row for row in rows if claim.get("method", row.method) == row.method}
    for order in ("rising", "falling"):
        for pair in pairwise(at[variant] for variant in claim.get(order, [])):
            clause = " and ".join(f"{points(row.cells['Avg'])} at {row.variant}" for row in pair)
            high, low = pair if order == "falling" else pair[::-1]
            yield high, low, "Avg", f"Avg is {clause}"


def findings(
    printed: pd.DataFrame | Sequence[Number] | None = None,
    claims: Sequence[dict[str, Any]] = STATEMENTS,
) -> list[Finding]:
    """The findings about printed numbers (by default `numbers()`) and the papers' claims."""
    rows = read(pd.DataFrame(numbers() if printed is None else printed))
    # All other numbers stand in an abstract or a section, as texts that are compared with the
    # tables.
    tables = [row for row in rows if re.fullmatch(r"(Table|Figure) \w+", row.table)]
    results = [*_averages(rows), *_scales(rows), *_copies(rows), *_labels(tables)]
    results += _statements(tables, claims)
    # Last: a difference may rest on rows that have findings.
    results += _claims(rows, tables, results)
    return sorted(results, key=lambda finding: [*FINDING_KINDS].index(finding.kind))
