"""What the numbers of docs/explanation/findings.md and docs/reference/rule.md are made with,
against other computations."""

from collections import Counter
from itertools import chain, combinations
from statistics import fmean

import numpy as np
import pytest
from scipy.stats import norm, ttest_1samp

from bench.registry.methods import method_class
from bench.runs.plan import read_plan
from tests.support.drawn_texts import covered
from tools import documents
from tools.printed_gains import BEYOND, OWN, average_gains, best_of, gains_figure, ranging, together


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


def test_a_printed_gain_has_the_interval_of_its_runs():
    """SimCSE prints 76.25, GS-InfoNCE 77.63, and SSCL 77.90 as a mean of three; public runs have a
    standard deviation of 0.84."""
    figure = gains_figure()
    assert covered(figure) == []
    for place, gain, runs, is_clear in ((0, 1.38, 1, False), (2, 1.65, 3, False)):
        half_width = 1.96 * 0.84 * (1 + 1 / runs) ** 0.5
        interval, mark, *_ = [list(line.get_xdata()) for line in figure.axes[place].get_lines()]
        assert mark == pytest.approx([gain])
        assert interval == pytest.approx([gain - half_width, gain + half_width], abs=0.02)
        assert (figure.axes[place].texts[0].get_weight() == "bold") == is_clear


def test_the_figure_of_the_rule_shows_its_verdicts():
    """By the ends of the intervals, whose tests have about the same level."""
    for verdict, (mean, half) in documents.EXAMPLES["claims"].items():
        said = ["better"] * (mean > half) + ["gain below the margin"] * (mean + half < 1)
        assert verdict == ("worse" if mean < -half else ", ".join(said) or "open")
    for verdict, (mean, half, of_run) in documents.EXAMPLES["printed"].items():
        outside = "lower" if mean < -of_run else "consistent"
        inside = "reproduced" if abs(mean) + half < 1 else "open"
        assert verdict == (outside if abs(mean) - half > 1 else inside)


def test_untrained_systems_lead_on_transfer():
    averages = [pair for pair in documents.wiki_mini().pairs if pair.task == "Avg"]
    transfer = {pair.name: pair for pair in averages if pair.leaderboard == "transfer"}
    best = max(transfer.values(), key=lambda pair: pair.difference)
    assert best.method.startswith("untrained")


def test_the_verdict_by_hand():
    """The example of docs/reference/rule.md, from the stored scores, with scipy's test: of 14
    claims in Holm's order, 8 are left at this one."""
    systems = {row.method: row for row in documents.wiki_mini().leaderboard_systems("sts")}
    simcse, other = (np.array(systems[name].averages) for name in ("simcse", "gs-infonce"))
    (pair,) = (
        pair
        for pair in documents.wiki_mini().pairs
        if (pair.leaderboard, pair.task, pair.method) == ("sts", "Avg", "gs-infonce")
    )
    equal, below = (
        ttest_1samp(other - simcse, 0),
        ttest_1samp(other - simcse, 1, alternative="less"),
    )
    low, high = equal.confidence_interval(0.98)
    assert [pair.difference, pair.half_width] == pytest.approx([(low + high) / 2, (high - low) / 2])
    assert pair.p_below == pytest.approx(8 * below.pvalue)
    assert pair.verdict == "gain below the margin"
    text = (documents.ROOT / "docs" / "reference" / "rule.md").read_text(encoding="utf-8")
    for step in (
        f"{other[0] - simcse[0]:+.3f} ({other[0]:.4f} - {simcse[0]:.4f})",
        f"interval is {pair.difference:.3f} ± {pair.half_width:.3f}",
        f"p = {equal.pvalue:.3f}",
        f"p = {below.pvalue:.5f}",
        f"by 8: {pair.p_below:.4f}",
    ):
        assert step in text


def test_the_small_backbone_was_scored_with_the_methods_as_they_are():
    judged = documents.wiki_mini()
    plan = read_plan(judged.folder / "plan.json")
    for name, version, _ in chain(*(run.identity["parts"] for run in plan.runs)):
        assert version == method_class(name).version, f"{name} has changed; score it again"
    scored = {path.stem for path in (judged.folder / "scores").iterdir()}
    assert scored == {run.id for run in plan.runs}
