"""Two encoders without seeds, compared over the items of their test sets
(docs/reference/rule.md#encoders-without-seeds)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from bench.judged.verdicts import ITEMS_LEVEL

# With 1,000 resamples a bootstrap standard error is itself uncertain by 1 / sqrt(2 * 1000) = 2 %.
REPLICATES = 1000
RESAMPLING_SEED = 0  # all encoders have the same resamples


@dataclass(frozen=True)
class ItemDifference:
    """A difference of two scores, and how certain the items of the test sets make it."""

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
    # An error of 0 means that no resample moves the difference: it is certain.
    p_value = 2 * NormalDist().cdf(-abs(difference / error)) if error else float(difference == 0)
    items_a, items_b = a[tasks[0]], b[tasks[0]]
    # McNemar's test is of the samples of one task. A mean over tasks has the normal p alone.
    if len(tasks) == 1 and _are_samples(items_a):
        from scipy.stats import binomtest  # takes half a second, which other suites need not wait

        only_a = int((items_a["right"] & ~items_b["right"]).sum())
        only_b = int((items_b["right"] & ~items_a["right"]).sum())
        # McNemar's exact test; without an item that tells them apart p is 1.
        p_value = float(binomtest(only_a, max(1, only_a + only_b)).pvalue)
    return ItemDifference(difference, error, p_value, sum(len(a[task]) for task in tasks))


def bootstrap_error(tasks: Sequence[tuple[np.ndarray, np.ndarray]]) -> float:
    """Bootstrap standard error of the mean difference of two encoders, as a fraction, from the
    items of both on each task. Items that share a sentence, in one task or in several, are drawn
    together."""
    rng = np.random.default_rng(RESAMPLING_SEED)
    keys = [np.concatenate([items[side] for items, _ in tasks]) for side in ("first", "last")]
    # Items that share a sentence are not independent: drawn one by one, they would make the error
    # too small. So whole components of the graph of sentences are drawn.
    size, components = _components(*keys)
    of_tasks = np.split(components, np.cumsum([len(items) for items, _ in tasks])[:-1])
    statistics = [_difference(*items) for items in tasks]
    differences = np.empty(REPLICATES)
    for replicate in range(REPLICATES):
        # As many components as there are. They differ in size, so resamples differ in their number
        # of items.
        counts = np.bincount(rng.integers(size, size=size), minlength=size)
        drawn = zip(statistics, of_tasks, strict=True)
        differences[replicate] = np.mean([statistic(counts[rows]) for statistic, rows in drawn])
    return float(differences.std(ddof=1))


def _components(keys: np.ndarray, other_keys: np.ndarray) -> tuple[int, np.ndarray]:
    """The number of sets of items that share no sentence, and the set of each item, given the keys
    of its two texts."""
    texts, places = np.unique([keys, other_keys], return_inverse=True)
    starts, ends = places.reshape(2, -1)
    # An item joins its two texts. An item of one sentence joins that sentence with itself.
    edges = coo_array((np.ones(len(starts)), (starts, ends)), shape=(len(texts), len(texts)))
    size, of_text = connected_components(edges, directed=False)
    return size, of_text[starts]


def _are_samples(items: np.ndarray) -> bool:
    return "right" in (items.dtype.names or ())


def _difference(a: np.ndarray, b: np.ndarray) -> Callable[[np.ndarray], float]:
    """The difference of two encoders' scores as a function of how often each item is drawn."""
    if _are_samples(a):
        differences = a["right"].astype(float) - b["right"]
        return lambda counts: float(counts @ differences / counts.sum())
    values = a["gold"], a["similarity"], b["similarity"]
    columns = [np.unique(column, return_inverse=True)[1] for column in values]

    def difference(counts: np.ndarray) -> float:
        of_gold, of_a, of_b = (_ranks(ties, counts) for ties in columns)
        return float(counts @ (of_gold * (of_a - of_b)))

    return difference


def _ranks(ties: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The mean rank of each item in a resample that has it `counts` times, standardised so that
    sums of products are correlations.

    `ties` has for each item the place of its value among the distinct values. Sorting happens once
    outside: scipy's `spearmanr` on each of the 1,000 resamples would sort again each time.
    """
    sizes = np.bincount(ties, counts)
    # The mean rank of a group of ties, minus the mean of all ranks, (n + 1) / 2.
    ranks = sizes.cumsum() - (sizes + sizes.sum()) / 2
    return (ranks / sqrt(sizes @ ranks**2))[ties]
