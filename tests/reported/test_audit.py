"""The audit of printed numbers: its findings in the papers, and no false alarms."""

from collections import Counter
from fractions import Fraction
from math import floor
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.cli import main
from bench.datasets.tasks import STS_TASKS, TASKS, TRANSFER_TASKS
from bench.reported import COLUMNS
from bench.reported.address import address
from bench.reported.audit import FINDING_KINDS, STATEMENTS, attainable, findings
from bench.reported.number import numbers
from tests.support.printed_numbers import printed

# --- The papers ---


@pytest.fixture(scope="module")
def of_papers():
    return findings()


def test_what_is_found(capsys):
    """audit.txt is what the audit printed when its rules were last changed; nobody has read it
    against the papers. A change means a typo of ours, or a correction of a paper."""
    main(["audit"])
    assert capsys.readouterr().out == (Path(__file__).parent / "audit.txt").read_text()


# --- Single rules ---


def table_of(rows):
    """Numbers of one table each in several papers: source, method, task, value, quoted_from."""
    lines = [
        [source, "Table 1", method, "b", "", task, "test", "spearman", value, by]
        for source, method, task, value, by in rows
    ]
    return pd.DataFrame(lines, columns=COLUMNS)


def kinds_of(rows, **changes):
    return {finding.kind for finding in findings(table_of(rows).assign(**changes), [])}


RISING = {task: 70.0 + place for place, task in enumerate(STS_TASKS)}


def test_rows_of_two_models_may_share_three_numbers_of_seven_and_no_more():
    second = {task: 80.0 - 2 * place**2 / 7 for place, task in enumerate(STS_TASKS)}
    for shared, kinds in ((3, set()), (4, {"partial"}), (7, {"copy"})):
        rows = {"A": RISING, "B": second | {task: RISING[task] for task in STS_TASKS[:shared]}}
        lines = (("x", m, task, round(v, 2), "") for m in rows for task, v in rows[m].items())
        assert kinds_of(lines) == kinds


@pytest.mark.parametrize(("by", "kinds"), [("", {"copy"}), ("Somebody 2021 (first)", set())])
def test_a_row_that_quotes_a_paper_may_use_another_label(by, kinds):
    rows = [("first", "Own", task, value, "") for task, value in RISING.items()]
    rows += [("second", "First's", task, value, by) for task, value in RISING.items()]
    assert kinds_of(rows) == kinds


@pytest.mark.parametrize(
    ("printed", "kinds"), [(78.4, set()), (78.3, set()), (78.37, {"text"}), (78.5, {"text"})]
)
def test_a_text_may_round_or_truncate_the_number_of_a_table(printed, kinds):
    rows = [("x", "M", "Avg", value, "") for value in (78.36, printed)]
    assert kinds_of(rows, table=["Table 1", "Abstract"]) == kinds


@pytest.mark.parametrize(
    ("splits", "kinds"), [(["test", "test"], {"label"}), (["test", "dev"], set())]
)
def test_one_label_has_one_number_a_split(splits, kinds):
    rows = [("x", "M", "STS-B", value, "") for value in (70.0, 75.0)]
    assert kinds_of(rows, table=["Table 1", "Table 2"], split=splits) == kinds


def test_every_statement_names_methods_of_its_table():
    """The audit itself fails where a sweep has no such variant."""
    numbers = printed()
    for claim in STATEMENTS:
        of_table = (numbers["source"] == claim["source"]) & (numbers["table"] == claim["table"])
        above = claim.get("above", {})
        assert {*above, *above.values()} <= set(numbers.loc[of_table, "method"])


def half_up(value, places):
    return Fraction(floor(value * 10**places + Fraction(1, 2)), 10**places)


def truncated(value, places):
    return Fraction(floor(value * 10**places), 10**places)


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


def test_a_mean_may_be_that_of_rounded_runs():
    """1501, 1501 and 1556 of 1821 items are 82.43, 82.43 and 85.45 %, whose mean is 83.44; that of
    the counts is 83.43."""
    assert attainable(Fraction("83.44"), Fraction(1, 100), 1821, 3)


@pytest.mark.parametrize("task", TRANSFER_TASKS)
def test_majorities_are_those_of_the_files(task, real_data):
    from bench.datasets.labelled import read

    splits = read(task, real_data).splits
    counts = Counter(list((splits.get("test") or splits["all"]).labels)).values()
    assert TASKS[task].majority == Fraction(100 * max(counts), sum(counts))
    assert TASKS[task].sizes.get("test") == (sum(counts) if "test" in splits else None)


# An average may be 1.5 hundredths from the mean of its row, and no further.
@pytest.mark.parametrize(
    ("average", "kinds"),
    [
        (80.0, set()),
        (80.005, set()),
        (80.01, {"rounding"}),
        (80.015, {"rounding"}),
        (80.016, {"average"}),
        (79.98, {"average"}),
    ],
)
def test_bounds_of_an_average(average, kinds):
    values = dict.fromkeys(STS_TASKS, 80.0) | {"STS12": 80.01, "STS13": 79.99, "Avg": average}
    assert kinds_of(("x", "M", task, value, "") for task, value in values.items()) == kinds


@pytest.mark.parametrize(
    ("values", "split", "kinds"),
    [
        # 82.0 is 1,493 of 1,821; as 82.00 it would be none of them.
        ({"SST2": 82.0, "TREC": 92.2, "MRPC": 73.0}, "test", set()),
        ({"SST2": 82.0, "TREC": 92.21, "MRPC": 73.0}, "test", {"runs", "unattainable"}),
        ({"TREC": 89.10, "SST2": 85.51}, "test", {"runs", "unattainable"}),
        ({"TREC": 89.10, "SST2": 85.51}, "dev", set()),
    ],
)
def test_accuracies_are_of_whole_items_of_the_test_set(values, split, kinds):
    rows = [("x", "M", task, value, "") for task, value in values.items()]
    assert kinds_of(rows, split=split, metric="accuracy") == kinds


