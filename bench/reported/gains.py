"""Printed gains over SimCSE, beside how far apart public runs of SimCSE are."""

from itertools import combinations
from math import sqrt

import numpy as np
import pandas as pd

from bench.reported import FOLDER, printed, prior_sd

# The table that prints each paper's own method beside SimCSE, and the method's name there.
OWN = (
    ("gs-infonce-v2", "Table 2", "GS-InfoNCE"),
    ("is-cse", "Table 1", "IS-CSE"),
    ("sscl", "Table 2", "SSCL-SimCSE"),
)
BEYOND = 1.96 * sqrt(2)  # standard deviations of a run; 95 % of differences of two are smaller


def printed_gains() -> pd.DataFrame:
    """What each paper's own method gains over SimCSE on the STS average, by backbone.

    Returns:
        Columns `method`, `backbone`, `gain` (points), `reach` (points that 95 % of the differences
        of two public runs of SimCSE stay below), and `share` (of all pairs of these runs, those at
        least `gain` apart).
    """
    averages = printed().query("task == 'Avg'").set_index(["source", "table", "method"])
    seeds = pd.read_csv(FOLDER / "seeds.csv").query("task == 'Avg' and split == 'test'")
    runs = {backbone: part["value"].to_numpy() for backbone, part in seeds.groupby("backbone")}
    rows = []
    for source, table, method in OWN:
        own, base = (
            averages.loc[(source, table, name)].set_index("backbone")["value"]
            for name in (method, "SimCSE")
        )
        for backbone, value in own.items():
            gain = round(value - base[backbone], 2)
            apart = np.array([abs(a - b) for a, b in combinations(runs[backbone], 2)])
            reach = BEYOND * (prior_sd(str(backbone), "Avg") or 0.0)
            rows.append((method, backbone, gain, reach, float((apart >= gain).mean())))
    return pd.DataFrame(rows, columns=["method", "backbone", "gain", "reach", "share"])
