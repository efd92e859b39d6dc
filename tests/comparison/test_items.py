"""Two encoders without seeds: the bootstrap of correlations, the exact test of accuracies, the mean
over tasks, and the simulated coverage of the intervals."""

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar

from bench.comparison import items
from bench.comparison.against_baseline import against
from bench.comparison.items import _ranks, compare_items, correlation_error
from tests.oracles.verdict_rule import DOCUMENT
from tests.support.compared_runs import row_of, scored, suite


def pairs(n, strengths, seed=0):
    """Gold scores in steps of 0.2, and similarities of encoders of these strengths, (n, 1 + k);
    half of the variance of the encoders' errors is shared."""
    rng = np.random.default_rng(seed)
    latent, shared, *errors = rng.normal(size=(2 + len(strengths), n))
    gold = np.round(5 * stats.norm.cdf(latent) / 0.2) * 0.2
    columns = [
        strength * latent + (1 - strength**2) ** 0.5 * (shared + error) / 2**0.5
        for strength, error in zip(strengths, errors, strict=True)
    ]
    return np.column_stack([gold, *columns])


def of_both(n, strengths, seed=0):
    gold, a, b = pairs(n, strengths, seed).T
    return np.column_stack([gold, a]), np.column_stack([gold, b])


def spearman(values):
    return 100 * stats.spearmanr(*values.T).statistic


# --- The bootstrap ---


def test_ranks_of_a_resample_are_those_of_its_rows():
    gold = pairs(200, [0.8])[:, 0]
    drawn = np.random.default_rng(1).integers(200, size=200)
    ties = np.unique(gold, return_inverse=True)[1]
    found = _ranks(ties, np.bincount(drawn, minlength=200))[drawn]
    assert found - found.min() == pytest.approx(
        stats.rankdata(gold[drawn]) - stats.rankdata(gold[drawn]).min()
    )


def test_the_error_is_that_of_a_paired_bootstrap():
    gold, a, b = pairs(300, [0.85, 0.8]).T

    def difference(gold, a, b):
        return stats.spearmanr(gold, a).statistic - stats.spearmanr(gold, b).statistic

    oracle = stats.bootstrap(
        (gold, a, b), difference, paired=True, vectorized=False, n_resamples=2000, rng=1
    )
    assert correlation_error(gold, a, b) == pytest.approx(oracle.standard_error, rel=0.06)


def test_one_task():
    a, b = of_both(500, [0.85, 0.8])
    difference = spearman(a) - spearman(b)
    found = compare_items({"STS-B": a}, {"STS-B": b}, ["STS-B"], difference)
    assert found.error == pytest.approx(100 * correlation_error(a[:, 0], a[:, 1], b[:, 1]))
    assert found.p_value == pytest.approx(2 * stats.norm.sf(difference / found.error))
    assert found.n == 500
    equal = compare_items({"STS-B": a}, {"STS-B": a}, ["STS-B"], 0.0)
    assert (equal.error, equal.p_value) == (0, 1)


def test_the_mean_over_tasks_has_the_error_of_independent_tasks():
    first, second = of_both(400, [0.85, 0.8]), of_both(900, [0.7, 0.7], seed=1)
    a, b = ({"STS12": x, "STS13": y} for x, y in zip(first, second, strict=True))
    errors = [compare_items(a, b, [task], 0.0).error for task in a]
    found = compare_items(a, b, ["STS12", "STS13"], 1.0)
    assert found.error == pytest.approx(np.hypot(*errors) / 2)
    assert found.p_value == pytest.approx(2 * stats.norm.sf(1 / found.error))
    assert found.n == 1300
    assert compare_items(a, {"STS12": b["STS12"]}, ["STS12", "STS13"], 1.0) is None


# --- Accuracies ---


@pytest.mark.parametrize(("only_a", "only_b"), [(30, 15), (3, 12), (0, 5), (0, 0)])
def test_accuracies_have_mcnemars_exact_test(only_a, only_b):
    right = np.repeat([[1, 1], [1, 0], [0, 1], [0, 0]], [150, only_a, only_b, 40], axis=0)
    a, b = right.T.astype(bool)
    found = compare_items({"TREC": a}, {"TREC": b}, ["TREC"], 100 * (a.mean() - b.mean()))
    table = [[150, only_a], [only_b, 40]]
    assert found.p_value == pytest.approx(mcnemar(table, exact=True).pvalue)
    differences = right[:, 0] - right[:, 1]
    assert found.error == pytest.approx(100 * differences.std() / len(a) ** 0.5)


