"""Two encoders without seeds, compared over the items of their test sets
(docs/statistics.md#encoders-without-seeds)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist

import numpy as np
from scipy.stats import binomtest

REPLICATES = 1000
SEED = 0  # the same resamples for all encoders


@dataclass(frozen=True)
class ItemDifference:
    """How certain a difference of two scores is, by the items of their test sets."""

    error: float  # standard error in points
    p_value: float  # two-sided
    n: int  # items


def compare_items(
    a: Mapping[str, np.ndarray],
    b: Mapping[str, np.ndarray],
    tasks: Sequence[str],
    difference: float,
) -> ItemDifference | None:
    """Compare two encoders on one task, or on the mean over several, whose items are drawn apart.

    Args:
        a, b: items by task, as `bench.evaluation.scoring.EncoderScores` has them.
        difference: of the scores, A - B in points.

    Returns None if a task has no items.
    """
    if not all(task in a and task in b for task in tasks):
        return None
    errors = [standard_error(a[task], b[task]) for task in tasks]
    error = sqrt(sum(error**2 for error in errors)) / len(tasks)
    p_value = 2 * NormalDist().cdf(-abs(difference / error)) if error else float(difference == 0)
    first, second = a[tasks[0]], b[tasks[0]]
    if len(tasks) == 1 and first.dtype == bool:  # McNemar's exact test
        only_a, only_b = int((first & ~second).sum()), int((second & ~first).sum())
        p_value = binomtest(only_a, max(1, only_a + only_b)).pvalue
    return ItemDifference(error, p_value, sum(len(a[task]) for task in tasks))


def standard_error(a: np.ndarray, b: np.ndarray) -> float:
    """Standard error of the difference of two scores on the same items, in points."""
    if a.dtype == bool:
        return float(100 * np.std(a.astype(float) - b) / sqrt(len(a)))
    return 100 * correlation_error(a[:, 0], a[:, 1], b[:, 1])


def correlation_error(gold: np.ndarray, a: np.ndarray, b: np.ndarray) -> float:
    """Bootstrap standard error of the difference of two rank correlations with the same gold
    scores, (n,) each. Pairs are drawn with all three values."""
    rng = np.random.default_rng(SEED)
    ties = [np.unique(values, return_inverse=True)[1] for values in (gold, a, b)]
    differences = np.empty(REPLICATES)
    for replicate in range(REPLICATES):
        counts = np.bincount(rng.integers(len(gold), size=len(gold)), minlength=len(gold))
        of_gold, of_a, of_b = (_ranks(group, counts) for group in ties)
        differences[replicate] = _correlation(of_gold, of_a, counts)
        differences[replicate] -= _correlation(of_gold, of_b, counts)
    return float(differences.std(ddof=1))


def _ranks(ties: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Mean rank of each item in a resample that has it `counts` times, up to a constant; `ties` are
    the places of the distinct values, in order."""
    sizes = np.bincount(ties, counts)
    return (sizes.cumsum() - sizes / 2)[ties]


def _correlation(x: np.ndarray, y: np.ndarray, counts: np.ndarray) -> float:
    x, y = x - np.average(x, weights=counts), y - np.average(y, weights=counts)
    return float((counts * x) @ y / sqrt((counts * x) @ x * ((counts * y) @ y)))
