"""Verdicts: hand-computed cases, independent oracles, invariants, and simulated error rates."""

from __future__ import annotations

import gc
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats
from statsmodels.stats.multitest import multipletests

from bench.comparison.statistics import FEWEST_SEEDS, PRIOR_DF, holm, pooled_sd, predict
from bench.comparison.verdict import (
    TOLERANCES,
    VERDICT_MEANINGS,
    VERDICT_SYMBOLS,
    Verdict,
    VerdictInput,
    seeds_to_decide,
    tolerance,
    verdicts,
)
from bench.datasets.tasks import STS_TASKS
from bench.reported import FOLDER, prior_sd


def verdict(printed: float, ours: list[float], *more: Any, **named: Any) -> Verdict:
    """The verdict on a single cell."""
    return verdicts([VerdictInput(printed, ours, *more, **named)])[0]


scores = st.floats(0, 100).map(lambda value: round(value, 3))
samples = st.lists(scores, min_size=3, max_size=8)
spreads = st.floats(0.05, 5)


# --- The interval ---


def test_half_width_of_a_known_sample():
    # mean 2, sd 1, n 3: t(0.975, 2) = 4.302653, times sqrt(4 / 3)
    assert predict([1, 2, 3]).half_width() == pytest.approx(4.302653 * 1.154701, rel=1e-6)
    assert predict([1, 2, 3]).mean == 2


@given(samples, scores)
def test_p_value_is_that_of_a_t_test_with_one_value(ours, printed):
    if np.ptp(ours) < 0.01:
        return
    oracle = stats.ttest_ind([printed], ours, equal_var=True).pvalue
    assert predict(ours).p_value(printed) == pytest.approx(oracle, rel=1e-7, abs=1e-12)


@given(samples, scores, spreads)
def test_interval_and_p_value_agree(ours, printed, prior):
    prediction = predict(ours, prior)
    inside = abs(printed - prediction.mean) <= prediction.half_width()
    if abs(abs(printed - prediction.mean) - prediction.half_width()) > 1e-6:
        assert inside == (prediction.p_value(printed) >= 0.05)


def test_prior_counts_as_five_degrees_of_freedom():
    # ours: sd 1, df 2; prior: sd 2, df 5 -> sqrt((5 * 4 + 2 * 1) / 7)
    assert pooled_sd(1.0, 3, 2.0) == pytest.approx((22 / 7) ** 0.5)
    assert predict([1, 2, 3], 2.0).df == 2 + PRIOR_DF == 7


@given(spreads, st.integers(2, 100), spreads)
def test_prior_widens_and_never_narrows(sd, n, prior):
    assert sd <= pooled_sd(sd, n, prior) <= max(sd, prior) * (1 + 1e-12)


def test_prior_fades_with_the_number_of_seeds():
    assert pooled_sd(0.5, 100_000, 2.0) == pytest.approx(0.5, rel=1e-3)
    assert pooled_sd(0.5, 1, 2.0) == pytest.approx(2.0)


def test_too_few_scores_predict_nothing():
    with pytest.raises(ValueError, match="spread"):
        predict([1.0])
    assert predict([1.0], 0.5).half_width() == pytest.approx(
        stats.t.ppf(0.975, PRIOR_DF) * 0.5 * 2**0.5
    )


# --- The rule, case by case ---


@pytest.mark.parametrize(
    ("printed", "kind"),
    [
        (75.0, "reproduced"),
        (76.0, "reproduced"),  # |m - x| = T
        (76.01, "consistent"),
        (76.30, "consistent"),  # the interval ends at 75 +- 1.301
        (76.31, "lower"),
        (73.69, "higher"),
        (73.70, "consistent"),
    ],
)
def test_every_region_of_a_trained_cell(printed, kind):
    # n 5, mean 75, sd 0.5, prior 0.5444: sqrt((5 * 0.2964 + 4 * 0.25) / 9) = 0.5252,
    # t(0.975, 9) = 2.2622
    ours = [74.5, 75.5, 74.5, 75.5, 75.0]
    assert predict(ours, 0.5444).half_width() == pytest.approx(2.2622 * 0.5252 * 1.2**0.5, abs=1e-3)
    assert verdict(printed, ours, tolerance=1.0, prior_sd=0.5444).kind == kind


