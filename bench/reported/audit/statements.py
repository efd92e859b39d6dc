"""Checks of statements in words against the numbers of their tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from itertools import pairwise, product
from math import inf
from pathlib import Path
from typing import Any

import yaml

from bench.reported import FOLDER
from bench.reported.audit.rows import Finding, Row, finding, shown


@dataclass(frozen=True)
class Claim:
    """A statement about a printed table, as in claims.yaml."""

    source: str
    where: str  # place of the statement
    quote: str
    table: str
    above: Mapping[str, str] = field(default_factory=dict)
    method: str = ""  # of the settings; empty: of all methods
    parameter: str = ""
    rises_to: str = ""
    falls_from: str = ""


@cache
def load_claims(path: Path = FOLDER / "claims.yaml") -> list[Claim]:
    """The statements of all papers, one for each source."""
    entries: list[dict[str, Any]] = yaml.safe_load(path.read_text(encoding="utf-8"))["claims"]
    return [Claim(**entry | {"source": source}) for entry in entries for source in entry["source"]]


# Two figures that a statement compares: the one that should be higher with its row, the other with
# its row, and how both are told.
Compared = tuple[Fraction, Row, Fraction, Row, str]


def statements(rows: Sequence[Row], claims: Iterable[Claim]) -> Iterator[Finding]:
    """Finding `statement`: statements in words that figures of their own table contradict."""
    for claim in claims:
        table = [row for row in rows if (row.source, row.table) == (claim.source, claim.table)]
        compared = [*_methods(claim, table), *_settings(claim, table)]
        against = [one for one in compared if one[0] <= one[2]]
        if against:
            text = f'{claim.where} says "{claim.quote}"; {len(against)} of {len(compared)} '
            text += f"comparisons say otherwise: {'; '.join(told for *_, told in against)}"
            concerned = [row for _, one, _, other, _ in against for row in (one, other)]
            yield finding("statement", concerned, text)


def _methods(claim: Claim, table: Sequence[Row]) -> Iterator[Compared]:
    """The figures of each method in `claim.above`, with those of the method below it."""
    for row, other in product(table, repeat=2):
        if claim.above.get(row.method) != other.method:
            continue
        same = (row.backbone, row.metric, row.split) == (other.backbone, other.metric, other.split)
        # GS-InfoNCE has a variant that SimCSE cannot have; SSCL-BERT (avg) is not BERT (cls).
        if same and (row.words <= other.words or other.words <= row.words):
            for task in row.tasks:
                if task in other.cells:
                    one, two = row.cells[task], other.cells[task]
                    told = f"{task} is {shown(one)} for {row.who} and {shown(two)} for "
                    yield one, row, two, other, told + other.method


def _settings(claim: Claim, table: Sequence[Row]) -> Iterator[Compared]:
    """The figures at neighbouring settings that should rise or fall."""
    start = f"{claim.parameter}="
    points = {
        word.removeprefix(start): row
        for row in table
        for word in row.words
        if claim.parameter and word.startswith(start) and claim.method in ("", row.method)
    }
    settings = sorted(points, key=_number)
    for here, there in pairwise(settings):
        rises = _number(there) <= _number(claim.rises_to, -inf)
        falls = _number(here) >= _number(claim.falls_from, inf)
        for task in points[here].cells if rises or falls else ():
            if task in points[there].cells:
                before, after = points[here].cells[task], points[there].cells[task]
                told = f"{task} is {shown(before)} at {start}{here} and {shown(after)} at "
                told += start + there
                pair = (after, points[there], before, points[here])
                yield (*pair, told) if rises else (*pair[2:], *pair[:2], told)


def _number(setting: str, default: float = 0.0) -> float:
    """The number in a setting such as `0.5x`."""
    found = re.search(r"[\d.]+", setting)
    return float(found[0]) if found else default
