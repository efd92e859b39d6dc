"""Checks across a paper: numbers and statements in its text, hyper-parameter sweeps, splits."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import pairwise, product
from math import inf
from pathlib import Path
from statistics import mode

import yaml
from pydantic import TypeAdapter

from bench.datasets.tasks import CHINESE_TASKS, STS_TASKS
from bench.reported import FOLDER
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
from bench.utils.validation import Model

# Running text may name a family of tasks rather than a task.
FAMILIES = {"STS": (*STS_TASKS, *CHINESE_TASKS, "Avg")}
# Findings that make a row an unsafe operand of a difference.
UNSAFE = ("average", "shift", "copy", "partial")


class Claim(Model):
    """A statement about a printed table, as in claims.yaml."""

    source: list[str]  # the papers that make it
    where: str  # place of the statement
    quote: str
    table: str
    above: dict[str, str] = {}
    method: str = ""  # of the settings; empty: of all methods
    parameter: str = ""
    rises_to: str = ""
    falls_from: str = ""


@cache
def load_claims(path: Path = FOLDER / "claims.yaml") -> list[Claim]:
    """The statements of all papers."""
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    return TypeAdapter(list[Claim]).validate_python(content["claims"])


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
            if cells and not any(-unit / 2 <= cell - value < unit for _, cell in cells):
                text = (
                    f"{claim.table} gives {shown(value)} for {claim.who} ({task}); "
                    f"{listed(row.table for row, _ in cells)} has "
                    f"{listed(shown(cell) for _, cell in cells)}"
                )
                yield finding("text", [claim, *(row for row, _ in cells)], text)


def _operands(claim: Row, method: str, task: str, rows: Iterable[Row]) -> list[Row]:
    """The rows that may be one side of a difference: those of the claim's variant, else of a
    compatible one."""
    like = [row for row in rows if row.method == method and task in row.cells]
    like = [row for row in like if _comparable(claim, row)]
    exactly = [row for row in like if row.words == claim.words]
    return exactly or [row for row in like if row.words <= claim.words or claim.words <= row.words]


def differences(rows: Sequence[Row], others: Sequence[Finding]) -> Iterator[Finding]:
    """Findings `difference` and `resting`: claimed differences that the rows do not give, or that
    use rows with `others`, the findings of the other checks."""
    tables = [row for row in rows if not row.in_text]
    known = {(other.kind, name) for other in others for name in other.rows}
    claims = [row for row in rows if " minus " in row.method]
    for claim, task, value in ((row, *cell) for row in claims for cell in row.cells.items()):
        sides = [_operands(claim, name, task, tables) for name in claim.method.split(" minus ")]
        gaps = {(a, b): a.cells[task] - b.cells[task] for a, b in product(*sides)}
        if not gaps:
            continue
        pair = min(gaps, key=lambda pair: abs(gaps[pair] - value))
        text = f"{claim.table} gives {shown(value)} for {claim.who} ({task})"
        # Both sides and the claim are rounded.
        if abs(gaps[pair] - value) >= max(row.unit for row in pair) + last_place(value):
            terms = " - ".join(shown(row.cells[task]) for row in pair)
            result = f"{listed(row.table for row in pair)} {terms} = {shown(gaps[pair])}"
            yield finding("difference", [claim, *pair], f"{text}; {result}")
        kinds = {row: [kind for kind in UNSAFE if (kind, row.name) in known] for row in pair}
        unsafe = [f"{row.name} (see: {', '.join(kinds[row])})" for row in pair if kinds[row]]
        if unsafe:
            text += f", which rests on {listed(unsafe)}"
            if task == "Avg" and any("average" in names for names in kinds.values()):
                gap = mean(pair[0].figures) - mean(pair[1].figures)
                text += f"; between the means of the rows it is {shown(gap)}"
            yield finding("resting", [claim, *pair], text)


# Method, with the words of its variant that do not change -> setting -> row.
Sweep = dict[str, dict[str, Row]]


def _sweeps(tables: Iterable[Row]) -> Iterator[tuple[str, Sweep]]:
    """Yield the name of a setting, and the rows of a table that differ in it: of variants such as
    `tau=0.05` and `12 transformer layers`."""
    sweeps: dict[tuple[str, ...], Sweep] = defaultdict(lambda: defaultdict(dict))
    for row in tables:
        for word in sorted(row.words):
            parameter, equals, value = word.partition("=")
            counted = re.fullmatch(r"(\d+) (.+)", word)
            if counted:
                value, parameter = counted.groups()
            if equals or counted:
                rest = ", ".join(sorted(row.words - {word}))
                method = f"{row.method} ({rest})" if rest else row.method
                place = (row.source, row.table, row.backbone, row.metric, row.split, parameter)
                sweeps[place][method][value] = row
    for (*_, parameter), sweep in sweeps.items():
        yield parameter, sweep


def sweeps(rows: Iterable[Row]) -> Iterator[Finding]:
    """Finding `sweep`: a sweep agrees with the paper's other tables at one setting, except for a
    method at another.

    Splits are ignored here; `splits` checks them.
    """
    tables = [row for row in rows if not row.in_text]
    for parameter, sweep in _sweeps(tables):
        elsewhere = {row: row.elsewhere(tables) for rows in sweep.values() for row in rows.values()}
        met = {
            method: [value for value, row in settings.items() if elsewhere[row]]
            for method, settings in sweep.items()
        }
        usual = mode([value for values in met.values() for value in values] or [""])
        like = [method for method in sweep if usual in met[method]]
        for method, values in met.items() if len(like) > 1 else ():  # there may be two defaults
            if values and usual not in values and usual in sweep[method]:
                here, there = sweep[method][values[0]], sweep[method][usual]
                task = "Avg" if "Avg" in here.cells else here.tasks[0]
                numbers = [shown(row.cells[task]) for row in (here, there)]
                text = (
                    f"with {parameter}={usual} the figures of {listed(like)} are printed in other "
                    f"tables too, those of {method} with {parameter}={values[0]} ({numbers[0]}, as "
                    f"in {listed(row.table for row in elsewhere[here])}; "
                    f"with {parameter}={usual} {numbers[1]})"
                )
                yield finding("sweep", [there, here, *elsewhere[here]], text)


def _named_source(row: Row, tables: Iterable[Row]) -> str:
    """Who is quoted: by the row, or by another table of the paper for the same numbers; empty if
    nobody is named."""
    sources = [like.quoted_from for like in (row, *row.elsewhere(tables))]
    return next((source for source in sources if source not in ANONYMOUS), "")


def mixed(rows: Iterable[Row]) -> Iterator[Finding]:
    """Finding `mixed`: a sweep in which some points are quoted and the others are the paper's own.

    A method at a single setting that no other method has (no noise at all) belongs to the sweep of
    the others.
    """
    tables = [row for row in rows if not row.in_text]
    for parameter, sweep in _sweeps(tables):
        printed = Counter(value for settings in sweep.values() for value in settings)
        alone = [settings for settings in sweep.values() if len(settings) == 1]
        ends = {value: row for settings in alone for value, row in settings.items()}
        ends = {value: row for value, row in ends.items() if printed[value] == 1}
        for settings in sweep.values():
            points = (ends | settings).values() if len(settings) > 1 else ()
            sources = {row: _named_source(row, tables) for row in points}
            quoted = [row for row in points if sources[row]]
            own = [row for row in points if not sources[row]]
            if quoted and own:
                text = (
                    f"along {parameter}, {listed(row.who for row in quoted)} is quoted from "
                    f"{listed(sources[row] for row in quoted)}; the paper's own runs are "
                    f"{listed(f'{row.method} ({row.variant})' for row in own)}"
                )
                yield finding("mixed", [*quoted, *own], text)


def splits(rows: Iterable[Row]) -> Iterator[Finding]:
    """Finding `split`: several numbers of a table that another table of the paper prints for
    another split."""
    printed: dict[tuple[str, str, str], dict[tuple[object, ...], Row]] = defaultdict(dict)
    for row in rows:
        if not row.in_text and row.split:
            for task, value in row.cells.items():
                cell = (row.model, row.metric, task, shown(value))
                printed[row.source, row.table, row.split].setdefault(cell, row)
    for (source, _, split), cells in printed.items():
        tables: dict[tuple[str, tuple[tuple[object, ...], ...]], list[str]] = defaultdict(list)
        for (other_source, other_table, other_split), others in printed.items():
            same = tuple(sorted(cells.keys() & others.keys()))
            # A single number may agree by chance. Reported for the smaller table, of which a larger
            # share is equal.
            comparable = source == other_source and split != other_split
            if comparable and len(same) > 1 and len(cells) < len(others):
                tables[other_split, same].append(other_table)
        for (other_split, same), names in tables.items():
            values = listed(f"{cell[-1]} ({cells[cell].who})" for cell in same)
            text = f"{values} are printed for {split} here and for {other_split} in {listed(names)}"
            others_of = [printed[source, name, other_split] for name in names]
            concerned = [found[cell] for found in (cells, *others_of) for cell in same]
            yield finding("split", concerned, text)


# A comparison that a statement makes: task, the row whose figure should be higher, the other row,
# and a clause about both.
Comparison = tuple[str, Row, Row, str]


def statements(rows: Sequence[Row], claims: Iterable[Claim]) -> Iterator[Finding]:
    """Finding `statement`: statements in words that figures of their own table contradict."""
    for claim, source in ((entry, source) for entry in claims for source in entry.source):
        table = [row for row in rows if (row.source, row.table) == (source, claim.table)]
        comparisons = [*_methods(claim, table), *_settings(claim, table)]
        against = [
            comparison
            for comparison in comparisons
            if comparison[1].cells[comparison[0]] <= comparison[2].cells[comparison[0]]
        ]
        if against:
            text = (
                f'{claim.where} says "{claim.quote}"; {len(against)} of {len(comparisons)} '
                f"comparisons say otherwise: {'; '.join(clause for *_, clause in against)}"
            )
            concerned = [row for _, higher, lower, _ in against for row in (higher, lower)]
            yield finding("statement", concerned, text)


def _methods(claim: Claim, table: Sequence[Row]) -> list[Comparison]:
    """Each method in `claim.above` with the method below it."""
    pairs = [
        (row, other)
        for row, other in product(table, repeat=2)
        if claim.above.get(row.method) == other.method
        and (row.backbone, row.metric, row.split) == (other.backbone, other.metric, other.split)
        # GS-InfoNCE has a variant that SimCSE cannot have; SSCL-BERT (avg) is not BERT (cls).
        and (row.words <= other.words or other.words <= row.words)
    ]
    return [
        (
            task,
            row,
            other,
            f"{task} is {shown(row.cells[task])} for {row.who} and "
            f"{shown(other.cells[task])} for {other.method}",
        )
        for row, other in pairs
        for task in row.tasks
        if task in other.cells
    ]


def _settings(claim: Claim, table: Sequence[Row]) -> Iterator[Comparison]:
    """Neighbouring settings whose figures should rise or fall."""
    start = f"{claim.parameter}="
    points = {
        word.removeprefix(start): row
        for row in table
        for word in row.words
        if claim.parameter and word.startswith(start) and claim.method in ("", row.method)
    }
    for here, there in pairwise(sorted(points, key=_number)):
        rises = _number(there) <= _number(claim.rises_to, -inf)
        falls = _number(here) >= _number(claim.falls_from, inf)
        first, second = points[here], points[there]
        for task in first.cells.keys() & second.cells.keys() if rises or falls else ():
            before, after = shown(first.cells[task]), shown(second.cells[task])
            clause = f"{task} is {before} at {start}{here} and {after} at {start}{there}"
            yield task, second if rises else first, first if rises else second, clause


def _number(setting: str, default: float = 0.0) -> float:
    """The number in a setting such as `0.5x`."""
    found = re.search(r"[\d.]+", setting)
    return float(found[0]) if found else default
