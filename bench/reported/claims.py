"""What papers say of their tables: numbers and differences in the text, and statements in words
(claims.yaml)."""

from collections.abc import Iterator, Sequence
from itertools import pairwise, product
from statistics import mean
from typing import Any

import yaml

from bench.datasets.tasks import CHINESE_TASKS, STS_TASKS
from bench.reported import FOLDER
from bench.reported.rows import (
    Finding,
    Row,
    Rows,
    cells_of,
    finding,
    last_place,
    nested,
    same,
    shown,
)
from bench.utils.errors import listed

# Findings that make a row an unsafe operand of a difference.
UNSAFE = ("average", "shift", "copy", "partial")


def comparable(claim: Row, method: str, rows: Rows) -> Rows:
    """The rows that a text may speak of; it may leave the split open."""
    return [
        row
        for row in rows
        if (row.method, row.metric) == (method, claim.score)
        and same(row, claim, "source", "backbone")
        and (row.split == claim.split or "" in (row.split, claim.split))
    ]


def quotations(rows: Rows) -> Iterator[Finding]:
    """`text`: scores in running text that differ from the paper's tables, or its other text."""
    claims = [row for row in rows if row.in_text and row.metric == row.score]
    for claim, task, value in cells_of(claims):
        # A text may speak of the STS tasks rather than of one.
        family = (*STS_TASKS, *CHINESE_TASKS, "Avg") if task == "STS" else (task,)
        like = [row for row in comparable(claim, claim.method, rows) if row.table != claim.table]
        like = [row for row in like if claim.words <= row.words]
        cells = [(row, cell) for row, name, cell in cells_of(like) if name in family]
        cells = [(row, cell) for row, cell in cells if not row.in_text] or cells
        # The text may round or truncate the table's number.
        unit = last_place(value)
        if cells and not any(-unit / 2 <= cell - value < unit for _, cell in cells):
            facts = {
                "task": task,
                "printed": shown(value),
                "tables": listed(r.table for r, _ in cells),
            }
            facts["values"] = listed(shown(cell) for _, cell in cells)
            yield finding("text", [claim, *(row for row, _ in cells)], **facts)


def differences(rows: Rows, tables: Rows, known: Sequence[Finding]) -> Iterator[Finding]:
    """`difference`, `resting`: claimed differences that the `tables` do not give, or that use rows
    with `known` findings."""
    for claim, task, value in cells_of([row for row in rows if " minus " in row.method]):
        sides = []
        for method in claim.method.split(" minus "):
            like = [row for row in comparable(claim, method, tables) if task in row.cells]
            exactly = [row for row in like if row.words == claim.words]
            sides.append(exactly or [row for row in like if nested(row, claim)])
        gaps = [(a.cells[task] - b.cells[task], (a, b)) for a, b in product(*sides)]
        if not gaps:
            continue
        gap, pair = min(gaps, key=lambda entry: abs(entry[0] - value))
        facts = {"task": task, "printed": shown(value)}
        # Both sides and the claim are rounded.
        if abs(gap - value) >= max(row.unit for row in pair) + last_place(value):
            facts["terms"] = " - ".join(shown(row.cells[task]) for row in pair)
            facts |= {"gap": shown(gap), "tables": listed(row.table for row in pair)}
            yield finding("difference", [claim, *pair], **facts)
        kinds = {
            row.name: [k for k in UNSAFE if any(f.kind == k and row.name in f.rows for f in known)]
            for row in pair
        }
        unsafe = [f"{name} (see: {', '.join(found)})" for name, found in kinds.items() if found]
        if unsafe:
            means = ""
            if task == "Avg" and any("average" in found for found in kinds.values()):
                gap = mean(pair[0].figures) - mean(pair[1].figures)
                means = f"; between the means of the rows it is {shown(gap)}"
            yield finding("resting", [claim, *pair], **facts, unsafe=listed(unsafe), means=means)


def load() -> list[dict[str, Any]]:
    return yaml.safe_load((FOLDER / "claims.yaml").read_text(encoding="utf-8"))["claims"]


def statements(tables: Rows, claims: Sequence[dict[str, Any]]) -> Iterator[Finding]:
    """`statement`: statements in words that figures of their table contradict."""
    for claim, source in [(said, source) for said in claims for source in said["source"]]:
        rows = [row for row in tables if (row.source, row.table) == (source, claim["table"])]
        # Two rows, how a sentence names them, the tasks to compare, and 1 if the first row should
        # be higher, else -1.
        pairs = [
            (first, second, f"for {first.who}", f"for {second.method}", first.tasks, 1)
            for first, second in product(rows, repeat=2)
            if claim.get("above", {}).get(first.method) == second.method
            and same(first, second, "backbone", "metric", "split")
            # GS-InfoNCE has a variant that SimCSE cannot have; SSCL-BERT (avg) is not BERT (cls).
            and nested(first, second)
        ]
        at = {row.variant: row for row in rows if claim.get("method", row.method) == row.method}
        for order, sign in (("rising", -1), ("falling", 1)):
            settings = [f"{claim['parameter']}={value}" for value in claim.get(order, [])]
            for a, b in pairwise(setting for setting in settings if setting in at):
                pairs.append((at[a], at[b], f"at {a}", f"at {b}", at[a].cells, sign))
        count, clauses, concerned = 0, [], []
        for first, second, name, second_name, tasks, sign in pairs:
            for task in (task for task in tasks if task in second.cells):
                count += 1
                if sign * (first.cells[task] - second.cells[task]) <= 0:
                    value, second_value = shown(first.cells[task]), shown(second.cells[task])
                    clauses.append(f"{task} is {value} {name} and {second_value} {second_name}")
                    concerned += [first, second] if sign > 0 else [second, first]
        if clauses:
            facts = {"where": claim["where"], "quote": claim["quote"], "count": count}
            facts |= {"against": len(clauses), "clauses": "; ".join(clauses)}
            yield finding("statement", concerned, **facts)
