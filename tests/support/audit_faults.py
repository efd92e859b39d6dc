"""Faults to plant in consistent tables: what `plant_<kind>` changes, the audit must find so."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import pandas as pd

from bench.datasets.tasks import STS_TASKS
from bench.reported.audit.claims import Claim
from tests.support.audit_tables import PAPERS, consistent, mean

Changes = Callable[[dict[str, float]], dict[str, float]]


class Tables:
    """Consistent tables in which single figures are changed."""

    def __init__(self, seed: int) -> None:
        self.numbers = consistent(seed)
        self.claims: list[Claim] = []
        self.print_everywhere("Beta")

    def at(self, source: str, table: str, method: str, **more: str) -> pd.Series:
        wanted = {"source": source, "table": table, "method": method} | {"backbone": "base"} | more
        return self.numbers[list(wanted)].eq(list(wanted.values())).all(axis=1)

    def values(self, *place: str, **more: str) -> dict[str, float]:
        rows = self.numbers[self.at(*place, **more)]
        return dict(zip(rows["task"], rows["value"], strict=True))

    def change(
        self, changes: dict[str, float], *place: str, average: bool = True, **more: str
    ) -> None:
        """Put figures into a row, and the average that belongs to them."""
        for task, value in changes.items():
            chosen = self.at(*place, **more) & (self.numbers["task"] == task)
            assert chosen.sum() == 1
            self.numbers.loc[chosen, "value"] = round(value, 2)
        if average:
            figures = _tasks(self.values(*place, **more)).values()
            center = mean([Fraction(repr(value)) for value in figures])
            self.change({"Avg": float(round(center, 2))}, *place, average=False, **more)

    def print_everywhere(self, method: str) -> None:
        """Have a quoted row, which is left out of some papers, in all of them."""
        rows = self.numbers[self.numbers["method"].eq(method) & self.numbers["table"].eq("Table 1")]
        pattern = rows[rows["source"] == rows["source"].iloc[0]]
        everywhere = [pattern.assign(source=source) for source in PAPERS]
        rest = self.numbers.drop(rows.index)
        self.numbers = pd.concat([rest, *everywhere], ignore_index=True)


def _tasks(values: dict[str, float]) -> dict[str, float]:
    return {task: value for task, value in values.items() if task != "Avg"}


OTHER = ("second", "Table 1", "Other-second")  # an own row that stands nowhere else
OWN = ("second", "Table 1", "Own-second")


def plant_copy(t: Tables) -> None:
    t.change(t.values("third", "Table 1", "Other-third"), *OTHER)


def plant_partial(t: Tables) -> None:
    figures = t.values("third", "Table 1", "Other-third")
    t.change(figures | {"STS12": figures["STS12"] - 1.31, "STS-B": figures["STS-B"] + 0.7}, *OTHER)


def plant_shift(t: Tables) -> None:
    figures = _tasks(t.values("third", "Table 1", "Other-third"))
    t.change({task: value - 7 for task, value in figures.items()}, *OTHER)


def plant_cells(t: Tables) -> None:
    # Both averages fit the row: one is rounded, one truncated.
    figures = dict.fromkeys(STS_TASKS, 80.0)
    figures |= {"STS12": 80.05, "STS13": 79.36, "STS14": 81.12}  # mean 80.0757
    for source, average in (("first", 80.08), ("second", 80.07), ("third", 80.08)):
        t.change(figures | {"Avg": average}, source, "Table 1", "Beta", average=False)


def plant_label_of_a_model_that_is_not_trained(t: Tables) -> None:
    # Another paper's figures are not those of the first; no batch size does that.
    row = ("second", "Table 1", "BERT")
    figures = {"STS16": 81.11}
    t.change(figures, *row, variant="cls")
    for size in (64, 128):
        t.change(figures, "second", "Table 4", "BERT", variant=f"bs={size}, cls")


def plant_copy_of_a_row_that_is_quoted_from_elsewhere(t: Tables) -> None:
    chosen = t.at("second", "Table 1", "First's")
    t.numbers.loc[chosen, "quoted_from"] = "Somebody 2021 (fourth)"


def plant_partial_of_a_row_that_is_quoted(t: Tables) -> None:
    t.change({"STS12": 77.7}, "second", "Table 1", "First's")
    t.change({"STS12": 77.7}, "third", "Table 1", "First's")


def plant_sweep(t: Tables) -> None:
    row = ("first", "Table 3", "Own-first")
    usual, other = t.values(*row, variant="tau=0.05"), t.values(*row, variant="tau=0.01")
    t.change(other, *row, variant="tau=0.05", average=False)
    t.change(usual, *row, variant="tau=0.01", average=False)


def plant_split(t: Tables) -> None:
    own, dev = t.values(*OWN), ("second", "Table 5", "Own-second")
    t.change({"STS-B": own["STS-B"], "Avg": own["Avg"]}, *dev, variant="k=3", average=False)


def plant_mixed(t: Tables) -> None:
    chosen = t.at("first", "Table 3", "Other-first", variant="tau=0.1")
    t.numbers.loc[chosen, "quoted_from"] = "Somebody 2021 (fourth)"


def plant_mixed_with_a_number_that_another_table_quotes(t: Tables) -> None:
    t.numbers.loc[t.at("first", "Table 3", "Alpha"), "quoted_from"] = ""


def plant_statement(t: Tables) -> None:
    text = {"source": ["second"], "where": "Text", "quote": "better"}
    t.claims.append(Claim(**text, table="Table 1", above={"Other-second": "Beta"}))
    beta = _tasks(t.values(*BETA))
    t.change({task: value + 1 for task, value in beta.items()} | {"STS12": beta["STS12"]}, *OTHER)


def plant_statement_of_a_sweep(t: Tables) -> None:
    row, values = ("first", "Table 3", "Own-first"), {"0.01": -1, "0.1": 1}
    text = {"source": ["first"], "where": "Text", "quote": "best", "table": "Table 3"}
    best_at = {"parameter": "tau", "rises_to": "0.05", "falls_from": "0.05"}
    t.claims.append(Claim(**text, method=row[2], **best_at))
    best = t.values(*row, variant="tau=0.05")["Avg"]
    for tau, more in values.items():
        t.change({"Avg": best + more}, *row, average=False, variant=f"tau={tau}")


def plant_resting(t: Tables) -> None:
    claim, row = ("Introduction", "Own-third minus Alpha"), ("third", "Table 1", "Own-third")
    large = {"backbone": "large"}
    average = t.values(*row, **large)["Avg"] + 0.5
    t.change({"Avg": average}, *row, average=False, **large)
    gain = average - t.values("third", "Table 1", "Alpha", **large)["Avg"]
    t.change({"Avg": gain}, "third", *claim, average=False, **large)


# What follows of necessity from the fault that is planted.
ALONGSIDE = {
    "resting": {"average"},
    "cells": {"rounding"},
    "shift_under_one_label": {"label"},
    "untrained": {"mixed"},  # the figures with the other batch size are no longer those quoted
    "copy_of_a_row_that_is_quoted_from_elsewhere": {"resting"},
    "partial_of_a_row_that_is_quoted": {"resting"},
}
PLANTS = [(name, plant) for name, plant in globals().items() if name.startswith("plant_")]
FAULTS = {name.removeprefix("plant_"): plant for name, plant in PLANTS}


def changed(
    *place: str, to: Changes, average: bool = True, **more: str
) -> Callable[[Tables], None]:
    """A fault of one row, from its figures."""

    def plant(t: Tables) -> None:
        t.change(to(t.values(*place, **more)), *place, average=average, **more)

    return plant


OTHER_TRANSFER = ("second", "Table 2", "Other-second")
BETA = ("second", "Table 1", "Beta")
TEXT = ("first", "Figure 1 text", "Own-first")
PROBED = ("third", "Table 6", "Own-third")
GAIN = ("third", "Introduction", "Own-third minus Alpha")
UNTRAINED = {"variant": "bs=128, cls"}
FAULTS |= {
    "average": changed(*OTHER, to=lambda f: {"Avg": f["Avg"] + 0.02}, average=False),
    "rounding": changed(*OTHER, to=lambda f: {"Avg": f["Avg"] + 0.01}, average=False),
    "unattainable": changed(*OTHER_TRANSFER, to=lambda f: {"TREC": 89.10}),
    "runs": changed(*OTHER_TRANSFER, to=lambda f: {"TREC": 88.64}),
    "range": changed(*OTHER, to=lambda f: {"STS-B": 100.31}),
    "chance": changed(*PROBED, to=lambda f: {"CoordinationInversion": 49.9}, average=False),
    "chance_of_a_majority": changed(*OTHER_TRANSFER, to=lambda f: {"MPQA": 68.76}),
    "shift_under_one_label": changed(*BETA, to=lambda f: {x: f[x] + 1.5 for x in _tasks(f)}),
    "label_with_one_figure_in_another_place": changed(
        *BETA, to=lambda f: {"STS13": f["SICK-R"], "SICK-R": f["SICK-R"] + 1.5}
    ),
    "label": changed(*BETA, to=lambda f: {"STS14": 81.35}),
    "untrained": changed(
        "first", "Table 4", "BERT", to=lambda f: {"STS16": f["STS16"] - 0.77}, **UNTRAINED
    ),
    "text": changed(
        "first", "Abstract", "Own-first", to=lambda f: {"Avg": f["Avg"] + 0.3}, average=False
    ),
    "text_below_a_figure": changed(*TEXT, to=lambda f: {"Avg": f["Avg"] - 0.3}, average=False),
    "difference": changed(*GAIN, to=lambda f: {"Avg": f["Avg"] - 0.04}, average=False),
}
