"""Verdicts: hand-computed cases, independent oracles, invariants, and simulated error rates."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from bench.judge.statistics import Prediction
from bench.judge.verdict import TOLERANCES, VerdictInput, tolerance, verdicts_of
from bench.judged.words import FEWEST_SEEDS, MOST_SEEDS
from bench.reported import prior_sd
from tests.oracles import verdict_rule as rule

scores = st.floats(0, 100).map(lambda value: round(value, 3))
samples = st.lists(scores, min_size=3, max_size=8)
spreads = st.floats(0.05, 5)
priors = st.none() | spreads

# n 5, mean 75, sd 0.5
OURS = [74.5, 75.5, 74.5, 75.5, 75.0]
# sqrt((3 * 0.5567² + 4 * 0.5²) / 7) = 0.5251 with 7 degrees of freedom: t(0.95) = 1.8946,
# t(0.975) = 2.3646. The mean's 90 % interval is 75 ± 0.4449, its 95 % interval 75 ± 0.5553, and
# one further run lies in 75 ± 1.3601.
PRIOR = 0.5567


def verdict(printed, ours, **rest):
    """The verdict on a single number."""
    return verdicts_of([VerdictInput(printed, ours, **rest)])[0]


# --- The intervals ---


@pytest.mark.parametrize(("printed", "p"), [(77.38 - 76, 1.0), (1.38, 1.0), (1.39, 0.0)])
def test_p_value_of_equal_scores_takes_rounding_for_none(printed, p):
    assert Prediction([77.38 - 76.0] * 3).p_value(printed) == p


@given(samples, scores)
def test_p_value_of_a_bound_is_that_of_a_one_sided_t_test(ours, printed):
    if np.ptp(ours) < 0.01:
        return
    bound = VerdictInput(printed, ours, 0.0, above=True)
    oracle = stats.ttest_ind(ours, [printed], alternative="less").pvalue
    assert bound.p_value == pytest.approx(oracle, rel=1e-7, abs=1e-12)
    assert bound.within() in ((True, None) if np.mean(ours) > printed else (False, None))


# --- The rule, case by case ---


@pytest.mark.parametrize(
    ("printed", "kind"),
    [
        (75.0, "reproduced"),
        (75.555, "reproduced"),  # 75.555 - 75 + 0.4449 < 1
        (75.556, "inconclusive"),
        (76.555, "inconclusive"),
        (76.556, "lower"),  # 76.556 - 75 - 0.5553 > 1, and beyond 1.3601
        (73.444, "higher"),
        (73.445, "inconclusive"),
    ],
)
def test_every_region_of_a_trained_number(printed, kind):
    assert verdict(printed, OURS, tolerance=1.0, prior_sd=PRIOR).kind == kind


@pytest.mark.parametrize(("printed", "half_width"), [(75.0, 0.4449), (75.5, 0.5552)])
def test_the_interval_of_the_mean_is_the_one_that_decides(printed, half_width):
    found = verdict(printed, OURS, tolerance=0.5, prior_sd=PRIOR)
    assert found.mean_half_width == pytest.approx(half_width, abs=1e-4)
    assert found.half_width == pytest.approx(1.3600, abs=1e-4)


def test_outside_the_tolerance_but_within_the_spread_is_consistent():
    # 75.9 is further than 0.2 + 0.5553 from the mean, and nearer than 1.3601.
    found = verdict(75.9, OURS, tolerance=0.2, prior_sd=PRIOR)
    assert (found.kind, found.within) == ("consistent", False)
    p = 2 * stats.t.sf(0.9 / (0.52505 * 1.2**0.5), 7)
    assert found.p == pytest.approx(p, rel=1e-3)
    assert f"one run of ours in {round(2 / p)} scores as much as print" in found.reason
    assert "as little as" in verdict(74.1, OURS, tolerance=0.2, prior_sd=PRIOR).reason


@given(samples, scores, priors, st.floats(0.5, 4), st.integers(3, 10))
def test_seeds_to_decide_are_the_fewest(ours, printed, prior, allowed, planned):
    cell = VerdictInput(printed, ours, allowed, prior_sd=prior, planned=planned)
    n = cell.seeds_to_decide
    assert cell.within(n) is not None or n == MOST_SEEDS + 1
    first = FEWEST_SEEDS
    if len(ours) > planned:  # to be added, whatever fewer would have decided
        assert n > planned
        first = planned + 1
    assert not any(cell.within(fewer) is not None for fewer in range(first, min(n, 60)))


def test_a_mean_at_the_edge_of_its_tolerance_has_no_number_of_seeds():
    found = verdict(76.0, OURS, tolerance=1.0, prior_sd=PRIOR)
    assert (found.kind, found.seeds) == ("inconclusive", None)
    assert "more than 1,000 seeds" in found.reason
    two = verdict(75.0, [75.0, 75.0], tolerance=1.0, prior_sd=0.2)  # however close
    assert (two.kind, two.seeds) == ("inconclusive", FEWEST_SEEDS)


@given(samples, scores, priors, st.floats(0.1, 4))
def test_the_rule_is_its_restatement(ours, printed, prior, allowed):
    found = verdict(printed, ours, tolerance=allowed, prior_sd=prior)
    if np.ptp(ours) < 0.01:
        return
    expected = rule.answers(np.asarray(printed), np.asarray(ours), allowed, prior)
    assert found.p == pytest.approx(float(expected.p), rel=1e-7, abs=1e-12)
    if found.kind == "reproduced":
        assert expected.inside
    elif found.kind == "inconclusive":
        assert not expected.inside
        assert not expected.outside
    else:
        assert expected.outside
        direction = "lower" if expected.lower else "higher"
        assert found.kind == ("consistent" if expected.p >= 0.05 else direction)


# --- Multiplicity ---

# Printed numbers whose p values on OURS are these; outside a tolerance of 0.1.
P_VALUES = (0.01, 0.04, 0.03, 0.005)
FAMILY = [75 + stats.t.ppf(1 - p / 2, 7) * (0.5 * 1.2**0.5) for p in P_VALUES]


# Averages by Holm: 0.005 * 4, then max(., 0.01 * 3), max(., 0.03 * 2), max(., 0.04).
# Tasks by Benjamini and Hochberg: 0.04 * 4 / 4, then min(., 0.03 * 4 / 3), min(., 0.01 * 4 / 2),
# min(., 0.005 * 4).
@pytest.mark.parametrize(
    ("average", "adjusted"), [(True, [0.03, 0.06, 0.06, 0.02]), (False, [0.02, 0.04, 0.04, 0.02])]
)
def test_corrections_on_known_p_values(average, adjusted):
    family = [VerdictInput(x, OURS, 0.1, prior_sd=0.5, average=average) for x in FAMILY]
    found = verdicts_of(family)
    assert [verdict.p for verdict in found] == pytest.approx(P_VALUES)
    assert [verdict.p_adjusted for verdict in found] == pytest.approx(adjusted)
    kinds = ["lower" if p < 0.05 else "consistent" for p in adjusted]
    assert [verdict.kind for verdict in found] == kinds


def test_numbers_without_seeds_and_tasks_do_not_count_for_averages():
    lone = VerdictInput(76.7, OURS, 1.0, prior_sd=0.5)
    company = [
        *[VerdictInput(50.0, [50.0], 0.02, deterministic=True)] * 50,
        *[VerdictInput(75.0, OURS, 1.0, average=False)] * 50,
    ]
    assert verdicts_of([lone])[0] == verdicts_of([lone, *company])[0]
    assert verdicts_of([lone])[0].kind == "lower"


def test_a_family_has_its_planned_size_from_the_first_score_on():
    lone = VerdictInput(76.7, OURS, 1.0, prior_sd=0.5)
    (alone,) = verdicts_of([lone])
    two_seeds = VerdictInput(50.0, [50.0, 51.0], 1.0)
    for others, pending in (
        ([two_seeds] * 3, ()),
        ([], [True] * 3),
        ([two_seeds], [True, False, True]),
    ):
        found = verdicts_of([lone, *others], pending)[0]
        assert found.p_adjusted == pytest.approx(4 * alone.p_adjusted)
        assert found.kind == "consistent"


# --- Tolerances ---


@pytest.mark.parametrize(
    ("kind", "task", "prior", "points"),
    [
        ("untrained", "STS12", None, 0.03),
        ("transfer", "TREC", None, 1.0),
        ("trained, transfer", "MR", None, 1.0),
        ("trained", "Avg", 1.74, 1.0),
        ("trained", "STS12", 0.75, 1.5),
        ("trained", "STS12", 1.51, 2.0),
        ("trained", "STS16", 0.27, 1.0),
    ],
)
def test_tolerances(kind, task, prior, points):
    assert tolerance(TOLERANCES[kind], task, prior) == pytest.approx(points)


# --- Operating characteristics: the public seeds of SimCSE, and normal draws with their moments ---

PAPERS = 2000


@pytest.mark.parametrize("normal", [False, True])
@pytest.mark.parametrize("n", [3, 5, 8, 10, 20])
@pytest.mark.parametrize("rows", [8, 28])
def test_false_accusations_stay_below_five_percent_a_paper(n, rows, normal):
    assert rule.false_accusations(n, rows=rows, normal=normal, papers=PAPERS) <= 0.05


# --- However one looks ---


@pytest.mark.parametrize(
    ("n", "planned", "level"),
    [(8, 8, 0.05), (3, 8, 0.0025 * 3 / 8), (10, 8, 0.0025 * 8 / 10)],
)
def test_the_level_is_that_of_the_seeds_and_the_planned_seeds(n, planned, level):
    ours = (OURS * 2)[:n]
    found = verdict(75.0, ours, tolerance=5.0, prior_sd=PRIOR, planned=planned)
    assert found.kind == "reproduced"
    assert found.mean_coverage == pytest.approx(100 * (1 - 2 * level))
    assert (f"{n} of {planned} planned seeds; " in found.reason) == (n < planned)


@pytest.mark.parametrize("planned", [3, 5, 12])
def test_followed_is_the_rule_after_each_seed(planned):
    backbone, prior = rule.BACKBONES[0], prior_sd(rule.BACKBONES[0], "Avg")
    drawn = rule.draws(np.random.default_rng(planned), backbone, 40, 40, True)
    printed = rule.public_seeds(backbone)[:, -1].mean() + np.linspace(0, 3, 40)
    found, seeds = rule.followed(printed, drawn, planned, prior)
    for row, n in enumerate(seeds):
        answers = [
            VerdictInput(
                printed[row], drawn[row, :k].tolist(), 1.0, prior_sd=prior, planned=planned
            ).within()
            for k in range(3, n + 1)
        ]
        assert answers[:-1] == [None] * (n - 3)
        assert answers[-1] is not None or n == 40
        assert found.inside[row] == (answers[-1] is True)
        assert found.outside[row] == (answers[-1] is False)
    assert len(set(seeds)) > 2


@pytest.mark.parametrize("normal", [False, True])
@pytest.mark.parametrize("planned", [3, pytest.param(8, marks=pytest.mark.nightly)])
def test_a_followed_suite_accuses_falsely_in_at_most_five_percent_of_papers(planned, normal):
    assert rule.false_accusations_of_followed(planned, papers=PAPERS, normal=normal) <= 0.05


@pytest.mark.parametrize("edge", ["normal", "no prior", "2 x spread"])
@pytest.mark.parametrize("backbone", rule.BACKBONES)
@pytest.mark.parametrize("planned", [3, 8, 20])
def test_all_looks_add_at_most_one_percent_at_the_edge_of_the_tolerance(planned, backbone, edge):
    """Looking after every seed. The mean is at the edge, so that both answers are errors."""
    looks = rule.at_the_edge(backbone, planned, papers=PAPERS, **rule.EDGES[edge])
    for answer, level in (("inside", 0.05), ("outside", 0.025)):
        once, often = (getattr(found, answer).mean() for found in looks)
        assert often - once <= 0.01
        if edge != "2 x spread":
            assert once * PAPERS <= stats.binom.isf(1e-4, PAPERS, level)


@pytest.mark.parametrize(("added", "kind"), [(74.9, "reproduced"), (72.0, "inconclusive")])
def test_the_first_answer_stands_while_the_mean_stays_on_its_side(added, kind):
    """With two seeds more, at the level 0.0025 * 5 / 7, the number is open. Their mean is 74.97
    or 74.14."""
    cell = VerdictInput(75.5, [*OURS, added, added], 1.0, prior_sd=PRIOR, planned=5)
    assert verdicts_of([replace(cell, ours=OURS)])[0].kind == "reproduced"
    assert cell.within() is None
    found = verdicts_of([cell])[0]
    assert found.kind == kind
    assert ("the first 5 seeds decided" in found.reason) == (kind == "reproduced")
    sides = 2 if found.within else 1
    assert found.mean_coverage == pytest.approx(100 * (1 - sides * 0.0025 * 5 / 7))


def test_an_interval_wider_than_the_tolerance_tells_the_seeds_that_confirm():
    """bert-large, whose public seeds spread by 1.74: five seeds confirm no mean."""
    prior = prior_sd("bert-large-uncased", "Avg")
    ours = [75 + 1.74 * step for step in (-1.25, -0.5, 0, 0.5, 1.25)]
    for printed in (75.0, 75.5):
        found = verdict(printed, ours, tolerance=1.0, prior_sd=prior)
        assert found.kind == "inconclusive"
        assert "with this spread, fewer than 38 cannot confirm any mean" in found.reason
        assert found.seeds >= 38


@pytest.mark.nightly
def test_the_document_has_these_rates():
    text = rule.DOCUMENT.read_text(encoding="utf-8")
    assert text == rule.replace_tables(text, rule.tables(rule.PAPERS))
