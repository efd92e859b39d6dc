"""Whether the order of printed rows holds: Kendall's tau-b between printed and measured averages.

docs/statistics.md, "Order and gains", has the formulas and how often the intervals are right.
"""

from collections.abc import Sequence
from math import nan, sqrt
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import kendalltau

from bench.comparison.statistics import FEWEST_SEEDS, LEVEL
from bench.reported import SCORES
from bench.results.suite_results import SuiteResults
from bench.utils.text import counted

FEWEST_ROWS = 3  # two rows have one order or the other
DRAWS = 2000  # of the bootstrap

_GROUP = ["source", "table", "backbone", "split", "metric"]
# What distinguishes our side of two cells of one group.
_MEASUREMENT = ["run", "minus", "measured_on", "ours_split", "task", "aggregation"]

Floats = NDArray[np.float64]


def kendall(printed: Floats, measured: Floats) -> Floats:
    """Kendall's tau-b of many pairs of rankings; `scipy.stats.kendalltau` for arrays.

    Args:
        printed: (m,), or (k, m) for a ranking of its own in each pair.
        measured: (k, m), k rankings of the same rows.

    Returns:
        (k,); NaN where all numbers of a side are equal.
    """
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
    """The 95 % percentile interval of `kendall` over resampled seeds, each row on its own.

    Args:
        printed: one number per row.
        ours: the scores of each row, one per seed; a row with one score stays as it is.
        draws: number of bootstrap samples; they are seeded.
    """
    rng = np.random.default_rng(0)
    means = np.stack([resampled_means(scores, rng, draws) for scores in ours], axis=1)
    drawn = kendall(np.asarray(printed, dtype=np.float64), means)
    if np.isnan(drawn).any():
        return nan, nan
    # The quantiles are values that tau can take.
    low, high = np.quantile(drawn, (LEVEL / 2, 1 - LEVEL / 2), method="inverted_cdf")
    return float(low), float(high)


def expected_tau(ours: Sequence[Sequence[float]], *, draws: int = DRAWS) -> float:
    """The tau that would be exceeded in 95 % of tables if print were one run of ours in each row.

    One resampled seed of each row takes the place of print. Arguments as in `tau_interval`; NaN if
    all rows tie.
    """
    rng = np.random.default_rng(0)
    once = np.stack([resampled_means(scores, rng, draws, 1) for scores in ours], axis=1)
    means = np.stack([resampled_means(scores, rng, draws) for scores in ours], axis=1)
    return float(np.quantile(kendall(once, means), LEVEL, method="inverted_cdf"))


def row_averages(all_cells: pd.DataFrame) -> pd.DataFrame:
    """The cells with the scores that rank the rows of a printed table: the average where one is
    printed, else the only task. Tables of several tasks without an average have none.

    `all_cells` is `reproduction.cells` of a suite.
    """
    scores = all_cells[all_cells["metric"].isin(SCORES)]

    def overall(tasks: pd.Series) -> str:
        return "Avg" if (tasks == "Avg").any() else tasks.iloc[0] if tasks.nunique() == 1 else ""

    return scores[scores["task"] == scores.groupby(_GROUP)["task"].transform(overall)]


def orders(suite: SuiteResults, all_cells: pd.DataFrame) -> pd.DataFrame:
    """How far the order of the printed rows holds, for each printed table and backbone, and for all
    papers together on each board and backbone.

    Rows that were not run or diverged are left out, and groups of fewer than 3 others. Of several
    rows that are compared with the same runs the first counts.

    Args:
        suite: the suite.
        all_cells: `reproduction.cells(suite)`.

    Returns:
        Columns: `source`, `table` (empty for a board), `board` (empty for a table), `backbone`,
        `split`, `metric`; `rows`, how many are ranked, and `not_comparable`, how many of them;
        `tau`, Kendall's tau-b of printed and measured averages, NaN if one side is all ties; `low`,
        `high`, its 95 % interval, and `expected`, as `expected_tau` returns it, NaN unless every
        trained row has 3 seeds; `seeds`, the fewest of a trained row; `remark`, why there is no
        interval.
    """
    rows = row_averages(all_cells)
    ranked = rows[(rows["n"] > 0) & ~rows["verdict"].isin(("not run", "diverged"))]
    groups: list[tuple[dict[str, Any], pd.DataFrame]] = [
        (dict(zip(_GROUP, names, strict=True)) | {"board": ""}, group)
        for names, group in ranked.groupby(_GROUP, sort=False)
    ]
    for board in suite.boards.values():
        if board.is_in_print(board.overall):
            names = {"split": "test", "metric": board.metric, "task": board.overall}
            on_board = ranked[(ranked[list(names)] == list(names.values())).all(axis=1)]
            names |= {"board": board.name, "source": "", "table": ""}
            for backbone, group in on_board.groupby("backbone", sort=False):
                groups.append((names | {"backbone": backbone}, group))
    order: list[dict[str, Any]] = []
    for names, group in groups:
        distinct = group.drop_duplicates(_MEASUREMENT)
        if len(distinct) < FEWEST_ROWS:
            continue
        seeds = distinct.loc[~distinct["deterministic"], "n"]
        few = int((seeds < FEWEST_SEEDS).sum())
        remark = ""
        if seeds.empty:
            remark = "no row has seeds"
        elif few:
            remark = f"{counted(few, 'row')} {'has' if few == 1 else 'have'} fewer than "
            remark += f"{FEWEST_SEEDS} seeds"
        low, high, expected = nan, nan, nan
        if not remark:
            low, high = tau_interval(distinct["printed"].to_list(), distinct["ours"].to_list())
            expected = expected_tau(distinct["ours"].to_list())
        order.append(names | {
            "rows": len(distinct),
            "not_comparable": int((distinct["verdict"] == "not comparable").sum()),
            "tau": float(kendalltau(distinct["printed"], distinct["mean"]).statistic),
            "low": low,
            "high": high,
            "expected": expected,
            "seeds": seeds.min() if len(seeds) else None,
            "remark": remark,
        })  # fmt: skip
    columns = ["source", "table", "board", "backbone", "split", "metric", "rows", "not_comparable"]
    columns += ["tau", "low", "high", "expected", "seeds", "remark"]
    return pd.DataFrame(order, columns=columns).astype({"seeds": "Int64"})
