"""STS: scores against an oracle of plain loops and exact fractions."""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import chain
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.datasets import sts
from bench.evaluation.scoring import sentences
from bench.utils.errors import UserError

# --- the oracle: no numpy, no scipy, nothing of the project


def oracle_cosine_order(first: Sequence[float], second: Sequence[float]) -> Fraction:
    """cos |cos|: a number in the same order as the cosine, exact for any floats; 0 where a vector
    is zero."""
    dot = sum((Fraction(x) * Fraction(y) for x, y in zip(first, second, strict=True)), Fraction())
    squares = sum(Fraction(x) ** 2 for x in first) * sum(Fraction(y) ** 2 for y in second)
    return dot * abs(dot) / squares if squares else Fraction()


def oracle_ranks(values: Sequence[Any]) -> list[Fraction]:
    """Average ranks: those below, and half-way through those equal."""
    ranks = []
    for value in values:
        below = sum(1 for other in values if other < value)
        equal = sum(1 for other in values if other == value)
        ranks.append(Fraction(2 * below + equal + 1, 2))
    return ranks


def oracle_spearman(left: Sequence[Any], right: Sequence[Any]) -> float:
    """Pearson's correlation of average ranks, x 100."""
    x, y = oracle_ranks(left), oracle_ranks(right)
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    covariance = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True))
    variances = sum((a - mean_x) ** 2 for a in x) * sum((b - mean_y) ** 2 for b in y)
    return 100 * float(covariance) / math.sqrt(variances)


def oracle(task: sts.StsTask, table: dict[str, np.ndarray]) -> dict[str, float]:
    def order_of(a: str, b: str) -> Fraction:
        return oracle_cosine_order(table[a].tolist(), table[b].tolist())

    orders = [[*map(order_of, subset.first, subset.second)] for subset in task.subsets]
    golds = [subset.gold.tolist() for subset in task.subsets]
    values = {"all": oracle_spearman(list(chain(*orders)), list(chain(*golds)))}
    if len(golds) > 1:
        each = [oracle_spearman(order, gold) for order, gold in zip(orders, golds, strict=True)]
        values["mean"] = sum(each) / len(each)
        sizes = [len(gold) for gold in golds]
        weighted = sum(score * size for score, size in zip(each, sizes, strict=True))
        values["wmean"] = weighted / sum(sizes)
    return values


# --- tasks in memory


def make_task(sizes: Sequence[int], seed: int) -> tuple[sts.StsTask, dict[str, np.ndarray]]:
    """A task whose small whole-numbered vectors and golds give many ties, and the vectors of its
    sentences."""
    draw = random.Random(seed)
    table: dict[str, np.ndarray] = {}
    subsets = []
    for number, size in enumerate(sizes):
        texts = [[f"{number} {side} {pair}" for pair in range(size)] for side in "ab"]
        for text in texts[0] + texts[1]:
            table[text] = np.array([draw.randint(-2, 3) for _ in range(3)], dtype=np.float32)
        gold = np.array([draw.randint(0, 10) / 2 for _ in range(size)])
        subsets.append(sts.Subset(f"subset{number}", tuple(texts[0]), tuple(texts[1]), gold))
    return sts.StsTask("STS13", "test", tuple(subsets)), table


def look_up(table: dict[str, np.ndarray]) -> Callable[[Sequence[str]], np.ndarray]:
    return lambda texts: np.stack([table[text] for text in texts])


def values(task: sts.StsTask, table: dict[str, np.ndarray]) -> dict[str, float]:
    records = sts.score(task, look_up(table))
    found = {record.pop("aggregation"): record.pop("value") for record in records}
    common = {"task": task.name, "split": task.split, "metric": "spearman"}
    assert all(record == common for record in records)
    return found


def reordered(task: sts.StsTask, change: Callable[[sts.Subset], sts.Subset]) -> sts.StsTask:
    return sts.StsTask(task.name, task.split, tuple(change(subset) for subset in task.subsets))


Made = tuple[sts.StsTask, dict[str, np.ndarray]]
SEEDS = st.integers(0, 10**6)


