"""The audit of printed numbers: its findings in the papers, and no false alarms."""

import os
from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from itertools import product
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from bench.datasets.tasks import STS_TASKS, TRANSFER_TASKS
from bench.report.audit import frame, report, write
from bench.reported import COLUMNS
from bench.reported.audit import (
    FINDING_KINDS,
    SIZES,
    STATEMENTS,
    Finding,
    attainable,
    findings,
    majority,
)
from bench.utils.errors import UserError
from tests.support.audit_tables import STYLES, consistent, half_up, mean, truncated
from tests.support.printed_numbers import printed

SEEDS = st.integers(0, 2**32)


# --- The papers ---


@pytest.fixture(scope="module")
def found() -> list[Finding]:
    return findings()


def test_what_is_found(found):
    """audit.txt is what the audit printed when its rules were last changed; nobody has read it
    against the papers. A change means a typo of ours, or a correction of a paper."""
    assert report(found) == (Path(__file__).parent / "audit.txt").read_text().rstrip("\n")
    order = [list(FINDING_KINDS).index(one.kind) for one in found]
    assert order == sorted(order)


# --- No false alarms ---


# Shrinking is pointless: a smaller seed is no simpler table.
@settings(max_examples=20, phases=[Phase.generate])
@given(seed=SEEDS, style=st.sampled_from([*STYLES, "any"]))
def test_consistent_tables_raise_nothing(seed, style):
    """Except `rounding`, for averages of unrounded or truncated numbers."""
    kinds = {one.kind for one in findings(consistent(seed, style))}
    assert kinds <= (set() if style == "printed" else {"rounding"})


def test_order_and_notes_change_nothing(found):
    numbers = printed().assign(note="average is wrong")
    shuffled = numbers.sample(frac=1, random_state=0).reset_index(drop=True)
    before, after = (
        Counter((finding.kind, frozenset(finding.rows)) for finding in each)
        for each in (found, findings(shuffled))
    )
    assert after == before


# --- Single rules ---


def test_rows_of_two_models_may_share_three_figures_of_seven_and_no_more():
    first = {task: 70.0 + place for place, task in enumerate(STS_TASKS)}
    second = {task: 80.0 - 2 * place**2 / 7 for place, task in enumerate(STS_TASKS)}
    for shared, kinds in ((3, set()), (4, {"partial"}), (7, {"copy"})):
        rows = {"A": first, "B": second | {task: first[task] for task in STS_TASKS[:shared]}}
        lines = (("x", m, task, round(v, 2), "") for m in rows for task, v in rows[m].items())
        assert {one.kind for one in findings(table_of(lines), [])} == kinds


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ([70, 71, 72, 71], None),
        ([70, 71, 72, 73], "1 of 3 comparisons say otherwise: Avg is 72.00 at M=2x and 73.00 at"),
        ([71, 70, 72, 72], "2 of 3 comparisons say otherwise: Avg is 71.00 at M=0.5x and 70.00 at"),
    ],
)
def test_statements_about_a_sweep(values, told):
    variants = dict(zip(("M=0.5x", "M=1x", "M=2x", "M=10x"), map(float, values), strict=True))
    rows = [table_of([("x", "A", "Avg", value, "")]) for value in variants.values()]
    rows = [row.assign(variant=name) for row, name in zip(rows, variants, strict=True)]
    claim = {"source": "x", "where": "Text", "quote": "q", "table": "Table 1"}
    claim |= {"rising": ["M=0.5x", "M=1x", "M=2x"], "falling": ["M=2x", "M=10x"]}
    found = findings(pd.concat(rows[::-1]), [claim])  # in any order of print
    assert [one.kind for one in found] == (["statement"] if told else [])
    assert all(told in one.text for one in found)


def test_every_statement_names_rows_of_its_table():
    numbers = printed()
    for claim in STATEMENTS:
        of_table = (numbers["source"] == claim["source"]) & (numbers["table"] == claim["table"])
        above = claim.get("above", {})
        methods = {*above, *above.values(), claim.get("method", "")} - {""}
        assert methods <= set(numbers.loc[of_table, "method"])
        settings = {*claim.get("rising", []), *claim.get("falling", [])}
        assert settings <= set(numbers.loc[of_table, "variant"])
        assert bool(above) != bool(settings)


