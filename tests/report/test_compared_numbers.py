"""Comparisons with a baseline: which scores are paired, and the printed numbers beside them."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from bench.comparison.against_baseline import PairedDifferences, against, candidates, find
from bench.datasets.tasks import PROBING_TASKS, STS_TASKS, TRANSFER_TASKS
from bench.report.comparison_table import shown
from bench.reported import prior_sd
from bench.results.suite_results import RunResults, SuiteResults
from bench.runs.plan import Plan
from bench.runs.run import PlannedRun
from bench.utils.errors import UserError

BASE = "bert-base-uncased"


def scored(
    method: str, seed: int | None, points: float | Mapping[str, float] | None, **more: Any
) -> RunResults:
    """A run with these points on every STS task, or by task; `None` means that it diverged."""
    metric = more.pop("metric", "spearman")
    plan: dict[str, Any] = {"id": re.sub(r"[^\w.-]+", "-", f"{method}-{seed}"), "method": method}
    plan |= {"setting": "official", "seed": seed, "label": method.upper()}
    plan |= {
        "backbone": BASE,
        "corpus": "" if seed is None else "wiki1m",
        "tasks": ("all",),
        "recipe_changes": {},
    }
    by_task = points if isinstance(points, Mapping) else dict.fromkeys(STS_TASKS, points)
    scores = {(task, "test", metric): value for task, value in by_task.items() if value is not None}
    return RunResults(
        PlannedRun(**plan | more), "finished" if scores else "diverged", "", "senteval", scores
    )


def each(methods: str, seeds: int = 3, **more: Any) -> list[RunResults]:
    """Runs of several methods with equal points, which rise by one from seed to seed."""
    pairs = [(method, seed) for seed in range(seeds) for method in methods.split()]
    return [scored(method, seed, 75.0 + seed, **more) for method, seed in pairs]


def suite(*runs: RunResults, stand_ins: dict[str, str] | None = None) -> SuiteResults:
    plan = Plan(suite="paper", data="senteval", stand_ins=stand_ins or {}, runs=[])
    return SuiteResults(plan, list(runs))


def table(method: str, rows: np.ndarray, **more: Any) -> list[RunResults]:
    """One run per row, with points in the order of the STS tasks."""
    return [
        scored(method, seed, dict(zip(STS_TASKS, map(float, row), strict=True)), **more)
        for seed, row in enumerate(rows)
    ]


@pytest.fixture(scope="module")
def drawn() -> tuple[np.ndarray, np.ndarray]:
    """Scores (5 seeds, 7 tasks) of A and B with two decimals; A gains 1 point, and 0 on the last
    task."""
    rng = np.random.default_rng(0)
    seed = rng.normal(75, 1, (5, 1))
    gains = np.array([1.0] * 6 + [0.0])
    a, b = (rng.normal(0, 0.2, (5, 7)) for _ in range(2))
    return np.round(seed + gains + a, 2), np.round(seed + b, 2)


def row_of(frame: pd.DataFrame, task: str = "Avg", **names: str) -> pd.Series:
    for name, value in {"task": task, **names}.items():
        frame = frame[frame[name] == value]
    assert len(frame) == 1
    return frame.iloc[0]


# --- Naming ---


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("simcse", "simcse@official"),
        ("simcse@paper", "simcse@paper"),
        ("dclr", "dclr@paper"),
        ("simcse[temperature=0.010]", "simcse[temperature=0.01]@paper"),
        ("gs-infonce[multiple=1,queue=none]", "gs-infonce[multiple=1,queue=none]@official"),
        ("gs-infonce+is-cse+cards", "gs-infonce+cards+is-cse@official"),
        ("simcse[temperature=0.05]", "simcse@official"),  # the setting's own value
        ("simcse[ temperature=0.050 , pooler=cls_mlp ]@official", "simcse@official"),
        ("untrained[pooler=avg_embedding_last]", "untrained@paper"),
    ],
)
def test_methods_are_named_as_in_configurations(text, found):
    paper = ["simcse", "dclr", "simcse[temperature=0.01]"]
    official = ["simcse", "gs-infonce[multiple=1,queue=none]", "gs-infonce+cards+is-cse"]
    runs = [scored(one, 1, 70.0, setting="paper") for one in paper]
    runs += [scored(one, 1, 70.0) for one in official]
    runs += [scored("untrained[pooler=cls_before_pooler]", None, 70.0, setting="paper")]
    runs += [scored("untrained", None, 70.0, setting="paper")]
    assert find(suite(*runs), text).text == found


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("simsce", "suite paper: 'simsce' is not planned; did you mean 'simcse'"),
        ("simcse@paper", "did you mean 'simcse@official'"),
        ("simcse[temperature=0.02]", "is not planned; did you mean 'simcse'"),
        ("simcse[", "an unmatched bracket"),
        ("simcse@offical", "unknown setting"),
    ],
)
def test_unknown_names_give_the_nearest(text, message):
    with pytest.raises(UserError, match=message.replace("[", r"\[")):
        find(suite(scored("simcse", 1, 70.0), scored("sscl", 1, 70.0)), text)


def test_a_key_is_compared_with_what_the_suite_makes_of_the_method():
    changes = {"recipe_changes": {"batch_size": 32}}
    plain = scored("simcse", 1, 70.0, **changes)
    own = scored("simcse[batch_size=64]", 1, 75.0, overridden={"batch_size": 32})
    for text, found in [
        ("simcse", "simcse@official"),
        ("simcse[batch_size=32]", "simcse@official"),
        ("simcse[batch_size=64]", "simcse[batch_size=64]@official"),
    ]:
        assert find(suite(own, plain), text).text == found
    with pytest.raises(UserError, match=r"'simcse\[batch_size=64\]' is not planned"):
        find(suite(plain), "simcse[batch_size=64]")


def test_an_outside_encoder_is_named_by_its_label():
    text = "published[model=a,pooler=avg]"
    given = {"label": "My model (outside encoder)", "setting": "paper"}
    runs = suite(scored(text, None, 70.0, **given), scored("simcse", 1, 70.0))
    for name in ("My model", "My model (outside encoder)", text):
        assert find(runs, name).text == "My model"
    for name, told in {
        "my model": "is not planned; did you mean 'My model'",
        "no such": "cannot read 'no such'",
        "": "cannot read ''",
    }.items():
        with pytest.raises(UserError, match=told):
            find(runs, name)
    frame, _ = against(runs, "My model")
    assert set(frame["baseline"]) == {"My model"}


def test_without_the_backbone_only_the_spelling_of_the_plan_is_known():
    runs = suite(*[scored(one, 1, 70.0, backbone="my-own") for one in ("simcse", "sscl")])
    assert find(runs, "sscl").text == "sscl@official"
    message = "is not planned; did you mean 'simcse"
    with pytest.raises(UserError, match=message):
        find(runs, "simcse[temperature=0.05]")


def test_what_is_named_twice_is_compared_once(drawn):
    a, b = drawn
    runs = suite(*table("sscl", a), *table("simcse", b))
    once, claims = against(runs, "simcse", ["sscl"], [BASE])
    for methods in (["sscl", "sscl"], ["sscl@official", "sscl[ temperature=0.05 ]"]):
        again, same = against(runs, "simcse", methods, [BASE, BASE])
        pd.testing.assert_frame_equal(again, once)
        pd.testing.assert_frame_equal(same, claims)


def test_what_cannot_be_compared_is_said():
    other = scored("sscl", 1, 70.0, backbone="roberta-base")
    missing = replace(scored("dclr", 1, None), status="missing")
    planned = suite(scored("simcse", 1, 70.0), other, missing)
    for arguments, message in [
        (("simcse", ["simcse"]), "compared with itself"),
        (("simcse", ["sscl"]), "'sscl@official' and 'simcse@official' are both planned on none of"),
        (("simcse", ["dclr"], ["roberta-base"]), "both planned on none of roberta-base"),
        (("simcse", [], ["roberta-base"]), "compare with 'simcse@official' on roberta-base"),
        (("simcse", [], ["roberta-bas"]), "did you mean 'roberta-base'"),
        (("sscl",), "no scores to compare with 'sscl@official' on"),
        (("simcse", ["dclr"]), "no scores to compare with 'simcse@official' on"),
    ]:
        with pytest.raises(UserError, match=message):
            against(planned, *arguments)


# --- Numbers ---


def test_a_comparison_is_a_paired_t_test_on_the_averages_of_the_seeds(drawn):
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
    rest = ["n", "permutation_p", "improvement", "verdict"]
    assert found[rest].tolist() == [5, 0.0625, 1.0, "better"]


def test_holm_counts_the_tasks_apart_from_the_average(drawn):
    a, b = drawn
    frame, _ = against(suite(*table("sscl", a), *table("simcse", b)), "simcse", ["sscl"])
    p = dict(zip(STS_TASKS, stats.ttest_rel(a, b).pvalue, strict=True))
    highest = 0.0
    for rank, task in enumerate(sorted(p, key=p.get)):
        highest = max(highest, (7 - rank) * p[task])
        found = row_of(frame, task)
        assert found["p_adjusted"] == pytest.approx(min(1.0, highest))
        assert found["verdict"] == ("better" if highest < 0.05 else "undecided")
    assert row_of(frame, "STS12")["verdict"] == "better"
    assert row_of(frame, "SICK-R")["verdict"] == "undecided"
    assert row_of(frame, "SICK-R")["seeds"] > 5


def test_holm_counts_every_method_and_backbone(drawn):
    a, b = drawn
    runs = [*table("sscl", a), *table("is-cse", b + 0.02), *table("simcse", b)]
    runs += table("sscl", a[::-1], backbone="roberta-base")
    runs += table("simcse", b, backbone="roberta-base")
    frame, _ = against(suite(*runs), "simcse")
    averages = frame[frame["task"] == "Avg"]
    pairs = averages[["backbone", "method"]].to_numpy().tolist()
    assert pairs == [[BASE, "sscl"], [BASE, "is-cse"], ["roberta-base", "sscl"]]
    alone, _ = against(suite(*runs), "simcse", ["sscl"], [BASE])
    assert row_of(alone)["p_adjusted"] == pytest.approx(row_of(alone)["p"])
    # The same difference at every seed has p = 0 and comes first, so the next of three counts
    # twice.
    assert row_of(frame, method="is-cse")["p"] == 0
    adjusted = row_of(frame, method="sscl", backbone=BASE)["p_adjusted"]
    assert adjusted == pytest.approx(2 * row_of(alone)["p"])


def test_swapping_negates(drawn):
    a, b = drawn
    both = suite(*table("sscl", a), *table("simcse", b))
    one, other = against(both, "simcse", ["sscl"])[0], against(both, "sscl", ["simcse"])[0]
    assert other["difference"].to_numpy() == pytest.approx(-one["difference"].to_numpy())
    assert other["p_adjusted"].to_numpy() == pytest.approx(one["p_adjusted"].to_numpy())
    swapped = {"better": "worse", "worse": "better", "undecided": "undecided"}
    assert list(other["verdict"]) == [swapped[word] for word in one["verdict"]]


def test_only_common_seeds_count():
    points = {"sscl": {1: 70, 2: 71, 3: 73, 8: 99}, "simcse": {3: 70, 2: 69, 1: 69.5, 9: 0, 10: 0}}
    runs = [scored(one, seed, value) for one in points for seed, value in points[one].items()]
    found = row_of(against(suite(*runs), "simcse", ["sscl"])[0])
    assert found["differences"] == pytest.approx((0.5, 2.0, 3.0))
    assert (found["n"], found["n_a"], found["n_b"]) == (3, 4, 5)
    assert found["mean_a"] == pytest.approx((70 + 71 + 73) / 3)
    assert found["mean_b"] == pytest.approx((69.5 + 69 + 70) / 3)
    assert found["mean_a"] - found["mean_b"] == pytest.approx(found["difference"])


def test_few_seeds_are_undecided_with_the_number_that_would_decide():
    ours = scored("sscl", 1, 76.0)
    frame, _ = against(suite(ours, scored("simcse", 1, 75.0)), "simcse", ["sscl"])
    found, sd = row_of(frame), prior_sd(BASE, "Avg")
    needed = next(n for n in range(3, 99) if stats.t.ppf(0.975, n - 1) * (2 / n) ** 0.5 * sd < 1)
    assert (found["verdict"], found["seeds"]) == ("undecided", needed)
    assert found["reason"] == f"n = 1; about {needed} seeds would decide"
    assert np.isnan(found["half_width"])
    other, _ = against(suite(ours, scored("simcse", 2, 75.0)), "simcse", ["sscl"])
    assert (row_of(other)["n"], row_of(other)["reason"]) == (0, "no seed in common")


def test_an_average_needs_every_task():
    part = dict.fromkeys(STS_TASKS[:3], 70.0)
    frame, _ = against(suite(*(scored(one, 1, part) for one in ("sscl", "simcse"))), "simcse")
    assert list(frame["task"]) == list(STS_TASKS[:3])


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
    frame, _ = against(suite(*trained, overlap, untrained), "untrained", ["word-overlap"])
    assert row_of(frame)[["kind", "verdict", "n"]].tolist() == ["deterministic", "worse", 1]


@pytest.mark.parametrize(
    ("tolerance", "metric", "task"), [(0.03, "spearman", "STS12"), (0.3, "accuracy", "MR")]
)
def test_untrained_methods_differ_by_more_than_the_tolerance(tolerance, metric, task):
    for gap, word in ((5 / 6 * tolerance, "undecided"), (7 / 6 * tolerance, "better")):
        points = {"untrained": 60 + gap, "glove": 60.0}
        runs = [scored(one, None, {task: points[one]}, metric=metric) for one in points]
        assert row_of(against(suite(*runs), "glove")[0], task)["verdict"] == word


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


def test_of_two_recipes_the_first_counts(drawn):
    a, b = drawn
    other = table("simcse", b + 50, recipe_changes={"epochs": 2})
    frame, _ = against(suite(*table("sscl", a), *table("simcse", b), *other), "simcse")
    assert row_of(frame)["differences"] == pytest.approx(a.mean(1) - b.mean(1))


def test_every_board_is_compared():
    runs = [
        scored(method, seed, dict.fromkeys(TRANSFER_TASKS, value + seed), metric="accuracy")
        for seed in range(3)
        for method, value in (("sscl", 81.0), ("simcse", 80.5))
    ]
    sts = {(task, "test", "spearman"): 70.0 for task in STS_TASKS}
    runs[:2] = [replace(run, scores=run.scores | sts) for run in runs[:2]]
    frame, claims = against(suite(*runs), "simcse")
    assert list(dict.fromkeys(frame["board"])) == ["sts", "transfer"]
    assert list(frame[frame["board"] == "transfer"]["task"]) == [*TRANSFER_TASKS, "Avg"]
    assert row_of(frame, board="transfer")["differences"] == (0.5, 0.5, 0.5)
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
    same metrics."""
    runs = [
        scored(method, 1, dict.fromkeys(tasks, value), metric=metric, tasks=list(tasks))
        for method, value in (("sscl", 61.0), ("simcse", 60.5))
    ]
    frame, claims = against(suite(*runs), "simcse")
    assert row_of(frame, board=board)["difference"] == 0.5
    # With a single seed, the number of seeds needed is only stated if a prior is known, as for the
    # STS average.
    assert pd.isna(row_of(frame, board=board)["seeds"])
    assert "Avg" not in set(claims["task"])