@pytest.mark.parametrize(
    ("ours", "kind"),
    [(77.63, "reproduced"), (77.65, "reproduced"), (77.6501, "higher"), (77.6099, "lower")],
)
def test_deterministic_cells_go_by_tolerance_alone(ours, kind):
    assert verdict(77.63, [ours], tolerance=0.02, deterministic=True).kind == kind


def test_two_seeds_are_inconclusive_however_close():
    found = verdict(75.0, [75.0, 75.0], tolerance=1.0, prior_sd=0.2)
    assert (found.kind, found.seeds) == ("inconclusive", FEWEST_SEEDS)


def test_a_wide_spread_is_inconclusive_even_far_from_print():
    found = verdict(40.0, [60.0, 75.0, 90.0], tolerance=1.0, prior_sd=0.8)
    assert (found.kind, found.seeds) == ("inconclusive", None)
    assert "no number of seeds" in found.reason


def test_seeds_that_decide_for_simcse_on_bert_base():
    # sd 0.8439 over 50 seeds: t(0.975, n + 4) * 0.8439 * sqrt(1 + 1/n) falls below 2 from 6 to 7.
    sd = prior_sd("bert-base-uncased", "Avg")
    widths = {n: stats.t.ppf(0.975, n - 1 + PRIOR_DF) * sd * (1 + 1 / n) ** 0.5 for n in (6, 7)}
    assert widths[7] <= 2 < widths[6]
    assert seeds_to_decide([], 1.0, sd) == 7


@given(samples, spreads, st.floats(0.5, 4))
def test_seeds_to_decide_are_the_fewest(ours, prior, allowed):
    n = seeds_to_decide(ours, allowed, prior)
    sd = float(np.std(ours, ddof=1))

    def half_width(n: int) -> float:
        t = float(stats.t.ppf(0.975, n - 1 + PRIOR_DF))
        return t * pooled_sd(sd, n, prior) * (1 + 1 / n) ** 0.5

    if n is None:
        assert half_width(1000) > 2 * allowed * (1 - 1e-9)
    else:
        assert half_width(n) <= 2 * allowed * (1 + 1e-9)
        assert n == FEWEST_SEEDS or half_width(n - 1) > 2 * allowed * (1 - 1e-9)


def test_without_scores_there_is_no_verdict_to_give():
    assert verdict(75.0, [], tolerance=1.0).kind == "not run"


@given(samples, scores, spreads)
def test_mirrored_numbers_give_the_mirrored_verdict(ours, printed, prior):
    mirrored = {"lower": "higher", "higher": "lower"}
    one = verdict(printed, ours, tolerance=1.0, prior_sd=prior).kind
    other = verdict(-printed, [-value for value in ours], tolerance=1.0, prior_sd=prior).kind
    assert other == mirrored.get(one, one)


# --- Holm over the table ---


def test_holm_on_known_p_values():
    # Adjusted by hand: 0.005 * 4, then max(., 0.01 * 3), max(., 0.03 * 2), max(., 0.04)
    t = {p: stats.t.ppf(1 - p / 2, 9) * (0.5 * 1.2**0.5) for p in (0.01, 0.04, 0.03, 0.005)}
    ours = [74.5, 75.5, 74.5, 75.5, 75.0]
    table = [VerdictInput(75 + distance, ours, 1.0, prior_sd=0.5) for distance in t.values()]
    assert [cell.prediction.p_value(cell.printed) for cell in table] == pytest.approx(list(t))
    found = verdicts(table)
    assert [one.kind for one in found] == ["lower", "consistent", "consistent", "lower"]
    assert [one.reason.rpartition("= ")[2] for one in found[::3]] == ["0.03", "0.02"]


