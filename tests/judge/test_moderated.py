"""Comparisons of a suite whose spreads are moderated by each other: the estimate of the prior,
which comparisons share it, and simulated error rates."""

from itertools import product

import numpy as np
import pytest
from scipy import special, stats

from bench.judge.pairs import PairedDifferences, against, decide, seeds_to_show
from bench.judge.statistics import FEWEST_SPREADS, MOST_ESTIMATED_DF, estimated_prior
from bench.judged.rows import grouped
from tests.oracles.verdict_rule import documented, holm_rejects, public_seeds
from tests.support.compared_runs import BASE, scored, suite
from tests.support.rows import rows_of


def spreads_of(true_df, n, count=20_000):
    """Standard deviations over n scores each, whose true variances have a prior of 0.5 points."""
    rng = np.random.default_rng(round(10 * true_df))
    variances = 0.25 * true_df / rng.chisquare(true_df, count)
    return [(sd, n) for sd in np.sqrt(variances * rng.chisquare(n - 1, count) / (n - 1))]


# --- The estimate ---


@pytest.mark.parametrize(("true_df", "n"), [(0.5, 3), (1.7, 3), (3.0, 3), (3.0, 10)])
def test_the_prior_of_drawn_variances_is_estimated(true_df, n):
    sd, df = estimated_prior(spreads_of(true_df, n))
    assert df == pytest.approx(true_df, rel=0.1)
    assert sd == pytest.approx(0.5, rel=0.05)


def test_the_prior_of_different_numbers_of_seeds_is_estimated():
    sd, df = estimated_prior(spreads_of(2.0, 3) + spreads_of(2.5, 8))
    assert 2.0 < df < 2.5
    assert sd == pytest.approx(0.5, rel=0.05)


def test_equal_variances_have_the_most_weight():
    for spreads in (spreads_of(1e6, 3), [(0.3, 3)] * 15):
        assert estimated_prior(spreads)[1] == MOST_ESTIMATED_DF


def test_few_spreads_have_no_prior_and_those_of_zero_are_left_out():
    spreads = spreads_of(2.0, 3, FEWEST_SPREADS)
    assert estimated_prior([*spreads, (0.0, 3), (1e-12, 5)]) == estimated_prior(spreads)
    assert estimated_prior([*spreads[1:], (0.0, 3)]) == (None, 0)


# --- A comparison with a prior ---

FOUR = (1.0, 2.0, 1.5, 1.9)


def with_prior(differences, prior):
    scores = dict(enumerate(differences))
    return PairedDifferences(scores, dict.fromkeys(scores, 0.0), prior=prior)


@pytest.mark.parametrize("prior", [(1.0, 2.5), (0.1, 2.5)])
def test_interval_p_and_seeds_use_the_moderated_spread(prior):
    pair = with_prior(FOUR, prior)
    variance = np.var(FOUR, ddof=1)
    pooled = (prior[1] * prior[0] ** 2 + 3 * variance) / (prior[1] + 3)
    sd, mean = max(variance, pooled) ** 0.5, np.mean(FOUR)  # never below its own
    assert pair.half_width == pytest.approx(stats.t.ppf(0.975, 5.5) * sd / 2)
    assert pair.p_value == pytest.approx(2 * stats.t.sf(mean / (sd / 2), 5.5))
    fewest = next(n for n in range(3, 99) if stats.t.ppf(0.975, n + 1.5) * sd / n**0.5 < 0.7)
    assert pair.seeds_for(0.7) == fewest == seeds_to_show(0.7, sd, prior_df=2.5)


def test_the_same_difference_at_every_seed_gets_the_spread_of_the_others():
    pair = with_prior((0.3, 0.3, 0.3), (0.5, 2.0))
    assert pair.p_value == pytest.approx(2 * stats.t.sf(0.3 / (0.125 / 3) ** 0.5, 4))
    assert with_prior((0.0, 0.0, 0.0), (0.5, 2.0)).p_value == 1


# --- Which comparisons share a prior ---