# --- In a comparison ---


def test_encoders_without_seeds_are_compared_by_items():
    """`a` is clearly better than the baseline, `b` equals it but for chance."""
    gold, *columns = pairs(800, [0.8, 0.9, 0.8]).T
    runs = []
    for name, column in zip(("base", "a", "b"), columns, strict=True):
        both = np.column_stack([gold, column])
        run = scored(name, None, {"STS-B": spearman(both)})
        run.items["STS-B"] = both
        runs.append(run)
    frame, _ = against(suite(*runs), "base@official")
    a, b = (row_of(frame, "STS-B", method=name) for name in "ab")
    assert (a["kind"], a["verdict"], a["items"]) == ("items", "better", 800)
    error = compare_items(runs[1].items, runs[0].items, ["STS-B"], 0).error
    assert a["half_width"] == pytest.approx(stats.norm.ppf(0.975) * error)
    assert (b["verdict"], b["reason"]) == ("undecided", "800 test items do not decide")
    # Holm: of two comparisons.
    assert a["p_adjusted"] == pytest.approx(2 * a["p"])


def test_items_of_logistic_regression_say_nothing_of_the_network():
    runs = [scored(name, None, {"Tense": 80.0}, metric="accuracy_mlp") for name in ("base", "a")]
    for run in runs:
        run.items["Tense"] = np.ones(50, dtype=bool)
    frame, _ = against(suite(*runs), "base@official")
    assert row_of(frame, "Tense")["kind"] == "deterministic"


def test_without_items_the_tolerance_decides():
    frame, _ = against(suite(scored("base", None, 70.0), scored("a", None, 70.5)), "base@official")
    assert row_of(frame)["kind"] == "deterministic"
    assert row_of(frame)["verdict"] == "better"


# --- Coverage ---


def covered(sizes, strengths, draws):
    """How often the 95 % interval of a difference has the true one; with several sizes that of the
    mean over tasks."""
    truth = np.subtract(*(spearman(x) for x in of_both(2_000_000, strengths, seed=99)))
    tasks = [str(number) for number in range(len(sizes))]
    hits = 0
    for draw in range(draws):
        drawn = [of_both(n, strengths, [draw, n]) for n in sizes]
        a, b = (dict(zip(tasks, side, strict=True)) for side in zip(*drawn, strict=True))
        difference = np.mean([spearman(a[task]) - spearman(b[task]) for task in tasks])
        error = compare_items(a, b, tasks, difference).error
        hits += abs(difference - truth) < stats.norm.ppf(0.975) * error
    return hits / draws


# As printed in docs/statistics.md: by the sizes of the sets, for encoders of equal strength and for
# two that differ.
STS = (3108, 1500, 3750, 3000, 1186, 1379, 4927)
COVERAGE = {
    (100,): (0.954, 0.948),
    (400,): (0.947, 0.942),
    (1379,): (0.947, 0.944),
    STS: (0.980, 0.960),
}
STRENGTHS = ((0.8, 0.8), (0.82, 0.78))


def test_the_interval_covers_the_true_difference(monkeypatch):
    monkeypatch.setattr(items, "REPLICATES", 100)
    assert covered((400,), STRENGTHS[1], 200) > stats.binom.ppf(0.001, 200, 0.94) / 200


@pytest.mark.slow
@pytest.mark.parametrize("sizes", COVERAGE)
def test_documented_coverage(sizes, monkeypatch):
    monkeypatch.setattr(items, "REPLICATES", 100)
    draws = 1000 if len(sizes) == 1 else 200
    found = [covered(sizes, strengths, draws) for strengths in STRENGTHS]
    assert found == pytest.approx(COVERAGE[sizes], abs=0.003)


def test_the_page_on_statistics_shows_this_coverage():
    text = DOCUMENT.read_text(encoding="utf-8")
    for sizes, row in COVERAGE.items():
        label = f"{sizes[0]:,}" if len(sizes) == 1 else "seven STS tasks"
        assert f"| {label} | " + " | ".join(f"{100 * rate:.1f}" for rate in row) + " |" in text