@given(st.lists(st.floats(0, 1), max_size=12))
def test_holm_equals_statsmodels(p_values):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gc, "collect", lambda *_: 0)  # the oracle calls it every time, for 0.1 s
        expected = multipletests(p_values, method="holm")[1].tolist() if p_values else []
    assert holm(p_values) == pytest.approx(expected, rel=1e-12)


@given(st.lists(st.tuples(samples, scores), min_size=1, max_size=6), spreads)
def test_a_table_never_accuses_where_a_single_cell_would_not(rows, prior):
    table = [VerdictInput(printed, ours, 1.0, prior_sd=prior) for ours, printed in rows]
    for cell, found in zip(table, verdicts(table), strict=True):
        alone = verdict(cell.printed, cell.ours, tolerance=1.0, prior_sd=prior).kind
        milder = alone in ("lower", "higher") and found.kind in ("consistent", "reproduced")
        assert found.kind == alone or milder


def test_deterministic_and_small_cells_do_not_count_for_holm():
    ours = [74.5, 75.5, 74.5, 75.5, 75.0]
    lone = VerdictInput(76.5, ours, 1.0, prior_sd=0.5)
    untrained = VerdictInput(50.0, [50.0], 0.02, deterministic=True)
    company = [untrained, VerdictInput(50.0, [50.0, 51.0], 1.0)] * 50
    assert verdicts([lone])[0] == verdicts([lone, *company])[0]
    assert verdicts([lone])[0].kind == "lower"


# --- Tolerances ---


@pytest.mark.parametrize(
    ("kind", "task", "prior", "points"),
    [
        ("checkpoint", "Avg", None, 0.02),
        ("untrained", "STS12", None, 0.03),
        ("transfer", "MR", None, 0.3),
        ("trained base", "Avg", 0.84, 1.0),
        ("trained base", "STS12", 1.51, 3.02),
        ("trained base", "STS16", 0.27, 1.0),
        ("trained large", "Avg", 1.74, 3.48),
        ("trained large", "Avg", 0.50, 1.0),
        ("trained large", "Avg", None, 1.0),
    ],
)
def test_tolerances(kind, task, prior, points):
    assert tolerance(kind, task, prior) == pytest.approx(points)


def test_every_verdict_has_a_sign_of_its_own_and_a_meaning():
    assert VERDICT_SYMBOLS.keys() == VERDICT_MEANINGS.keys()
    assert len(set(VERDICT_SYMBOLS.values())) == len(VERDICT_SYMBOLS)
    assert all(entry.reason for entry in TOLERANCES.values())


# --- Error rates: the public seeds of SimCSE judged against each other ---

TASKS = (*STS_TASKS, "Avg")
BACKBONES = ("bert-base-uncased", "bert-large-uncased", "roberta-base", "roberta-large")


@cache
def public_seeds(backbone: str) -> NDArray[np.float64]:
    """Scores of 50 seeds, (50, 8), with the tasks in the order of `TASKS`."""
    import pandas as pd

    seeds = pd.read_csv(FOLDER / "seeds.csv").query("split == 'test' and backbone == @backbone")
    return seeds.pivot(index="run", columns="task", values="value")[list(TASKS)].to_numpy()