@pytest.fixture(scope="module")
def pairs():
    """Sixteen trained methods on two backbones, an untrained one and one that diverged."""
    rng = np.random.default_rng(5)
    runs = [scored("untrained", None, 60.0, setting="paper")]
    runs += [scored("sscl", seed, 75.0 if seed else None) for seed in range(3)]
    for backbone, typical in ((BASE, 0.3), ("roberta-base", 3.0)):
        methods = ["simcse", *(f"simcse[batch_size={32 * size}]" for size in range(3, 19))]
        for method in methods:
            scores = rng.normal(75, typical, 3)
            runs += [scored(method, n, score, backbone=backbone) for n, score in enumerate(scores)]
    return against(suite(*runs), "simcse")


def test_the_trained_methods_of_a_backbone_share_the_prior_of_a_task(pairs):
    trained = [row for row in pairs if row.method.startswith("simcse")]
    for rows in grouped(trained, lambda row: (row.backbone, row.task)):
        assert len(rows) == 16
        sds = [np.std(row.differences, ddof=1) for row in rows]
        sd, df = estimated_prior([(sd, 3) for sd in sds])
        assert [row.prior_sd for row in rows] == pytest.approx([sd] * 16)
        assert [row.prior_df for row in rows] == pytest.approx([df] * 16)
        assert (sd > 1) == (rows[0].backbone == "roberta-base")


@pytest.mark.parametrize("method", ["untrained", "sscl"])
def test_what_is_untrained_or_diverged_has_no_prior(pairs, method):
    rows = rows_of(pairs, method=method)
    assert {(row.prior_sd, row.prior_df) for row in rows} == {(None, 0)}


# --- Error rates ---

# A suite: methods that are compared with one baseline on a backbone. The rule is restated in numpy.

HALVES = np.geomspace(1e-3, MOST_ESTIMATED_DF / 2, 20_000)
TRIGAMMAS = special.polygamma(1, HALVES)


def moderated_p(differences, moderate=True):
    """P values of suites (..., methods), given their differences (..., methods, n)."""
    n = differences.shape[-1]
    half, variance = (n - 1) / 2, differences.var(-1, ddof=1)
    weight = prior = 0.0
    if moderate:
        logs = np.log(np.where(variance > 1e-18, variance, np.nan))
        logs += np.log(half) - special.digamma(half)
        excess = np.nanvar(logs, -1, ddof=1, keepdims=True) - special.polygamma(1, half)
        halves = np.interp(-excess, -TRIGAMMAS, HALVES)
        centre = np.nanmean(logs, -1, keepdims=True) + special.digamma(halves)
        weight, prior = 2 * halves, np.exp(centre) / halves
    df = weight + n - 1
    pooled = np.maximum(variance, (weight * prior + (n - 1) * variance) / df)
    return 2 * stats.t.sf(np.abs(differences.mean(-1)) / np.sqrt(pooled / n), df)


# The variances of methods' differences, in units of a typical one.
VARIANCES = {
    "equal": lambda rng, shape: np.ones(shape),
    "lognormal 1": lambda rng, shape: np.exp(rng.normal(0, 1, shape)),
    "lognormal 2": lambda rng, shape: np.exp(rng.normal(0, 2, shape)),
    "one in four": lambda rng, shape: np.where(rng.random(shape) < 0.25, 9, 1),
}


def suites(rng, n, methods, source, count):
    """Differences of methods that do not differ from the baseline, (count, methods, n), and their
    standard deviations. `source` is a backbone whose public seeds are drawn, or a kind of variances
    and the share of the typical variance that is the baseline's own."""
    if source in ("bert-base-uncased", "bert-large-uncased"):
        seeds = public_seeds(source)[:, -1]
        drawn = rng.choice(seeds, (count, methods, n)) - rng.choice(seeds, (count, 1, n))
        return drawn, np.full((count, methods), seeds.std() * 2**0.5)
    kind, share = source
    variances = VARIANCES[kind](rng, (count, methods)) * (1 - share)
    drawn = rng.normal(size=(count, methods, n)) * np.sqrt(variances)[..., None]
    return drawn - rng.normal(size=(count, 1, n)) * share**0.5, np.sqrt(variances + share)


def false_and_decided(n, methods, source, count, moderate=True):
    """Share of suites with any false verdict: where no method differs, or where a third differs by
    five standard deviations; and share of those differences that are decided."""
    rng = np.random.default_rng([n, methods])
    drawn, sds = suites(rng, n, methods, source, count)
    none = holm_rejects(moderated_p(drawn, moderate)).any(-1).mean()
    third = methods // 3
    drawn[:, :third] += 5 * sds[:, :third, None]
    rejected = holm_rejects(moderated_p(drawn, moderate))
    return max(none, rejected[:, third:].any(-1).mean()), rejected[:, :third].mean()


