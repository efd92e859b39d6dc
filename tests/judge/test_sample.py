"""The kernel: the t interval against scipy, the order of seeds, and the looks at them."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from bench.datasets.metrics import Cell, probe_seed
from bench.datasets.tasks import LEADERBOARDS, TRANSFER_TASKS
from bench.judge.sample import Sample, differences_of, sample_of
from bench.judge.statistics import estimate
from bench.results.system import System
from tests.support.compared_runs import scored

points = st.floats(0, 100).map(lambda value: round(value, 2))
several = st.lists(points, min_size=3, max_size=8)
STS, ACCURACIES = LEADERBOARDS["sts"].cells("Avg"), LEADERBOARDS["transfer"].cells("Avg")


def sample(*values, first=5):
    """Values of seeds 0, 1, ..., which are all planned."""
    return Sample(dict(enumerate(values)), range(len(values)), first)


# --- One formula ---


@given(several, points)
def test_interval_and_p_values_are_those_of_a_t_test(scores, value):
    result = estimate(scores)
    if result.error < 1e-6:
        return
    oracle = stats.ttest_1samp(scores, value)
    assert result.p_value(value) == pytest.approx(oracle.pvalue, rel=1e-6, abs=1e-12)
    ends = [result.mean + sign * result.half_width() for sign in (-1, 1)]
    assert ends == pytest.approx([*oracle.confidence_interval(0.98)], abs=1e-8)
    less = stats.ttest_1samp(scores, value, alternative="less")
    assert result.p_below(value) == pytest.approx(less.pvalue, rel=1e-6, abs=1e-12)


def test_the_same_score_at_every_seed_is_certain():
    result = estimate([0.3, 0.3, 0.3])
    assert (result.p_value(), result.p_value(0.3), result.half_width()) == (0, 1, 0)
    assert (result.p_below(0.2), result.p_below(0.3), result.p_below(0.4)) == (1, 1, 0)


# --- Looks ---


@pytest.mark.parametrize(
    ("made", "look", "next_look"),
    [(0, 0, 5), (4, 0, 5), (5, 5, 10), (19, 10, 20), (20, 20, None), (30, 20, None)],
)  # fmt: skip
def test_looks_are_at_once_twice_and_four_times_the_planned_seeds(made, look, next_look):
    result = sample(*map(float, range(made)))
    assert (result.look, result.next_look) == (look, next_look)
    assert result.scores == tuple(map(float, range(look or made)))
    assert bool(result.tested) == (look > 0)


def test_no_fewer_than_three_seeds_are_looked_at():
    assert [sample(1.0, 2.0, first=first).sizes for first in (1, 2, 4)] == [
        [3, 6, 12], [3, 6, 12], [4, 8, 16],
    ]  # fmt: skip


def test_a_look_waits_for_its_own_seeds():
    """Another seed is no substitute: seed 4 has no score, and seed 5 does not stand in for it."""
    values = {seed: float(seed) for seed in (0, 1, 2, 3, 5)}
    result = Sample(values, range(6), 5)
    assert (result.look, result.made(5), result.tested) == (0, 4, None)


@pytest.mark.parametrize(
    ("sides", "missing"), [({"diverged"}, 1), ({"left_out"}, 0), ({"left_out", "diverged"}, 0)]
)
def test_a_training_that_diverged_leaves_the_pairs(sides, missing):
    result = Sample({0: 5.0, 1: 3.0, 2: 4.0}, range(4), 4, **{side: {3} for side in sides})
    assert (result.look, result.scores, result.missing) == (4, (5, 3, 4), missing)


def test_fewer_than_three_pairs_have_no_test():
    assert Sample({0: 5.0, 1: 3.0}, range(3), 3, left_out={2}).tested is None


# --- From runs ---


def seeded(method, seeds, **more):
    return [scored(method, seed, 70.0 + seed, **more) for seed in seeds]


def test_seeds_are_in_the_order_in_which_they_were_planned():
    """First those from before the first score, then by the number of their addition, whatever
    their place in the plan; those of a lost plan count for no look."""
    added = {9: {"sts": 2}, 7: {"sts": 1}, 5: {"sts": None}}
    runs = [
        scored("simcse", seed, 70.0 + seed, tasks=("sts",), added=added.get(seed, {}))
        for seed in (9, 1, 5, 7, 2, 3)
    ]
    found = sample_of(System(runs).scores(STS))
    assert [*found.planned] == [1, 2, 3, 7, 9]
    assert (found.first_size, found.look, found.scores) == (3, 3, (71, 72, 73))


def test_a_pair_was_added_when_its_later_side_was():
    a = [*seeded("sscl", (1, 2, 3)), scored("sscl", 4, 74.0, added={"all": 5})]
    a.append(scored("sscl", 5, 75.0, added={"all": 2}))
    b = [*seeded("simcse", (1, 2, 3, 4)), scored("simcse", 5, 75.0, added={"all": 1})]
    found = differences_of(System(a).scores(STS), System(b).scores(STS))
    assert ([*found.planned], found.first_size) == ([1, 2, 3, 5, 4], 3)


def test_the_tasks_of_an_addition_count_alone():
    tasks, added = ("sts", "transfer"), {"transfer": 1}
    runs = [
        scored("simcse", seed, 70.0, tasks=tasks, added=added if seed > 3 else {})
        for seed in range(1, 6)
    ]
    assert System(runs).scores(STS).additions == dict.fromkeys(range(1, 6), 0)
    assert System(runs).scores(ACCURACIES).additions == {1: 0, 2: 0, 3: 0, 4: 1, 5: 1}


def classified(seeds):
    """The scores of an untrained encoder: an average on transfer tasks by classifier seed."""
    scores = {}
    for seed, value in seeds.items():
        for task in TRANSFER_TASKS:
            scores[Cell(task, "test", "accuracy", probe_seed(seed))] = value
    return System([replace(scored("untrained", None, 80.0), scores=scores)]).scores(ACCURACIES)


def test_classifier_seeds_stand_beside_training_seeds():
    seeds = {1111: 80.0, 1112: 80.2, 1113: 79.9, 1114: 80.1, 1115: 80.3}
    runs = [
        scored("simcse", seed, dict.fromkeys(TRANSFER_TASKS, 81.0 + seed / 10), metric="accuracy")
        for seed in (1, 2, 3)
    ]
    trained = System(runs).scores(ACCURACIES)
    assert differences_of(classified(seeds), trained).tested.mean == pytest.approx(80.1 - 81.2)
    # One classifier seed says nothing of the others.
    assert differences_of(trained, classified({1111: 80.0})).tested is None
