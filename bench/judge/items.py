"""Two encoders without seeds, compared over the items of their test sets
(docs/statistics.md#encoders-without-seeds)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from bench.judged.words import ITEMS_LEVEL

REPLICATES = 1000
RESAMPLING_SEED = 0  # the same resamples for all encoders


@dataclass(frozen=True)
class ItemDifference:
    """How certain a difference of two scores is, by the items of their test sets."""

    difference: float  # of the scores, A - B in points
    error: float  # its standard error
    p_value: float  # two-sided
    n: int  # items

    def half_width(self) -> float:
        """Half the width of the normal interval of the difference."""
        return NormalDist().inv_cdf(1 - ITEMS_LEVEL / 2) * self.error


def compare_items(
    a: Mapping[str, np.ndarray],
    b: Mapping[str, np.ndarray],
    tasks: Sequence[str],
    difference: float,
) -> ItemDifference | None:
    """Compare two encoders on one task, or on the mean over several.

    Args:
        a, b: items by task, as `bench.evaluation.scoring.EncoderScores` has them.
        difference: of the scores, A - B in points.

    Returns None if a task has no items.
    """
    if not all(task in a and task in b for task in tasks):
        return None
    error = 100 * bootstrap_error([(a[task], b[task]) for task in tasks])
    p_value = 2 * NormalDist().cdf(-abs(difference / error)) if error else float(difference == 0)
    first, second = a[tasks[0]], b[tasks[0]]
    if len(tasks) == 1 and _are_samples(first):
        from scipy.stats import binomtest  # takes half a second, which other suites need not wait

        only_a = int((first["right"] & ~second["right"]).sum())
        only_b = int((second["right"] & ~first["right"]).sum())
        # McNemar's exact test; without an item that tells them apart p is 1.
        p_value = float(binomtest(only_a, max(1, only_a + only_b)).pvalue)
    return ItemDifference(difference, error, p_value, sum(len(a[task]) for task in tasks))


def bootstrap_error(tasks: Sequence[tuple[np.ndarray, np.ndarray]]) -> float:
    """Bootstrap standard error of the mean difference of two encoders, as a fraction, from the
    items of both on each task. Items that share a sentence, in one task or in several, are drawn
    together."""
    rng = np.random.default_rng(RESAMPLING_SEED)
    keys = [np.concatenate([first[side] for first, _ in tasks]) for side in ("first", "last")]
    size, components = _components(*keys)
    of_tasks = np.split(components, np.cumsum([len(first) for first, _ in tasks])[:-1])
    statistics = [_difference(first, second) for first, second in tasks]
    differences = np.empty(REPLICATES)
    for replicate in range(REPLICATES):
        counts = np.bincount(rng.integers(size, size=size), minlength=size)
        drawn = zip(statistics, of_tasks, strict=True)
        differences[replicate] = np.mean([statistic(counts[rows]) for statistic, rows in drawn])
    return float(differences.std(ddof=1))


def _components(first: np.ndarray, last: np.ndarray) -> tuple[int, np.ndarray]:
    """The number of sets of items that share no sentence, and the set of each item, given the keys
    of its texts."""
    texts, places = np.unique([first, last], return_inverse=True)
    first, last = places.reshape(2, -1)
    shared = coo_array((np.ones(len(first)), (first, last)), shape=(len(texts), len(texts)))
    size, of_text = connected_components(shared, directed=False)
    return size, of_text[first]


def _are_samples(items: np.ndarray) -> bool:
    return "right" in (items.dtype.names or ())


def _difference(first: np.ndarray, second: np.ndarray) -> Callable[[np.ndarray], float]:
    """The difference of two encoders' scores as a function of how often each item is drawn."""
    if _are_samples(first):
        differences = first["right"].astype(float) - second["right"]
        return lambda counts: float(counts @ differences / counts.sum())
    values = first["gold"], first["similarity"], second["similarity"]
    columns = [np.unique(column, return_inverse=True)[1] for column in values]

    def difference(counts: np.ndarray) -> float:
        of_gold, of_a, of_b = (_ranks(ties, counts) for ties in columns)
        return float(counts @ (of_gold * (of_a - of_b)))

    return difference


def _ranks(ties: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Mean rank of each item in a resample that has it `counts` times, standardised so that sums of
    products are correlations; `ties` are the places of the distinct values, in order."""
    sizes = np.bincount(ties, counts)
    ranks = sizes.cumsum() - (sizes + sizes.sum()) / 2
    return (ranks / sqrt(sizes @ ranks**2))[ties]
