"""docs/findings.md says what results, plans and the audit say now.

Numbers of the text that depend on them are computed again. Those of print and of settings, which do
not change, are not.
"""

import re
from collections import Counter
from itertools import chain, combinations
from statistics import fmean

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from bench.datasets.metrics import PRINTED
from bench.judge.world import SCORES, SEEDS
from bench.registry.methods import method_class
from bench.reported.audit import findings
from bench.runs.plan import read_plan
from bench.stages.cost import ALL, UTILISATION, predict, work_of
from tests.support.printed_numbers import mapped
from tools import documents
from tools.documents import (
    BACKBONES,
    BEYOND,
    OWN,
    average_gains,
    best_of,
    control_of,
    gains_frame,
    public,
    ranging,
    together,
    wiki_mini,
)

ROOT = documents.ROOT
PAGE = " ".join((ROOT / "docs" / "findings.md").read_text(encoding="utf-8").split())
AVERAGES = average_gains()


@pytest.fixture(autouse=True)
def no_local_data(monkeypatch):
    """Hours are predicted for corpora and backbones as they are assumed, whatever lies on this
    machine."""
    monkeypatch.delenv("BENCH_DATA", raising=False)
    monkeypatch.delenv("BENCH_MODELS", raising=False)


def says(*pieces):
    """Each piece stands by itself: `5 of the 50` is no part of `15 of the 50`."""
    alone = [rf"(?<![\d.,+-]){re.escape(piece)}(?!\d)" for piece in pieces]
    missing = [p for p, text in zip(pieces, alone, strict=True) if not re.search(text, PAGE)]
    assert not missing, "docs/findings.md lacks:\n" + "\n".join(missing)


def test_draws_by_making_all_of_them():
    values, by = [3.0, 1.0, 4.0, 1.5, 9.0, 2.6], [2.0, 7.0, 1.0, 8.0, 3.0, 5.0]
    draws = list(combinations(range(6), 3))
    best = fmean(values[max(draw, key=by.__getitem__)] for draw in draws)
    assert best_of(3, values, by) == pytest.approx(best)
    widths = [np.ptp([values[i] for i in draw]) for draw in draws]
    for least in (0.5, 1.5, 3.0, 8.0, 9.0):
        assert ranging(3, values, least) == pytest.approx(fmean(width >= least for width in widths))


def test_gains_and_the_seeds_that_are_planned(paper_runs):
    """The controls are planned, too."""
    runs = {}
    for run in paper_runs:
        runs.setdefault((run.text, run.backbone), set()).add(run.seed)
    enough = Counter()
    # A gain is paired by seed: what counts are the seeds that both methods have.
    for gain in AVERAGES:
        ours, simcse = (f"{name}@official" for name in (OWN[gain.method][2], "simcse"))
        pairs = runs[ours, gain.backbone] & runs[simcse, gain.backbone]
        for correlation in (0, 0.5, 0.9):
            enough[correlation] += gain.seeds(correlation) <= len(pairs)
    frame = gains_frame()
    undecided = (frame["gain"] < frame["half_width"]).sum()
    base, large = (len(runs["gs-infonce@official", name]) for name in BACKBONES[:2])
    says(
        f"{len(public(BACKBONES[0]))} public runs of SimCSE on each backbone",
        f"refute {undecided} of the {len(AVERAGES)} printed gains over SimCSE** on the STS average",
        f"{base} seeds on base models and {large} on large ones",
        f"({len(runs['is-cse@official', 'roberta-large'])} of SimCSE and IS-CSE on roberta-large)",
        f"enough for {enough[0]} of the {len(AVERAGES)} if runs share nothing, "
        f"for {enough[0.5]} at a correlation of 0.5 and for {enough[0.9]} at 0.9",
    )
    names = {(run.method, run.backbone) for run in paper_runs}
    assert {(control_of(name)[0], name) for name in BACKBONES} <= names


def test_what_seeds_alone_give_together():
    """The same with normal draws, by the variance of a sum with a run in common on a backbone."""
    below = [gain for gain in AVERAGES if gain.points < BEYOND * gain.s0]
    found = []
    for gains in (AVERAGES, *(of(method) for method in OWN), below):
        shared = Counter(gain.backbone for gain in gains)
        variance = sum(1 / gain.runs for gain in gains) + sum(n**2 for n in shared.values())
        z = sum(gain.points / gain.s0 for gain in gains) / variance**0.5
        found.append(together(gains))
        assert found[-1] == pytest.approx(norm.sf(z), rel=0.6)
    everything, gs_infonce, is_cse, sscl, eight = (f"{p:.1g}" for p in found)
    says(
        f"in s0, with a probability of {everything}; those of GS-InfoNCE alone {gs_infonce}, of "
        f"IS-CSE {is_cse}, of SSCL {sscl}, and the eight that are below the line {eight}",
    )


