"""Faults planted in the papers' own tables: the audit finds each, at its address, and no other."""

from collections import Counter
from typing import Any

import pandas as pd
import pytest

from bench.reported.address import address
from bench.reported.audit import FINDING_KINDS, Finding, findings
from bench.reported.number import numbers
from tests.support.printed_numbers import printed

# Beginnings of addresses, and names of rows.
DCLR = "is-cse/table-1/is-cse-dclr/roberta-large"
CARDS = "is-cse/table-1/is-cse-cards/roberta-large"
IS = "is-cse/table-1/is-cse/knn-alpha-0.1"
SSCL = "sscl/table-3/sscl-bert/cls/bert-base-uncased"
DCLR_NAME = "is-cse Table 1: IS-CSE+DCLR, roberta-large"
SSCL_NAME = "sscl Table 3: SSCL-BERT (cls), bert-base-uncased"
SWEEP = "sscl/table-6/sscl-simcse"
CT_BERT = "sscl/table-2/ct-bert/bert-base-uncased"
BUFFER = "is-cse/table-4/is-cse"
GS_NAME = "gs-infonce-v1 Table 2: GS-InfoNCE (M=3x), roberta-base"
Change = tuple[str, str, Any]  # what is done to the rows or cells of an address

# Name, which starts with the kind -> the changes, and the findings: kind, name of the first row.
FAULTS: dict[str, tuple[list[Change], set[tuple[str, str]]]] = {
    "average": ([("add", f"{DCLR}/avg", 0.1)], {("average", DCLR_NAME)}),
    "rounding": ([("add", f"{DCLR}/avg", 0.01)], {("rounding", DCLR_NAME)}),
    "unattainable": ([("add", f"{SSCL}/trec", 0.01)], {("unattainable", SSCL_NAME)}),
    "runs": ([("add", f"{SSCL}/sst2", 0.01)], {("runs", SSCL_NAME)}),
    "range, by a lost decimal point": (
        [("set", f"{SWEEP}/tau-0.1/bert-base-uncased/avg", 741.2)],
        {("range", "sscl Table 6: SSCL-SimCSE (tau=0.1), bert-base-uncased")},
    ),
    "chance": (
        [("set", "sscl/table-4/simcse/bert-large-uncased/depth", 12.4)],
        {("chance", "sscl Table 4: SimCSE, bert-large-uncased")},
    ),
    "copy": ([("copy", DCLR, CARDS)], {("copy", DCLR_NAME)}),
    "partial": (
        [("copy", DCLR, CARDS), ("add", f"{DCLR}/sts12", -0.4), ("add", f"{DCLR}/sts13", 0.4)],
        {("partial", DCLR_NAME)},
    ),
    "shift": ([("copy", DCLR, CARDS), ("add", DCLR, -1.0)], {("shift", DCLR_NAME)}),
    "cells": (
        [("add", "gs-infonce-v1/table-2/gs-infonce/m-3x/roberta-base/avg", -0.01)],
        {("cells", GS_NAME), ("rounding", GS_NAME)},
    ),
    "label with a wrong digit": (
        [("add", "simcse-zh-noise/figure-7/simcse/roberta-base/sts15", 0.01)],
        {("label", "simcse-zh-noise Figure 7: SimCSE, roberta-base")},
    ),
    "label with two figures exchanged": (
        [
            ("copy", f"{CT_BERT}/sts14", f"{CT_BERT}/sts15"),
            ("copy", f"{CT_BERT}/sts15", f"{CT_BERT}/sts14"),
        ],
        {("label", "sscl Table 2: CT-BERT, bert-base-uncased")},
    ),
    "untrained": (
        [("method", SWEEP, "GloVe")],
        {("untrained", "sscl Table 6: GloVe (tau=0.001), bert-base-uncased")},
    ),
    "text": (
        [("add", "is-cse/abstract/is-cse/roberta-large/avg", 0.1)],
        {("text", "is-cse Abstract: IS-CSE, roberta-large")},
    ),
    "difference": (
        [("add", "is-cse/abstract/is-cse-minus-simcse/roberta-large/avg", 0.1)],
        {("difference", "is-cse Abstract: IS-CSE minus SimCSE, roberta-large")},
    ),
    "resting": (
        [("add", f"{IS}/roberta-base/sts13", 0.7)],
        {
            ("resting", "is-cse Abstract: IS-CSE minus SimCSE, roberta-base"),
            ("average", "is-cse Table 1: IS-CSE (kNN, alpha=0.1), roberta-base"),
        },
    ),
    "statement about two methods": (
        [("add", "sscl/table-4/sscl-bert/bert-large-uncased/depth", -2.2)],
        {("statement", "sscl Table 4: SSCL-BERT, bert-large-uncased")},
    ),
    "statement about a sweep": (
        [("add", f"{BUFFER}/l-512/bert-base-uncased/avg", 1.0)],
        {("statement", "is-cse Table 4: IS-CSE (L=1024), bert-base-uncased")},
    ),
}


@pytest.fixture(scope="module")
def tables() -> pd.DataFrame:
    return printed().set_axis([address(number) for number in numbers()])


@pytest.fixture(scope="module")
def known(tables: pd.DataFrame) -> Counter[tuple[str, str]]:
    return Counter(map(_place, findings(tables)))


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found_and_nothing_else(fault, tables, known):
    changes, expected = FAULTS[fault]
    numbers = tables.copy()
    for action, place, value in changes:
        rows = _at(tables, place)
        if action == "add":
            numbers.loc[rows, "value"] = (numbers.loc[rows, "value"] + value).round(2)
        elif action == "copy":
            numbers.loc[rows, "value"] = tables.loc[_at(tables, value), "value"].to_numpy()
        else:
            numbers.loc[rows, "value" if action == "set" else action] = value
    assert Counter(map(_place, findings(numbers))) - known == Counter(expected)


def test_every_kind_of_finding_has_a_planted_fault():
    assert {kind for _, expected in FAULTS.values() for kind, _ in expected} == {*FINDING_KINDS}


def _at(tables: pd.DataFrame, place: str) -> list[str]:
    rows = [name for name in tables.index if name.startswith(f"{place}/")]
    assert rows, place
    return rows


def _place(finding: Finding) -> tuple[str, str]:
    return finding.kind, finding.rows[0]
