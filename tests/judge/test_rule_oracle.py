"""The rule beside its restatement in numpy, on random families; simulated error rates and power."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from bench.judge.claims import Claimed, decide
from bench.judge.sample import Sample
from bench.judge.verdict import VerdictInput, verdicts_of
from bench.report.figures import style
from bench.report.formats import csv
from tests.oracles import rates, rule
from tests.support.drawn_texts import covered

# --- The rule is its restatement ---


def word_of(words, place):
    """A claim's word in the first family of the restatement."""
    better, worse, below = (of[0, place] for of in words)
    assert not (better and worse)
    result = [name for name, holds in (("better", better), ("worse", worse)) if holds]
    if below and not worse:
        result.append("gain below the margin")
    return ", ".join(result) or "open"


def family_of(rng, claims, planned):
    """Differences (1, claims, seeds) of a family in which every word is possible; some seeds of the
    baseline and of the methods diverge."""
    seeds = 4 * planned
    truth = rng.choice([-3.0, 0.0, 0.5, 1.0, 3.0], (claims, 1))
    drawn = truth + rng.choice([0.2, 1.0], (claims, 1)) * rng.normal(size=(1, claims, seeds))
    drawn[rng.random(drawn.shape) < 0.02] = -np.inf
    drawn[..., rng.random(seeds) < 0.03] = np.nan
    return drawn


def sample_of(row, planned, look):
    """The sample of a claim that stands at a look."""
    made = dict(enumerate(row[: look * planned].tolist()))
    return Sample(
        {seed: value for seed, value in made.items() if np.isfinite(value)},
        planned=range(len(row)),
        first_size=planned,
        left_out=[seed for seed, value in made.items() if np.isnan(value)],
        diverged=[seed for seed, value in made.items() if value == -np.inf],
    )


@pytest.mark.parametrize("planned", [3, 5, 8])
@pytest.mark.parametrize("claims", [1, 3, 14])
def test_the_words_of_a_family_are_those_of_the_restatement(claims, planned):
    rng, result = np.random.default_rng([claims, planned]), set()
    for _ in range(60 // claims + 10):
        drawn = family_of(rng, claims, planned)
        at = rng.integers(3, size=(1, claims))  # claims stand at different looks
        expected = rule.words(rule.looks_at(drawn, planned, 1.0), at)
        family = [
            Claimed(sample_of(row, planned, rule.LOOKS[look]), 1.0)
            for row, look in zip(drawn[0], at[0], strict=True)
        ]
        words = [decision.verdict for decision in decide(family, claims)]
        assert words == [word_of(expected, place) for place in range(claims)]
        result |= {*words}
    below = "gain below the margin"
    assert result >= {"better", f"better, {below}", below, "worse", "open"}


@pytest.mark.parametrize("planned", [3, 5])
def test_a_claim_against_classifier_seeds_has_the_restated_welch_test(planned):
    rng = np.random.default_rng(planned)
    ours, others = rng.normal(75.5, 0.5, (1, 4, planned)), rng.normal(75, 0.2, (1, 1, 5))
    looks = rule.looks_of([rule.welch(ours, others)], 1.0)
    family = [
        Claimed(
            Sample(dict(enumerate(row)), range(planned), planned, beside=others[0, 0].tolist()), 1.0
        )
        for row in ours[0].tolist()
    ]
    decisions = decide(family, 4)
    for name, expected in (("p", looks.differs), ("p_below", looks.below)):
        adjusted = [getattr(decision, name) for decision in decisions]
        assert (np.array(adjusted) < rule.LEVEL).tolist() == rule.holm(expected[0, 0]).tolist()
        assert min(adjusted) == pytest.approx(min(1, 4 * expected.min()))


@pytest.mark.parametrize("planned", [3, 5, 8])
def test_the_verdicts_on_a_paper_are_those_of_the_restatement(planned):
    rng, result = np.random.default_rng(planned), set()
    for _ in range(20):
        ours = rng.normal(75, rng.choice([0.2, 1.0], (8, 1)), (8, planned))
        printed = 75 + rng.choice([-8.0, -2.0, 0.0, 2.0, 8.0], 8)
        expected = rule.answers(printed, ours, 1.0)
        accused = rule.accused(expected)
        family = [
            VerdictInput(value, Sample(dict(enumerate(row)), range(planned), planned), 1.0)
            for value, row in zip(printed, ours.tolist(), strict=True)
        ]
        kinds = [verdict.kind for verdict in verdicts_of(family)]
        for place, kind in enumerate(kinds):
            inside, outside = expected.inside[place], expected.outside[place]
            assert (kind == "reproduced") == inside
            assert (kind in ("lower", "higher")) == accused[place]
            assert (kind == "consistent") == (outside and not accused[place])
            assert (kind == "open") == (not (inside or outside))
        result |= {*kinds}
    assert result >= {"reproduced", "consistent", "lower", "higher", "open"}


# --- Error rates ---

DRAWS = 4000


def at_most(rate, bound=3 * rule.LEVEL):
    """Whether a simulated rate may be that of a bound."""
    return rate * DRAWS <= stats.binom.isf(1e-4, DRAWS, bound)


def keeps_the_bound(rates):
    return at_most(rates.differs) and at_most(rates.below) and at_most(rates.either, 0.12)


@pytest.mark.slow
@pytest.mark.parametrize("kind", rates.MEASURED)
@pytest.mark.parametrize(("claims", "planned"), [(1, 5), (3, 3), (14, 3), (10, 8)])
def test_three_looks_give_false_words_in_at_most_six_percent(kind, claims, planned):
    assert keeps_the_bound(rule.rates(kind, claims, planned, DRAWS))


@pytest.mark.slow
@pytest.mark.parametrize("side", ["baseline", "method"])
def test_trainings_that_diverge_by_chance_cost_nothing(side):
    for planned in (3, 8):
        assert keeps_the_bound(rule.diverging(side, 10, planned, DRAWS))


@pytest.mark.slow
def test_untrained_rows_with_classifier_seeds_keep_the_bound():
    for spread in (1 / 3, 1.0, 3.0):
        assert keeps_the_bound(rule.against_untrained(10, 5, DRAWS, spread))


@pytest.mark.slow
@pytest.mark.parametrize("backbone", ["bert-base-uncased", "roberta-base", "roberta-large"])
def test_print_is_judged_falsely_in_at_most_six_percent(backbone):
    for planned in (5, 10):
        result = rule.print_rates(backbone, planned, DRAWS)
        assert all(at_most(result[name]) for name in ("above", "below", "accused"))


@pytest.mark.nightly
@pytest.mark.parametrize("name", rates.TABLES)
def test_the_files_have_these_rates(name):
    stored = (rates.FOLDER / f"{name}.csv").read_text(encoding="utf-8")
    assert stored == csv(rates.TABLES[name](rates.DRAWS))


@pytest.mark.parametrize("name", rates.FIGURES)
def test_figures_of_rates_have_room_for_their_texts(name):
    with style.drawing():
        assert covered(rates.FIGURES[name](pd.read_csv(rates.FOLDER / f"{name}.csv"))) == []
