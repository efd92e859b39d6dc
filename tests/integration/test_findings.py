"""docs/findings.md beside its generated tables: each number of its text is computed again from the
repository, and it has no others.

A section's function gives the pieces of text that the page must have, with the numbers put in. What
is left of the text without all these pieces must have no digit.
"""

import re
from collections import Counter
from collections.abc import Callable
from functools import cache
from itertools import chain, combinations
from math import exp, log, sqrt
from pathlib import Path
from statistics import fmean

import numpy as np
import pandas as pd
import pytest

from bench.comparison.statistics import LEVEL
from bench.datasets.metrics import PRINTED
from bench.datasets.tasks import STS_TASKS
from bench.registry.methods import method_class
from bench.reported import curves, prior_sd, quoted
from bench.reported.audit import findings
from bench.runs import config
from bench.runs.run import PlannedRun, Recipe
from bench.stages.cost import UTILISATION, Measured, predict
from bench.utils.files import read_json
from tests.integration.test_golden_minilm import PUBLISHED
from tests.support.printed_numbers import mapped, printed
from tools import documents
from tools.documents import (
    BACKBONES,
    CORPUS_ROWS,
    OWN,
    SWEEPS,
    TASKS,
    average_gains,
    best_of,
    control_of,
    figures,
    gains,
    percent,
    printed_rows,
    public,
    ranging,
    settings,
    wiki_mini,
)

ROOT = documents.ROOT
TEXT = (ROOT / "docs" / "findings.md").read_text(encoding="utf-8")
GENERATED = r"<!-- generated: .*?<!-- end -->"
PAGE = " ".join(re.sub(GENERATED, " ", TEXT, flags=re.DOTALL).split())
BASE, LARGE = BACKBONES[:2]
AVERAGES = average_gains()
# Standard deviations of one run that 95 % of the differences of two runs stay below.
BEYOND = 1.96 * sqrt(2)


@pytest.fixture(autouse=True)
def no_local_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hours are predicted for corpora and backbones as they are assumed, whatever lies on this
    machine."""
    monkeypatch.delenv("BENCH_DATA", raising=False)
    monkeypatch.delenv("BENCH_MODELS", raising=False)


@cache
def planned() -> list[PlannedRun]:
    return config.planned(config.load(config.PAPERS[0]))


def seeds_planned(text: str, backbone: str) -> set[int | None]:
    name = f"{text}@official", backbone
    return {run.seed for run in planned() if (run.text, run.backbone) == name}


def toy(method: str) -> np.ndarray:
    """Averages of a method in the smoke suite's reference, a value a seed."""
    cells = read_json(ROOT / "results" / "reference" / "smoke.json")["cells"]
    return np.array(cells[f"{method} on toy-bert"]["Avg spearman"])


def test_draws_by_making_all_of_them() -> None:
    values, by = [3.0, 1.0, 4.0, 1.5, 9.0, 2.6], [2.0, 7.0, 1.0, 8.0, 3.0, 5.0]
    draws = list(combinations(range(6), 3))
    best = fmean(values[max(draw, key=by.__getitem__)] for draw in draws)
    assert best_of(3, values, by) == pytest.approx(best)
    widths = [np.ptp([values[i] for i in draw]) for draw in draws]
    for least in (0.5, 1.5, 3.0, 8.0, 9.0):
        assert ranging(3, values, least) == pytest.approx(fmean(width >= least for width in widths))


# The sections


def seeds() -> list[str]:
    (last,) = set(public("roberta-base", "best-step", "dev"))
    print_of = {name: figures("is-cse", "Table 1", "SimCSE", name)["Avg"] for name in BACKBONES}
    reached = [int((public(name) >= print_of[name]).sum()) for name in BACKBONES]
    count = len(public(BASE))
    assert reached[1:] == [0, 0, 0]
    return [
        f"{count} public runs of SimCSE on each backbone",
        f"All {count} runs on roberta-base were best at their last step, {last:,.0f}",
        f"{reached[0]} of the {count} runs on bert-base reach the printed {print_of[BASE]:.2f}",
    ]


