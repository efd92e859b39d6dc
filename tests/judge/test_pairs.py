"""Comparisons with a baseline: which scores are paired, and the printed numbers beside them."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from bench.datasets.metrics import FURTHER_SEEDS, Cell, probe_seed
from bench.datasets.tasks import PROBING_TASKS, STS_TASKS, TRANSFER_TASKS
from bench.runs.naming import find_run
from bench.utils.groups import grouped
from tests.support.compared_runs import BASE, claim, scored, suite
from tests.support.refusals import refused
from tests.support.rows import against, row_of, rows_of


def table(method, rows, **more):
    """One run per row, with points in the order of the STS tasks."""
    return [
        scored(method, seed, dict(zip(STS_TASKS, map(float, row), strict=True)), **more)
        for seed, row in enumerate(rows)
    ]


def compared(*runs, baseline="simcse", **plan):
    """All comparisons of a suite."""
    return against(suite(*runs, **plan), baseline)


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
        ("MY model", "published[model=a,pooler=avg]@paper"),
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
    planned = [run.run for run in runs]
    assert find_run(text, planned).text == found
    refused(lambda: find_run("SSCL", planned), "'SSCL'")


def test_nothing_to_compare_is_an_error():
    """Fails if a method on another backbone is compared, or one without scores."""
    elsewhere = scored("sscl", 1, 70.0, backbone="roberta-base")
    missing = replace(scored("dclr", 1, None), status="missing")
    told = "no scores to compare with 'simcse@official' on bert-base-uncased, roberta-base; run its"
    refused(lambda: compared(scored("simcse", 1, 70.0), elsewhere, missing), told)


# --- Numbers ---


def test_a_claim_is_a_paired_t_test_on_the_average_and_single_tasks_have_no_word(drawn):
    a, b = drawn
    runs = [*table("sscl", a), *table("simcse", b)]
    pairs = compared(*runs, claims=[claim("sscl", margin=2.0)])
    assert [pair.task for pair in pairs] == [*STS_TASKS, "Avg"]
    found, oracle = row_of(pairs), stats.ttest_rel(a.mean(1), b.mean(1))
    assert found.differences == pytest.approx(a.mean(1) - b.mean(1))
    assert (found.p, found.p_adjusted) == pytest.approx((oracle.pvalue, oracle.pvalue))
    less = stats.ttest_1samp(found.differences, 2.0, alternative="less").pvalue
    assert (found.p_below, found.margin) == (pytest.approx(less), 2.0)
    ends = [found.difference + sign * found.half_width for sign in (-1, 1)]
    assert ends == pytest.approx([*oracle.confidence_interval(0.98)])
    assert (found.mean_a, found.sd_a) == pytest.approx((a.mean(), a.mean(1).std(ddof=1)))
    assert (found.mean_b, found.sd_b) == pytest.approx((b.mean(), b.mean(1).std(ddof=1)))
    assert (found.n, found.planned, found.next_look, found.family) == (5, 5, 10, 1)
    assert (found.verdict, found.reason.count("; ")) == ("better, gain below the margin", 5)
    for task, expected in zip(STS_TASKS, stats.ttest_rel(a, b).pvalue, strict=True):
        found = row_of(pairs, task)
        assert (found.p, found.p_adjusted, found.verdict) == (pytest.approx(expected), None, None)


def claimed(drawn, *methods, claims=()):
    """The answers of methods that score as A of `drawn`, with a claim each."""
    a, b = drawn
    runs = [*table("simcse", b), *(run for method in methods for run in table(method, a))]
    everything = [*map(claim, methods), *claims]
    return rows_of(compared(*runs, claims=everything), task="Avg")


def test_holm_counts_claims_of_all_backbones_dropped_ones_and_those_without_a_score(drawn):
    (alone,) = claimed(drawn, "sscl")
    others = [
        claim("is-cse", dropped=True),
        claim("sscl", margin=2.0, dropped=True),
        claim("sscl", backbone="roberta-base"),
    ]
    (found,) = claimed(drawn, "sscl", claims=others)
    assert (found.p_adjusted, found.p_below) == pytest.approx((4 * alone.p, 4 * alone.p_below))
    assert "Holm over the 4 claims of family 1" in found.reason
    # The largest of two equal p values, times two.
    assert [pair.p_adjusted for pair in claimed(drawn, "sscl", "dclr")] == [2 * alone.p] * 2


def test_a_further_family_is_corrected_by_itself(drawn):
    (alone,) = claimed(drawn, "sscl")
    further = [claim(method, family=2) for method in ("cards", "is-cse")]
    (found,) = claimed(drawn, "sscl", claims=further)
    assert found.p_adjusted == alone.p


def test_there_is_no_word_without_a_claim_against_this_baseline(drawn):
    a, b = drawn
    runs = [*table("sscl", a), *table("simcse", b), *table("is-cse", b)]
    for baseline, dropped in (("is-cse", False), ("simcse", True)):
        pairs = compared(*runs, claims=[claim("sscl", dropped=dropped)], baseline=baseline)
        found = row_of(pairs, method="sscl")
        assert (found.n, found.verdict, found.family, found.reason) == (5, None, None, "")


def test_a_claim_is_answered_from_its_look_and_other_rows_from_all_seeds():
    values = (1.0, 2.0, 3.0, 90.0, 80.0)
    runs = [
        scored(method, seed, 70.0 + (method != "simcse") * values[seed], added=added)
        for method in ("simcse", "sscl", "is-cse")
        for seed, added in enumerate(({}, {}, {}, {"all": 1}, {"all": 1}))
    ]
    pairs = compared(*runs, claims=[claim("sscl")])
    found, other = (row_of(pairs, method=method) for method in ("sscl", "is-cse"))
    assert (found.differences, found.mean_a) == ((1, 2, 3), 72)
    assert (found.planned, found.next_look) == (3, 6)
    assert (other.differences, other.planned) == (values, None)


@pytest.mark.parametrize(("seeds", "progress"), [(2, ", 2 of 3 seeds"), (3, "")])
def test_a_method_without_effect_has_no_p_value_in_its_reason(seeds, progress):
    runs = [
        scored(method, seed, 70.0 + seed) for method in ("simcse", "a") for seed in range(seeds)
    ]
    row = row_of(compared(*runs, claims=[claim("a")]))
    assert row.progress == f"same scores at every seed{progress}"
    assert "p = " not in row.reason


def test_only_common_seeds_count():
    points = {"sscl": {1: 70, 2: 71, 3: 73, 8: 99}, "simcse": {3: 70, 2: 69, 1: 69.5, 9: 0, 10: 0}}
    runs = [
        scored(method, seed, value) for method in points for seed, value in points[method].items()
    ]
    runs.append(scored("simcse", 8, 99.0, recipe_changes={"epochs": 2}))  # the first recipe counts
    found = row_of(compared(*runs))
    assert found.differences == pytest.approx((0.5, 2.0, 3.0))
    assert found.mean_a == pytest.approx((70 + 71 + 73) / 3)
    assert found.mean_b == pytest.approx((69.5 + 69 + 70) / 3)


def test_before_its_first_look_a_claim_is_open():
    runs = [scored(name, seed, 75.0 + seed) for name in ("sscl", "simcse") for seed in (1, 2)]
    runs.append(scored("simcse", 3, 75.0))
    runs.append(replace(scored("sscl", 3, None), status="missing"))
    found = row_of(compared(*runs, claims=[claim("sscl")]))
    assert (found.n, found.verdict, found.p_adjusted, found.next_look) == (2, "open", None, 3)
    assert found.reason.endswith("first look at 3 seeds, 2 made")


def test_an_untrained_method_is_compared_one_sample_and_without_backbone_on_every_one():
    trained = [scored("simcse", seed, 75.0 + seed / 10) for seed in range(4)]
    overlap = scored("word-overlap", None, 50.0, setting="paper", backbone="none")
    untrained = scored("untrained", None, 60.0)
    pairs = compared(*trained, overlap, untrained, claims=[claim("untrained")])
    for method, value, word in (("word-overlap", 50.0, None), ("untrained", 60.0, "worse")):
        found = row_of(pairs, method=method)
        oracle = stats.ttest_1samp([75.0, 75.1, 75.2, 75.3], value)
        assert (found.kind, found.backbone, found.n) == ("one-sample", BASE, 4)
        assert found.p == pytest.approx(oracle.pvalue)
        assert found.difference == pytest.approx(value - 75.15)
        assert (found.mean_a, found.sd_a, found.verdict) == (value, None, word)
    skip_thought = scored("skip-thought", 1, 40.0, backbone="none")
    pairs = compared(*trained, overlap, untrained, skip_thought, baseline="word-overlap")
    averages = {(pair.backbone, pair.method): pair for pair in rows_of(pairs, task="Avg")}
    assert {name: (pair.kind, pair.verdict) for name, pair in averages.items()} == {
        (BASE, "simcse"): ("one-sample", None),
        (BASE, "untrained"): ("deterministic", None),
        ("none", "skip-thought"): ("one-sample", None),
    }
    assert averages[BASE, "simcse"].difference == pytest.approx(25.15)


def test_beside_classifier_seeds_a_claim_has_the_test_of_welch():
    """At its look: the fourth seed was added."""
    points, of_seeds = (81.1, 81.3, 81.2, 99.0), (80.0, 80.2, 79.9, 80.1, 80.3)
    untrained = scored("untrained", None, dict.fromkeys(TRANSFER_TASKS, 80.0), metric="accuracy")
    for seed, value in zip(FURTHER_SEEDS, of_seeds[1:], strict=True):
        for task in TRANSFER_TASKS:
            untrained.scores[Cell(task, "test", "accuracy", probe_seed(seed))] = value
    runs = [
        scored("sscl", seed, dict.fromkeys(TRANSFER_TASKS, value), metric="accuracy",
               added={"all": 1} if seed == 3 else {})
        for seed, value in enumerate(points)
    ]  # fmt: skip
    claims = [claim("sscl", baseline="untrained@official")]
    found = row_of(compared(*runs, untrained, claims=claims, baseline="untrained"))
    oracle = stats.ttest_ind(points[:3], of_seeds, equal_var=False)
    assert (found.kind, found.verdict, found.n) == ("Welch", "better", 3)
    assert found.p == pytest.approx(oracle.pvalue)
    low, high = oracle.confidence_interval(0.98)
    assert found.half_width == pytest.approx((high - low) / 2)
    assert (found.mean_a, found.mean_b) == pytest.approx((81.2, 80.1))


def test_a_diverged_seed_leaves_the_pairs_and_the_methods_is_never_better(drawn):
    a, b = drawn
    claims = [claim("sscl"), claim("is-cse")]
    runs = [
        *table("sscl", a + 5), scored("sscl", 5, None), *table("is-cse", b + 3),
        *table("simcse", b), scored("simcse", 5, 75.0), scored("is-cse", 5, 75.0),
    ]  # fmt: skip
    found = row_of(compared(*runs, claims=claims), method="sscl")
    assert (found.n, found.verdict) == (5, "open")
    assert "1 seed diverged and left the pairs, so that the method cannot be better" in found.reason
    runs[-2] = scored("simcse", 5, None)
    found = row_of(compared(*runs, claims=claims), method="is-cse")
    assert (found.n, found.verdict) == (5, "better")
    assert "1 seed diverged and left the pairs;" in found.reason


def test_every_leaderboard_is_compared():
    runs = []
    for value, method in ((81.0, "sscl"), (80.5, "simcse")):
        run = scored(method, 1, dict.fromkeys(TRANSFER_TASKS, value), metric="accuracy")
        sts = {Cell(task, "test", "spearman"): 70.0 for task in STS_TASKS}
        runs.append(replace(run, scores=run.scores | sts))
    pairs = compared(*runs, claims=[claim("sscl")])
    tasks = [[pair.task for pair in group] for group in grouped(pairs, "leaderboard")]
    assert tasks == [[*STS_TASKS, "Avg"], [*TRANSFER_TASKS, "Avg"]]
    assert row_of(pairs, leaderboard="transfer").differences == (0.5,)
    assert [pair.verdict for pair in rows_of(pairs, task="Avg")] == ["open"] * 2
    (printed,) = row_of(pairs, leaderboard="transfer").printed
    assert (printed.source, printed.table) == ("sscl", "Table 3")


# --- What is in print ---


@pytest.mark.parametrize(
    ("tasks", "metric", "leaderboard"),
    [(PROBING_TASKS, "accuracy", "probing"), (("sts:a", "sts:b"), "spearman", "own_sts")],
)
def test_an_average_in_print_stands_beside_the_average_of_the_same_tasks_alone(
    tasks, metric, leaderboard
):
    """The papers print averages of the seven STS and of the seven transfer tasks; others have the
    same metrics."""
    runs = [
        scored(method, 1, dict.fromkeys(tasks, value), metric=metric, tasks=list(tasks))
        for method, value in (("sscl", 61.0), ("simcse", 60.5))
    ]
    found = row_of(compared(*runs), leaderboard=leaderboard)
    assert (found.difference, found.printed) == (0.5, ())


def equal_runs(methods, seeds=3, **more):
    """Runs of several methods with equal points, which rise by one from seed to seed."""
    pairs = [(method, seed) for seed in range(seeds) for method in methods.split()]
    return [scored(method, seed, 75.0 + seed, **more) for method, seed in pairs]


def gains_of(*runs, baseline="simcse", **plan):
    """All printed gains of a suite, with the row that each belongs to."""
    pairs = compared(*runs, baseline=baseline, **plan)
    return [(pair, gain) for pair in pairs for gain in pair.printed]


def gain_of(gains, source, table, task="Avg", method=None):
    (found,) = [
        gain
        for pair, gain in gains
        if (gain.source, gain.table, pair.task) == (source, table, task)
        and method in (None, pair.method)
    ]
    return found


def printed(gain):
    return pytest.approx((gain.printed_a, gain.printed_b, gain.gain))


def test_printed_numbers_stand_beside_their_own_tables_baseline():
    gains = gains_of(*equal_runs("is-cse gs-infonce simcse"))
    assert printed(gain_of(gains, "is-cse", "Table 1", method="is-cse")) == (78.30, 76.25, 2.05)
    own = [(pair, gain) for pair, gain in gains if pair.method == "gs-infonce"]
    for source in ("gs-infonce-v1", "gs-infonce-v2"):
        assert printed(gain_of(own, source, "Table 2")) == (77.63, 76.25, 1.38)
    assert printed(gain_of(own, "gs-infonce-v2", "Table 2", "STS-B")) == (79.70, 76.85, 2.85)
    assert {pair.backbone for pair, _ in gains} == {BASE}
    # The abstract prints only the average of IS-CSE, which is also in the table.
    assert "Abstract" not in {gain.table for _, gain in gains}


def test_a_suite_that_cannot_be_compared_with_papers_has_no_printed_numbers():
    runs = equal_runs("is-cse simcse", backbone="mini")
    assert gains_of(*runs, stand_ins={"roberta-base": "mini"}) == []
    assert gains_of(*equal_runs("is-cse simcse", corpus="wiki-mini")) == []


def test_rows_of_print_that_differ_in_more_than_the_method():
    untrained = scored("untrained[pooler=cls_before_pooler]", None, 47.0, setting="paper")
    gains = gains_of(untrained, *equal_runs("simcse simcse[batch_size=128]", seeds=1))
    own = gain_of(gains, "sscl", "Table 7", method=untrained.run.method)
    # Printed with bs=64 (46.70) and bs=128 (47.89), SimCSE with bs=64 as 76.25.
    assert (own.printed_a, own.printed_b) == (46.70, 76.25)
    # GS-InfoNCE's Table 3 prints SimCSE as M=0x, beside which M=1x gains 0.65.
    gains = gains_of(*equal_runs("gs-infonce[multiple=1] simcse", seeds=1))
    assert printed(gain_of(gains, "gs-infonce-v2", "Table 3")) == (76.90, 76.25, 0.65)


def test_a_number_without_a_printed_baseline_is_no_gain():
    gains = gains_of(*equal_runs("is-cse sscl", seeds=1), baseline="sscl")
    found = gain_of(gains, "is-cse", "Table 1")
    assert found.printed_a == 78.30
    assert (found.printed_b, found.gain, found.part) == (None, None, None)
    dev = equal_runs("is-cse[buffer=256] is-cse", seeds=1)  # printed on dev sets
    assert gains_of(*dev, baseline="is-cse") == []


def test_the_part_of_a_printed_gain_that_comes_back():
    gains = (0.5, -0.5, 2.0, -1.0)
    runs = [scored("is-cse", seed, 75.0 + value) for seed, value in enumerate(gains)]
    runs += [scored("simcse", seed, 75.0) for seed in range(4)]
    found = gain_of(gains_of(*runs), "is-cse", "Table 1")
    low, high = stats.ttest_1samp(gains, 0).confidence_interval(0.98)
    part = (found.part, found.part_low, found.part_high)
    assert part == pytest.approx((0.25 / 2.05, low / 2.05, high / 2.05))
