"""Verdicts on printed numbers: cases computed by hand, families and tolerances."""

import doctest

import pytest
from scipy import stats

import sentbench
from bench.judge import verdict as module
from bench.judge.sample import Sample
from bench.judge.verdict import TOLERANCES, VerdictInput, judge, tolerance, verdicts_of
from tests.support.refusals import refused

# n 5, mean 75, sd 0.5, so that the mean has an error of 0.2236 with 4 degrees of freedom:
# t(0.99) = 3.7469, t(0.98) = 2.9985. Its 98 % interval is 75 ± 0.8378, its 96 % interval
# 75 ± 0.6705, and one further run lies in 75 ± 2.0523 with 98 %, and below 76.6424 with 98 %.
OURS = [74.5, 75.5, 74.5, 75.5, 75.0]


def side(printed, ours=OURS, allowed=1.0, planned=None, **more):
    seeds = range(planned or len(ours))
    return VerdictInput(printed, Sample(dict(enumerate(ours)), seeds, 5), allowed, **more)


def verdict(*args, **more):
    """The verdict on a single number."""
    return verdicts_of([side(*args, **more)])[0]


# --- The rule, case by case ---


@pytest.mark.parametrize(
    ("printed", "kind"),
    [
        (75.0, "reproduced"),
        (75.329, "reproduced"),  # 0.329 + 0.6705 < 1
        (75.330, "open"),
        (76.838, "consistent"),  # 1.838 - 0.8378 > 1
        (77.053, "lower"),  # beyond 2.0523
        (72.947, "higher"),
    ],
)
def test_every_region_of_a_number(printed, kind):
    assert verdict(printed).kind == kind


@pytest.mark.parametrize(
    ("printed", "kind"),
    [
        (74.329, "reproduced"),  # 0.6705 below our mean
        (74.330, "open"),
        (75.837, "open"),
        (75.838, "consistent"),
        (76.642, "consistent"),
        (76.643, "lower"),
    ],
)
def test_every_region_of_a_printed_bound(printed, kind):
    assert verdict(printed, allowed=0.0, above=True).kind == kind


def test_a_verdict_has_its_intervals_and_the_runs_of_which_one_reaches_print():
    result = verdict(76.9)
    assert (result.mean_half_width, result.half_width) == pytest.approx((0.8378, 2.0523), abs=1e-4)
    p = 2 * stats.t.sf(1.9 / (0.5 * 1.2**0.5), 4)
    assert result.p == pytest.approx(p)
    assert (result.kind, result.within, result.mark) == ("consistent", False, f"≈ 1/{round(2 / p)}")
    assert "98 % interval 74.16 to 75.84; tolerance 1.00 of 76.90" in result.reason
    bound = verdict(76.0, allowed=0.0, above=True)
    assert bound.p == pytest.approx(stats.ttest_ind(OURS, [76.0], alternative="less").pvalue)
    assert bound.mark == f"≈ 1/{round(1 / bound.p)}"


@pytest.mark.parametrize(("mean", "kind"), [(0.41, "open"), (0.42, "reproduced")])
def test_a_difference_that_may_be_0_is_not_reproduced(mean, kind):
    """Its 96 % interval is mean ± 0.3353, which is within 0.5 of print, its 98 % one ± 0.4189."""
    ours = [mean + (score - 75) / 2 for score in OURS]
    assert verdict(0.45, ours, 0.5, is_difference=True).kind == kind
    assert verdict(0.45, ours, 0.5).kind == "reproduced"


def test_nothing_is_decided_before_the_first_look_and_between_looks():
    before = verdict(75.0, [75.0] * 4, planned=5)
    assert (before.kind, before.mark, before.p) == ("open", "? 5", None)
    assert before.reason.endswith("first look at 5 seeds, 4 made")
    between = verdict(75.0, [*OURS, 0.0, 0.0], planned=10)
    assert (between.kind, between.next_look) == ("reproduced", None)
    assert between.reason.endswith("next look at 10 seeds, 7 made")
    assert verdict(76.0).mark == "? 10"


# --- Multiplicity ---

# Printed numbers whose p values on OURS are these; outside a tolerance of 0.1.
P_VALUES = (0.008, 0.04, 0.03, 0.004)
FAMILY = [75 + stats.t.ppf(1 - p / 2, 4) * (0.5 * 1.2**0.5) for p in P_VALUES]