def table_of(rows: Iterable[tuple[str, str, str, float, str]]) -> pd.DataFrame:
    """Numbers of one table each in several papers: source, method, task, value, quoted_from."""
    lines = [
        [source, "Table 1", method, "b", "", task, "test", "spearman", value, by]
        for source, method, task, value, by in rows
    ]
    return pd.DataFrame(lines, columns=COLUMNS)


# --- The rules, one by one ---


ROUNDINGS = (half_up, round, truncated)


@settings(max_examples=200)
@given(n=st.integers(20, 3000), data=st.data(), places=st.sampled_from([1, 2]))
def test_attainable_in_one_run_is_what_counting_gives(n, data, places):
    unit = Fraction(1, 10**places)
    value = unit * data.draw(st.integers(0, 100 * 10**places))
    near = int(value * n // 100)
    shares = [Fraction(100 * j, n) for j in range(max(0, near - 1), min(n, near + 2) + 1)]
    counted = {rounding(share, places) for share in shares for rounding in ROUNDINGS}
    assert attainable(value, unit, n) == (value in counted)


@settings(max_examples=100)
@given(n=st.integers(20, 2000), counts=st.lists(st.floats(0, 1), min_size=2, max_size=5))
def test_means_of_runs_are_attainable_however_they_are_rounded(n, counts):
    runs = [Fraction(100 * round(share * n), n) for share in counts]
    for each, whole in product((None, half_up, round), ROUNDINGS):
        average = mean([each(run, 2) if each else run for run in runs])
        assert attainable(whole(average, 2), Fraction(1, 100), n, len(runs))


@pytest.mark.skipif(not os.environ.get("BENCH_DATA"), reason="BENCH_DATA is not set")
@pytest.mark.parametrize("task", TRANSFER_TASKS)
def test_majorities_are_those_of_the_files(task):
    from bench.datasets.labelled import read

    splits = read(task, Path(os.environ["BENCH_DATA"])).splits
    counts = Counter(list((splits.get("test") or splits["all"]).labels)).values()
    assert majority(task) == Fraction(100 * max(counts), sum(counts))
    assert SIZES[task].get("test") == (sum(counts) if "test" in splits else None)


# An average may be 1.5 hundredths from the mean of its row, and no further.
@pytest.mark.parametrize(
    ("average", "kinds"),
    [
        *((average, set()) for average in (80.0, 80.005)),
        *((average, {"rounding"}) for average in (80.01, 80.015)),
        *((average, {"average"}) for average in (80.016, 79.98)),
    ],
)
def test_bounds_of_an_average(average, kinds):
    values = dict.fromkeys(STS_TASKS, 80.0) | {"STS12": 80.01, "STS13": 79.99, "Avg": average}
    numbers = table_of(("x", "M", task, value, "") for task, value in values.items())
    assert {one.kind for one in findings(numbers)} == kinds


def test_one_decimal_is_held_to_one():
    """82.0 is 1,493 of 1,821; as 82.00 it would be none of them."""
    values = {"SST2": 82.0, "TREC": 92.2, "MRPC": 73.0}
    assert _kinds_of(values) == set()
    assert _kinds_of(values | {"TREC": 92.21}) == {"runs", "unattainable"}


def test_items_are_those_of_the_test_set():
    assert _kinds_of({"TREC": 89.10, "SST2": 85.51}) == {"unattainable", "runs"}
    assert _kinds_of({"TREC": 89.10, "SST2": 85.51}, split="dev") == set()


def _kinds_of(values: dict[str, float], split: str = "test") -> set[str]:
    numbers = table_of(("x", "M", task, value, "") for task, value in values.items())
    numbers = numbers.assign(split=split, metric="accuracy")
    return {one.kind for one in findings(numbers)}


# --- Output ---


def test_files(found, tmp_path):
    for path, quote in ((tmp_path / "audit.csv", '""'), (tmp_path / "audit.md", '"')):
        write(found, path)
        text = path.read_text(encoding="utf-8")
        assert all(one.text.replace('"', quote) in text for one in found)
    again = pd.read_csv(tmp_path / "audit.csv", dtype=str, keep_default_na=False)
    pd.testing.assert_frame_equal(again, frame(found))
    with pytest.raises(UserError, match=r"\.csv or \.md"):
        write(found, tmp_path / "audit.html")
    assert report([]) == "0 findings about printed numbers."
