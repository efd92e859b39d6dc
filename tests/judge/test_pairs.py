"""Comparisons with a baseline: which scores are paired, and the printed numbers beside them."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from bench.datasets.tasks import PROBING_TASKS, STS_TASKS, TRANSFER_TASKS
from bench.judge.against_baseline import against, find
from bench.reported import prior_sd
from bench.utils.errors import UserError
from tests.support.compared_runs import BASE, each, row_of, scored, suite


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
        ("My model", "My model"),
    ],
)
def test_methods_are_named_as_in_configurations(text, found):
    label = {"label": "My model (outside encoder)"}
    runs = [
        scored("simcse", 1, 70.0, setting="paper"),
        scored("dclr", 1, 70.0, setting="paper"),
        scored("simcse", 1, 70.0, recipe_changes={"batch_size": 32}),
        scored("simcse[batch_size=64]", 1, 75.0, overridden={"batch_size": 32}),
        scored("gs-infonce+cards+is-cse", 1, 70.0),
        scored("published[model=a,pooler=avg]", None, 70.0, setting="paper", **label),
    ]
    assert find(suite(*runs), text).text == found


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("simsce",), "suite paper: 'simsce' is not planned; did you mean 'simcse'"),
        (("simcse@paper",), "did you mean 'simcse@official'"),
        (("simcse", ["simcse"]), "compared with itself"),
        (("simcse", ["sscl"]), "'sscl@official' and 'simcse@official' are both planned on none of"),
        (("simcse", [], ["roberta-base"]), "compare with 'simcse@official' on roberta-base"),
        (("simcse", [], ["roberta-bas"]), "did you mean 'roberta-base'"),
        (("simcse", ["dclr"]), "no scores to compare with 'simcse@official' on"),
    ],
)
def test_what_cannot_be_compared_is_said(arguments, message):
    sscl = scored("sscl", 1, 70.0, backbone="roberta-base")
    runs = [scored("simcse", 1, 70.0), sscl, replace(scored("dclr", 1, None), status="missing")]
    with pytest.raises(UserError, match=re.escape(message)):
        against(suite(*runs), *arguments)


def test_what_is_named_twice_is_compared_once(drawn):
    a, b = drawn
    runs = suite(*table("sscl", a), *table("simcse", b))
    once, _ = against(runs, "simcse", ["sscl"], [BASE])
    again, _ = against(runs, "simcse", ["sscl", "sscl[ temperature=0.05 ]@official"], [BASE, BASE])
    pd.testing.assert_frame_equal(again, once)


# --- Numbers ---


def test_a_comparison_is_a_paired_t_test_with_holm_over_the_tasks_and_over_the_averages(drawn):
    a, b = drawn
    frame, _ = against(suite(*table("sscl", a), *table("simcse", b)), "simcse", ["sscl"])
    oracle = stats.ttest_rel(a.mean(1), b.mean(1))
    found = row_of(frame)
    assert list(frame["task"]) == [*STS_TASKS, "Avg"]
    assert found["differences"] == pytest.approx(a.mean(1) - b.mean(1))
    assert (found["p"], found["p_adjusted"]) == pytest.approx((oracle.pvalue, oracle.pvalue))
    ends = [found["difference"] + sign * found["half_width"] for sign in (-1, 1)]
    assert ends == pytest.approx([*oracle.confidence_interval(0.95)])
    assert (found["mean_a"], found["sd_a"]) == pytest.approx((a.mean(), a.mean(1).std(ddof=1)))
    assert (found["mean_b"], found["sd_b"]) == pytest.approx((b.mean(), b.mean(1).std(ddof=1)))
    assert found[["n", "verdict"]].tolist() == [5, "better"]

    p = dict(zip(STS_TASKS, stats.ttest_rel(a, b).pvalue, strict=True))
    highest, verdicts = 0.0, set()
    for rank, task in enumerate(sorted(p, key=p.get)):
        highest = max(highest, (7 - rank) * p[task])
        found = row_of(frame, task)
        assert found["p_adjusted"] == pytest.approx(min(1.0, highest))
        assert found["verdict"] == ("better" if highest < 0.05 else "undecided")
        verdicts.add(found["verdict"])
    assert len(verdicts) == 2


def test_holm_counts_every_method_and_backbone(drawn):
    a, b = drawn
    runs = [*table("sscl", a), *table("is-cse", b + 0.02), *table("simcse", b)]
    runs += table("sscl", a[::-1], backbone="roberta-base")
    runs += table("simcse", b, backbone="roberta-base")
    frame, _ = against(suite(*runs), "simcse")
    pairs = frame.query("task == 'Avg'")[["backbone", "method"]].to_numpy().tolist()
    assert pairs == [[BASE, "sscl"], [BASE, "is-cse"], ["roberta-base", "sscl"]]
    alone, _ = against(suite(*runs), "simcse", ["sscl"], [BASE])
    # The same difference at every seed has p = 0 and comes first, so the next of three counts
    # twice.
    assert row_of(frame, method="is-cse")["p"] == 0
    adjusted = row_of(frame, method="sscl", backbone=BASE)["p_adjusted"]
    assert adjusted == pytest.approx(2 * row_of(alone)["p"])


def test_only_common_seeds_count():
    points = {"sscl": {1: 70, 2: 71, 3: 73, 8: 99}, "simcse": {3: 70, 2: 69, 1: 69.5, 9: 0, 10: 0}}
    runs = [scored(one, seed, value) for one in points for seed, value in points[one].items()]
    runs.append(scored("simcse", 8, 99.0, recipe_changes={"epochs": 2}))  # the first recipe counts
    found = row_of(against(suite(*runs), "simcse", ["sscl"])[0])
    assert found["differences"] == pytest.approx((0.5, 2.0, 3.0))
    assert (found["n"], found["n_a"], found["n_b"]) == (3, 4, 5)
    assert found["mean_a"] == pytest.approx((70 + 71 + 73) / 3)
    assert found["mean_b"] == pytest.approx((69.5 + 69 + 70) / 3)


def test_few_seeds_are_undecided_with_the_number_that_would_decide():
    ours = scored("sscl", 1, 76.0)
    frame, _ = against(suite(ours, scored("simcse", 1, 75.0)), "simcse", ["sscl"])
    found, sd = row_of(frame), prior_sd(BASE, "Avg")
    needed = next(n for n in range(3, 99) if stats.t.ppf(0.975, n - 1) * (2 / n) ** 0.5 * sd < 1)
    assert (found["verdict"], found["seeds"]) == ("undecided", needed)
    other, _ = against(suite(ours, scored("simcse", 2, 75.0)), "simcse", ["sscl"])
    assert (row_of(other)["n"], row_of(other)["reason"]) == (0, "no seed in common")


def test_an_untrained_method_is_compared_one_sample_and_without_backbone_on_every_one():
    trained = [scored("simcse", seed, 75.0 + seed / 10) for seed in range(4)]
    overlap = scored("word-overlap", None, 50.0, setting="paper", backbone="none")
    untrained = scored("untrained", None, 60.0, setting="paper")
    frame, _ = against(suite(*trained, overlap, untrained), "simcse")
    for method, value in (("word-overlap", 50.0), ("untrained", 60.0)):
        found = row_of(frame, method=method)
        oracle = stats.ttest_1samp([75.0, 75.1, 75.2, 75.3], value)
        assert found[["kind", "backbone", "n", "n_a"]].tolist() == ["one-sample", BASE, 4, 1]
        assert found["p"] == pytest.approx(oracle.pvalue)
        assert found["difference"] == pytest.approx(value - 75.15)
        assert (found["mean_a"], found["verdict"]) == (value, "worse")
        assert np.isnan(found["sd_a"])
    skip_thought = scored("skip-thought", 1, 40.0, backbone="none")
    frame, _ = against(suite(*trained, overlap, untrained, skip_thought), "word-overlap")
    averages = frame[frame["task"] == "Avg"].set_index(["backbone", "method"])
    assert averages["kind"].to_dict() == {
        (BASE, "simcse"): "one-sample",
        (BASE, "untrained"): "deterministic",
        ("none", "skip-thought"): "one-sample",
    }
    assert averages.loc[(BASE, "simcse"), "difference"] == pytest.approx(25.15)


@pytest.mark.parametrize(
    ("tolerance", "metric", "task"), [(0.03, "spearman", "STS12"), (0.3, "accuracy", "MR")]
)
def test_untrained_methods_differ_by_more_than_the_tolerance(tolerance, metric, task):
    for part, word in ((5 / 6, "undecided"), (7 / 6, "better"), (-7 / 6, "worse")):
        points = {"untrained": 60 + part * tolerance, "glove": 60.0}
        runs = [scored(one, None, {task: points[one]}, metric=metric) for one in points]
        frame, _ = against(suite(*runs), "glove")
        assert frame["task"].tolist() == [task]  # an average needs every task
        assert row_of(frame, task)["verdict"] == word


def test_a_diverged_seed_leaves_the_comparison_undecided(drawn):
    a, b = drawn
    runs = [*table("sscl", a + 5), scored("sscl", 5, None)]
    runs += [*table("simcse", b), scored("simcse", 5, 75.0)]
    frame, _ = against(suite(*runs, *table("is-cse", b + 3)), "simcse")
    assert set(frame.query("method == 'sscl'")["verdict"]) == {"undecided"}
    assert set(frame.query("method == 'sscl'")["reason"]) == {"1 of 6 seeds of SSCL diverged"}
    assert row_of(frame, method="is-cse")["verdict"] == "better"
    # If all seeds diverged, the comparison is still reported, without numbers.
    diverged = [scored("sscl", seed, None) for seed in range(2)]
    frame, _ = against(suite(*diverged, *table("simcse", b)), "simcse")
    assert (row_of(frame)["n"], row_of(frame)["reason"]) == (0, "2 of 2 seeds of SSCL diverged")


def test_every_board_is_compared():
    runs = []
    for value, method in ((81.0, "sscl"), (80.5, "simcse")):
        run = scored(method, 1, dict.fromkeys(TRANSFER_TASKS, value), metric="accuracy")
        sts = {(task, "test", "spearman"): 70.0 for task in STS_TASKS}
        runs.append(replace(run, scores=run.scores | sts))
    frame, claims = against(suite(*runs), "simcse")
    boards = frame.groupby("board")["task"].apply(list).to_dict()
    assert boards == {"sts": [*STS_TASKS, "Avg"], "transfer": [*TRANSFER_TASKS, "Avg"]}
    assert row_of(frame, board="transfer")["differences"] == (0.5,)
    assert row_of(frame, board="sts")["reason"] == "the same scores at every seed"
    printed = row_of(claims, "Avg", board="transfer")
    assert (printed["source"], printed["table"]) == ("sscl", "Table 3")


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
    frame, claims = against(suite(*runs), "simcse")
    assert row_of(frame, board=board)["difference"] == 0.5
    assert pd.isna(row_of(frame, board=board)["seeds"])
    assert "Avg" not in set(claims["task"])


def claimed(claims, source, table, **names):
    found = row_of(claims, source=source, table=table, **names)
    return pytest.approx(tuple(found[["printed_a", "printed_b", "claimed"]]))


def test_printed_numbers_stand_beside_their_own_tables_baseline():
    claims = against(suite(*each("is-cse gs-infonce simcse")), "simcse")[1]
    assert claimed(claims, "is-cse", "Table 1", method="is-cse") == (78.30, 76.25, 2.05)
    own = claims[claims["method"] == "gs-infonce"]
    for source in ("gs-infonce-v1", "gs-infonce-v2"):
        assert claimed(own, source, "Table 2") == (77.63, 76.25, 1.38)
    assert claimed(own, "gs-infonce-v2", "Table 2", task="STS-B") == (79.70, 76.85, 2.85)
    assert set(claims["backbone"]) == {BASE}
    # The abstract prints only the average of IS-CSE, which is also in the table.
    assert "Abstract" not in set(claims["table"])


def test_a_suite_that_cannot_be_compared_with_papers_has_no_printed_numbers():
    runs = each("is-cse simcse", backbone="mini")
    assert against(suite(*runs, stand_ins={"roberta-base": "mini"}), "simcse")[1].empty
    elsewhere = each("is-cse simcse", corpus="wiki-mini")
    assert against(suite(*elsewhere), "simcse")[1].empty


def test_rows_of_print_that_differ_in_more_than_the_method():
    untrained = scored("untrained[pooler=cls_before_pooler]", None, 47.0, setting="paper")
    trained = each("simcse simcse[batch_size=128]", seeds=1)
    _, claims = against(suite(untrained, *trained), "simcse")
    own = claims[(claims["task"] == "Avg") & (claims["table"] == "Table 7")]
    own = own[own["method"] == untrained.plan.method]
    # Printed with bs=64 (46.70) and bs=128 (47.89), SimCSE with bs=64 as 76.25.
    assert own[["printed_a", "printed_b"]].to_numpy().tolist() == [[46.70, 76.25]]
    # GS-InfoNCE's Table 3 prints SimCSE as M=0x, beside which M=1x gains 0.65.
    _, claims = against(suite(*each("gs-infonce[multiple=1] simcse", seeds=1)), "simcse")
    assert claimed(claims, "gs-infonce-v2", "Table 3") == (76.90, 76.25, 0.65)


def test_a_number_without_a_printed_baseline_makes_no_claim():
    _, claims = against(suite(*each("is-cse sscl", seeds=1)), "sscl", ["is-cse"])
    printed = row_of(claims, source="is-cse", table="Table 1")
    assert printed["printed_a"] == 78.30
    assert printed[["printed_b", "claimed", "part"]].isna().all()
    dev = each("is-cse[buffer=256] is-cse", seeds=1)  # printed on dev sets
    assert against(suite(*dev), "is-cse")[1].empty


def test_the_part_of_a_printed_gain_that_comes_back_and_the_seeds_that_would_show_it():
    gains = (0.5, -0.5, 2.0, -1.0)
    runs = [scored("is-cse", seed, 75.0 + value) for seed, value in enumerate(gains)]
    runs += [scored("simcse", seed, 75.0) for seed in range(4)]
    found = row_of(against(suite(*runs), "simcse")[1], table="Table 1")
    low, high = stats.ttest_1samp(gains, 0).confidence_interval(0.95)
    part = ["part", "part_low", "part_high"]
    assert tuple(found[part]) == pytest.approx((0.25 / 2.05, low / 2.05, high / 2.05))
    sd = np.std(gains, ddof=1)
    needed = next(n for n in range(3, 99) if stats.t.ppf(0.975, n - 1) * sd / n**0.5 < 2.05)
    assert found["seeds_claimed"] == needed
    claim = row_of(against(suite(*runs, scored("is-cse", 9, None)), "simcse")[1], table="Table 1")
    assert claim[part].isna().all()
