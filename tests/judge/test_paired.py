"""Paired comparisons: hand-computed cases, independent oracles, invariants, and simulated error
rates."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from bench.judge.pairs import (
    PairedDifferences,
    decide,
    seeds_to_show,
)
from bench.judged.words import MOST_SEEDS
from tests.oracles.verdict_rule import BACKBONES, documented, moments, public_seeds

points = st.floats(0, 100).map(lambda value: round(value, 2))


@st.composite
def two_methods(draw):
    """Scores of A and B by seed, for the same seeds."""
    names = draw(st.lists(st.integers(0, 50), min_size=3, max_size=8, unique=True))
    return {name: draw(points) for name in names}, {name: draw(points) for name in names}


def paired(*differences, **more):
    return PairedDifferences(dict(enumerate(differences)), dict.fromkeys(range(50), 0.0), **more)


def all_nan(*values):
    return all(map(math.isnan, values))


# --- The statistics ---


@given(two_methods())
def test_interval_and_p_are_those_of_a_paired_t_test(methods):
    a, b = methods
    found = PairedDifferences(a, b)
    if found.sd < 1e-6:
        return
    oracle = stats.ttest_rel([a[seed] for seed in sorted(a)], [b[seed] for seed in sorted(a)])
    assert found.p_value == pytest.approx(oracle.pvalue, rel=1e-7, abs=1e-12)
    low, high = oracle.confidence_interval(0.95)
    assert found.mean - found.half_width == pytest.approx(low, abs=1e-9)
    assert found.mean + found.half_width == pytest.approx(high, abs=1e-9)


def test_what_is_not_tested_has_neither_interval_nor_p():
    deterministic = PairedDifferences({None: 60.0}, {None: 55.0})
    nothing = PairedDifferences({1: 70.0}, {2: 70.0})
    for found in (deterministic, nothing, paired(1.0, 1.1)):
        assert all_nan(found.half_width, found.p_value)
    assert all_nan(nothing.mean, *paired(1.0, 2.0).part_of(1.0))
    assert deterministic.part_of(10.0)[0] == 0.5
    assert all_nan(*deterministic.part_of(10.0)[1:])


def test_part_of_a_printed_gain():
    found = paired(1.0, 2.0, 3.0)  # 2 ± 2.484138
    assert found.part_of(4.0) == pytest.approx((0.5, -0.1210345, 1.1210345))
    assert found.part_of(-4.0) == pytest.approx((-0.5, -1.1210345, 0.1210345))
    assert all_nan(*found.part_of(0.0))


# --- The number of seeds that would decide ---


@given(st.floats(0.05, 20), st.floats(0.05, 5), st.floats(1e-4, 0.2))
def test_seeds_to_decide_are_the_fewest(gain, sd, level):
    def excludes_zero(n):
        return stats.t.ppf(1 - level / 2, n - 1) * sd / n**0.5 < gain

    found = seeds_to_show(gain, sd, level)
    if found is None:
        assert not excludes_zero(MOST_SEEDS)
    else:
        assert excludes_zero(found)
        assert found == 3 or not excludes_zero(found - 1)
    assert seeds_to_show(0.0, sd) is None
    assert seeds_to_show(gain, math.nan) is None


def test_the_spread_of_few_pairs_comes_from_elsewhere():
    # Independent runs: sqrt(2) 0.84 = 1.188; t(0.975; n - 1) 1.188 / sqrt(n) is 0.994 at 8 and
    # 1.099 at 7
    assert paired(1.0, prior_sd=0.84).seeds_for(1.0) == 8
    assert paired(1.0, 1.0, prior_sd=0.84).seeds_for(1.0) == 8
    assert paired(0.9, 1.0, 1.1, prior_sd=0.84).seeds_for(1.0) == 3
    assert paired(1.0).seeds_for(1.0) is None
    assert paired(0.9, 1.1).seeds_for(1.0) == seeds_to_show(1.0, 0.02**0.5)


# --- The rule, case by case ---


@pytest.mark.parametrize(
    ("differences", "decision"),
    [
        ((1.0,), ("undecided", "n = 1; at least 3 seeds are needed", None)),
        ((1.0, 1.1), ("undecided", "n = 2; about 3 seeds would decide", 3)),
        ((0.9, 1.0, 1.1), ("better", "adjusted p = 0.0033", None)),
        ((-0.9, -1.0, -1.1), ("worse", "adjusted p = 0.0033", None)),
        # 3 were planned: t(1 - 0.00125 * 3 / n; n - 1) / sqrt(n) is 1.88 at 8 and 2.15 at 7
        ((1.0, 2.0, 3.0), ("undecided", "about 8 seeds would decide", 8)),
        ((-1.0, -2.0, -3.0), ("undecided", "about 8 seeds would decide", 8)),
        ((-1.0, 0.0, 1.0), ("undecided", "1000 seeds would not decide", None)),
        ((0.0, 0.0, 0.0), ("undecided", "the same scores at every seed", None)),
        ((0.0,), ("undecided", "the same scores at every seed", None)),
        ((0.3, 0.3, 0.3), ("better", "adjusted p = 0", None)),
    ],
)
def test_every_case_of_trained_methods(differences, decision):
    found = decide([paired(*differences)])[0]
    assert (found.verdict, found.reason, found.seeds) == decision


def with_p(p):
    """Five differences whose t test gives p."""
    base = np.arange(5) - 2
    return paired(*(base + stats.t.ppf(1 - p / 2, 4) * base.std(ddof=1) / 5**0.5))


def test_seeds_are_those_that_would_decide_among_all_comparisons():
    family = [with_p(p) for p in (0.01, 0.04, 0.03, 0.005)]
    found = decide(family)
    assert found[2].seeds == family[2].seeds_to_decide(1 / 4) > 5


def test_all_that_are_planned_to_be_tested_count_for_holm():
    lone = with_p(0.03)
    deterministic = [PairedDifferences({None: 1.0}, {None: 2.0})] * 30
    assert decide([lone, *deterministic])[0] == decide([lone])[0]
    assert decide([lone])[0].verdict == "better"
    not_yet = [
        paired(1.0, 2.0),
        PairedDifferences({}, {}),
        paired(3.0, 4.0, 5.0, diverged="1 of 3"),
    ]
    assert decide([lone, *not_yet])[0].p_adjusted == pytest.approx(4 * 0.03)
    assert np.isnan([decision.p_adjusted for decision in decide([lone, *not_yet])[1:]]).all()


@pytest.mark.parametrize(
    ("n", "planned", "factor"), [(5, 5, 1), (5, 8, 20 * 8 / 5), (5, 4, 20 * 5 / 4)]
)
def test_p_is_divided_by_the_share_of_the_level(n, planned, factor):
    """The first four differences have p = 0.0093 alone, which is less than 25 times 0.0005."""
    pair = replace(with_p(0.0005), first_seeds=frozenset(range(planned)))
    (found,) = decide([pair])
    expected = factor * 0.0005
    if n > planned:
        first = [pair.differences[seed] for seed in range(planned)]
        expected = min(expected, stats.ttest_1samp(first, 0).pvalue)
    assert found.p_adjusted == pytest.approx(expected)
    assert ("5 of 8 planned seeds; " in found.reason) == (n < planned)


def test_the_first_answer_of_a_pair_stands_while_its_mean_keeps_the_sign():
    first = with_p(0.03).differences
    for more, word in (((0.1, -0.1), "better"), ((-9.0, -9.0), "undecided")):
        pair = paired(*first, *more, first_seeds=frozenset(range(5)))
        assert pair.p_value > 0.05 / 28
        assert decide([pair])[0].verdict == word


def followed(planned, comparisons):
    """Share of comparisons of two equal methods that are found better or worse by somebody who
    looks after each seed, from three to twenty more than planned; and by one look at the planned
    seeds."""
    rng = np.random.default_rng(planned)
    once = often = 0
    for _ in range(comparisons):
        drawn = rng.normal(size=planned + 20)
        p_values = []
        for n in range(3, len(drawn) + 1):
            pair = paired(*drawn[:n], first_seeds=frozenset(range(planned)))
            p_values.append(pair.deciding_p)
        once += p_values[planned - 3] < 0.05
        often += min(p_values) < 0.05
    return once / comparisons, often / comparisons


@pytest.mark.nightly
@pytest.mark.parametrize("planned", [3, 8])
def test_looks_at_two_equal_methods_add_at_most_one_percent(planned):
    once, often = followed(planned, 4000)
    assert often - once <= 0.01


# --- Error rates ---

# A comparison on four backbones: two families, of 4 x 7 tasks and of 4 averages.


def two_draws(rng, backbone, n, source):
    """Differences of two equal methods, of shape (n, 8).

    `public`: of disjoint public seeds; `shared`: of normal draws with their covariance, half of
    whose variance both methods share at a seed; `fixed`: of public seeds and a constant, their
    mean.
    """
    seeds = public_seeds(backbone)
    if source == "public":
        drawn = seeds[rng.permutation(len(seeds))[: 2 * n]]
        return drawn[:n] - drawn[n:]
    if source == "fixed":
        return seeds[rng.integers(len(seeds), size=n)] - seeds.mean(0)
    mean, root = moments(backbone)
    shared, first, second = rng.normal(size=(3, n, 8)) @ root.T / 2**0.5
    return (mean + shared + first) - (mean + shared + second)


def decide_on(rows):
    return decide([paired(*row.tolist()) for row in rows])


def false_verdicts(n, comparisons, source):
    """Share of comparisons with a verdict but `undecided`: of tasks, of averages."""
    rng = np.random.default_rng([n, 3])
    wrong = np.zeros(2)
    for _ in range(comparisons):
        columns = [two_draws(rng, backbone, n, source).T for backbone in BACKBONES]
        tasks = [row for rows in columns for row in rows[:7]]
        for family, rows in enumerate((tasks, [rows[7] for rows in columns])):
            wrong[family] += {found.verdict for found in decide_on(rows)} != {"undecided"}
    return wrong / comparisons


def found_gains(n, gain, correlation, comparisons):
    """How often a gain on the average of bert-base is found `better`, among four averages of which
    three show none."""
    rng = np.random.default_rng([n, round(100 * gain), round(100 * correlation)])
    sds = [
        public_seeds(backbone)[:, 7].std(ddof=1) * (2 * (1 - correlation)) ** 0.5
        for backbone in BACKBONES
    ]
    found = 0
    for _ in range(comparisons):
        drawn = rng.normal(size=(4, n)) * np.array(sds)[:, None]
        drawn[0] += gain
        found += decide_on(drawn)[0].verdict == "better"
    return found / comparisons


@pytest.mark.parametrize("source", ["public", "shared"])
@pytest.mark.parametrize("n", [3, pytest.param(10, marks=pytest.mark.nightly)])
def test_false_verdicts_stay_below_five_percent_a_family(n, source):
    comparisons = 200
    most = stats.binom.ppf(0.999, comparisons, 0.05)
    assert max(false_verdicts(n, comparisons, source)) * comparisons <= most


SOURCES = ("public", "shared", "fixed")
GAINS = tuple((correlation, gain) for correlation in (0.0, 0.5, 0.9) for gain in (0.5, 1.0, 2.0))


@pytest.mark.nightly
@pytest.mark.parametrize("n", [3, 5, 10, 20])
def test_documented_rates(n):
    """False verdicts among tasks and among averages, by source of the draws; then how often gains
    are found."""
    found = [rate for source in SOURCES for rate in false_verdicts(n, 2000, source)]
    assert found == pytest.approx(documented(n, 6)[0], abs=0.005)
    power = [found_gains(n, gain, correlation, 2000) for correlation, gain in GAINS]
    assert power == pytest.approx(documented(n, 9)[0], abs=0.005)
