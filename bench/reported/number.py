"""A printed number with its place in print and the run that it is compared with; printed gains."""

from dataclasses import dataclass
from functools import cache
from itertools import combinations
from math import sqrt

import numpy as np
import pandas as pd

from bench.datasets.metrics import METRICS, PRINTED, Metric, Printed, aggregated
from bench.reported import FOLDER, mapped, printed, prior_sd


@dataclass(frozen=True)
class Number:
    """A printed number. Its fields are the columns of `bench.reported.mapped`."""

    source: str
    table: str
    method: str
    backbone: str
    variant: str
    task: str
    split: str
    metric: str
    value: float
    quoted_from: str
    run: str
    minus: str
    suite_backbone: str
    suite_split: str
    checkpoint: str
    reason: str
    deviation: str
    note: str
    aggregation: str

    @property
    def is_measurement(self) -> bool:
        """Whether it measures something: others are hyper-parameters."""
        return self.metric in PRINTED

    @property
    def is_score(self) -> bool:
        """Whether it is a score, of which more is better: no difference, and no step."""
        return self.metric in METRICS and METRICS[self.metric].is_main

    @property
    def label(self) -> tuple[str, ...]:
        """The printed row, as in `bench.reported.LABEL`."""
        return self.source, self.table, self.method, self.backbone, self.variant

    @property
    def our_metric(self) -> Metric:
        return METRICS[PRINTED[self.metric][0]]

    @property
    def form(self) -> Printed:
        """How its metric is printed."""
        return PRINTED[self.metric][1]

    @property
    def our_split(self) -> str:
        return self.suite_split or self.split

    @property
    def our_backbone(self) -> str:
        return self.suite_backbone or self.backbone

    @property
    def key(self) -> tuple[str, str, str]:
        """Our score of it, as in `bench.results.suite_results.RunResults.scores`."""
        return self.task, self.our_split, aggregated(PRINTED[self.metric][0], self.aggregation)


@cache
def numbers() -> tuple[Number, ...]:
    """Every printed number, in the order of print."""
    return tuple(Number(**row) for row in mapped().to_dict("records"))


def measurements() -> list[Number]:
    """The printed numbers that measure something, in the order of print."""
    return [number for number in numbers() if number.is_measurement]


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
