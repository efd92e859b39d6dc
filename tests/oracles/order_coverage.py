"""How often the interval of Kendall's tau contains the tau of the true means, and how often tau is
below the expected one although print is one more run of each row.

python -m tests.oracles.order_coverage    # writes its sentence in docs/error-rates.md
"""

from collections.abc import Iterator
from itertools import product

import numpy as np
from scipy.stats import kendalltau

from bench.judge.orders import expected_tau, tau_interval
from tests.oracles.rule import DOCUMENT, Array, percent, replace_blocks

SD = 0.84  # of the 50 public averages on bert-base-uncased
TABLES = 1000
ROWS, GAPS, SEEDS = (4, 8, 12), (0.3, 1.0, 3.0), (3, 5, 8)


def simulated(rows: int, gap: float, n: int, tables: int) -> Iterator[tuple[Array, Array, Array]]:
    """True means (rows,), printed numbers (rows,) and our seeds (rows, n) of each table.

    True means are uniform and `gap` points apart on average; print and our n seeds are normal
    draws around them.
    """
    rng = np.random.default_rng([rows, int(10 * gap), n])
    for _ in range(tables):
        means = rng.uniform(0, gap * rows, rows)
        yield means, rng.normal(means, SD), rng.normal(means[:, None], SD, (rows, n))


def covered(rows: int, gap: float, n: int, tables: int = TABLES) -> float:
    """Share of tables whose interval contains the tau of print and true means."""
    hits = 0
    for means, printed, ours in simulated(rows, gap, n, tables):
        low, high = tau_interval(printed.tolist(), ours.tolist())
        hits += low - 1e-9 <= kendalltau(printed, means).statistic <= high + 1e-9
    return hits / tables


def below_expected(rows: int, gap: float, n: int, tables: int = TABLES) -> float:
    """Share of tables whose tau is below the expected one."""
    hits = 0
    for _, printed, ours in simulated(rows, gap, n, tables):
        tau = kendalltau(printed, ours.mean(axis=1)).statistic
        hits += tau < expected_tau(ours.tolist()) - 1e-9
    return hits / tables


def sentence() -> str:
    """The least and the greatest shares over rows, points apart and seeds."""
    cases = list(product(ROWS, GAPS, SEEDS))
    inside, below = (
        sorted((share(*case), case) for case in cases) for share in (covered, below_expected)
    )
    rows, gap, n = inside[0][1]
    return (
        f"{percent(inside[0][0])} % ({rows} rows, {gap:g} points apart, {n} seeds) "
        f"to {percent(inside[-1][0])} % have the tau of the true means in the interval; "
        f"{percent(below[0][0])} to {percent(below[-1][0])} % have a tau below the expected one."
    )


if __name__ == "__main__":
    text = DOCUMENT.read_text(encoding="utf-8")
    DOCUMENT.write_text(replace_blocks(text, {"order": sentence()}), encoding="utf-8")
