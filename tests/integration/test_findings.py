"""docs/findings.md says what results, plans and the audit say now.

Numbers of the text that depend on them are computed again. Those of print and of settings, which do
not change, are not.
"""

import re
from collections import Counter
from itertools import chain, combinations
from pathlib import Path
from statistics import fmean

import numpy as np
import pandas as pd
import pytest

from bench.datasets.metrics import PRINTED
from bench.judge.world import SCORES, SEEDS
from bench.registry.methods import method_class
from bench.reported.audit import findings
from bench.runs import config
from bench.runs.plan import read_plan
from bench.stages.cost import UTILISATION, Measured, predict
from tests.support.printed_numbers import mapped
from tools import documents
from tools.documents import (
    BACKBONES,
    BEYOND,
    OWN,
    average_gains,
    best_of,
    control_of,
    public,
    ranging,
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


@pytest.fixture
def planned():
    return config.planned(config.load(config.PAPERS[0]))


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


def test_gains_and_the_seeds_that_are_planned(planned):
    """The controls are planned, too."""
    runs = {}
    for run in planned:
        runs.setdefault((run.text, run.backbone), set()).add(run.seed)
    enough = Counter()
    for gain in AVERAGES:
        ours, simcse = (f"{name}@official" for name in (OWN[gain.method][2], "simcse"))
        pairs = runs[ours, gain.backbone] & runs[simcse, gain.backbone]
        for correlation in (0, 0.5, 0.9):
            enough[correlation] += gain.seeds(correlation) <= len(pairs)
    within = sum(gain.points < BEYOND * gain.s0 for gain in AVERAGES)
    base, large = (len(runs["gs-infonce@official", name]) for name in BACKBONES[:2])
    says(
        f"{len(public(BACKBONES[0]))} public runs of SimCSE on each backbone",
        f"**{within} of the {len(AVERAGES)} printed gains over SimCSE** on the STS average",
        f"{base} seeds on base models and {large} on large ones",
        f"({len(runs['is-cse@official', 'roberta-large'])} of SimCSE and IS-CSE on roberta-large)",
        f"enough for {enough[0]} of the {len(AVERAGES)} if runs share nothing, "
        f"for {enough[0.5]} at a correlation of 0.5 and for {enough[0.9]} at 0.9",
    )
    names = {(run.method, run.backbone) for run in planned}
    assert {(control_of(name)[0], name) for name in BACKBONES} <= names


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


def test_the_audit():
    found = findings()
    kinds = Counter(finding.kind for finding in found)
    sources = Counter(finding.source for finding in found)
    rows = {name for finding in found for name in finding.rows}
    assert not any(name.partition(": ")[2].startswith("IS-CSE") for name in rows)
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
        f"GS-InfoNCE, {sources['gs-infonce-v1']} in the first. "
        f"{kinds['rounding'] + kinds['runs']} of them (`rounding`, `runs`)",
        f"{(measuring['run'] != '').sum()} of the {len(measuring)} printed numbers "
        "that measure something",
    )


def test_the_predicted_hours(planned):
    table = predict(planned, "test", "h200", Measured(Path("nowhere"), "h200"))
    runs = table.groupby("stage")["runs"].sum()
    says(
        f"{runs['train']} trainings and {runs['score']} scorings take "
        f"{table['seconds'].sum() / 3600:.0f} hours on one H200 at {100 * UTILISATION:.0f} %"
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


def test_what_is_said_of_the_small_backbone():
    """The sentences below its tables, which have no numbers of their own."""
    scores, probing, pairs = (
        documents.TABLES[name]() for name in ("wiki-mini", "wiki-mini probing", "wiki-mini pairs")
    )
    scores = scores.fillna("").set_index("method")
    sts, transfer = (
        {name: float(text.split()[0]) for name, text in scores[board].items() if text}
        for board in ("STS", "transfer")
    )
    trained = scores["seeds"] != "1"
    differences = scores["STS minus SimCSE"]
    assert not differences.str.endswith("↑").any()
    averages = scores["STS"].str.split().str[0].astype(float)
    worse = differences.str.endswith("↓") & trained
    assert worse.sum() == 11
    assert set(scores.index[worse]) == set(
        scores.index[trained & (averages <= averages["Cropping (sentences=500000)"])]
    )
    widths = differences[scores["seeds"].str.startswith("5")].str.extract(r"± (\S+)")[0].dropna()
    assert set(widths.astype(float).nsmallest(2).index) == {"IS-CSE", "SSCL"}
    assert differences["CARDS (switch=0)"].startswith("-0.2")
    assert differences["Focal-InfoNCE"].startswith("+0.02")

    better = scores["transfer minus SimCSE"].str.endswith("↑")
    assert set(scores.index[better & trained]) == {"DiffCSE (epochs=1)", "MixCSE"}
    lower = scores["transfer minus SimCSE"].str.endswith("↓")
    assert [name.partition(" ")[0] for name in scores.index[lower]] == ["CoT-BERT", "Skip-thought"]
    means = better & ~trained
    assert set(scores.index[means]) == {
        name for name in transfer if name.startswith("Untrained (pooler=avg")
    }
    assert min(transfer[name] for name in scores.index[means]) > max(
        transfer[name] for name in scores.index[trained] if name in transfer
    )
    cls = "Untrained (pooler=cls_before_pooler)"
    assert scores["transfer minus SimCSE"][cls].startswith("+")
    decided = probing.set_index("method").drop(columns="seeds").map(lambda text: text[-1] in "↑↓")
    assert decided.loc["Untrained (pooler=avg)"].all()
    assert decided.to_numpy().sum() == 3

    assert not pairs["A - B"].str[-1].isin(["↑", "↓"]).any()
    assert pairs["A - B"].iloc[2].startswith("+")
    assert pairs["A - B"].iloc[4].startswith("-")
    for kind in ("Flow", "Whitening"):
        target, other = (
            sts[f"Untrained (pooler=avg_first_last) + {kind} ({source})"]
            for source in ("source=target", "sentences=16000, source=wiki1m_fallback")
        )
        assert target > other
    means_of = {
        "CT-BERT": "avg", "IS-BERT": "avg", "DeCLUTR": "avg", "ConSERT": "avg_top2",
        "SimCSE+noise": "avg_first_last",
    }  # fmt: skip
    reaching = set()
    for name, score in sts.items():
        method = name.partition(" ")[0]
        if method in means_of:
            assert score > sts[f"Untrained (pooler={means_of[method]})"]
        if method in (*means_of, "PromptBERT", "CoT-BERT") and score > sts[cls]:
            reaching.add(name)
    assert reaching == {"ConSERT (epochs=1)"}
    (skip,) = (name for name in sts if name.startswith("Skip-thought"))
    assert sts[skip] < sts["Word overlap"]
