"""Comparisons with a baseline: which scores are paired, the printed numbers beside them, tables and
figure."""

from __future__ import annotations

import csv as csv_files
import io
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
import pytest
from scipy import stats

from bench.comparison.against_baseline import against, candidates, find
from bench.datasets.tasks import PROBING_TASKS, STS_TASKS, TRANSFER_TASKS
from bench.report.comparison_table import render_versus, shown, versus_figure
from bench.report.figures.style import BLUE, GREY, INK, ORANGE, STYLE
from bench.reported import prior_sd
from bench.results.suite_results import RunResults, SuiteResults
from bench.utils.errors import UserError
from tests.report.test_tables import NASTY, Reader
from tests.support.synthetic_suite import seeds, write_suite

BASE = "bert-base-uncased"


def scored(
    method: str, seed: int | None, points: float | Mapping[str, float] | None, **more: Any
) -> RunResults:
    """A run with these points on every STS task, or by task; `None` means that it diverged."""
    plan = {
        "method": method,
        "setting": more.pop("setting", "official"),
        "label": method.upper(),
        "seed": seed,
    }
    plan |= {"backbone": BASE, "corpus": None if seed is None else "wiki1m", "recipe_changes": {}}
    metric, status = (
        more.pop("metric", "spearman"),
        "finished" if points is not None else "diverged",
    )
    by_task = (
        {}
        if points is None
        else points
        if isinstance(points, Mapping)
        else dict.fromkeys(STS_TASKS, points)
    )
    scores = {(task, "test", metric): value for task, value in by_task.items()}
    return RunResults(plan | more, status, "", "senteval", scores)


def suite(*runs: RunResults, **more: Any) -> SuiteResults:
    return SuiteResults(
        name="paper", data="senteval", stand_ins=more.pop("stand_ins", {}), runs=list(runs)
    )


def table(
    method: str, rows: np.ndarray | list[list[float]], first: int = 0, **more: Any
) -> list[RunResults]:
    """One run per row, with points in the order of the STS tasks."""
    return [
        scored(method, first + seed, dict(zip(STS_TASKS, map(float, row), strict=True)), **more)
        for seed, row in enumerate(rows)
    ]


@pytest.fixture(scope="module")
def drawn() -> tuple[np.ndarray, np.ndarray]:
    """Scores (5 seeds, 7 tasks) of A and B with two decimals; A gains 1 point, and 0 on the last
    task."""
    rng = np.random.default_rng(0)
    seed = rng.normal(75, 1, (5, 1))
    gains = np.array([1.0] * 6 + [0.0])
    return np.round(seed + gains + rng.normal(0, 0.2, (5, 7)), 2), np.round(
        seed + rng.normal(0, 0.2, (5, 7)), 2
    )


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
        ("gs-infonce[ multiple=1.0,queue=None ]", "gs-infonce[multiple=1,queue=none]@official"),
        ("gs-infonce+is-cse+cards", "gs-infonce+cards+is-cse@official"),
    ],
)
def test_methods_are_named_as_in_configurations(text, found):
    planned = [
        ("simcse", "paper"),
        ("simcse", "official"),
        ("dclr", "paper"),
        ("simcse[temperature=0.01]", "paper"),
    ]
    planned += [
        ("gs-infonce[multiple=1,queue=none]", "official"),
        ("gs-infonce+cards+is-cse", "official"),
    ]
    assert (
        find(suite(*(scored(one, 1, 70.0, setting=setting) for one, setting in planned)), text).text
        == found
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("simsce", "'simsce' is not in suite paper; did you mean 'simcse'"),
        ("simcse@paper", "did you mean 'simcse@official'"),
        ("simcse[temperature=0.02]", "not in suite paper"),
        ("simcse[", "an unmatched bracket"),
        ("simcse@offical", "unknown setting"),
    ],
)
def test_unknown_names_give_the_nearest(text, message):
    with pytest.raises(UserError, match=message.replace("[", r"\[")):
        find(suite(scored("simcse", 1, 70.0), scored("sscl", 1, 70.0)), text)