def claimed(claims: pd.DataFrame, source: str, table: str, **names: str) -> Any:
    found = row_of(claims, source=source, table=table, **names)
    return pytest.approx(tuple(found[["printed_a", "printed_b", "claimed"]]))


def test_printed_numbers_stand_beside_their_own_tables_baseline():
    claims = against(suite(*each("is-cse gs-infonce simcse")), "simcse")[1]
    assert claimed(claims, "is-cse", "Table 1", method="is-cse") == (78.30, 76.25, 2.05)
    own = claims[claims["method"] == "gs-infonce"]
    for source in ("gs-infonce-v1", "gs-infonce-v2"):
        assert claimed(own, source, "Table 2") == (77.63, 76.25, 1.38)
    assert claimed(own, "gs-infonce-v2", "Table 2", task="STS-B") == (79.70, 76.85, 2.85)
    assert claims["comparable"].all()
    assert set(claims["backbone"]) == {BASE}
    # The abstract prints only the average of IS-CSE, which is also in the table.
    assert "Abstract" not in set(claims["table"])


def test_a_stand_in_of_two_backbones_keeps_their_numbers_apart():
    stand_ins = {"roberta-base": "mini", "roberta-large": "mini"}
    runs = each("is-cse simcse", backbone="mini")
    frame, claims = against(suite(*runs, stand_ins=stand_ins), "simcse")
    own = claims[(claims["task"] == "Avg") & (claims["table"] == "Table 1")]
    assert own[["printed_on", "printed_a", "printed_b"]].to_numpy().tolist() == [
        ["roberta-base", 77.73, 76.57],
        ["roberta-large", 79.42, 78.90],
    ]
    sources = shown(frame, claims).query("Task == 'Avg' or Task == ''")["Source"].tolist()
    assert any("is-cse, Table 1 (roberta-base)" in source for source in sources)


