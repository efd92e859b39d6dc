"""Printed hyper-parameters beside ours: every one of them is what `@paper` resolves to."""

from __future__ import annotations

import pandas as pd
import pytest

from bench.report.hyperparameters import (
    FIELDS,
    REASONS,
    backbones,
    hyperparameters,
    render_hyperparameters,
    resolved,
    run_name,
)
from bench.reported import MEASURES, printed
from bench.runs import config

NUMBERS = printed()[~printed()["metric"].isin(MEASURES)]
CASES = [
    pytest.param(row, backbone, id=f"{row.source}-{row.table}-{row.method}-{backbone}-{row.task}")
    for row in NUMBERS.query("task in @FIELDS").itertuples()
    for backbone in backbones(row.source, row.backbone)
]


@pytest.mark.parametrize(("number", "backbone"), CASES)
def test_paper_resolves_to_what_is_printed(number, backbone):
    method = run_name(number.source, number.method)
    found = resolved(method, "paper", backbone, number.task)
    if (method, number.task) == ("word-noise[noise=none]", "dropout"):
        assert (number.value, found) == (0.1, 0.15)  # print contradicts its base code
    else:
        assert found == number.value
    if number.task == "alpha_constant":
        assert resolved(method, "paper", backbone, "alpha_start") is None


def test_the_ten_seeds_of_a_figure_are_planned():
    seeds = NUMBERS.query("task == 'random_seeds_figure5'").iloc[0]
    content = config.load(config.SCHEMA.with_name("paper.yaml"))
    runs = [run for run in config.plan(content)["runs"] if run["backbone"] == seeds["backbone"]]
    runs = [run for run in runs if (run["method"], run["setting"]) == ("is-cse", "official")]
    assert len({run["seed"] for run in runs}) == seeds["value"]


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return hyperparameters()


def test_all_are_shown_and_what_differs_says_why(table):
    assert len(table) == len(NUMBERS) == 52
    assert table["printed"].astype(float).tolist() == NUMBERS["value"].tolist()
    for row in table.itertuples():
        differs = {row.paper, row.official} - {row.printed, "–"}
        assert bool(row.remark) == (bool(differs) or row.name not in FIELDS), row
    used = {(run_name(r.source, r.method), r.name) for r in table.itertuples() if r.remark}
    assert used == set(REASONS)


def test_values_by_backbone(table):
    row = table.query("source == 'gs-infonce-v2' and name == 'M_over_batch_size'").iloc[0]
    assert row["paper"] == "3"
    three = "3 (bert-base-uncased, bert-large-uncased, roberta-base)"
    assert row["official"] == f"{three}; 1.5 (roberta-large)"


def test_rendered_in_four_formats(tmp_path):
    render_hyperparameters(tmp_path)
    stems = {path.stem for path in tmp_path.glob("*.csv")}
    assert {"is-cse_table-2", "gs-infonce-v1_table-1", "sscl_implementation-details"} <= stems
    for suffix in ("md", "tex", "html"):
        assert {path.stem for path in tmp_path.glob(f"*.{suffix}")} == stems
    text = (tmp_path / "is-cse_table-2.md").read_text(encoding="utf-8")
    assert "| roberta-large | IS-CSE | learning_rate | 3e-5 | 3e-5 | 3e-5 |" in text