def test_what_cannot_be_compared_is_said():
    planned = suite(
        scored("simcse", 1, 70.0),
        scored("sscl", 1, 70.0, backbone="roberta-base"),
        scored("dclr", 1, None),
    )
    for arguments, message in [
        (("simcse", ["simcse"]), "compared with itself"),
        (("simcse", ["sscl"]), "'sscl@official' and 'simcse@official' have no backbone in common"),
        (
            ("simcse", ["dclr"], ["roberta-base"]),
            "'simcse@official' is not planned on roberta-base",
        ),
        (("simcse", [], ["roberta-base"]), "'simcse@official' is not planned on roberta-base"),
        (("simcse", [], ["roberta-bas"]), "did you mean 'roberta-base'"),
        (("sscl",), "no scores to compare with 'sscl@official'"),
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
    low, high = oracle.confidence_interval(0.95)
    assert (
        found["difference"] - found["half_width"],
        found["difference"] + found["half_width"],
    ) == pytest.approx((low, high))
    assert (found["mean_a"], found["sd_a"]) == pytest.approx((a.mean(), a.mean(1).std(ddof=1)))
    assert (found["mean_b"], found["sd_b"]) == pytest.approx((b.mean(), b.mean(1).std(ddof=1)))
    assert (found["n"], found["permutation_p"], found["improvement"], found["verdict"]) == (
        5,
        0.0625,
        1.0,
        "better",
    )


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
    runs += [
        *table("sscl", a[::-1], backbone="roberta-base"),
        *table("simcse", b, backbone="roberta-base"),
    ]
    frame, _ = against(suite(*runs), "simcse")
    averages = frame[frame["task"] == "Avg"]
    assert list(zip(averages["backbone"], averages["method"], strict=True)) == [
        (BASE, "sscl"), (BASE, "is-cse"), ("roberta-base", "sscl"),
    ]  # fmt: skip
    alone, _ = against(suite(*runs), "simcse", ["sscl"], [BASE])
    assert row_of(alone)["p_adjusted"] == pytest.approx(row_of(alone)["p"])
    # The same difference at every seed has p = 0 and comes first, so the next of three counts
    # twice.
    assert row_of(frame, method="is-cse")["p"] == 0
    assert row_of(frame, method="sscl", backbone=BASE)["p_adjusted"] == pytest.approx(
        2 * row_of(alone)["p"]
    )


def test_swapping_negates(drawn):
    a, b = drawn
    both = suite(*table("sscl", a), *table("simcse", b))
    one, other = against(both, "simcse", ["sscl"])[0], against(both, "sscl", ["simcse"])[0]
    assert other["difference"].to_numpy() == pytest.approx(-one["difference"].to_numpy())
    assert other["p_adjusted"].to_numpy() == pytest.approx(one["p_adjusted"].to_numpy())
    swapped = {"better": "worse", "worse": "better", "undecided": "undecided"}
    assert list(other["verdict"]) == [swapped[word] for word in one["verdict"]]


def test_only_common_seeds_count():
    ours = [
        scored("sscl", seed, value) for seed, value in ((1, 70.0), (2, 71.0), (3, 73.0), (8, 99.0))
    ]
    theirs = [
        scored("simcse", seed, value)
        for seed, value in ((3, 70.0), (2, 69.0), (1, 69.5), (9, 0.0), (10, 0.0))
    ]
    found = row_of(against(suite(*ours, *theirs), "simcse", ["sscl"])[0])
    assert found["differences"] == pytest.approx((0.5, 2.0, 3.0))
    assert (found["n"], found["n_a"], found["n_b"]) == (3, 4, 5)
    assert (found["mean_a"], found["mean_b"]) == pytest.approx(
        ((70 + 71 + 73) / 3, (69.5 + 69 + 70) / 3)
    )
    assert found["mean_a"] - found["mean_b"] == pytest.approx(found["difference"])


def test_few_seeds_are_undecided_with_the_number_that_would_decide():
    frame, _ = against(
        suite(scored("sscl", 1, 76.0), scored("simcse", 1, 75.0)), "simcse", ["sscl"]
    )
    found, sd = row_of(frame), prior_sd(BASE, "Avg")
    needed = next(n for n in range(3, 99) if stats.t.ppf(0.975, n - 1) * (2 / n) ** 0.5 * sd < 1)
    assert (found["verdict"], found["seeds"]) == ("undecided", needed)
    assert found["reason"] == f"n = 1; about {needed} seeds would decide"
    assert np.isnan(found["half_width"])
    other, _ = against(
        suite(scored("sscl", 1, 76.0), scored("simcse", 2, 75.0)), "simcse", ["sscl"]
    )
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
        assert (found["kind"], found["backbone"], found["n"], found["n_a"]) == (
            "one-sample",
            BASE,
            4,
            1,
        )
        assert found["p"] == pytest.approx(oracle.pvalue)
        assert found["difference"] == pytest.approx(value - 75.15)
        assert (found["mean_a"], found["verdict"]) == (value, "worse")
        assert np.isnan(found["sd_a"])
    frame, _ = against(suite(*trained, overlap, untrained), "untrained", ["word-overlap"])
    assert (row_of(frame)["kind"], row_of(frame)["verdict"], row_of(frame)["n"]) == (
        "deterministic",
        "worse",
        1,
    )


@pytest.mark.parametrize(
    ("gap", "metric", "word"),
    [
        (0.025, "spearman", "undecided"),
        (0.035, "spearman", "better"),
        (0.25, "accuracy", "undecided"),
        (0.35, "accuracy", "better"),
    ],
)
def test_untrained_methods_differ_by_more_than_the_tolerance(gap, metric, word):
    task = "STS12" if metric == "spearman" else "MR"
    runs = [
        scored("untrained", None, {task: 60 + gap}, metric=metric),
        scored("glove", None, {task: 60.0}, metric=metric),
    ]
    assert row_of(against(suite(*runs), "glove")[0], task)["verdict"] == word


def test_a_diverged_seed_leaves_the_comparison_undecided(drawn):
    a, b = drawn
    runs = [
        *table("sscl", a + 5),
        scored("sscl", 5, None),
        *table("simcse", b),
        scored("simcse", 5, 75.0),
    ]
    frame, _ = against(suite(*runs, *table("is-cse", b + 3)), "simcse")
    assert set(frame.query("method == 'sscl'")["verdict"]) == {"undecided"}
    assert set(frame.query("method == 'sscl'")["reason"]) == {"1 of 6 seeds of SSCL diverged"}
    assert row_of(frame, method="is-cse")["verdict"] == "better"
    # If all seeds diverged, the comparison is still reported, without numbers.
    frame, _ = against(
        suite(*(scored("sscl", seed, None) for seed in range(2)), *table("simcse", b)), "simcse"
    )
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
    merged = [
        replace(run, scores=run.scores | sts) if run.plan["seed"] == 0 else run for run in runs
    ]
    frame, claims = against(suite(*merged), "simcse")
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


def claimed(
    frame: pd.DataFrame, source: str, table: str, task: str = "Avg"
) -> tuple[float, float, float]:
    found = frame[(frame["source"] == source) & (frame["table"] == table) & (frame["task"] == task)]
    assert len(found) == 1
    return tuple(found.iloc[0][["printed_a", "printed_b", "claimed"]])


def test_printed_numbers_stand_beside_their_own_tables_baseline():
    runs = [
        scored(method, seed, 75.0 + seed)
        for seed in range(3)
        for method in ("is-cse", "gs-infonce", "simcse")
    ]
    claims = against(suite(*runs), "simcse")[1]
    assert claimed(claims.query("method == 'is-cse'"), "is-cse", "Table 1") == pytest.approx(
        (78.30, 76.25, 2.05)
    )
    for source in ("gs-infonce-v1", "gs-infonce-v2"):
        found = claimed(claims.query("method == 'gs-infonce'"), source, "Table 2")
        assert found == pytest.approx((77.63, 76.25, 1.38))
    assert claimed(
        claims.query("method == 'gs-infonce'"), "gs-infonce-v2", "Table 2", "STS-B"
    ) == pytest.approx((79.70, 76.85, 2.85))
    assert claims["comparable"].all()
    assert set(claims["backbone"]) == {BASE}
    # The abstract prints only the average of IS-CSE, which is also in the table.
    assert "Abstract" not in set(claims["table"])


def test_a_stand_in_of_two_backbones_keeps_their_numbers_apart():
    runs = [
        scored(method, seed, 75.0 + seed, backbone="mini")
        for seed in range(3)
        for method in ("is-cse", "simcse")
    ]
    frame, claims = against(
        suite(*runs, stand_ins={"roberta-base": "mini", "roberta-large": "mini"}), "simcse"
    )
    own = claims[(claims["task"] == "Avg") & (claims["table"] == "Table 1")]
    assert own[["printed_on", "printed_a", "printed_b"]].to_numpy().tolist() == [
        ["roberta-base", 77.73, 76.57],
        ["roberta-large", 79.42, 78.90],
    ]
    sources = shown(frame, claims).query("Task == 'Avg' or Task == ''")["Source"].tolist()
    assert any("is-cse, Table 1 (roberta-base)" in source for source in sources)


def test_numbers_of_two_values_of_one_setting_make_no_difference():
    untrained = scored("untrained[pooler=cls_before_pooler]", None, 47.0, setting="paper")
    _, claims = against(
        suite(untrained, scored("simcse", 1, 75.0), scored("simcse[batch_size=128]", 1, 75.0)),
        "simcse",
    )
    own = claims[
        (claims["task"] == "Avg")
        & (claims["table"] == "Table 7")
        & (claims["method"] == untrained.plan["method"])
    ]
    # Printed with bs=64 (46.70) and bs=128 (47.89), SimCSE with bs=64 as 76.25.
    assert own[["printed_a", "printed_b"]].to_numpy().tolist() == [[46.70, 76.25]]


def test_a_sweep_is_compared_with_the_baselines_one_row():
    """GS-InfoNCE's Table 3 prints SimCSE as M=0x, beside which M=1x gains 0.65."""
    _, claims = against(
        suite(scored("gs-infonce[multiple=1]", 1, 76.0), scored("simcse", 1, 75.0)), "simcse"
    )
    assert claimed(claims, "gs-infonce-v2", "Table 3") == pytest.approx((76.90, 76.25, 0.65))


def test_what_uses_no_backbone_is_compared_once():
    free = [
        scored("word-overlap", None, 50.0, backbone="none"),
        scored("skip-thought", 1, 40.0, backbone="none"),
    ]
    runs = [*free, *(scored("simcse", 1, 75.0, backbone=name) for name in (BASE, "roberta-base"))]
    frame, _ = against(suite(*runs), "word-overlap")
    pairs = frame[frame["task"] == "Avg"][["backbone", "method"]].to_numpy().tolist()
    assert sorted(pairs) == [
        ["bert-base-uncased", "simcse"],
        ["none", "skip-thought"],
        ["roberta-base", "simcse"],
    ]


def test_figures_need_a_folder_for_tables(tmp_path):
    with pytest.raises(UserError, match="--figures needs --out"):
        render_versus(tmp_path, "simcse", figures=tmp_path / "figures")


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
    runs = [
        scored(method, seed, 75.0 + seed, backbone="mini")
        for seed in range(3)
        for method in ("is-cse", "simcse")
    ]
    one = suite(*runs, stand_ins={BASE: "mini"})
    frame, claims = against(one, "simcse")
    assert claimed(claims, "is-cse", "Table 1") == pytest.approx((78.30, 76.25, 2.05))
    assert not claims["comparable"].any()
    assert "+2.05 ≠" in shown(frame, claims).iloc[-1]["A - B, print"]
    assert against(suite(*runs), "simcse")[1].empty


def test_seeds_that_would_show_the_claim():
    runs = [
        scored("is-cse", seed, 75.0 + value) for seed, value in enumerate((0.5, -0.5, 1.0, -1.0))
    ]
    _, claims = against(
        suite(*runs, *(scored("simcse", seed, 75.0) for seed in range(4))), "simcse"
    )
    sd = np.std([0.5, -0.5, 1.0, -1.0], ddof=1)
    needed = next(n for n in range(3, 99) if stats.t.ppf(0.975, n - 1) * sd / n**0.5 < 2.05)
    assert row_of(claims[claims["table"] == "Table 1"])["seeds_claimed"] == needed == 4


# --- Tables and figure ---


def test_shown_texts():
    runs = [scored("is-cse", seed, 75.0 + value) for seed, value in enumerate((1.0, 2.0, 3.0))]
    one = suite(*runs, *(scored("simcse", seed, 75.0) for seed in range(3)))
    text = shown(*against(one, "simcse")).iloc[-1].to_dict()
    assert text == {
        "Backbone": BASE, "Task": "Avg", "n": "3", "A": "77.00 ± 1.00", "B": "75.00 ± 0.00", "A - B": "+2.00 ± 2.48",
        "P(A > B)": "1.00 [0.44, 1.00]", "p, signs": "0.250", "p, Holm": "0.074",
        "Verdict": "? undecided: about 4 seeds would decide", "A, print": "78.30", "B, print": "76.25",
        "A - B, print": "+2.05 (4 seeds)", "Source": "is-cse, Table 1",
    }  # fmt: skip


def test_papers_that_agree_share_a_line_and_others_have_their_own():
    methods, large = (
        ("gs-infonce", "simcse"),
        "bert-large-uncased",
    )  # its two versions print 79.13 and 78.96
    one = suite(
        *(
            scored(method, seed, 75.0 + seed, backbone=large)
            for seed in range(3)
            for method in methods
        )
    )
    frame, claims = against(one, "simcse")
    own = claims[claims["task"] == "Avg"]
    lines = shown(frame[frame["task"] == "Avg"], own)
    assert len(lines) == len(own[["printed_a", "printed_b"]].drop_duplicates()) > 1
    assert list(lines["Backbone"]) == [large] + [""] * (len(lines) - 1)
    assert sum(text.count(",") for text in lines["Source"]) == len(own)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    rows = [dict.fromkeys(STS_TASKS, value) for value in (75.0, 75.4, 75.8)]
    higher = [
        {task: value + 1 + seed / 10 for task, value in row.items()}
        for seed, row in enumerate(rows)
    ]
    runs = [
        *seeds("simcse", rows, label="SimCSE"),
        *seeds("is-cse", higher, label=NASTY),
        *seeds("sscl", rows),
    ]
    return write_suite(tmp_path_factory.mktemp("suite"), runs)


@pytest.fixture(scope="module")
def compared(folder, tmp_path_factory):
    """The comparison of all methods, its folder and its text."""
    out = tmp_path_factory.mktemp("compared")
    return out, render_versus(folder, "simcse", out=out)


@pytest.mark.slow
def test_files_of_a_comparison(folder, tmp_path):
    text = render_versus(
        folder, "simcse", ["is-cse"], out=tmp_path / "tables", figures=tmp_path / "figures"
    )
    for name, kinds in (
        ("tables", ("csv", "md", "tex", "html")),
        ("figures", ("csv", "png", "pdf")),
    ):
        files = {path.name for path in (tmp_path / name).iterdir()}
        assert files == {"compare_printed.csv", *(f"compare.{kind}" for kind in kinds)}
    assert (tmp_path / "tables" / "compare.md").read_text(encoding="utf-8") == text
    reader = Reader((tmp_path / "tables" / "compare.html").read_text(encoding="utf-8"))
    assert "script" not in reader.tags
    assert len(reader.rows) == 9
    numbers = list(
        csv_files.DictReader(
            io.StringIO((tmp_path / "tables" / "compare.csv").read_text(encoding="utf-8"))
        )
    )
    average = next(row for row in numbers if row["task"] == "Avg")
    assert [float(word) for word in average["differences"].split()] == pytest.approx(
        [1.0, 1.1, 1.2]
    )
    assert len([row for row in numbers if row["task"] == "Avg"]) == 1  # however often it is printed
    path = tmp_path / "tables" / "compare_printed.csv"
    claims = list(csv_files.DictReader(io.StringIO(path.read_text(encoding="utf-8"))))
    claim = next(row for row in claims if row["task"] == "Avg" and row["source"] == "is-cse")
    assert float(claim["claimed"]) == pytest.approx(2.05)


def test_several_methods_show_their_averages_and_write_all(compared):
    out, text = compared
    lines = text.splitlines()
    assert lines[0].startswith(
        "Suite paper: Avg of every method on its backbones (A) against simcse@official (B)"
    )
    assert "last the printed numbers" in lines[0]
    assert "≠" in lines[0]
    assert lines[2].startswith("| Backbone | Method | n |")
    assert len([line for line in lines if line.startswith(f"| {BASE}")]) == 2
    numbers = list(
        csv_files.DictReader(io.StringIO((out / "compare.csv").read_text(encoding="utf-8")))
    )
    assert {row["task"] for row in numbers} == {*STS_TASKS, "Avg"}
    assert {row["method"] for row in numbers} == {"is-cse", "sscl"}
    sscl = next(line for line in lines if "| sscl, official |" in line)
    assert "the same scores at every seed" in sscl


def test_several_methods_without_an_average_show_their_tasks(tmp_path):
    rows = [{"STS12": 70.0, "STS-B": 70.0}]
    runs = [run for method in ("simcse", "is-cse", "sscl") for run in seeds(method, rows)]
    lines = render_versus(
        write_suite(tmp_path / "suite", runs), "simcse", out=tmp_path
    ).splitlines()
    assert lines[2].startswith("| Backbone | Method | Task | n |")
    named = [("is-cse, official", "STS12"), ("is-cse, official", "STS-B")]
    named += [("sscl, official", "STS12"), ("sscl, official", "STS-B")]
    assert [
        tuple(line.split(" | ")[1:3]) for line in lines[4:] if line.startswith(f"| {BASE}")
    ] == named


def test_the_caption_tells_of_print_only_where_a_number_is_printed(tmp_path):
    runs = [
        run
        for method in ("simcse", "esimcse")
        for run in seeds(method, [dict.fromkeys(STS_TASKS, 70.0)])
    ]
    lines = render_versus(write_suite(tmp_path / "suite", runs), "simcse").splitlines()
    assert lines[2].endswith("| Verdict |")
    assert "which decides. ↑ better" in lines[0]
    assert "print" not in lines[0]


def test_nothing_is_written_without_a_folder(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert render_versus(folder, "simcse", ["is-cse"]).startswith("Suite paper")
    assert not list(tmp_path.iterdir())


def test_the_same_files_twice(folder, compared, tmp_path):
    out, _ = compared
    render_versus(folder, "simcse", out=tmp_path)
    for path in out.iterdir():
        assert path.read_bytes() == (tmp_path / path.name).read_bytes(), path.name


def test_the_figure_shows_the_numbers():
    values = {BASE: (1.0, 2.0, 4.0), "roberta-base": (-1.0, 0.0, 0.5)}
    runs = [
        scored(method, seed, 75.0 + (value if method == "is-cse" else 0.0), backbone=backbone)
        for backbone, differences in values.items()
        for seed, value in enumerate(differences)
        for method in ("is-cse", "simcse")
    ]
    frame, claims = against(suite(*runs), "simcse")
    with matplotlib.rc_context(STYLE):
        figure = versus_figure(suite(*runs), frame, claims)
    assert [panel.get_title(loc="left") for panel in figure.axes] == list(values)
    for panel, (backbone, differences) in zip(figure.axes, values.items(), strict=True):
        assert [label.get_text() for label in panel.get_yticklabels()] == [*STS_TASKS, "Avg"]
        lines = {
            color: [line for line in panel.lines if line.get_color() == color]
            for color in (BLUE, INK, ORANGE, GREY)
        }
        assert [line.get_xdata()[0] for line in lines[GREY]] == [0]
        for line in lines[BLUE]:
            assert line.get_xdata() == pytest.approx(differences)
        interval = stats.ttest_1samp(differences, 0).confidence_interval(0.95)
        for line in lines[INK]:
            assert line.get_xdata() == pytest.approx(
                [interval.low, np.mean(differences), interval.high]
            )
        printed = (
            claims[(claims["backbone"] == backbone)]
            .groupby("task", sort=False)["claimed"]
            .apply(list)
        )
        shown_claims = [list(line.get_xdata()) for line in lines[ORANGE]]
        assert shown_claims == [pytest.approx(printed[task]) for task in (*STS_TASKS, "Avg")]
        assert [text.get_text() for text in panel.texts] == ["? undecided"] * 8


def test_untrained_methods_do_not_squeeze_the_figure():
    trained = [
        scored(one, seed, 75.0 + seed) for seed in range(3) for one in ("sscl", "simcse", "is-cse")
    ]
    both = suite(*trained, scored("untrained", None, 50.0, setting="paper"))
    for baseline, named in (
        ("simcse", ["SSCL, official", "IS-CSE, official"]),
        ("untrained", None),
    ):
        frame, claims = against(both, baseline)
        averages = frame[frame["task"] == "Avg"]
        assert len(averages) == 3
        panel = versus_figure(both, averages, claims[claims["task"] == "Avg"]).axes[0]
        shown_names = [label.get_text() for label in panel.get_yticklabels()]
        assert shown_names == (named or ["SSCL, official", "SIMCSE, official", "IS-CSE, official"])


def test_candidates_are_the_plan_in_its_order():
    runs = [
        scored("sscl", 1, 70.0),
        scored("simcse", 1, 70.0),
        scored("sscl", 2, None),
        scored("simcse", 1, 1.0, setting="paper"),
    ]
    found = candidates(suite(*runs))
    assert [one.text for one in found] == ["sscl@official", "simcse@official", "simcse@paper"]
    assert [run.plan["seed"] for run in found[0].on(BASE)] == [1, 2]