def in_print() -> list[str]:
    correlations = (0, 0.5, 0.9)
    tasks = [gain for gain in gains() if gain.task != "Avg"]
    limits = (1, sqrt(2), BEYOND)
    below, below_tasks = (
        [sum(abs(gain.points) < times * gain.s0 for gain in group) for times in limits]
        for group in (AVERAGES, tasks)
    )
    above, single = (
        [gain for gain in group if gain.points >= BEYOND * gain.s0] for group in (AVERAGES, tasks)
    )
    assert [gain.backbone for gain in above] == ["roberta-base", "roberta-base"]
    (alone,) = [gain for gain in single if gain.backbone != "roberta-base"]
    assert (alone.method, alone.backbone, alone.task) == ("IS-CSE", BASE, "STS12")
    # Of a mean of three runs and one run the difference has the variance (1/3 + 1) s0^2.
    means = [gain.points / gain.s0 for gain in AVERAGES if gain.method == "SSCL-SimCSE"]
    assert max(means) < 1.96 * sqrt(4 / 3)
    simcse = [printed_rows(source, table, "SimCSE") for source, table, _ in OWN.values()]
    quoted = pd.concat(simcse).query("task == 'Avg'")["quoted_from"].str.startswith("Gao")
    enough = dict.fromkeys(correlations, 0)
    for gain in AVERAGES:
        texts = (OWN[gain.method][2], "simcse")
        pairs = set.intersection(*(seeds_planned(text, gain.backbone) for text in texts))
        for correlation in correlations:
            enough[correlation] += gain.seeds(correlation) <= len(pairs)
    count, base = len(AVERAGES), toy("simcse@official")
    others = ("is-cse", "sscl", "gs-infonce")
    rho = [np.corrcoef(toy(f"{text}@official"), base)[0, 1] for text in others]
    plan = [len(seeds_planned("gs-infonce", name)) for name in (BASE, LARGE)]
    return [
        "by {1} or by {2}".format(*correlations),
        f"{percent(1 - LEVEL)} of such differences stay below {BEYOND / sqrt(2):.2f} √2 s0",
        f"averages beyond the {percent(1 - LEVEL)} line are both on roberta-base",
        f"both of its gains stay below the {percent(1 - LEVEL)} line",
        f"Of the {count} averages {below[0]} are below s0, {below[1]} below √2 s0 and "
        f"{below[2]} below 1.96 √2 s0",
        "of the {} gains on single tasks {}, {} and {}".format(len(tasks), *below_tasks),
        f"{len(single) - 1} are on roberta-base too, "
        f"and one is IS-CSE's {alone.points:.2f} on STS12",
        f"**{count - len(above)} of the {count} printed gains over SimCSE** on the STS average "
        f"are within the {percent(1 - LEVEL)} range",
        "GS-InfoNCE prints {:.2f} and IS-CSE {:.2f}".format(*(gain.points for gain in above)),
        f"{sum(gain.points < 0 for gain in tasks)} of the {len(tasks)} are losses",
        f"In {quoted.sum()} of the {count} comparisons SimCSE's row is quoted",
        "SimCSE by {:.3f}, of SSCL by {:.2f}, of GS-InfoNCE by {:.2f}".format(*rho),
        "{} seeds on base models and {} on large ones".format(*plan),
        f"({len(seeds_planned('is-cse', 'roberta-large'))} of SimCSE and IS-CSE on roberta-large)",
        f"enough for {enough[0]} of the {count} if runs share nothing, "
        f"for {enough[0.5]} at a correlation of 0.5",
        f"and for {enough[0.9]} at 0.9",
    ]


def choosing() -> list[str]:
    best = {}
    for name in (BASE, LARGE):
        test, dev = public(name), public(name, "STS-B", "dev")
        best[name] = best_of(5, test, dev) - test.mean()
    winners = [
        printed_rows(source, table, method).query("task == 'STS-B'")["value"].max()
        for source, table, method, _ in SWEEPS.values()
        if source == "is-cse"
    ]
    (cell, times), *_ = Counter(winners).most_common()
    (run,) = set(mapped().query("source == 'is-cse' and value == @cell")["run"])
    assert run == "is-cse@official"
    logs = curves().query("task == 'STS-B'").sort_values("step")
    logs = logs.groupby(["method", "backbone"])["value"]
    drops = logs.max() - logs.last()
    return [
        f"on average {best[BASE]:.2f} points (bert-base) to {best[LARGE]:.2f} (bert-large) "
        "above the mean",
        f"{cell:.2f} is the best cell of {times} of IS-CSE's tables",
        f"In the {len(drops)} released logs the best dev score is {drops.min():.1f} "
        f"to {drops.max():.1f} points",
    ]