def of(method):
    return [gain for gain in AVERAGES if gain.method == method]


def test_the_numbers_of_the_embedded_world():
    numbers = pd.read_csv(SCORES).set_index(["run", "backbone", "task", "metric"])[SEEDS]

    def averages(run):
        return numbers.loc[run, "toy-bert", "Avg", "spearman"].to_numpy()

    simcse, official = averages("simcse@official"), averages("gs-infonce@official")
    control = averages("simcse[dropout=0.2]@official")
    rho = [np.corrcoef(averages(f"{name}@official"), simcse)[0, 1]
           for name in ("is-cse", "sscl", "gs-infonce")]  # fmt: skip
    alone = np.abs(averages("gs-infonce@paper") - simcse).max()
    beside = np.abs(official[: len(control)] - control).max()
    says(
        "SimCSE by {:.3f}, of SSCL by {:.2f}, of GS-InfoNCE by {:.2f}".format(*rho),
        f"over {len(simcse)} seeds the noise alone moved no average by more than {alone:.2f} "
        f"points (`gs-infonce@paper` beside `simcse`)",
        f"differs by {(official - simcse).mean():+.2f} from SimCSE there, but over {len(control)} "
        f"seeds no average by more than {beside:.2f} from its control with dropout 0.2",
    )


def test_the_dev_set_in_the_test_sets():
    table = documents.TABLES["dev sets"]().set_index("test set")
    pieces = [f"{table['share, STS-B'][task]} of {task}'s" for task in ("STS15", "STS12", "STS13")]
    says(*pieces, f"{table['share, STS-B']['STS14']} of STS14's")
    alone = table["in dev of STS-B or SICK-R"] - table["in dev of STS-B"]
    says(f"SICK-R dev alone has {alone['SICK-R']} items of SICK-R")


def test_the_audit():
    found = findings()
    kinds = Counter(finding.kind for finding in found)
    sources = Counter(finding.source for finding in found)
    rows = {name for finding in found for name in finding.rows}
    assert not any(name.partition(": ")[2].startswith("IS-CSE") for name in rows)
    # Averages of the papers' own rows; those of SimCSE beside them are the means of their rows.
    wrong = {name for finding in found for name in finding.rows if finding.kind == "average"}
    rests = 0
    for gain in AVERAGES:
        source, table, _ = OWN[gain.method]
        own = f"{source} {table}: {gain.method}"
        rests += any(name.startswith(own) and name.endswith(gain.backbone) for name in wrong)
    measuring = mapped()[lambda rows: rows["metric"].isin(PRINTED)]
    says(
        f"**The audit has {len(found)} findings**",
        f"{rests} of the {len(AVERAGES)} gains have an average on one side",
        f"There are {len(found)} findings: {sources['sscl']} in SSCL, "
        f"{sources['is-cse']} in IS-CSE, {sources['gs-infonce-v2']} in the second version of "
        f"GS-InfoNCE, {sources['gs-infonce-v1']} in the first, "
        f"{sources['simcse-zh-noise']} in the Chinese report. "
        f"{kinds['rounding'] + kinds['runs']} of them (`rounding`, `runs`)",
        f"{(measuring['run'] != '').sum()} of the {len(measuring)} printed numbers "
        "that measure something",
    )


def test_the_predicted_hours(paper_runs):
    prediction = predict(work_of(paper_runs), "test", "h200")
    runs = Counter()
    for (_, stage), (count, *_) in prediction.items():
        runs[stage] += int(count)
    _, measured, least, most = prediction[ALL]
    says(
        f"{runs['train']} trainings and {runs['score']} scorings take "
        f"{least:.0f} to {most:.0f} hours on one H200; {measured:.0f} trainings by measured steps, "
        f"the rest at {100 * UTILISATION:.0f} %"
    )


def test_the_small_backbone_was_scored_with_the_methods_as_they_are():
    judged = wiki_mini()
    plan = read_plan(judged.folder / "plan.json")
    for name, version, _ in chain(*(run.identity["parts"] for run in plan.runs)):
        assert version == method_class(name).version, f"{name} has changed; score it again"
    seeds = {run.id: run.seed for run in plan.runs}
    first = {
        system.method: average
        for system in judged.board_systems("sts")
        for run, average in zip(system.runs, system.averages, strict=True)
        if seeds[run] == 1
    }
    cards, focal = (first[name] - first["simcse"] for name in ("cards[switch=0]", "focal-infonce"))
    says(f"CARDS is {cards:+.2f} above SimCSE and Focal-InfoNCE {focal:+.2f} above it")
    assert not judged.suite.partial


# The sentences below the tables of the small backbone, which have no numbers of their own


def averages_on(board):
    """The averages of the systems of wiki-mini, by method."""
    return {system.method: system.score("Avg") for system in documents.scored(board)}


