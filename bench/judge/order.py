"""Whether the order of printed rows holds: Kendall's tau-b between printed and measured averages.

docs/statistics.md, "Order and gains", has the formulas and how often the intervals are right.
"""

from collections.abc import Iterable, Sequence
from math import nan, sqrt
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import kendalltau

from bench.judge.reproduction import Cell, grouped
from bench.judge.statistics import FEWEST_SEEDS, LEVEL
from bench.results.suite_results import SuiteResults

FEWEST_ROWS = 3  # two rows have one order or the other
DRAWS = 2000  # of the bootstrap

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


def tau_interval(
    printed: Sequence[float], ours: Sequence[Sequence[float]], *, draws: int = DRAWS
) -> tuple[float, float]:
    """The 95 % percentile interval of `kendall` over resampled seeds, each row on its own: one
    printed number per row, and our scores, one per seed."""
    rng = np.random.default_rng(0)
    means = np.stack([resampled_means(scores, rng, draws) for scores in ours], axis=1)
    drawn = kendall(np.asarray(printed, dtype=np.float64), means)
    if np.isnan(drawn).any():
        return nan, nan
    # The quantiles are values that tau can take.
    low, high = np.quantile(drawn, (LEVEL / 2, 1 - LEVEL / 2), method="inverted_cdf")
    return float(low), float(high)


def expected_tau(ours: Sequence[Sequence[float]], *, draws: int = DRAWS) -> float:
    """The tau that would be exceeded in 95 % of tables if print were one run of ours in each row:
    one resampled seed of each row takes the place of print. NaN if all rows tie."""
    rng = np.random.default_rng(0)
    once = np.stack([resampled_means(scores, rng, draws, 1) for scores in ours], axis=1)
    means = np.stack([resampled_means(scores, rng, draws) for scores in ours], axis=1)
    return float(np.quantile(kendall(once, means), LEVEL, method="inverted_cdf"))


def row_averages(cells: Iterable[Cell]) -> list[Cell]:
    """The cells with the scores that rank the rows of a printed table: the average where one is
    printed, else the only task. Tables of several tasks without an average have none."""
    tasks: dict[tuple[str, ...], set[str]] = {}
    scores = [cell for cell in cells if cell.number.is_score]
    for cell in scores:
        tasks.setdefault(_group(cell), set()).add(cell.number.task)
    return [cell for cell in scores if cell.number.task == "Avg" or len(tasks[_group(cell)]) == 1]


def _group(cell: Cell) -> tuple[str, ...]:
    number = cell.number
    return number.source, number.table, number.backbone, number.split, number.metric


def orders(suite: SuiteResults, cells: Iterable[Cell]) -> pd.DataFrame:
    """How far the order of the printed rows holds, for each printed table and backbone, and for all
    papers together on each board and backbone; rows that cannot be compared with
    print, or diverged, are left out.

    Returns:
        `source` and `table`, or `board`; `backbone`, `split`, `metric`; `rows`, how many are
        ranked; `tau`, with its 95 % interval (`low`, `high`) and what is `expected`, NaN unless
        every trained row has 3 seeds; `seeds`, the fewest of a trained row.
    """
    ranked = [
        cell for cell in row_averages(cells) if cell.scores and cell.ours.verdict.kind != "diverged"
    ]
    rows = []
    for (source, table, *rest), group in grouped(ranked, _group).items():
        rows.append(_order((source, table, "", *rest), group))
    for board in suite.boards.values():
        if board.is_in_print(board.overall):
            place = ("test", board.metric, board.overall)
            of_board = [
                cell
                for cell in ranked
                if (cell.number.split, cell.number.metric, cell.number.task) == place
            ]
            for backbone, group in grouped(of_board, lambda cell: cell.number.backbone).items():
                rows.append(_order(("", "", board.name, backbone, *place[:2]), group))
    columns = ["source", "table", "board", "backbone", "split", "metric", "rows", "tau"]
    columns += ["low", "high", "expected", "seeds"]
    return pd.DataFrame(filter(None, rows), columns=columns).astype({"seeds": "Int64"})


def _order(names: tuple[str, ...], group: Sequence[Cell]) -> tuple[Any, ...] | None:
    """A row of `orders`, rows compared with the same runs counted once; None with too few."""
    distinct: dict[tuple[str, ...], Cell] = {}
    for cell in group:
        number = cell.number
        compared = (number.run, number.minus, cell.ours.measured_on, number.our_split)
        distinct.setdefault((*compared, number.task, number.aggregation), cell)
    cells = list(distinct.values())
    if len(cells) < FEWEST_ROWS:
        return None
    seeds = [cell.ours.n for cell in cells if not cell.ours.deterministic]
    printed, scores = [cell.number.value for cell in cells], [cell.ours.scores for cell in cells]
    low, high, expected, fewest = nan, nan, nan, min(seeds, default=None)
    if fewest and fewest >= FEWEST_SEEDS:
        low, high = tau_interval(printed, scores)
        expected = expected_tau(scores)
    tau = float(kendalltau(printed, [cell.ours.mean for cell in cells]).statistic)
    return (*names, len(cells), tau, low, high, expected, fewest)
