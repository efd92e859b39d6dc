"""Comparisons with a baseline: which scores are paired, and the printed numbers beside them."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from bench.datasets.tasks import PROBING_TASKS, STS_TASKS, TRANSFER_TASKS
from bench.judge.pairs import against, find
from bench.judged.rows import grouped
from bench.reported import prior_sd
from bench.utils.errors import UserError
from tests.support.compared_runs import BASE, scored, suite
from tests.support.rows import row_of, rows_of


def table(method, rows, **more):
    """One run per row, with points in the order of the STS tasks."""
    return [
        scored(method, seed, dict(zip(STS_TASKS, map(float, row), strict=True)), **more)
        for seed, row in enumerate(rows)
    ]


@pytest.fixture(scope="module")
def drawn():
    """Scores (5 seeds, 7 tasks) of A and B with two decimals; A gains 1 point, and 0 on the last
    task."""
    rng = np.random.default_rng(0)
    seed = rng.normal(75, 1, (5, 1))
    gains = np.array([1.0] * 6 + [0.0])
    a, b = (rng.normal(0, 0.2, (5, 7)) for _ in range(2))
    return np.round(seed + gains + a, 2), np.round(seed + b, 2)


# --- Naming ---


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("simcse", "simcse@official"),  # planned in both settings
        ("simcse@paper", "simcse@paper"),
        ("dclr", "dclr@paper"),  # planned in one
        ("gs-infonce+is-cse+cards", "gs-infonce+cards+is-cse@official"),
        ("simcse[ temperature=0.050 , batch_size=32]", "simcse@official"),  # the setting's own
        ("simcse[batch_size=64]", "simcse[batch_size=64]@official"),
        ("My model", "published[model=a,pooler=avg]@paper"),
        ("ESimCSE", "esimcse[rate=0.1]@official"),  # alone with this label but for its keys
    ],
)
def test_methods_are_named_as_in_configurations(text, found):
    label = {"label": "My model", "outside": True}
    runs = [
        scored("simcse", 1, 70.0, setting="paper"),
        scored("dclr", 1, 70.0, setting="paper"),
        scored("simcse", 1, 70.0, recipe_changes={"batch_size": 32}),
        scored("simcse[batch_size=64]", 1, 75.0, overridden={"batch_size": 32}),
        scored("gs-infonce+cards+is-cse", 1, 70.0),
        scored("esimcse[rate=0.1]", 1, 70.0, label="ESimCSE (rate=0.1)"),
        scored("sscl[stack=1]", 1, 70.0, label="SSCL (stack=1)"),
        scored("sscl[stack=3]", 1, 70.0, label="SSCL (stack=3)"),
        scored("published[model=a,pooler=avg]", None, 70.0, setting="paper", **label),
    ]
    assert find(suite(*runs), text).text == found
    with pytest.raises(UserError, match="'SSCL'"):
        find(suite(*runs), "SSCL")


def test_nothing_to_compare_is_an_error():
    """Fails if a method on another backbone is compared, or one without scores."""
    elsewhere = scored("sscl", 1, 70.0, backbone="roberta-base")
    missing = replace(scored("dclr", 1, None), status="missing")
    told = "no scores to compare with 'simcse@official' on bert-base-uncased, roberta-base; run its"
    with pytest.raises(UserError, match=told):
        against(suite(scored("simcse", 1, 70.0), elsewhere, missing), "simcse")


# --- Numbers ---


def test_a_comparison_is_a_paired_t_test_with_holm_over_the_tasks_and_over_the_averages(drawn):
    a, b = drawn
    pairs = against(suite(*table("sscl", a), *table("simcse", b)), "simcse")
    oracle = stats.ttest_rel(a.mean(1), b.mean(1))
    found = row_of(pairs)
    assert [pair.task for pair in pairs] == [*STS_TASKS, "Avg"]
    assert found.differences == pytest.approx(a.mean(1) - b.mean(1))
    assert (found.p, found.p_adjusted) == pytest.approx((oracle.pvalue, oracle.pvalue))
    ends = [found.difference + sign * found.half_width for sign in (-1, 1)]
    assert ends == pytest.approx([*oracle.confidence_interval(0.95)])
    assert (found.mean_a, found.sd_a) == pytest.approx((a.mean(), a.mean(1).std(ddof=1)))
    assert (found.mean_b, found.sd_b) == pytest.approx((b.mean(), b.mean(1).std(ddof=1)))
    assert (found.n, found.verdict) == (5, "better")

    p = dict(zip(STS_TASKS, stats.ttest_rel(a, b).pvalue, strict=True))
    highest, verdicts = 0.0, set()
    for rank, task in enumerate(sorted(p, key=p.get)):
        highest = max(highest, (7 - rank) * p[task])
        found = row_of(pairs, task)
        assert found.p_adjusted == pytest.approx(min(1.0, highest))
        assert found.verdict == ("better" if highest < 0.05 else "undecided")
        verdicts.add(found.verdict)
    assert len(verdicts) == 2


def test_holm_counts_every_method_and_backbone(drawn):
    a, b = drawn
    runs = [*table("sscl", a), *table("is-cse", b + 0.02), *table("simcse", b)]
    runs += table("sscl", a[::-1], backbone="roberta-base")
    runs += table("simcse", b, backbone="roberta-base")
    averages = rows_of(against(suite(*runs), "simcse"), task="Avg")
    names = [(pair.backbone, pair.method) for pair in averages]
    assert names == [(BASE, "sscl"), (BASE, "is-cse"), ("roberta-base", "sscl")]
    # The same difference at every seed has p = 0 and comes first, so the next of three counts
    # twice.
    assert averages[1].p == 0
    oracle = stats.ttest_rel(a.mean(1), b.mean(1))
    assert averages[0].p_adjusted == pytest.approx(2 * oracle.pvalue)


def test_only_common_seeds_count():
    points = {"sscl": {1: 70, 2: 71, 3: 73, 8: 99}, "simcse": {3: 70, 2: 69, 1: 69.5, 9: 0, 10: 0}}
    runs = [
        scored(method, seed, value) for method in points for seed, value in points[method].items()
    ]
    runs.append(scored("simcse", 8, 99.0, recipe_changes={"epochs": 2}))  # the first recipe counts
    found = row_of(against(suite(*runs), "simcse"))
    assert found.differences == pytest.approx((0.5, 2.0, 3.0))
    assert (found.n, found.n_a, found.n_b) == (3, 4, 5)
    assert found.mean_a == pytest.approx((70 + 71 + 73) / 3)
    assert found.mean_b == pytest.approx((69.5 + 69 + 70) / 3)


def test_few_seeds_are_undecided_with_the_number_that_would_decide():
    ours = scored("sscl", 1, 76.0)
    found = row_of(against(suite(ours, scored("simcse", 1, 75.0)), "simcse"))
    sd = prior_sd(BASE, "Avg")
    for needed in range(4, 99):  # three count as planned
        width = stats.t.isf(0.00125 * 3 / needed, needed - 1) * (2 / needed) ** 0.5 * sd
        if width < 1:
            break
    assert (found.verdict, found.seeds) == ("undecided", needed)
    found = row_of(against(suite(ours, scored("simcse", 2, 75.0)), "simcse"))
    assert (found.n, found.reason) == (0, "no seed in common")


def test_an_untrained_method_is_compared_one_sample_and_without_backbone_on_every_one():
    trained = [scored("simcse", seed, 75.0 + seed / 10) for seed in range(4)]
    overlap = scored("word-overlap", None, 50.0, setting="paper", backbone="none")
    untrained = scored("untrained", None, 60.0, setting="paper")
    pairs = against(suite(*trained, overlap, untrained), "simcse")
    for method, value in (("word-overlap", 50.0), ("untrained", 60.0)):
        found = row_of(pairs, method=method)
        oracle = stats.ttest_1samp([75.0, 75.1, 75.2, 75.3], value)
        assert (found.kind, found.backbone, found.n, found.n_a) == ("one-sample", BASE, 4, 1)
        assert found.p == pytest.approx(oracle.pvalue)
        assert found.difference == pytest.approx(value - 75.15)
        assert (found.mean_a, found.sd_a, found.verdict) == (value, None, "worse")
    skip_thought = scored("skip-thought", 1, 40.0, backbone="none")
    pairs = against(suite(*trained, overlap, untrained, skip_thought), "word-overlap")
    averages = {(pair.backbone, pair.method): pair for pair in rows_of(pairs, task="Avg")}
    assert {name: pair.kind for name, pair in averages.items()} == {
        (BASE, "simcse"): "one-sample",
        (BASE, "untrained"): "deterministic",
        ("none", "skip-thought"): "one-sample",
    }
    assert averages[BASE, "simcse"].difference == pytest.approx(25.15)


@pytest.mark.parametrize(
    ("tolerance", "metric", "task"), [(0.03, "spearman", "STS12"), (0.3, "accuracy", "MR")]
)
def test_untrained_methods_differ_by_more_than_the_tolerance(tolerance, metric, task):
    for part, word in ((5 / 6, "undecided"), (7 / 6, "higher"), (-7 / 6, "lower")):
        points = {"untrained": 60 + part * tolerance, "glove": 60.0}
        runs = [scored(method, None, {task: points[method]}, metric=metric) for method in points]
        (found,) = against(suite(*runs), "glove")
        assert (found.task, found.verdict) == (task, word)  # an average needs every task


def test_a_diverged_seed_leaves_the_comparison_undecided(drawn):
    a, b = drawn
    runs = [*table("sscl", a + 5), scored("sscl", 5, None)]
    runs += [*table("simcse", b), scored("simcse", 5, 75.0)]
    pairs = against(suite(*runs, *table("is-cse", b + 3)), "simcse")
    said = {(pair.verdict, pair.reason) for pair in rows_of(pairs, method="sscl")}
    assert said == {("undecided", "1 of 6 seeds of SSCL diverged")}
    assert row_of(pairs, method="is-cse").verdict == "better"
    # If all seeds diverged, the comparison is still reported, without numbers.
    diverged = [scored("sscl", seed, None) for seed in range(2)]
    found = row_of(against(suite(*diverged, *table("simcse", b)), "simcse"))
    assert (found.n, found.reason) == (0, "2 of 2 seeds of SSCL diverged")
    assert (found.difference, found.half_width, found.p) == (None, None, None)


def test_every_board_is_compared():
    runs = []
    for value, method in ((81.0, "sscl"), (80.5, "simcse")):
        run = scored(method, 1, dict.fromkeys(TRANSFER_TASKS, value), metric="accuracy")
        sts = {(task, "test", "spearman"): 70.0 for task in STS_TASKS}
        runs.append(replace(run, scores=run.scores | sts))
    pairs = against(suite(*runs), "simcse")
    tasks = [[pair.task for pair in group] for group in grouped(pairs, lambda pair: pair.board)]
    assert tasks == [[*STS_TASKS, "Avg"], [*TRANSFER_TASKS, "Avg"]]
    assert row_of(pairs, board="transfer").differences == (0.5,)
    assert row_of(pairs, board="sts").reason == "the same scores at every seed"
    (printed,) = row_of(pairs, board="transfer").claims
    assert (printed.source, printed.table) == ("sscl", "Table 3")


# --- What is in print ---


@pytest.mark.parametrize(
    ("tasks", "metric", "board"),
    [(PROBING_TASKS, "accuracy", "probing"), (("sts:a", "sts:b"), "spearman", "own_sts")],
)
def test_an_average_in_print_stands_beside_the_average_of_the_same_tasks_alone(
    tasks, metric, board
):
    """The papers print averages of the seven STS and of the seven transfer tasks; others have the
    same metrics, and no prior of the spread."""
    runs = [
        scored(method, 1, dict.fromkeys(tasks, value), metric=metric, tasks=list(tasks))
        for method, value in (("sscl", 61.0), ("simcse", 60.5))
    ]
    found = row_of(against(suite(*runs), "simcse"), board=board)
    assert (found.difference, found.seeds, found.claims) == (0.5, None, ())


def equal_runs(methods, seeds=3, **more):
    """Runs of several methods with equal points, which rise by one from seed to seed."""
    pairs = [(method, seed) for seed in range(seeds) for method in methods.split()]
    return [scored(method, seed, 75.0 + seed, **more) for method, seed in pairs]


def claims_of(*runs, baseline="simcse", **plan):
    """All claims of a suite, with the row that each belongs to."""
    pairs = against(suite(*runs, **plan), baseline)
    return [(pair, claim) for pair in pairs for claim in pair.claims]


def claim_of(claims, source, table, task="Avg", method=None):
    (found,) = [
        claim
        for pair, claim in claims
        if (claim.source, claim.table, pair.task) == (source, table, task)
        and method in (None, pair.method)
    ]
    return found


def printed(claim):
    return pytest.approx((claim.printed_a, claim.printed_b, claim.claimed))


def test_printed_numbers_stand_beside_their_own_tables_baseline():
    claims = claims_of(*equal_runs("is-cse gs-infonce simcse"))
    assert printed(claim_of(claims, "is-cse", "Table 1", method="is-cse")) == (78.30, 76.25, 2.05)
    own = [(pair, claim) for pair, claim in claims if pair.method == "gs-infonce"]
    for source in ("gs-infonce-v1", "gs-infonce-v2"):
        assert printed(claim_of(own, source, "Table 2")) == (77.63, 76.25, 1.38)
    assert printed(claim_of(own, "gs-infonce-v2", "Table 2", "STS-B")) == (79.70, 76.85, 2.85)
    assert {pair.backbone for pair, _ in claims} == {BASE}
    # The abstract prints only the average of IS-CSE, which is also in the table.
    assert "Abstract" not in {claim.table for _, claim in claims}


def test_a_suite_that_cannot_be_compared_with_papers_has_no_printed_numbers():
    runs = equal_runs("is-cse simcse", backbone="mini")
    assert claims_of(*runs, stand_ins={"roberta-base": "mini"}) == []
    assert claims_of(*equal_runs("is-cse simcse", corpus="wiki-mini")) == []


def test_rows_of_print_that_differ_in_more_than_the_method():
    untrained = scored("untrained[pooler=cls_before_pooler]", None, 47.0, setting="paper")
    claims = claims_of(untrained, *equal_runs("simcse simcse[batch_size=128]", seeds=1))
    own = claim_of(claims, "sscl", "Table 7", method=untrained.run.method)
    # Printed with bs=64 (46.70) and bs=128 (47.89), SimCSE with bs=64 as 76.25.
    assert (own.printed_a, own.printed_b) == (46.70, 76.25)
    # GS-InfoNCE's Table 3 prints SimCSE as M=0x, beside which M=1x gains 0.65.
    claims = claims_of(*equal_runs("gs-infonce[multiple=1] simcse", seeds=1))
    assert printed(claim_of(claims, "gs-infonce-v2", "Table 3")) == (76.90, 76.25, 0.65)


def test_a_number_without_a_printed_baseline_makes_no_claim():
    claims = claims_of(*equal_runs("is-cse sscl", seeds=1), baseline="sscl")
    found = claim_of(claims, "is-cse", "Table 1")
    assert found.printed_a == 78.30
    assert (found.printed_b, found.claimed, found.part) == (None, None, None)
    dev = equal_runs("is-cse[buffer=256] is-cse", seeds=1)  # printed on dev sets
    assert claims_of(*dev, baseline="is-cse") == []


def test_the_part_of_a_printed_gain_that_comes_back_and_the_seeds_that_would_show_it():
    gains = (0.5, -0.5, 2.0, -1.0)
    runs = [scored("is-cse", seed, 75.0 + value) for seed, value in enumerate(gains)]
    runs += [scored("simcse", seed, 75.0) for seed in range(4)]
    found = claim_of(claims_of(*runs), "is-cse", "Table 1")
    low, high = stats.ttest_1samp(gains, 0).confidence_interval(0.95)
    part = (found.part, found.part_low, found.part_high)
    assert part == pytest.approx((0.25 / 2.05, low / 2.05, high / 2.05))
    sd = np.std(gains, ddof=1)
    needed = next(n for n in range(3, 99) if stats.t.ppf(0.975, n - 1) * sd / n**0.5 < 2.05)
    assert found.seeds_claimed == needed
    diverged = claim_of(claims_of(*runs, scored("is-cse", 9, None)), "is-cse", "Table 1")
    assert (diverged.part, diverged.part_low, diverged.part_high) == (None, None, None)
