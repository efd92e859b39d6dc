"""Rows of one encoder with several templates."""

import numpy as np
import pytest

from bench.judge.judge import judge
from tests.support.compared_runs import scored, suite
from tests.support.rows import against, rows_of

TEMPLATES = [
    scored("a", None, {"STS-B": value}, id=template, template=template)
    for template, value in {"x": 72.0, "y": 70.5, "z": 69.0}.items()
]
SEEDED = [
    scored(name, seed, {"STS-B": points + seed})
    for name, points in (("simcse", 68.0), ("sscl", 69.0))
    for seed in (1, 2, 3)
]


def test_it_has_no_pair():
    """Templates are chosen, not drawn."""
    pairs = against(suite(*TEMPLATES, *SEEDED), "simcse")
    assert {pair.method for pair in pairs} == {"sscl"}


def test_its_row_has_mean_spread_and_range():
    (system,) = rows_of(judge(suite(*TEMPLATES)).systems, leaderboard="sts")
    score = system.score("STS-B")
    assert (score.n, score.mean, score.scores) == (3, pytest.approx(70.5), (72.0, 70.5, 69.0))
    assert score.sd == pytest.approx(np.std([72.0, 70.5, 69.0], ddof=1))
    assert system.over_templates