def test_what_was_compared() -> None:
    """The controls are planned, and the recipes of IS-CSE and SSCL are SimCSE's."""
    texts = {(run.method, run.backbone) for run in planned()}
    for name in BACKBONES:
        assert (control_of(name)[0], name) in texts
        is_cse, sscl, simcse = (
            settings(f"{text}@official", name) for text in ("is-cse", "sscl", "simcse")
        )
        others = {key for key in Recipe.model_fields if is_cse[key] != simcse[key]}
        assert others == ({"precision"} if name in (BASE, "roberta-base") else set())
        assert all(sscl[key] == simcse[key] for key in Recipe.model_fields)


def noise() -> list[str]:
    released = [settings("gs-infonce@official", name) for name in BACKBONES]
    (count,) = {round(one["multiple"] * one["batch_size"]) for one in released}
    small, large = sorted({one["std"] for one in released})
    t = released[0]["temperature"]
    each = exp(1 / (2 * 768 * t**2))
    simcse, paper = toy("simcse@official"), toy("gs-infonce@paper")
    official = toy("gs-infonce@official")
    control = toy("simcse[dropout=0.2]@official")
    alone, beside = np.abs(paper - simcse).max(), np.abs(official[: len(control)] - control).max()
    in_paper, dropout = settings("gs-infonce@paper", BASE)["std"], released[0]["dropout"]
    return [
        f"standard deviation of {small:g} or {large:g} (paper: {in_paper:g})",
        f"a mean of e^(1 / 2dt²), {each:.3f} at d = 768 (t = {t:g})",
        f"so the {count} vectors add about {count * each:.0f}",
        f"reaches {exp(1 / t):.1e}".replace("e+0", "e"),
        # Where e^(s/t) is the whole term.
        f"sentence of the batch at cosine {t * log(count * each):.2f}",
        f"over {len(paper)} seeds the noise alone moved no average by more than {alone:.2f} points",
        f"differs by {(official - simcse).mean():+.2f} from SimCSE there, but over {len(control)} "
        "seeds no average",
        f"by more than {beside:.2f} from its control with dropout {dropout:g}",
    ]


def others() -> list[str]:
    is_cse, sscl = (settings(f"{text}@official", BASE) for text in ("is-cse", "sscl"))
    memory, k, n = is_cse["buffer"], is_cse["neighbours"], is_cse["batch_size"]
    large = settings("is-cse@official", "roberta-base")["batch_size"]
    own = 1 / (1 + k * exp(-0.5 / is_cse["beta"]))
    assert (sscl["negatives"], sscl["sides"], sscl["average"]) == ("all", "both", True)
    momentum, stack = settings("esimcse@official", BASE)["momentum"], sscl["stack"]
    return [
        f"with batches of {large}, {percent(large / memory)} of the memory of {memory:,} rows "
        "is the batch itself",
        f"from step {memory // n} (batches of {n}) or {memory // large} ({large})",
        f"attention with beta = {is_cse['beta']:g}",
        f"{100 * own:.1f} % of the weight where its {k} neighbours have cosine 0.5",
        f"an even share is {100 / (k + 1):.1f} %",
        f"{2 * sscl['batch_size'] * stack} for each anchor with batches of {sscl['batch_size']} "
        f"and {stack} layers, {stack} with its own sentence alone",
        f"after 1,000 steps {100 * momentum**1000:.1f} % of it is left",
    ]


def audited() -> list[str]:
    found = findings()
    kinds, sources = Counter(one.kind for one in found), Counter(one.source for one in found)
    names = [name.partition(": ")[2] for one in found for name in one.rows]
    assert not any(name.startswith("IS-CSE") for name in names)
    first = {(one.kind, one.table) for one in found if one.source == "gs-infonce-v1"}
    assert first <= {(one.kind, one.table) for one in found if one.source == "gs-infonce-v2"}
    wrong = {name for one in found for name in one.rows if one.kind == "average"}
    tables = {method: f"{source} {table}: {method}" for method, (source, table, _) in OWN.items()}
    rests = [
        g
        for g in AVERAGES
        if any(n.startswith(tables[g.method]) and n.endswith(g.backbone) for n in wrong)
    ]
    return [
        f"**The audit has {len(found)} findings**",
        f"{len(rests)} of the {len(AVERAGES)} gains have an average on one side "
        "that is not the mean of its row",
        f"There are {len(found)} findings: {sources['sscl']} in SSCL, "
        f"{sources['is-cse']} in IS-CSE",
        f"{sources['gs-infonce-v2']} in the second version of GS-InfoNCE, "
        f"{sources['gs-infonce-v1']} in the first, {sources['simcse-zh-noise']} in the Chinese",
        f"{kinds['rounding'] + kinds['runs']} of them",
    ]