@cache
def moments(backbone: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean of the public seeds, (8,), and a root of their covariance, (8, 8)."""
    seeds = public_seeds(backbone)
    values, vectors = np.linalg.eigh(np.cov(seeds.T))
    return seeds.mean(0), vectors * np.sqrt(np.maximum(values, 0))


@cache
def judged_columns(backbone: str) -> list[tuple[float | None, float]]:
    """The prior and the tolerance of each task."""
    kind = "trained large" if "large" in backbone else "trained base"
    priors = {task: prior_sd(backbone, task) for task in TASKS}
    return [(prior, tolerance(kind, task, prior)) for task, prior in priors.items()]


def judged_table(
    rng: np.random.Generator, n: int, *, scale: float = 1.0, gap: float = 0.0, normal: bool = False
) -> list[str]:
    """The 64 verdicts of a table of eight rows, two per backbone, each with `n` public seeds
    against one more.

    Deviations from the backbone's mean are multiplied by `scale`, while the prior stays as it is;
    the first row, bert-base, prints `gap` points too much in every cell. With `normal`, seeds are
    drawn from a normal distribution with the mean and covariance of the public ones.
    """
    table = []
    for row, backbone in enumerate(name for name in BACKBONES for _ in range(2)):
        mean, root = moments(backbone)
        if normal:
            drawn = mean + rng.standard_normal((n + 1, len(mean))) @ root.T
        else:
            seeds = public_seeds(backbone)
            drawn = seeds[rng.permutation(len(seeds))[: n + 1]]
        columns = (mean + scale * (drawn - mean)).T.tolist()
        more = gap if row == 0 else 0.0
        for (*ours, printed), judged in zip(columns, judged_columns(backbone), strict=True):
            prior, allowed = judged
            table.append(VerdictInput(printed + more, ours, allowed, prior_sd=prior))
    return [found.kind for found in verdicts(table)]


def accusation_rate(n: int, tables: int, **how: Any) -> float:
    """Share of tables with a `lower` or `higher`, although printed numbers are draws like ours."""
    rng = np.random.default_rng([n, 1])
    accused = ({"lower", "higher"} & set(judged_table(rng, n, **how)) for _ in range(tables))
    return float(np.mean([bool(kinds) for kinds in accused]))


def power(n: int, gap: float, tables: int) -> float:
    """How often the average of a row that prints `gap` points too much is found `lower`."""
    rng = np.random.default_rng([n, round(gap * 10), 2])
    return float(np.mean([judged_table(rng, n, gap=gap)[7] == "lower" for _ in range(tables)]))


@pytest.mark.parametrize(
    ("n", "normal"), [(3, False), (5, False), (10, False), (3, True), (5, True), (20, True)]
)
def test_false_accusations_stay_below_five_percent_a_table(n, normal):
    most = stats.binom.ppf(0.999, 500, 0.05)
    assert accusation_rate(n, 500, normal=normal) * 500 <= most


def test_power_grows_with_the_gap_and_with_the_seeds():
    by_gap = [power(10, gap, 200) for gap in (0.0, 4.0, 8.0)]
    assert by_gap[0] <= 0.05 < by_gap[1] <= by_gap[2]
    assert power(3, 5.0, 200) < power(20, 5.0, 200)


# As printed in docs/statistics.md: by number of seeds, for the public seeds themselves and for
# normal draws with 1, 1.5 and 2 times their spread; then the power at gaps of 2, 3, 4 and 5 points.
RATES = {
    3: (0.0005, 0.0000, 0.0105, 0.1125),
    5: (0.0185, 0.0005, 0.0360, 0.1400),
    10: (0.0415, 0.0095, 0.0610, 0.0935),
    20: (0.0730, 0.0270, 0.0480, 0.0475),
}
POWER = {
    3: (0.000, 0.011, 0.036, 0.058),
    5: (0.004, 0.074, 0.218, 0.339),
    10: (0.034, 0.172, 0.441, 0.608),
    20: (0.062, 0.337, 0.654, 0.870),
}


@pytest.mark.slow
@pytest.mark.parametrize("n", RATES)
def test_documented_rates(n):
    normal = [accusation_rate(n, 2000, scale=k, normal=True) for k in (1.0, 1.5, 2.0)]
    assert [accusation_rate(n, 2000), *normal] == pytest.approx(RATES[n], abs=0.005)
    found = [power(n, gap, 1000) for gap in (2.0, 3.0, 4.0, 5.0)]
    assert found == pytest.approx(POWER[n], abs=0.005)


def check_documented(*tables: dict[int, tuple[float, ...]]) -> None:
    """Check that docs/statistics.md has the rows of tables, by number of seeds."""
    text = (Path(__file__).parents[2] / "docs" / "statistics.md").read_text(encoding="utf-8")
    for table in tables:
        for n, row in table.items():
            assert f"| {n} | " + " | ".join(f"{100 * value:.1f}" for value in row) + " |" in text


def test_the_page_on_statistics_shows_these_rates():
    check_documented(RATES, POWER)