# --- Faults planted in the papers' own tables ---

# Beginnings of addresses, and names of rows.
DCLR = "is-cse/table-1/is-cse-dclr/roberta-large"
CARDS = "is-cse/table-1/is-cse-cards/roberta-large"
IS = "is-cse/table-1/is-cse/knn-alpha-0.1/roberta-base"
SSCL = "sscl/table-3/sscl-bert/cls/bert-base-uncased"
CT_BERT = "sscl/table-2/ct-bert/bert-base-uncased"
DCLR_NAME = "is-cse Table 1: IS-CSE+DCLR, roberta-large"
SSCL_NAME = "sscl Table 3: SSCL-BERT (cls), bert-base-uncased"
GS_NAME = "gs-infonce-v2 Table 2: GS-InfoNCE (M=3x), roberta-base"
REST_NAME = "is-cse Abstract: IS-CSE minus SimCSE, roberta-base"

# Finding: kind and name of the first row; what is done to the rows or cells of an address.
FAULTS = [
    ("average", DCLR_NAME, ("add", f"{DCLR}/avg", 0.1)),
    ("rounding", DCLR_NAME, ("add", f"{DCLR}/avg", 0.01)),
    ("unattainable", SSCL_NAME, ("add", f"{SSCL}/trec", 0.01)),
    ("runs", SSCL_NAME, ("add", f"{SSCL}/sst2", 0.01)),
    ("range", "sscl Table 6: SSCL-SimCSE (tau=0.1), bert-base-uncased",  # a lost decimal point
     ("set", "sscl/table-6/sscl-simcse/tau-0.1/bert-base-uncased/avg", 741.2)),
    ("chance", "sscl Table 4: SimCSE, bert-large-uncased",
     ("set", "sscl/table-4/simcse/bert-large-uncased/depth", 12.4)),
    ("copy", DCLR_NAME, ("copy", DCLR, CARDS)),
    ("partial", DCLR_NAME, ("copy", DCLR, CARDS), ("add", f"{DCLR}/sts12", -0.4),
     ("add", f"{DCLR}/sts13", 0.4)),
    ("shift", DCLR_NAME, ("copy", DCLR, CARDS), ("add", DCLR, -1.0)),
    ("label", "simcse-zh-noise Figure 7: SimCSE, roberta-base",  # a wrong digit
     ("add", "simcse-zh-noise/figure-7/simcse/roberta-base/sts15", 0.01)),
    ("label", "sscl Table 2: CT-BERT, bert-base-uncased",  # two numbers exchanged
     ("copy", f"{CT_BERT}/sts14", f"{CT_BERT}/sts15"),
     ("copy", f"{CT_BERT}/sts15", f"{CT_BERT}/sts14")),
    ("label", GS_NAME,  # the same numbers, of which one average fits less
     ("add", "gs-infonce-v2/table-2/gs-infonce/m-3x/roberta-base/avg", -0.01)),
    ("untrained", "sscl Table 6: GloVe (tau=0.001), bert-base-uncased",
     ("method", "sscl/table-6/sscl-simcse", "GloVe")),
    ("text", "is-cse Abstract: IS-CSE, roberta-large",
     ("add", "is-cse/abstract/is-cse/roberta-large/avg", 0.1)),
    ("difference", "is-cse Abstract: IS-CSE minus SimCSE, roberta-large",
     ("add", "is-cse/abstract/is-cse-minus-simcse/roberta-large/avg", 0.1)),
    ("resting", REST_NAME, ("add", f"{IS}/sts13", 0.7)),
    ("statement", "sscl Table 4: SSCL-BERT, bert-large-uncased",  # about two methods
     ("add", "sscl/table-4/sscl-bert/bert-large-uncased/depth", -2.2)),
    ("statement", "is-cse Table 4: IS-CSE (L=1024), bert-base-uncased",  # a sweep: equal averages
     ("add", "is-cse/table-4/is-cse/l-512/bert-base-uncased/avg", 0.43)),
]  # fmt: skip
# What the same fault is found as in the row itself.
ALSO = {
    GS_NAME: ("rounding", GS_NAME),
    REST_NAME: ("average", "is-cse Table 1: IS-CSE (kNN, alpha=0.1), roberta-base"),
}


@pytest.fixture(scope="module")
def tables():
    return printed().set_axis([address(number) for number in numbers()])


@pytest.fixture(scope="module")
def known(of_papers):
    return Counter(map(place_of, of_papers))


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault[0])
def test_a_planted_fault_is_found_and_nothing_else(fault, tables, known):
    kind, name, *changes = fault
    changed = tables.copy()
    for action, place, value in changes:
        rows = rows_at(tables, place)
        if action == "add":
            changed.loc[rows, "value"] = (changed.loc[rows, "value"] + value).round(2)
        elif action == "copy":
            changed.loc[rows, "value"] = tables.loc[rows_at(tables, value), "value"].to_numpy()
        else:
            changed.loc[rows, "value" if action == "set" else action] = value
    expected = {(kind, name), ALSO.get(name, (kind, name))}
    assert Counter(map(place_of, findings(changed))) - known == Counter(expected)


def test_every_kind_of_finding_has_a_planted_fault():
    assert {kind for kind, *_ in FAULTS} == {*FINDING_KINDS}


def rows_at(tables, place):
    rows = [name for name in tables.index if name.startswith(f"{place}/")]
    assert rows, place
    return rows


def place_of(finding):
    return finding.kind, finding.rows[0]