def weightiest() -> list[str]:
    def mean(cells: dict[str, float]) -> float:
        return fmean(cells[task] for task in STS_TASKS)

    own, simcse = (figures("sscl", "Table 2", method, BASE) for method in ("SSCL-SimCSE", "SimCSE"))
    names = ("SSCL-SimCSE", "SimCSE")
    large, theirs = (figures("sscl", "Table 2", name, LARGE)["Avg"] for name in names)
    quoted = figures("is-cse", "Table 1", "SimCSE", LARGE)["Avg"]
    cls = figures("sscl", "Table 2", "BERT", BASE, "cls")
    first_last = figures("simcse-zh-noise", "Figure 7", "BERT", BASE)
    (shift,) = {round(first_last[task] - cls[task], 2) for task in TASKS}
    trained = figures("sscl", "Table 2", "SSCL-BERT", BASE, "cls")["Avg"]
    claimed = figures("sscl", "Introduction", "SSCL-BERT minus BERT", BASE)["Avg"]
    printed_in = [("gs-infonce-v1", "GS-InfoNCE"), ("gs-infonce-v2", "GS-InfoNCE")]
    first, second, base = (
        [figures(source, "Table 2", method, name) for name in (LARGE, "roberta-large")]
        for source, method in (*printed_in, ("gs-infonce-v2", "SimCSE"))
    )
    for one, other in zip(first, second, strict=True):
        assert [one[task] for task in STS_TASKS] == [other[task] for task in STS_TASKS]
    averages = [one["Avg"] for one in (*second, *first)]
    differences = [value - other["Avg"] for value, other in zip(averages, 2 * base, strict=True)]
    transfer = [figures("sscl", "Table 3", method, BASE) for method in ("SimCSE", "SSCL-SimCSE")]
    elsewhere = figures("is-cse", "Table 8", "SimCSE", BASE)["Avg"]
    probed = printed().query("source == 'sscl' and table == 'Table 4'")
    guessed = probed.query("task == 'CoordinationInversion'")["value"]
    low = [f"{value:.2f}" for value in guessed if value <= 50]
    alike = {one.kind: one.text for one in findings() if one.kind in ("copy", "partial")}
    assert alike["copy"].endswith("have the same 7 figures and the same average")
    assert alike["partial"].startswith("6 of 7 figures")
    said = {
        (one.source, one.table): re.findall(r"(\d+ of \d+) comparisons", one.text)[0]
        for one in findings()
        if one.kind == "statement"
    }
    return [
        f"{own['Avg']:.2f} is printed over cells with the mean {mean(own):.2f}",
        f"the gain of {own['Avg'] - simcse['Avg']:.2f} over SimCSE would be "
        f"{mean(own) - mean(simcse):.2f}",
        f"{theirs:.2f} for SimCSE, which the other tables print as {quoted:.2f}",
        f"the gain of {large - theirs:.2f} would be {large - quoted:.2f}",
        f"is {shift:.2f} below",
        f"the gain of {trained - cls['Avg']:.2f} ({claimed:.2f} in the text)",
        "{:.2f} and {:.2f} are printed over the cells that the first averages to "
        "{:.2f} and {:.2f}".format(*averages),
        "the gains are {:.2f} and {:.2f}, or {:.2f} and {:.2f}".format(*differences),
        "SimCSE has {:.2f}, SSCL {:.2f}".format(*(one["Avg"] for one in transfer)),
        f"SimCSE as quoted by IS-CSE {elsewhere:.2f}",
        "all 7 figures and the average are those",
        "6 of 7 figures and the average are those",
        f"{len(low)} of its {len(guessed)} figures ({', '.join(low)}) are no better than guessing, "
        "50.00",
        "{:.2f} and {:.2f} are not accuracies on 500".format(*(one["TREC"] for one in transfer)),
        "the mean of 3 or 5",
        f"{said['gs-infonce-v2', 'Table 2']} figures are lower",
        f"{said['sscl', 'Table 3']} figures are lower",
        f"{said['gs-infonce-v2', 'Table 3']} steps go the other way",
    ]


