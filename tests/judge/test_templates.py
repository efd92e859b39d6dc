"""Rows of one encoder with several templates, and comparisons of them, which have no verdict."""

import numpy as np
import pytest

from bench.judge.judge import judge
from bench.judge.pairs import against
from tests.judge.test_items import items_of, pairs, spearman
from tests.support.compared_runs import scored, suite
from tests.support.rows import row_of


def row(name, points, **more):
    """The runs of an encoder with these points on STS-B by template."""
    return [
        scored(name, None, {"STS-B": value}, id=f"{name}-{place}", template=template, **more)
        for place, (template, value) in enumerate(points.items())
    ]


A = row("a", {"x": 72.0, "y": 70.5, "z": 69.0})
B = row("b", {"x": 70.0, "y": 70.0, "z": 71.0, "w": 99.0})
SEEDS = [scored("seeds", seed, {"STS-B": 68.0 + seed}) for seed in (1, 2, 3)]


@pytest.mark.parametrize(
    ("others", "baseline", "differences", "reason"),
    [
        (B, "b", (2.0, 0.5, -2.0), "higher in 2 of 3 templates"),
        (SEEDS, "seeds", (2.0, 0.5, -1.0), "higher in 2 of 3 templates"),
        ([scored("one", None, {"STS-B": 75.0})], "one", (-3.0, -4.5, -6.0), "higher in 0 of 3"),
    ],
    ids=["templates", "the mean of seeds", "a single score"],
)
def test_it_is_compared_by_template_without_a_verdict(others, baseline, differences, reason):
    """Also where the same differences over seeds would decide."""
    (pair,) = (x for x in against(suite(*A, *others), baseline) if x.task == "STS-B")
    assert pair.differences == pytest.approx(differences)
    assert (pair.kind, pair.verdict, pair.p, pair.half_width) == (
        "templates", "by template", None, None,
    )  # fmt: skip
    assert reason in pair.reason


def test_it_leaves_the_families_of_others_as_they_are():
    both = [scored("c", seed, {"STS-B": 71.0 + seed / 7}) for seed in (1, 2, 3)]
    alone = row_of(against(suite(*both, *SEEDS), "seeds"), method="c", task="STS-B")
    beside = row_of(against(suite(*A, *both, *SEEDS), "seeds"), method="c", task="STS-B")
    assert beside.p_adjusted == alone.p_adjusted


def test_the_test_items_decide_within_a_template():
    """`a` is clearly higher with x and clearly lower with y; z is the same but for chance."""
    sides = {"x": (0.9, 0.7), "y": (0.7, 0.9), "z": (0.8, 0.8)}
    runs = {"a": [], "b": []}
    for seed, (template, strengths) in enumerate(sides.items()):
        gold, *columns = pairs(800, strengths, seed).T
        for name, column in zip(runs, columns, strict=True):
            of_pairs = items_of(gold, column)
            made = scored(
                name, None, {"STS-B": spearman(of_pairs)}, id=f"{name}{seed}", template=template
            )
            made.items["STS-B"] = of_pairs
            runs[name].append(made)
    (pair,) = (x for x in against(suite(*runs["a"], *runs["b"]), "b") if x.task == "STS-B")
    assert pair.reason.endswith("on other test items higher in 1 and lower in 1")


def test_its_row_has_mean_spread_and_range_and_no_standing():
    """And it makes no column one in which more than half cannot be told from the best."""
    low = [scored("low", seed, {"STS-B": 50.0 + seed}) for seed in (1, 2, 3)]
    judged = judge(suite(*A, *SEEDS, *low))
    (system,) = (x for x in judged.systems if (x.board, x.method) == ("sts", "a"))
    score = system.score("STS-B")
    assert (score.n, score.mean) == (3, pytest.approx(70.5))
    assert score.sd == pytest.approx(np.std([72.0, 70.5, 69.0], ddof=1))
    standings = {x.method: dict(x.standings) for x in judged.systems if x.board == "sts"}
    assert standings == {"a": {}, "seeds": {"STS-B": "best"}, "low": {}}