def test_numbers_of_two_values_of_one_setting_make_no_difference():
    untrained = scored("untrained[pooler=cls_before_pooler]", None, 47.0, setting="paper")
    trained = each("simcse simcse[batch_size=128]", seeds=1)
    _, claims = against(suite(untrained, *trained), "simcse")
    own = claims[(claims["task"] == "Avg") & (claims["table"] == "Table 7")]
    own = own[own["method"] == untrained.plan.method]
    # Printed with bs=64 (46.70) and bs=128 (47.89), SimCSE with bs=64 as 76.25.
    assert own[["printed_a", "printed_b"]].to_numpy().tolist() == [[46.70, 76.25]]


def test_a_sweep_is_compared_with_the_baselines_one_row():
    """GS-InfoNCE's Table 3 prints SimCSE as M=0x, beside which M=1x gains 0.65."""
    _, claims = against(suite(*each("gs-infonce[multiple=1] simcse", seeds=1)), "simcse")
    assert claimed(claims, "gs-infonce-v2", "Table 3") == (76.90, 76.25, 0.65)


def test_what_uses_no_backbone_is_compared_once():
    runs = [scored("word-overlap", None, 50.0, backbone="none")]
    runs += [scored("skip-thought", 1, 40.0, backbone="none")]
    runs += [scored("simcse", 1, 75.0, backbone=name) for name in (BASE, "roberta-base")]
    frame, _ = against(suite(*runs), "word-overlap")
    pairs = frame[frame["task"] == "Avg"][["backbone", "method"]].to_numpy().tolist()
    assert sorted(pairs) == [[BASE, "simcse"], ["none", "skip-thought"], ["roberta-base", "simcse"]]


