"""The best system of a column and those that cannot be told from it: the rule case by case, beside
its restatement in numpy, and simulated coverage."""

import numpy as np
import pytest
from scipy import stats

from bench.judge.best import standings, with_standings
from bench.judge.systems import board_rows, system_rows
from tests.oracles import best_rule as rule
from tests.support.compared_runs import scored, suite

BEST = (70.0, 71.0, 72.0, 73.0)
A, B = (1, -1, 1, -1), (1, 1, -1, -1)


def lower(t, spread=A):
    """Scores from which those of `BEST` differ with the statistic t."""
    spread = np.array(spread)
    return BEST - (spread + t * spread.std(ddof=1) / 2)


FAR = [lower(97), lower(98), lower(99)]


def found(*systems):
    """The standings of systems; a number is a score without a seed, others are scores by seed."""
    column = {}
    for place, scores in enumerate(systems):
        if isinstance(scores, float):
            scores = {None: scores}
        column[str(place)] = scores if isinstance(scores, dict) else dict(enumerate(scores))
    standing = standings(column, 0.05, dict.fromkeys(column, frozenset()))
    return [standing.get(name) for name in column]


# --- The rule, case by case ---


@pytest.mark.parametrize(
    ("systems", "expected"),
    [
        # One-sided at 5 % / 4 with 3 degrees of freedom: t = 4.177.
        ([BEST, lower(4.17), *FAR], ["best", "tied", None, None, None]),
        ([BEST, lower(4.18), *FAR], ["best", None, None, None, None]),
        # Three of four are more than half, two are not.
        ([BEST, lower(1, A), lower(2, B), lower(99)], ["open", "open", "open", None]),
        ([BEST, lower(1), lower(98), lower(99)], ["best", "tied", None, None]),
        ([BEST], [None]),
        # Of systems that cannot be tested: no scores, and fewer than three common seeds.
        ([BEST, {}, *FAR], ["best", "tied", None, None, None]),
        ([BEST, {3: 10.0, 8: 11.0, 9: 12.0}, *FAR], ["best", "tied", None, None, None]),
        ([{}, {}], ["open", "open"]),
        # Without seeds.
        ([70.01, 70.0], ["best", None]),
        ([70.0, 70.0, 60.0, 50.0], ["best", "tied", None, None]),
    ],
)
def test_a_system_is_as_good_as_the_best_unless_another_is_better(systems, expected):
    assert found(*systems) == expected


@pytest.mark.parametrize(
    ("distance", "expected"), [(1.59, ["open", "open", None]), (1.60, ["best", None, None])]
)
def test_beside_a_score_without_a_seed_seeds_vary_as_the_column_does(distance, expected):
    """The variances of both others are 0.01 and 1.99, so that t = distance / 0.5, of which 5 % / 2
    with 3 degrees of freedom needs 3.182."""
    close, wide = (sd * np.sqrt(3) / 2 * np.array(A) for sd in (0.1, 1.99**0.5))
    assert found(75 + close, 75 - distance, 60 + wide) == expected


@pytest.mark.parametrize("systems", [4, 17, 20])
def test_the_rule_is_its_restatement(systems):
    rng = np.random.default_rng(systems)
    told_apart = 0
    for constants in (0, 1, 3) * 4:
        points = rng.normal(size=(systems, 5)) * rng.choice([0.3, 1], (systems, 1))
        points += rng.normal(size=5) - 0.4 * np.arange(systems)[:, None]
        constant = rng.permutation(systems) < constants
        points[constant] = points[constant, :1]
        missing = rng.random(systems) < 0.3
        points[missing & ~constant, rng.integers(5)] = np.nan
        column = {}
        for place, row in enumerate(points):
            by_seed = {seed: score for seed, score in enumerate(row) if np.isfinite(score)}
            column[place] = {None: row[0]} if constant[place] else by_seed
        expected = {place for place in column if rule.stays(points, constant, place)}
        assert {*standings(column, 0.05, dict.fromkeys(column, frozenset()))} == expected | {
            int(np.nanmean(points, 1).argmax())
        }
        told_apart += systems - len(expected)
    assert told_apart > 12


# --- The systems of a suite ---


def test_columns_are_those_of_a_backbone_and_hold_no_controls():
    """Mutations caught: two seeds, survivors of a divergence, or labels make others worse; systems
    without a backbone are left out."""
    points = {"simcse": BEST, "sscl": FAR[0], "dclr": FAR[1], "cards": FAR[2]}
    points |= {"gs-infonce": (90.0, 91.0), "is-cse": (90.0, 91.0, 92.0, None)}
    points |= {"sup-simcse": (95.0, 96.0, 97.0)}
    runs = []
    for method, scores in points.items():
        more = {"labelled": method == "sup-simcse"}
        runs += [scored(method, seed, score, **more) for seed, score in enumerate(scores)]
    tied = {"gs-infonce": "tied", "is-cse": "tied"}
    runs.append(scored("word-overlap", None, 85.0, backbone="none"))
    assert ranked(runs) == {"word-overlap": "best"} | tied
    # Beside another backbone, the system without one is alone in its column.
    other = scored("sscl", 9, 99.0, backbone="roberta-base")
    assert ranked([*runs, other]) == {"simcse": "best"} | tied


def ranked(runs):
    """The standings of a suite's methods on the average of STS; all tasks have the same."""
    results = suite(*runs)
    board = next(board for board in board_rows(results) if board.name == "sts")
    rows = with_standings(results, board, system_rows(results, board, [], []))
    for row in rows:
        assert len(row.standings) in (0, 8)
        assert len({standing for _, standing in row.standings}) <= 1
    return {row.method: row.standings[0][1] for row in rows if row.standings}


# --- Coverage ---

HARDEST = [
    ("normal, half shared", 5, 3),
    ("one in four, half shared", 16, 3),
    ("bert-base-uncased", 5, 5),
    ("bert-large-uncased, best without a seed", 5, 10),
]


@pytest.mark.parametrize(("kind", "systems", "n"), HARDEST)
def test_the_true_best_is_marked_in_95_percent(kind, systems, n):
    count = 2000
    share = rule.marked(kind, systems, n, count)
    assert share * count >= stats.binom.ppf(0.001, count, 0.95)


def test_what_is_two_standard_deviations_lower_is_seldom_marked():
    assert rule.marked("normal, half shared", 5, 10, 2000, place=1, gap=2) < 0.01


@pytest.mark.nightly
def test_the_document_has_these_rates():
    text = rule.DOCUMENT.read_text(encoding="utf-8")
    assert text == rule.replace_tables(text, rule.tables(rule.COUNT))