def exact() -> list[str]:
    measuring = mapped()[lambda rows: rows["metric"].isin(PRINTED)]
    return [
        "{:.2f}, {:.2f}, {:.2f}, {:.2f}, {:.2f} and {:.2f} on STS12 to STS16 and STS-B".format(
            *PUBLISHED.values()
        ),
        f"{(measuring['run'] != '').sum()} of the {len(measuring)} printed numbers "
        "that measure something",
    ]


# Whose difference to SimCSE on STS, with the first seed alone, the page names.
FIRST = ("cards[switch=0]", "focal-infonce")


def small_backbone() -> list[str]:
    suite = wiki_mini()
    parts = chain(*(run.plan.identity["parts"] for run in suite.runs))
    for name, version, _ in parts:
        assert version == method_class(name).version, f"{name} has changed; score it again"
    sts = suite.planned("sts")
    first = {run.plan.method: run.points(sts, "Avg") for run in suite.runs if run.plan.seed == 1}
    ((steps, precision),) = {
        (run.plan.recipe.sentences // run.plan.recipe.batch_size, run.plan.recipe.precision)
        for run in suite.runs
        if run.plan.method == "simcse"
    }
    return [
        f"{steps} steps in {precision}",
        *(f"{first[method] - first['simcse']:+.2f} above" for method in FIRST),
        *filter(None, [suite.partial]),
    ]


def test_what_is_said_of_the_small_backbone() -> None:
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
    widths = differences[scores["seeds"].str.startswith("5")].str.extract(r"± (\S+)")[0].dropna()
    assert set(widths.astype(float).nsmallest(2).index) == {"IS-CSE", "SSCL"}
    assert differences["CARDS (switch=0)"].startswith("-0.2")
    assert differences["Focal-InfoNCE"].startswith("+0.02")

    better = scores["transfer minus SimCSE"].str.endswith("↑")
    assert set(scores.index[better & trained]) == {"DiffCSE (epochs=1)", "MixCSE"}
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

    assert list(pairs["A - B"].str[-1].isin(["↑", "↓"])) == [False, False, False, False, True]
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
    assert reaching == {"ConSERT (epochs=1) (has seen the STS test sentences)"}
    (skip,) = (name for name in sts if name.startswith("Skip-thought"))
    assert sts[skip] < sts["Word overlap"]


# Of DiffCSE on bert-base, in the issue that is named; of Focal-InfoNCE over SimCSE, recalled.
USERS, RECALLED = (77.00, 77.33, 77.44), (1.64, 0.82, 1.51, 0.75)


def disputed() -> list[str]:
    rows = quoted("sts").set_index(["name", "backbone"])
    averages = rows["Avg"]

    def number(name: str, backbone: str) -> float:
        return float(averages[name, backbone].partition(" ")[0])

    def each(name: str, *backbones: str) -> str:
        short = {BASE: "bert-base", LARGE: "bert-large"}
        return ", ".join(f"{averages[name, x]} ({short.get(x, x)})" for x in backbones)

    simcse = {name: figures("is-cse", "Table 1", "SimCSE", name)["Avg"] for name in BACKBONES}
    focal = [number("Focal-InfoNCE", name) - simcse[name] for name in BACKBONES]
    assert all(round(ours, 2) < claimed for ours, claimed in zip(focal, RECALLED, strict=True))
    diffcse, s0 = number("DiffCSE", BASE), prior_sd(BASE, "Avg") or 0.0
    below = sorted(diffcse - users for users in USERS)
    rerun = diffcse - number("SimCSE (in DiffCSE's table)", BASE)
    net, mle = (averages[f"RankCSE ({name})", BASE] for name in ("ListNet", "ListMLE"))
    versions = [averages[f"RankCSE (ListNet){of}", "roberta-base"]
                for of in (", withdrawn version", "")]  # fmt: skip
    cited = rows["quoted_from"].str.startswith("Doragd")
    assert cited[rows.index.get_level_values("name").str.startswith("RankCSE")].mean() > 0.5
    spread = {name for name, backbone in rows.index if "±" in averages[name, backbone]}
    assert spread == {"MixCSE"}
    large = rows.loc[("MixCSE", LARGE)]
    mean = fmean(float(large[task].partition(" ")[0]) for task in STS_TASKS)
    return [
        each("MixCSE", BASE, LARGE),
        "an average of about 65",  # the issue that is named
        f"on bert-large the cells have the mean {mean:.2f}",
        each("Focal-InfoNCE", *BACKBONES),
        "that is {:+.2f}, {:+.2f}, {:+.2f} and {:+.2f}".format(*focal),
        "gains of {:.2f}, {:.2f}, {:.2f} and {:.2f} [recalled]".format(*RECALLED),
        "a gain of 1.8 on bert-base is claimed [abstract]",
        each("CoT-BERT", BASE, "roberta-base"),
        f"ListNet {net}, ListMLE {mle} (bert-base)",
        "ListNet on roberta-base {}, not {}".format(*versions),
        each("DiffCSE", BASE, "roberta-base"),
        "users have {:.2f}, {:.2f} and {:.2f} on bert-base".format(*USERS),
        f"{below[0]:.2f} to {below[-1]:.2f} points less",
        f"the text has 77.80 where the table has {averages['DiffCSE', 'roberta-base']}",
        f"is {rerun:.2f} over the authors' rerun, {diffcse - simcse[BASE]:.2f} over SimCSE",
        each("SimCSE, trained with labels", BASE),
        "the same README has 81.57",  # README.md:97, beside README.md:189
        each("WhitenedCSE", BASE, LARGE),
        each("ArcCSE", BASE, LARGE),
        f"{below[0] / s0:.1f} to {below[-1] / s0:.1f} standard deviations of SimCSE's public runs",
    ]


def unknown() -> list[str]:
    table = predict(planned(), "test", "h200", Measured(Path("nowhere"), "h200"))
    hours = table["seconds"].sum() / 3600
    runs = table.groupby("stage")["runs"].sum()
    return [
        f"{runs['train']} trainings and {runs['score']} scorings take {hours:.0f} hours "
        "on one H200",
        f"at {100 * UTILISATION:.0f} % of its data sheet's FLOP/s",
        "a training of {:,} steps spread as little as one of {:,}".format(
            *(-(-CORPUS_ROWS // size) for size in (64, 512))
        ),
    ]


SECTIONS: list[Callable[[], list[str]]] = [
    seeds, in_print, choosing, noise, others, audited, weightiest, exact, small_backbone, disputed,
    unknown,
]  # fmt: skip


# The page


@cache
def pieces(section: Callable[[], list[str]]) -> list[str]:
    return section()


def pattern(piece: str) -> str:
    """The piece where it stands by itself: `5 of the 50` is no part of `15 of the 50`."""
    return rf"(?<![\d.,+-]){re.escape(piece)}(?!\d)"


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.__name__)
def test_what_the_page_says(section: Callable[[], list[str]]) -> None:
    missing = [piece for piece in pieces(section) if not re.search(pattern(piece), PAGE)]
    assert not missing, "docs/findings.md lacks:\n" + "\n".join(missing)


# Digits that are no finding: code, commands, addresses of links, commits, tasks, tables, a device,
# symbols.
NAMES = (
    r"`[^`]*`|snakemake --cores 16 --resources gpu=8|\]\([^)]*\)|\S+@[0-9a-f]{7}|\bSTS1\d|"
    r"\bTable \d|[hH]200|float64|\bs0\b|√2|e\^\(\S+\)"
)


def test_no_other_number() -> None:
    rest = PAGE
    for piece in sorted(chain(*map(pieces, SECTIONS)), key=len, reverse=True):
        rest = re.sub(pattern(piece), " ", rest)
    rest = re.sub(NAMES, " ", rest)
    number = re.compile(r"\d[\d.,]*\d|\d")
    assert not number.findall(rest), [
        rest[max(0, m.start() - 40) : m.end() + 20] for m in number.finditer(rest)
    ]


def test_the_tests_that_it_names_exist() -> None:
    named = set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE))
    assert len(named) >= 10
    for path, name in named:
        assert f"def {name}(" in (ROOT / path).read_text(encoding="utf-8"), f"{path} has no {name}"