def scorable(made: Made) -> bool:
    try:
        sts.score(made[0], look_up(made[1]))
    except UserError:
        return False
    return True


SIZES = st.lists(st.integers(4, 12), min_size=1, max_size=3)
MADE = st.builds(make_task, SIZES, SEEDS).filter(scorable)


@given(made=MADE, seed=SEEDS, real=st.booleans())
def test_scores_equal_the_oracle(made: Made, seed: int, real: bool) -> None:
    task, table = made
    if real:
        draw = np.random.default_rng(seed)
        table = {text: draw.normal(size=48).astype(np.float32) for text in table}
    expected = oracle(task, table)
    assert list(values(task, table)) == list(expected)
    assert values(task, table) == pytest.approx(expected, abs=1e-9)


@given(made=MADE, shuffle=SEEDS)
def test_the_order_of_pairs_and_sides_does_not_matter(made: Made, shuffle: int) -> None:
    task, table = made

    def change(subset: sts.Subset) -> sts.Subset:
        order = random.Random(shuffle).sample(range(len(subset.gold)), len(subset.gold))
        pairs = [(subset.second[i], subset.first[i]) for i in order]
        first, second = zip(*pairs, strict=True)
        return sts.Subset(subset.name, first, second, subset.gold[order])

    assert values(reordered(task, change), table) == pytest.approx(values(task, table), abs=1e-9)


@given(made=MADE, seed=SEEDS, factor=st.floats(1e-3, 1e3))
def test_lengths_of_vectors_and_units_of_gold_do_not_matter(
    made: Made, seed: int, factor: float
) -> None:
    task, table = made
    before, draw = values(task, table), random.Random(seed)
    longer = {
        text: vector.astype(np.float64) * factor * draw.uniform(0.5, 2)
        for text, vector in table.items()
    }
    assert values(task, longer) == pytest.approx(before, abs=1e-9)
    other_unit = reordered(task, lambda subset: replace(subset, gold=subset.gold * factor + 7))
    assert values(other_unit, table) == pytest.approx(before, abs=1e-9)


@given(made=MADE)
def test_opposite_gold_gives_the_opposite_score(made: Made) -> None:
    task, table = made
    opposite = reordered(task, lambda subset: replace(subset, gold=-subset.gold))
    negated = {aggregation: -value for aggregation, value in values(task, table).items()}
    assert values(opposite, table) == pytest.approx(negated, abs=1e-9)
    assert all(-100 - 1e-9 <= value <= 100 + 1e-9 for value in negated.values())


def angles(degrees: dict[str, float]) -> dict[str, np.ndarray]:
    """A table in which "NAME" and its partner "NAME'" are so many degrees apart."""
    table = {}
    for name, angle in degrees.items():
        turned = [math.cos(math.radians(angle)), math.sin(math.radians(angle))]
        table |= {name: np.float32([1, 0]), f"{name}'": np.float32(turned)}
    return table


def subset_of(name: str, golds: dict[str, float]) -> sts.Subset:
    partners = tuple(f"{pair}'" for pair in golds)
    return sts.Subset(name, tuple(golds), partners, np.array(list(golds.values())))


def test_known_answers_of_the_three_aggregations() -> None:
    """Each subset is in perfect order by itself, but that says nothing about all pairs together.

    Ranks of similarity are a 1, b 2, c 5, d 4, e 3 and of gold a 5, b 4, c 1, d 2, e 3: opposite.
    """
    table = angles({"a": 80, "b": 70, "c": 10, "d": 20, "e": 30})
    first, second = subset_of("one", {"a": 5, "b": 4}), subset_of("two", {"c": 1, "d": 2, "e": 3})
    task = sts.StsTask("STS14", "test", (first, second))
    assert values(task, table) == pytest.approx({"all": -100, "mean": -100, "wmean": -100})
    second = subset_of("two", {"c": 3, "d": 2, "e": 1})
    task = sts.StsTask("STS14", "test", (first, second))
    # d = similarity rank - gold rank: a 1-5, b 2-4, c 5-3, d 4-2, e 3-1; 1 - 6 (16+4+4+4+4) / (5 *
    # 24) = -0.6
    assert values(task, table) == pytest.approx({"all": -60, "mean": 0, "wmean": 20})