def test_a_number_without_a_printed_baseline_makes_no_claim():
    runs = [scored(method, 1, 75.0) for method in ("is-cse", "sscl")]
    _, claims = against(suite(*runs), "sscl", ["is-cse"])
    printed = claims[(claims["task"] == "Avg") & (claims["table"] == "Table 1")].iloc[0]
    assert printed["printed_a"] == 78.30
    assert np.isnan(printed["printed_b"])
    assert np.isnan(printed["claimed"])


def test_dev_scores_in_print_stand_beside_no_test_score():
    runs = [scored(method, 1, 75.0) for method in ("is-cse[buffer=256]", "is-cse")]
    assert against(suite(*runs), "is-cse")[1].empty


def test_a_stand_in_shows_print_and_says_that_it_is_not_comparable():
    runs = each("is-cse simcse", backbone="mini")
    frame, claims = against(suite(*runs, stand_ins={BASE: "mini"}), "simcse")
    assert claimed(claims, "is-cse", "Table 1") == (78.30, 76.25, 2.05)
    assert not claims["comparable"].any()
    assert "+2.05 ≠" in shown(frame, claims).iloc[-1]["A - B, print"]
    assert against(suite(*runs), "simcse")[1].empty


def test_seeds_that_would_show_the_claim():
    gains = [0.5, -0.5, 1.0, -1.0]
    runs = [scored("is-cse", seed, 75.0 + value) for seed, value in enumerate(gains)]
    runs += [scored("simcse", seed, 75.0) for seed in range(4)]
    _, claims = against(suite(*runs), "simcse")
    sd = np.std(gains, ddof=1)
    needed = next(n for n in range(3, 99) if stats.t.ppf(0.975, n - 1) * sd / n**0.5 < 2.05)
    assert row_of(claims[claims["table"] == "Table 1"])["seeds_claimed"] == needed == 4