# Averages by Holm: 0.004 * 4, then max(., 0.008 * 3), max(., 0.03 * 2), max(., 0.04).
# Tasks by Benjamini and Hochberg: 0.04 * 4 / 4, then min(., 0.03 * 4 / 3), min(., 0.008 * 4 / 2),
# min(., 0.004 * 4).
@pytest.mark.parametrize(
    ("average", "adjusted"),
    [(True, [0.024, 0.06, 0.06, 0.016]), (False, [0.016, 0.04, 0.04, 0.016])],
)
def test_corrections_on_known_p_values(average, adjusted):
    result = verdicts_of([side(x, allowed=0.1, average=average) for x in FAMILY])
    assert [verdict.p for verdict in result] == pytest.approx(P_VALUES)
    assert [verdict.p_adjusted for verdict in result] == pytest.approx(adjusted)
    kinds = ["lower" if p < 0.02 else "consistent" for p in adjusted]
    assert [verdict.kind for verdict in result] == kinds


def test_numbers_without_seeds_and_tasks_do_not_count_for_averages():
    alone = VerdictInput(50.0, Sample({None: 50.0}, [None], 1), 0.02)
    company = [*[alone] * 50, *[side(75.0, average=False)] * 50]
    assert verdicts_of([side(77.1), *company])[0] == verdict(77.1)
    assert verdict(77.1).kind == "lower"


def test_a_family_has_its_planned_size_from_the_first_score_on():
    two_seeds = side(50.0, [50.0, 51.0], planned=5)
    for others, pending in (
        ([two_seeds] * 3, ()),
        ([], [True] * 3),
        ([two_seeds], [True, False, True]),
    ):
        result = verdicts_of([side(77.1), *others], pending)[0]
        assert result.p_adjusted == pytest.approx(4 * verdict(77.1).p_adjusted)
        assert result.kind == "consistent"
        assert "Holm over the 4 averages of the paper" in result.reason


# --- Tolerances ---


@pytest.mark.parametrize(
    ("kind", "task", "public_sd", "points"),
    [
        ("untrained", "STS12", None, 0.03),
        ("transfer", "TREC", None, 1.0),
        ("trained", "Avg", 1.74, 1.0),
        ("trained", "STS12", 1.51, 2.0),
        ("trained", "STS16", 0.27, 1.0),
    ],
)
def test_tolerances(kind, task, public_sd, points):
    assert tolerance(TOLERANCES[kind], task, public_sd) == pytest.approx(points)


# --- In Python ---


def test_the_example_of_judge():
    examples = doctest.testmod(module, extraglobs={"sentbench": sentbench})
    assert (examples.attempted, examples.failed) == (3, 0)


def test_a_number_is_judged_as_in_a_suite():
    assert judge(printed=76.9, scores=OURS, planned=5) == verdict(76.9)


@pytest.mark.parametrize(
    ("scores", "kind", "end"),
    [
        ([], "open", "first look at 5 seeds, 0 made"),
        ([*OURS, 70.0], "reproduced", "next look at 10 seeds, 6 made"),  # the sixth waits
    ],
)
def test_a_number_waits_for_its_look(scores, kind, end):
    result = judge(printed=75.0, scores=scores, planned=5)
    assert result.kind == kind
    assert result.reason.endswith(end)


@pytest.mark.parametrize(
    ("where", "allowed"),
    [
        ({}, 1.0),
        ({"task": "STS12"}, 1.0),
        # Twice the public deviation, 0.8735.
        ({"task": "STS16", "backbone": "bert-base-uncased"}, 1.747),
        ({"leaderboard": "transfer"}, 0.5),
        ({"leaderboard": "transfer", "task": "TREC"}, 2.0),
    ],
)
def test_the_tolerance_of_a_number(where, allowed):
    result = judge(printed=75.0, scores=OURS, planned=5, **where)
    assert result.tolerance == pytest.approx(allowed, abs=0.01)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"scores": [*OURS[:4], float("nan")]},
         "a score is not finite; after a diverged seed there is no"),
        ({"printed": 0.77}, "0.77 is not in points; write a score such as 76.25"),
        ({"leaderboard": "stss"}, "no leaderboard 'stss' has 'Avg'; did you mean 'sts'"),
        ({"task": "TREC"}, "no leaderboard 'sts' has 'TREC'"),
    ],
)  # fmt: skip
def test_what_cannot_be_judged_is_refused(given, message):
    refused(lambda: judge(**{"printed": 75.0, "scores": OURS, "planned": 5} | given), message)