def worst(n, methods, kind, count):
    """The highest rate of false verdicts and the lowest of decided differences of a kind."""
    sources = [(kind, 0.0), (kind, 0.5)]
    if kind == "public":
        sources = ["bert-base-uncased", "bert-large-uncased"]
    false, decided = zip(
        *(false_and_decided(n, methods, source, count) for source in sources), strict=True
    )
    return max(false), min(decided)


@pytest.mark.parametrize("n", [3, 6])
def test_the_restated_rule_is_the_rule(n):
    rng = np.random.default_rng(n)
    for kind in VARIANCES:
        drawn, _ = suites(rng, n, 15, (kind, 0.3), 2)
        for rows, expected in zip(drawn, moderated_p(drawn), strict=True):
            prior = estimated_prior([(row.std(ddof=1), n) for row in rows])
            family = [with_prior(row, prior) for row in rows]
            assert [pair.p_value for pair in family] == pytest.approx(expected, rel=1e-3)
            words = [decision.verdict != "undecided" for decision in decide(family)]
            assert words == holm_rejects(expected).tolist()


@pytest.mark.parametrize("kind", ["public", "equal", "lognormal 1"])
def test_false_verdicts_of_suites_stay_below_five_percent(kind):
    count = 1000
    for methods in (15, 27):
        false, decided = worst(3, methods, kind, count)
        assert false * count <= stats.binom.ppf(0.999, count, 0.05)
        assert decided > (0.75 if kind == "lognormal 1" else 0.9)


@pytest.mark.nightly
@pytest.mark.parametrize(("n", "low", "high"), [(3, 0.91, 0.93), (8, 0.94, 0.95)])
def test_documented_coverage_where_nine_tenths_of_the_variance_are_the_baselines(n, low, high):
    """An interval holds 0, the true difference, where p is 0.05 or more."""
    for methods, kind in product((15, 27), VARIANCES):
        drawn, _ = suites(np.random.default_rng(7), n, methods, (kind, 0.9), 10_000)
        assert low < (moderated_p(drawn) >= 0.05).mean() < high
        false, _ = false_and_decided(n, methods, (kind, 0.9), 10_000)
        assert false < 0.0615


def followed(planned, moderate, source, count):
    """Share of suites of 27 methods that do not differ from the baseline in which a look at the
    planned seeds gives a false verdict, and in which any look after each seed does, from three to
    twenty more than planned."""
    drawn, _ = suites(np.random.default_rng(planned), planned + 20, 27, source, count)
    means = {n: drawn[..., :n].mean(-1) for n in range(3, planned + 21)}
    rejected = {}
    for n in means:
        # What the first seeds decided stays, as long as the mean keeps its sign.
        p = moderated_p(drawn[..., :n], moderate) * 20 * max(n, planned) / min(n, planned)
        if n >= planned:
            first = moderated_p(drawn[..., :planned], moderate)
            p = np.where(means[n] * means[planned] > 0, np.minimum(p, first), p)
        rejected[n] = holm_rejects(p).any(-1)
    return rejected[planned].mean(), np.logical_or.reduce([*rejected.values()]).mean()


@pytest.mark.nightly
@pytest.mark.parametrize("planned", [3, 8])
@pytest.mark.parametrize(
    ("moderate", "kind", "most"),
    [(False, "equal", 0.059), (True, "equal", 0.045), (True, "lognormal 1", 0.045)],
)
def test_looks_at_a_suite_of_equal_methods_add_at_most_one_percent(planned, moderate, kind, most):
    once, often = followed(planned, moderate, (kind, 0.5), 10_000)
    assert often - once <= 0.01
    assert often * 10_000 <= stats.binom.ppf(0.999, 10_000, most)


KINDS = ("public", *VARIANCES)


@pytest.mark.nightly
@pytest.mark.parametrize("n", [3, 5, 10, 20])
@pytest.mark.parametrize(("place", "methods"), [(0, 27), (1, 15)])
def test_documented_rates(place, methods, n):
    """False verdicts and decided differences by kind, in the page's tables of 27 and 15 methods."""
    found = [rate for kind in KINDS for rate in worst(n, methods, kind, 10_000)]
    assert found == pytest.approx(documented(n, 10)[place], abs=0.002)
