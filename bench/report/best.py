"""The best values of a printed table, which print shows in bold."""

from __future__ import annotations

import pandas as pd

from bench.comparison.statistics import FEWEST_SEEDS
from bench.reported import SCORES


def with_best(table: pd.DataFrame, lines: pd.Series | None = None) -> pd.DataFrame:
    """The cells of a printed table with the columns `best_printed` and `best_ours`: whether a
    number, or our mean, is the highest of its task, among the rows of its backbone.

    Values that are equal as shown are all best. Where all are equal, none is. A mean over the seeds
    that did not diverge is no candidate. A mean of fewer than 3 seeds is never marked: which row is
    best would be chance.

    Args:
        table: rows of `bench.comparison.reproduction.cells`.
        lines: what is compared beside the backbone; None: all rows.
    """
    keys = [table[name] for name in ("backbone", "task", "split", "metric")]
    keys += [] if lines is None else [lines]
    scores = table["metric"].isin(SCORES)  # a difference or a step has no best value
    means = table["mean"].where(table["verdict"] != "diverged").round(2)
    best = {}
    for name, values in {"best_printed": table["printed"], "best_ours": means}.items():
        candidates = values.where(scores).groupby(keys)
        several = candidates.transform("nunique") > 1
        best[name] = several & values.eq(candidates.transform("max"))
    enough = table["deterministic"] | (table["n"] >= FEWEST_SEEDS)
    return table.assign(**best | {"best_ours": best["best_ours"] & enough})
