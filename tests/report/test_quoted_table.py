"""Quoted scores beside ours."""

import pandas as pd
import pytest

from bench.datasets.tasks import STS_TASKS
from bench.report import tables
from bench.report.tables import quoted_tables
from bench.results.suite_results import read_suite
from tests.support.synthetic_suite import seeds, write_suite

TEXTS = dict.fromkeys(STS_TASKS, "70.00 ± 1.00")
ROWS = pd.DataFrame(
    [
        {"name": "SimCSE", "run": "simcse@official", "backbone": "bert-base-uncased"} | TEXTS,
        {"name": "SimCSE", "run": "simcse@paper", "backbone": "bert-base-uncased"} | TEXTS,
        {"name": "Other", "run": "", "backbone": "roberta-base"} | TEXTS,
    ]
).assign(quoted_from="someone/list@0123abc:README.md:1", Avg="70.10")


@pytest.fixture
def quotes(monkeypatch):
    monkeypatch.setattr(tables, "quoted", lambda board: ROWS if board == "sts" else ROWS.iloc[:0])


@pytest.mark.parametrize("backbone", ["bert-base-uncased", "toy-bert"])
def test_our_line_follows_the_quoted_one_of_the_same_run(tmp_path, quotes, backbone):
    rows = [dict.fromkeys(STS_TASKS, value) for value in (74.0, 76.0)]
    runs = seeds("simcse", rows, backbone=backbone)
    names = {"bert-base-uncased": "toy-bert"}
    suite = read_suite(write_suite(tmp_path, runs, stand_ins=names))
    (table,) = quoted_tables(suite, ["sts", "transfer"])
    assert table.stem == "quoted_sts"
    stands_in = backbone == "toy-bert"
    base = "bert-base-uncased"
    own = f"{base} (ours: toy-bert)" if stands_in else base
    mean = "75.00 ± 1.41 ≠" if stands_in else "75.00 ± 1.41"
    lines = table.shown[["Backbone", "Method", "Line", "STS12", "Avg"]].to_numpy().tolist()
    assert lines == [
        [base, "SimCSE", "quoted", "70.00 ± 1.00", "70.10"],
        [own, "SimCSE", "ours, official, n = 2", mean, mean],
        [base, "SimCSE", "quoted", "70.00 ± 1.00", "70.10"],
        ["roberta-base", "Other", "quoted", "70.00 ± 1.00", "70.10"],
    ]
    assert ("Do not compare these numbers with any paper" in table.caption) == stands_in
    assert ("≠ not comparable: ours was measured on another" in table.caption) == stands_in
