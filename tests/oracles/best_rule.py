"""The rule of docs/statistics.md for the best of a column, restated in numpy for many columns at
once, and how often the true best is marked.

python -m tests.oracles.best_rule    # writes the tables of docs/error-rates.md
"""

from itertools import product

import numpy as np
import pandas as pd
from scipy import special

from tests.oracles.verdict_rule import DOCUMENT, Array, percent, public_seeds, replace_tables

HALVES = np.geomspace(1e-3, 2, 20_000)  # of at most 4 degrees of freedom
TRIGAMMAS = special.polygamma(1, HALVES)
FEWEST_SPREADS = 15


def stays(points: Array, constant: Array, place: int) -> Array:
    """Whether no other system of a column is better than that at a place, for columns of points
    (..., systems, seeds). NaN is a seed that a system has not; a `constant` system has the same
    points at every seed."""
    others = np.delete(points, place, -2)
    differences = others - points[..., place, None, :]
    n = np.isfinite(differences).sum(-1)
    mean = np.nanmean(differences, -1)
    variance = np.nanvar(differences, -1, ddof=1)
    of_constants, is_constant = np.delete(constant, place), constant[place]
    paired = ~of_constants & ~is_constant
    column = np.nanvar(points[..., ~constant, :], -1, ddof=1).mean(-1, keepdims=True)
    weight = prior = np.zeros_like(n[..., :1], dtype=float)
    if paired.sum() >= FEWEST_SPREADS:
        spreads = np.where(variance > 1e-18, variance, np.nan)[..., paired]
        half = (n[..., paired] - 1) / 2 + 0 * spreads
        logs = np.log(spreads) - special.digamma(half) + np.log(half)
        excess = np.nanvar(logs, -1, ddof=1, keepdims=True)
        excess -= np.nanmean(special.polygamma(1, half), -1, keepdims=True)
        halves = np.interp(-excess, -TRIGAMMAS, HALVES)
        weight = 2 * halves
        prior = np.exp(np.nanmean(logs, -1, keepdims=True) + special.digamma(halves)) / halves
    pooled = np.maximum(variance, (weight * prior + (n - 1) * variance) / (weight + n - 1))
    used = np.where(paired, pooled, np.maximum(variance, column))
    df = np.where(paired, weight + n - 1, n - 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        p = special.stdtr(df, -mean / np.sqrt(used / n))
    p = np.where(of_constants & is_constant, mean <= 0, p)
    return (p >= 0.05 / paired.size).all(-1)


def columns(kind: str, systems: int, n: int, count: int, gap: float = 0.0) -> Array:
    """Columns (count, systems, n) whose first system is the best, by `gap` standard deviations of a
    typical system; its kind of draws begins with a backbone for public seeds."""
    rng = np.random.default_rng([systems, n, round(10 * gap), *kind.encode()])
    backbone = kind.split(",")[0]
    if backbone.startswith("bert"):
        seeds = public_seeds(backbone)[:, -1]
        drawn = rng.choice((seeds - seeds.mean()) / seeds.std(ddof=1), (count, systems, n))
    else:
        share = 0.5 if "shared" in kind else 0.0
        drawn = share**0.5 * rng.normal(size=(count, 1, n))
        drawn = drawn + (1 - share) ** 0.5 * rng.normal(size=(count, systems, n))
        if "one in four" in kind:
            drawn *= np.where(rng.random((count, systems, 1)) < 0.25, 3, 1)
        if "lognormal" in kind:
            drawn *= np.exp(rng.normal(0, 1, (count, systems, 1)))
        if "3 to n seeds" in kind:
            drawn[np.arange(n) >= rng.integers(3, n + 1, (count, systems, 1))] = np.nan
    if "without a seed" in kind:
        drawn[:, 0] = 0
    drawn[:, 1:] -= gap
    return drawn


def marked(
    kind: str, systems: int, n: int, count: int, *, place: int = 0, gap: float = 0.0
) -> float:
    """Share of columns in which a system is as good as the best, by default the true best, if all
    others are `gap` below it."""
    constant = np.arange(systems) == (0 if "without a seed" in kind else -1)
    return float(stays(columns(kind, systems, n, count, gap), constant, place).mean())


KINDS = (
    "bert-base-uncased", "bert-large-uncased", "normal", "normal, half shared",
    "one in four", "one in four, half shared", "one in four, 3 to n seeds",
    "lognormal, half shared",
    "bert-base-uncased, best without a seed", "bert-large-uncased, best without a seed",
)  # fmt: skip
SYSTEMS, SEEDS, GAPS = (5, 16, 27), (3, 5, 10), (1, 2, 3, 5)
COUNT = 10_000


def tables(count: int) -> dict[str, str]:
    """The tables of docs/error-rates.md as Markdown, by name."""
    rows: dict[str, list[dict[str, str]]] = {"best": [], "best-apart": []}
    for kind in KINDS:
        row = {"draws": kind}
        for systems, n in product(SYSTEMS, SEEDS):
            row[f"{systems}: n = {n}"] = percent(marked(kind, systems, n, count))
        rows["best"].append(row)
    for gap in GAPS:
        row = {"lower by": str(gap)}
        for systems, n in product(SYSTEMS, SEEDS):
            share = marked("normal, half shared", systems, n, count, place=1, gap=gap)
            row[f"{systems}: n = {n}"] = percent(share)
        rows["best-apart"].append(row)
    return {
        name: pd.DataFrame(table).to_markdown(index=False, disable_numparse=True)
        for name, table in rows.items()
    }


if __name__ == "__main__":
    text = DOCUMENT.read_text(encoding="utf-8")
    DOCUMENT.write_text(replace_tables(text, tables(COUNT)), encoding="utf-8")
