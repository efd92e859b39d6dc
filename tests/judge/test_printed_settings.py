"""Printed hyper-parameters beside ours: every one of them is what `@paper` resolves to."""

import pytest

from bench.datasets.metrics import PRINTED
from bench.judge.settings import (
    FIELDS,
    REASONS,
    backbones,
    recipe_of,
    resolved,
    run_name,
    settings,
)
from bench.reported.number import numbers
from bench.results.suite_results import read_suite
from bench.runs import config
from tests.support.printed_numbers import printed
from tests.support.synthetic_suite import write_suite

NUMBERS = printed()[~printed()["metric"].isin(PRINTED)]
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


def test_the_variance_is_the_square_of_the_deviation():
    """The released logs have 0.5 and 0.1."""
    assert resolved("gs-infonce", "official", "roberta-large", "sigma2") == 0.25
    row = next(row for row in settings() if row.name == "sigma squared")
    large = "0.25 (bert-base-uncased, roberta-large); 0.01 (bert-large-uncased, roberta-base)"
    assert (row.printed, row.ours_paper, row.ours_official) == ("1", "1", large)


def test_the_ten_seeds_of_a_figure_are_planned():
    seeds = NUMBERS.query("task == 'random_seeds_figure5'").iloc[0]
    runs = config.planned(config.load(config.PAPERS[0]))
    own = [run for run in runs if (run.text, run.backbone) == ("is-cse@official", seeds.backbone)]
    assert len({run.seed for run in own}) == seeds["value"]


def test_all_are_shown_and_what_differs_says_why():
    rows, used = settings(), set()
    assert len(rows) == len(NUMBERS) == 52
    assert [float(row.printed) for row in rows] == NUMBERS["value"].tolist()
    for row in rows:
        number = numbers()[row.place]
        assert (row.source, row.table, row.method) == number.label[:3]
        differs = {row.ours_paper, row.ours_official} - {row.printed, "–"}
        assert bool(row.remark) == (bool(differs) or number.task not in FIELDS), row
        if row.remark:
            used.add((run_name(number.source, number.method), number.task))
    assert used == set(REASONS)


def test_what_a_suite_sets_instead_is_said(tmp_path):
    """Mutation caught: the methods' own values as if the suite had them."""
    changes = [{"batch_size": 64, "learning_rate": 1e-4}, {"batch_size": 32, "threads": 1}]
    runs = [
        {"method": "simcse", "seed": n, "recipe_changes": change}
        for n, change in enumerate(changes)
    ]
    suite = read_suite(write_suite(tmp_path / "s", runs))
    said = "Suite paper sets its own: batch size 64 or 32, learning rate 0.0001."
    assert recipe_of(suite) == said
    own = write_suite(tmp_path / "t", [{"method": "simcse", "seed": 1}])
    assert recipe_of(read_suite(own)) == ""
