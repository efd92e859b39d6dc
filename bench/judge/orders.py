"""Whether the order of printed rows holds: Kendall's tau-b between printed and measured averages.

docs/error-rates.md, "Order and gains", has the formulas and how often the intervals are right.
"""

from collections.abc import Iterable, Sequence
from math import nan, sqrt
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray
from scipy.stats import kendalltau

from bench.judged.rows import BoardRow, NumberRow, OrderRow, grouped
from bench.judged.words import FEWEST_SEEDS

FEWEST_ROWS = 3  # two rows have one order or the other
DRAWS = 2000  # of the bootstrap
LEVEL = 0.05  # of intervals, which decide nothing

Floats = NDArray[np.float64]


def kendall(printed: Floats, measured: Floats) -> Floats:
    """Kendall's tau-b of `printed` (m,) or (k, m) with k rankings of the same m rows (k, m), as
    `scipy.stats.kendalltau` gives for one: (k,), NaN where all numbers of a side are equal."""
    first, second = np.triu_indices(measured.shape[1], 1)
    signs_printed = np.sign(printed[..., first] - printed[..., second])
    signs = np.sign(measured[:, first] - measured[:, second])
    untied = np.count_nonzero(signs_printed, axis=-1) * np.count_nonzero(signs, axis=1)
    with np.errstate(invalid="ignore"):
        return (signs * signs_printed).sum(axis=1) / np.sqrt(untied)


def resampled_means(
    scores: Sequence[float], rng: np.random.Generator, draws: int, size: int | None = None
) -> Floats:
    """Means of `draws` bootstrap samples of the seeds of a row, of as many seeds or of `size`.

    The deviations from the mean are scaled by sqrt(n / (n - 1)): the variance of the means is then
    s² / size, where plain resampling gives (n - 1) / n of that, which matters for a few seeds.
    """
    values, n = np.asarray(scores, dtype=np.float64), len(scores)
    if n < 2:
        return np.full(draws, values.mean())
    means = values[rng.integers(n, size=(draws, size or n))].mean(axis=1)
    return values.mean() + sqrt(n / (n - 1)) * (means - values.mean())


def _means(
    ours: Sequence[Sequence[float]], rng: np.random.Generator, size: int | None = None
) -> Floats:
    """`resampled_means` of all rows of a table, (draws, rows)."""
    return np.stack([resampled_means(scores, rng, DRAWS, size) for scores in ours], axis=1)


def tau_interval(printed: Sequence[float], ours: Sequence[Sequence[float]]) -> tuple[float, float]:
    """The 95 % percentile interval of `kendall` over resampled seeds, each row on its own: one
    printed number per row, and our scores, one per seed."""
    rng = np.random.default_rng(0)
    means = _means(ours, rng)
    drawn = kendall(np.asarray(printed, dtype=np.float64), means)
    if np.isnan(drawn).any():
        return nan, nan
    # The quantiles are values that tau can take.
    low, high = np.quantile(drawn, (LEVEL / 2, 1 - LEVEL / 2), method="inverted_cdf")
    return float(low), float(high)


def expected_tau(ours: Sequence[Sequence[float]]) -> float:
    """The tau that would be exceeded in 95 % of tables if print were one run of ours in each row:
    one resampled seed of each row takes the place of print. NaN if all rows tie."""
    rng = np.random.default_rng(0)
    taus = kendall(_means(ours, rng, 1), _means(ours, rng))
    return float(np.quantile(taus, LEVEL, method="inverted_cdf"))


def orders(rows: Iterable[NumberRow], boards: Iterable[BoardRow]) -> list[OrderRow]:
    """How far the order of the printed rows holds, for each printed table and backbone, and for all
    papers together on each board and backbone; rows that cannot be compared with print, or
    diverged, are left out.

    The interval of tau, and what is expected, need 3 seeds of every trained row.
    """
    ranked = []
    for row in rows:
        verdict = row.ours.verdict
        if row.ranks and row.ours.n and verdict.is_comparable and verdict.kind != "diverged":
            ranked.append(row)
    found: list[OrderRow] = []
    for group in grouped(ranked, attrgetter("source", "table", "backbone", "split", "metric")):
        source, table = group[0].source, group[0].table
        found += _order(group, f"{group[0].paper}, {table}", source=source, table=table)
    for board in boards:
        whole = board.whole
        if whole.is_in_print(whole.overall):
            columns = ("test", whole.metric, whole.overall)
            of_board = [row for row in ranked if (row.split, row.metric, row.task) == columns]
            for group in grouped(of_board, attrgetter("backbone")):
                found += _order(group, f"All papers, {whole.title}", board=whole.name)
    return found


def _order(
    group: Sequence[NumberRow], title: str, board: str = "", source: str = "", table: str = ""
) -> list[OrderRow]:
    """The order of some rows, those compared with the same runs counted once; none with too few."""
    compared = attrgetter("run", "minus", "ours.measured_on", "our_split", "task", "aggregation")
    rows = [same[0] for same in grouped(group, compared)]
    # Two rows have one order or the other; an interval needs seeds of every trained row.
    if len(rows) < FEWEST_ROWS:
        return []
    printed, scores = [row.value for row in rows], [row.ours.scores for row in rows]
    low = high = expected = nan
    fewest = min((row.ours.n for row in rows if not row.ours.deterministic), default=None)
    if (fewest or 0) >= FEWEST_SEEDS:
        low, high = tau_interval(printed, scores)
        expected = expected_tau(scores)
    tau = float(kendalltau(printed, [row.ours.mean for row in rows]).statistic)
    return [
        OrderRow(
            title=title,
            source=source,
            table=table,
            board=board,
            backbone=rows[0].backbone,
            split=rows[0].split,
            metric=rows[0].metric,
            rows=len(rows),
            tau=tau,
            low=low,
            high=high,
            expected=expected,
            seeds=fewest,
        )
    ]
