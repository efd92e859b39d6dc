"""What docs/findings.md is made with, and its numbers that follow from plan and audit."""

from collections import Counter
from itertools import chain, combinations
from statistics import fmean

import numpy as np
import pytest
from scipy.stats import norm

from bench.registry.methods import method_class
from bench.reported.audit import findings
from bench.runs.plan import read_plan
from bench.stages.cost import ALL, predict, work_of
from tools import documents
from tools.documents import BEYOND, OWN, average_gains, best_of, ranging, together

PAGE = " ".join((documents.ROOT / "docs" / "findings.md").read_text(encoding="utf-8").split())


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


def test_the_numbers_of_the_plan_and_of_the_audit(paper_runs, monkeypatch):
    # Hours are predicted for corpora and backbones as they are assumed, whatever lies here.
    monkeypatch.delenv("BENCH_DATA", raising=False)
    monkeypatch.delenv("BENCH_MODELS", raising=False)
    prediction = predict(work_of(paper_runs), "test", "h200")
    runs = Counter()
    for (_, stage), (count, *_) in prediction.items():
        runs[stage] += int(count)
    _, _, least, most = prediction[ALL]
    hours = f"{least:.0f} to {most:.0f} hours on one H200"
    assert f" {runs['train']} trainings and {runs['score']} scorings take {hours}" in PAGE
    assert f"**The audit has {len(findings())} findings**" in PAGE


def test_the_small_backbone_was_scored_with_the_methods_as_they_are():
    judged = documents.wiki_mini()
    plan = read_plan(judged.folder / "plan.json")
    for name, version, _ in chain(*(run.identity["parts"] for run in plan.runs)):
        assert version == method_class(name).version, f"{name} has changed; score it again"
    assert not judged.suite.partial