def test_ties_have_average_ranks() -> None:
    """Similarity ranks 1.5 1.5 3 against 1 2 3: covariance 1.5, variances 1.5 and 2, so
    sqrt(3)/2."""
    task = sts.StsTask("STS-B", "dev", (subset_of("STS-B", {"a": 1, "b": 2, "c": 3}),))
    found = values(task, angles({"a": 60, "b": 60, "c": 20}))
    assert found == pytest.approx({"all": 50 * math.sqrt(3)})


def test_equal_pairs_tie_whatever_their_vectors() -> None:
    """Rounding makes u.u / |u|^2 less than 1 for some u and more for others; such pairs must tie
    all the same."""
    generator = np.random.default_rng(3)
    names = [f"s{i}" for i in range(200)]
    table = {name: generator.normal(size=384).astype(np.float32) for name in names}
    gold = np.arange(200.0)
    pairs = sts.Subset("STS-B", tuple(names), (*names[:199], names[0]), gold)
    # 199 ties and one pair below them, which has the highest gold: rank 1 against 101 for each
    # other.
    expected = oracle_spearman([1] * 199 + [0], gold.tolist())
    found = values(sts.StsTask("STS-B", "test", (pairs,)), table)
    assert found == pytest.approx({"all": expected}, abs=1e-9)


def test_a_zero_vector_has_similarity_zero() -> None:
    table = angles({"a": 60, "b": 120, "c": 0})
    table["c'"] = np.zeros(2, dtype=np.float32)  # between cos 60 = 0.5 and cos 120 = -0.5
    task = sts.StsTask("STS-B", "test", (subset_of("STS-B", {"a": 3, "b": 1, "c": 2}),))
    assert values(task, table) == pytest.approx({"all": 100})


def test_close_pairs_are_told_apart() -> None:
    """Cosines 1 - k^2 2^-41 are all 1 in float32."""
    steps = {str(k): 10.0 - k for k in range(4, 9)}
    table = {name: np.array([1, 0], dtype=np.float32) for name in steps}
    table |= {f"{name}'": np.array([1, int(name) * 2.0**-20], dtype=np.float32) for name in steps}
    task = sts.StsTask("STS-B", "test", (subset_of("STS-B", steps),))
    assert values(task, table) == pytest.approx({"all": 100})


@pytest.mark.parametrize(
    ("vectors", "problem"),
    [
        (lambda texts: np.ones((len(texts), 4)), "STS14: all similarities are equal"),
        (lambda texts: np.full((len(texts), 4), np.nan), "STS14 one: .*not finite"),
        (lambda texts: np.ones((len(texts) + 1, 4)), r"shape \(3, 4\) for 2 sentences"),
        (lambda texts: np.ones((len(texts), 3 if "a" in texts else 4)), r"shape \(2, 4\)"),
    ],
)
def test_vectors_that_cannot_be_scored(vectors: Any, problem: str) -> None:
    subsets = (subset_of("one", {"a": 5, "b": 4}), subset_of("two", {"c": 1, "d": 2}))
    with pytest.raises(UserError, match=problem):
        sts.score(sts.StsTask("STS14", "test", subsets), vectors)


def test_a_subset_of_equal_similarities_is_named() -> None:
    table = angles({"a": 10, "b": 20, "c": 30, "d": 30})
    subsets = (subset_of("one", {"a": 5, "b": 4}), subset_of("two", {"c": 1, "d": 2}))
    with pytest.raises(UserError, match="STS14 two: all similarities are equal"):
        sts.score(sts.StsTask("STS14", "test", subsets), look_up(table))


def test_sentences_are_distinct_and_in_order() -> None:
    pairs = sts.Subset("STS-B", ("a", "b", "a"), ("c", "a", "d"), np.arange(3.0))
    task = sts.StsTask("STS-B", "dev", (pairs,))
    assert sentences([task, task]) == ["a", "b", "c", "d"]
