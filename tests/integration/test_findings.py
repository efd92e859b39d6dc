"""What docs/findings.md is made with, its numbers that follow from plan, audit and results, and the
example of docs/statistics.md."""

import re
from collections import Counter, defaultdict
from itertools import chain, combinations
from statistics import fmean

import numpy as np
import pytest
from scipy.stats import norm, ttest_1samp

from bench.judge.stage import read_suite
from bench.judged.words import LEVEL
from bench.registry.methods import method_class
from bench.reported.address import find_rows
from bench.reported.audit import findings
from bench.results.suite_results import read_results
from bench.runs.plan import read_plan
from bench.stages.cost import ALL, predict, rough, work_of
from tools import documents
from tools.documents import (
    BACKBONES,
    BEYOND,
    OWN,
    average_gains,
    best_of,
    public,
    ranging,
    together,
)

TEXTS = {
    name: " ".join((documents.ROOT / name).read_text(encoding="utf-8").split())
    for name in ("README.md", "docs/findings.md", "docs/statistics.md")
}
PAGE = TEXTS["docs/findings.md"]


def test_draws_by_making_all_of_them():
    values, by = [3.0, 1.0, 4.0, 1.5, 9.0, 2.6], [2.0, 7.0, 1.0, 8.0, 3.0, 5.0]
    draws = list(combinations(range(6), 3))
    best = fmean(values[max(draw, key=by.__getitem__)] for draw in draws)
    assert best_of(3, values, by) == pytest.approx(best)
    widths = [np.ptp([values[i] for i in draw]) for draw in draws]
    for least in (0.5, 1.5, 3.0, 8.0, 9.0):
        assert ranging(3, values, least) == pytest.approx(fmean(width >= least for width in widths))


def test_what_seeds_alone_give_together():
    """The same with normal draws, by the variance of a sum with a run in common on a backbone."""
    averages = average_gains()
    of_methods = [[gain for gain in averages if gain.method == method] for method in OWN]
    below = [gain for gain in averages if gain.points < BEYOND * gain.s0]
    for gains in (averages, *of_methods, below):
        shared = Counter(gain.backbone for gain in gains)
        variance = sum(1 / gain.runs for gain in gains) + sum(n**2 for n in shared.values())
        z = sum(gain.points / gain.s0 for gain in gains) / variance**0.5
        assert together(gains) == pytest.approx(norm.sf(z), rel=0.6)


def test_how_many_gains_are_within_the_seeds():
    """One-sided, at 5 %, a normal difference of two runs is below 1.645 standard deviations."""
    below = {"by a run each": 0, "with means of three": 0}
    for gain in average_gains():
        for name, runs in zip(below, (1, gain.runs), strict=True):
            below[name] += gain.points < norm.ppf(0.95) * gain.s0 * (1 + 1 / runs) ** 0.5
    assert [*below.values()] == [7, 6]
    assert "7 averages stay below, and 6 with SSCL's as means of three runs" in PAGE
    assert "(two-sided; one-sided 6)" in TEXTS["README.md"]


def test_how_high_simcse_is_in_print():
    """In standard deviations above the mean of public runs."""
    rows = find_rows("is-cse", "Table 1", "SimCSE")
    printed = {row.backbone: row.value for row in rows if row.task == "Avg"}
    heights = []
    for backbone in BACKBONES:
        runs = public(backbone)
        heights.append(f"{(printed[backbone] - runs.mean()) / runs.std(ddof=1):.1f}")
    assert "{}, {}, {} and {} s0 above the mean of the public runs".format(*heights) in PAGE


def test_a_gain_of_a_point_is_excluded_for_all_claims_on_sts():
    pairs = documents.compared("simcse").values()
    claims = [pair for pair in pairs if pair.board == "sts" and pair.verdict]
    assert len(claims) == 14
    assert all(pair.p_below < LEVEL and pair.n == 5 and pair.margin == 1 for pair in claims)
    for name in ("README.md", "docs/findings.md"):
        text = TEXTS[name].replace("*", "")
        assert "SimCSE on STS is excluded for all 14 methods with five seeds" in text
        assert "The rule was written after these scores" in text


