"""How often the interval of Kendall's tau contains the tau of the true means.

python -m tests.oracles.order_coverage    # writes the table of docs/statistics.md
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.stats import kendalltau

from bench.comparison.order import tau_interval
from tests.oracles.verdict_rule import DOCUMENT, replace_tables

SD = 0.84  # of the 50 public averages on bert-base-uncased
TABLES = 1000
ROWS, GAPS, SEEDS = (4, 8, 12), (0.3, 1.0, 3.0), (3, 5, 8)


def covered(rows: int, gap: float, n: int, tables: int = TABLES) -> float:
    """Share of tables whose interval contains the tau of print and true means.

    True means are uniform and `gap` points apart on average; print and our n seeds are normal
    draws around them.
    """
    rng = np.random.default_rng([rows, int(10 * gap), n])
    hits = 0
    for _ in range(tables):
        means = rng.uniform(0, gap * rows, rows)
        printed, ours = rng.normal(means, SD), rng.normal(means[:, None], SD, (rows, n))
        low, high = tau_interval(printed.tolist(), ours.tolist())
        hits += low - 1e-9 <= kendalltau(printed, means).statistic <= high + 1e-9
    return hits / tables


def table(tables: int = TABLES) -> str:
    """The table of docs/statistics.md as Markdown."""
    lines = [
        {"rows": rows, "points apart": f"{gap:g}"}
        | {f"n = {n}": f"{100 * covered(rows, gap, n, tables):.1f}" for n in SEEDS}
        for rows in ROWS
        for gap in GAPS
    ]
    return pd.DataFrame(lines).to_markdown(index=False, disable_numparse=True)


if __name__ == "__main__":
    text = DOCUMENT.read_text(encoding="utf-8")
    DOCUMENT.write_text(replace_tables(text, {"order": table()}), encoding="utf-8")