def test_the_part_of_a_printed_gain_that_comes_back():
    gains = (1.0, 2.0, 3.0)
    runs = [scored("is-cse", seed, 75.0 + value) for seed, value in enumerate(gains)]
    runs += [scored("simcse", seed, 75.0) for seed in range(3)]
    names = ["part", "part_low", "part_high"]
    found = row_of(against(suite(*runs), "simcse")[1], table="Table 1")
    low, high = stats.ttest_1samp(gains, 0).confidence_interval(0.95)
    assert tuple(found[names]) == pytest.approx((2 / 2.05, low / 2.05, high / 2.05))
    claim = row_of(against(suite(*runs, scored("is-cse", 9, None)), "simcse")[1], table="Table 1")
    assert claim[names].isna().all()
    assert claim["claimed"] == found["claimed"]


def test_a_part_needs_three_pairs():
    runs = [scored("is-cse", seed, 77.0) for seed in range(2)]
    runs += [scored("simcse", seed, 75.0) for seed in range(2)]
    frame, claims = against(suite(*runs), "simcse")
    assert row_of(claims, table="Table 1")[["part", "part_low", "part_high"]].isna().all()
    assert shown(frame, claims).iloc[-1]["Part"] == "–"
    # Untrained methods need no seeds.
    apart = PairedDifferences({None: 77.0}, {None: 75.0}).part_of(4.0)
    assert apart[0] == 0.5
    assert np.isnan(apart[1:]).all()


def test_candidates_are_the_plan_in_its_order():
    runs = [*each("sscl simcse", seeds=1), scored("sscl", 2, None)]
    found = candidates(suite(*runs, scored("simcse", 1, 1.0, setting="paper")))
    assert [one.text for one in found] == ["sscl@official", "simcse@official", "simcse@paper"]
    assert [run.plan.seed for run in found[0].on(BASE)] == [0, 2]