def pairs_on(board):
    """The comparisons of averages with SimCSE, by method."""
    pairs = documents.compared("simcse").values()
    return {pair.method: pair for pair in pairs if (pair.board, pair.task) == (board, "Avg")}


CLS, MEAN = "untrained[pooler=cls_before_pooler]", "untrained[pooler=avg]"


def test_no_method_is_better_on_sts_and_eleven_are_worse():
    scores, pairs = averages_on("sts"), pairs_on("sts")
    assert "better" not in {pair.verdict for pair in pairs.values()}
    trained = {method for method, score in scores.items() if score.n > 1}
    worse = {method for method in trained & pairs.keys() if pairs[method].verdict == "worse"}
    most = scores["cropping[sentences=500000]"].mean
    assert worse == {method for method in trained if scores[method].mean <= most}
    assert len(worse) == 11
    five = [method for method in pairs if scores[method].n == 5]
    narrowest = sorted(five, key=lambda method: pairs[method].half_width)[:2]
    assert {*narrowest} == {"is-cse", "sscl"}
    assert pairs["cards[switch=0]"].difference == pytest.approx(-0.2, abs=0.05)
    assert pairs["focal-infonce"].difference == pytest.approx(0.02, abs=0.005)


def test_on_transfer_diffcse_and_the_untrained_means_are_better():
    scores, pairs = averages_on("transfer"), pairs_on("transfer")
    better = {method for method, pair in pairs.items() if pair.verdict == "better"}
    means = {method for method in scores if method.startswith("untrained")} - {CLS}
    assert better == {"diffcse[epochs=1]"} | means
    worse = {method for method, pair in pairs.items() if pair.verdict == "worse"}
    assert {method.partition("[")[0] for method in worse} == {"cot-bert", "skip-thought"}
    trained = [score.mean for score in scores.values() if score.n > 1]
    assert min(scores[method].mean for method in means) > max(trained)
    assert pairs[CLS].difference > 0


def test_probing_decides_for_the_untrained_mean_alone():
    pairs = documents.compared("simcse").values()
    decided = [pair for pair in pairs if pair.board == "xprobe" and pair.verdict != "undecided"]
    assert [(pair.method, pair.verdict) for pair in decided] == [(MEAN, "better")] * 3


def test_no_pair_of_methods_is_decided():
    differences = documents.pairs_table()["A - B"]
    assert not differences.str[-1].isin(["↑", "↓"]).any()
    assert (differences[2][0], differences[4][0]) == ("+", "-")


FIRST_LAST = "untrained[pooler=avg_first_last]"
TEXT = "[sentences=16000,source=wiki1m_fallback]"
# Systems of wiki-mini, the better one of a pair first; without settings where they have one each.
PAIRS = [
    (f"{FIRST_LAST}+flow[source=target]", f"{FIRST_LAST}+flow{TEXT}"),
    (f"{FIRST_LAST}+whitening[source=target]", f"{FIRST_LAST}+whitening{TEXT}"),
    ("ct-bert", MEAN),
    ("is-bert", MEAN),
    ("declutr", MEAN),
    ("consert[corpus=wiki1m_fallback,epochs=1]", "untrained[pooler=avg_top2]"),
    ("consert[epochs=1]", "untrained[pooler=avg_top2]"),
    ("word-noise", FIRST_LAST),
    ("word-noise[noise=delete]", FIRST_LAST),
    ("word-overlap", "skip-thought"),
]


@pytest.mark.parametrize(("better", "worse"), PAIRS)
def test_systems_whose_order_is_stated(better, worse):
    scores = averages_on("sts")
    alone = {method.partition("[")[0]: score for method, score in scores.items()}
    first, second = ((alone | scores)[name].mean for name in (better, worse))
    assert first > second


def test_the_averages_over_seeds_of_the_classifiers():
    page = " ".join((ROOT / "docs" / "error-rates.md").read_text(encoding="utf-8").split())
    scores = pd.read_csv(ROOT / "docs" / "classifier-seeds.csv")
    averages = scores.query("mode == 'test' and task == 'Avg'").pivot(
        index="aggregation", columns="model", values="value"
    )
    tokens, cls = averages.to_numpy().T
    assert f"[CLS] lie between {min(cls):.2f} and {max(cls):.2f}" in page
    assert f"mean of tokens between {min(tokens):.2f} and {max(tokens):.2f}" in page
    apart = tokens - cls
    assert f"difference lies between {min(apart):.2f} and {max(apart):.2f}" in page
    of_suite = {x.method: x.score("Avg").mean for x in wiki_mini().board_systems("transfer")}
    first = averages.loc["all"].rename(lambda name: name.replace("wiki-minilm", "untrained"))
    assert first.to_dict() == pytest.approx({name: of_suite[name] for name in first.index})