def test_what_holds_on_transfer_tasks():
    names = defaultdict(list)
    for pair in documents.compared("simcse").values():
        if pair.board == "transfer" and pair.verdict:
            names[pair.verdict].append(pair.label.partition(" (")[0])
    better = " and ".join(sorted(names["better"]))
    assert f"{better} are better than SimCSE" in PAGE
    assert f"{better} are better, but" in TEXTS["README.md"]
    (sentence,) = re.findall(r"seeds\. ([^.]*) gain less than a point", PAGE)
    assert {*re.split(", | and ", sentence)} == {*names["gain below the margin"]}
    assert "The other seven claims are open" in PAGE
    assert len(names["open"]) == 7
    systems = documents.scored("transfer")
    (mean,) = (row for row in systems if row.label == "Untrained (pooler=avg)")
    assert all(fmean(row.averages) < fmean(mean.averages) for row in systems if row.corpus)


def test_the_word_by_hand():
    """docs/statistics.md, from the stored scores, with scipy's test."""
    systems = {row.method: row for row in documents.wiki_mini().board_systems("sts")}
    simcse, other = (np.array(systems[name].averages) for name in ("simcse", "gs-infonce"))
    text, differences = TEXTS["docs/statistics.md"], other - simcse
    for seed, scores in enumerate(zip(simcse, other, differences, strict=True), 1):
        assert "| {} | {:.3f} | {:.3f} | {:+.3f} |".format(seed, *scores) in text
    error = differences.std(ddof=1) / 5**0.5
    assert f"m = {differences.mean():.3f}, s = {differences.std(ddof=1):.3f}" in text
    equal, below = ttest_1samp(differences, 0), ttest_1samp(differences, 1, alternative="less")
    low, high = equal.confidence_interval(0.98)
    assert f"{(low + high) / 2:.3f} ± {(high - low) / 2:.3f}" in text
    assert f"/ {error:.3f} = {equal.statistic:.2f}, p = {equal.pvalue:.3f}" in text
    assert f"/ {error:.3f} = {below.statistic:.2f}, p = {below.pvalue:.5f}" in text
    pair = documents.compared("simcse")["sts", "Avg", "gs-infonce", "official"]
    assert pair.verdict == "gain below the margin"
    assert f"times 8: {8 * below.pvalue:.4f}" in text
    assert pair.p_below == pytest.approx(8 * below.pvalue)


def test_how_far_simcse_falls_on_the_rest():
    judged = read_suite(documents.ROOT / "results" / "spread")
    (simcse,) = (row for row in judged.board_systems("sts") if row.method == "simcse")
    fall = fmean(simcse.averages) - simcse.on_rest
    assert f"SimCSE falls there by [{fall:.2f} points]" in PAGE


def test_what_consert_has_read_of_the_test_sets():
    results = read_results(documents.ROOT / "results" / "wiki-mini").runs
    counts = next(
        result.provenance.contamination for result in results
        if result.run.text.startswith("consert[epochs=1]")
    )  # fmt: skip
    shares = {task: f"{100 * of.seen / of.items:.0f} % of {task}" for task, of in counts.items()}
    assert shares["STS12"].startswith("100 %")
    assert all(shares[task] in PAGE for task in ("STS13", "STS14", "STS-B", "SICK-R"))
    assert {task for task, of in counts.items() if not of.seen} == {"STS15", "STS16"}


def test_the_numbers_of_the_plan_and_of_the_audit(paper_runs, monkeypatch):
    # Hours are predicted for corpora and backbones as they are assumed, whatever lies here.
    monkeypatch.delenv("BENCH_DATA", raising=False)
    monkeypatch.delenv("BENCH_MODELS", raising=False)
    work = work_of(paper_runs)
    runs = Counter(stage for _, stage in work)
    hours, rest = predict(work, "h200")
    measured, least, most = hours[ALL]
    assert f" {runs['train']} trainings and {runs['score']} scorings " in PAGE
    assert f" {measured:.0f} trainings take {least:.0f} to {most:.0f} hours on one H200" in PAGE
    assert f"the rest {rough(rest)}" in PAGE
    assert f"**The audit has {len(findings())} findings**" in PAGE


def test_the_small_backbone_was_scored_with_the_methods_as_they_are():
    judged = documents.wiki_mini()
    plan = read_plan(judged.folder / "plan.json")
    for name, version, _ in chain(*(run.identity["parts"] for run in plan.runs)):
        assert version == method_class(name).version, f"{name} has changed; score it again"
    assert not judged.suite.partial
