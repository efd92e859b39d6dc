"""Faults to plant in consistent tables: what `plant_<kind>` changes, the audit must find as that
kind."""

from __future__ import annotations

from fractions import Fraction

import pandas as pd

from bench.datasets.tasks import STS_TASKS
from tests.support.audit_tables import PAPERS, consistent, mean


class Tables:
    """Consistent tables in which single figures are changed."""

    def __init__(self, seed: int) -> None:
        self.numbers = consistent(seed)
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
            values = self.values(*place, **more)
            center = mean(
                [Fraction(repr(value)) for task, value in values.items() if task != "Avg"]
            )
            self.change({"Avg": float(round(center, 2))}, *place, average=False, **more)

    def print_everywhere(self, method: str) -> None:
        """Have a quoted row, which is left out of some papers, in all of them."""
        rows = self.numbers[
            (self.numbers["method"] == method) & (self.numbers["table"] == "Table 1")
        ]
        pattern = rows[rows["source"] == rows["source"].iloc[0]]
        rest = self.numbers.drop(rows.index)
        self.numbers = pd.concat(
            [rest, *(pattern.assign(source=source) for source in PAPERS)], ignore_index=True
        )


def _tasks(values: dict[str, float]) -> dict[str, float]:
    return {task: value for task, value in values.items() if task != "Avg"}


OTHER = ("second", "Table 1", "Other-second")  # an own row that stands nowhere else
OTHER_TRANSFER = ("second", "Table 2", "Other-second")
OWN = ("second", "Table 1", "Own-second")
QUOTED = ("second", "Table 1", "Alpha")


def plant_average(t: Tables) -> None:
    t.change({"Avg": t.values(*OTHER)["Avg"] + 0.02}, *OTHER, average=False)


def plant_rounding(t: Tables) -> None:
    t.change({"Avg": t.values(*OTHER)["Avg"] + 0.01}, *OTHER, average=False)


def plant_unattainable(t: Tables) -> None:
    t.change({"TREC": 89.10}, *OTHER_TRANSFER)


def plant_runs(t: Tables) -> None:
    t.change({"TREC": 88.64}, *OTHER_TRANSFER)


def plant_range(t: Tables) -> None:
    t.change({"STS-B": 100.31}, *OTHER)


def plant_chance(t: Tables) -> None:
    t.change({"CoordinationInversion": 49.9}, "third", "Table 6", "Own-third", average=False)


def plant_chance_of_a_majority(t: Tables) -> None:
    t.change({"MPQA": 68.76}, *OTHER_TRANSFER)


def plant_copy(t: Tables) -> None:
    t.change(t.values("third", "Table 1", "Other-third"), *OTHER)


def plant_partial(t: Tables) -> None:
    figures = t.values("third", "Table 1", "Other-third")
    t.change(figures | {"STS12": figures["STS12"] - 1.31, "STS-B": figures["STS-B"] + 0.7}, *OTHER)


def plant_shift(t: Tables) -> None:
    figures = _tasks(t.values("third", "Table 1", "Other-third"))
    t.change({task: value - 7 for task, value in figures.items()}, *OTHER)


def plant_shift_under_one_label(t: Tables) -> None:
    row = ("second", "Table 1", "Beta")
    t.change({task: value + 1.5 for task, value in _tasks(t.values(*row)).items()}, *row)


def plant_label_with_one_figure_in_another_place(t: Tables) -> None:
    row = ("second", "Table 1", "Beta")
    figures = t.values(*row)
    t.change({"STS13": figures["SICK-R"], "SICK-R": figures["SICK-R"] + 1.5}, *row)


def plant_swap(t: Tables) -> None:
    figures = t.values(*QUOTED)
    t.change({"STS13": figures["SICK-R"], "SICK-R": figures["STS13"]}, *QUOTED)


def plant_cells(t: Tables) -> None:
    # Both averages fit the row: one is rounded, one truncated.
    figures = dict.fromkeys(STS_TASKS, 80.0) | {
        "STS12": 80.05,
        "STS13": 79.36,
        "STS14": 81.12,
    }  # mean 80.0757
    for source, average in (("first", 80.08), ("second", 80.07), ("third", 80.08)):
        t.change(figures | {"Avg": average}, source, "Table 1", "Beta", average=False)


def plant_label(t: Tables) -> None:
    t.change({"STS14": 81.35}, "second", "Table 1", "Beta")


def plant_untrained(t: Tables) -> None:
    row = ("first", "Table 4", "BERT")
    figures = t.values(*row, variant="bs=128, cls")
    t.change({"STS16": figures["STS16"] - 0.77}, *row, variant="bs=128, cls")


def plant_label_of_a_model_that_is_not_trained(t: Tables) -> None:
    """Another paper's figures are not those of the first; no batch size does that."""
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


def plant_text(t: Tables) -> None:
    row = ("first", "Abstract", "Own-first")
    t.change({"Avg": t.values(*row)["Avg"] + 0.3}, *row, average=False)


def plant_text_below_a_figure(t: Tables) -> None:
    row = ("first", "Figure 1 text", "Own-first")
    t.change({"Avg": t.values(*row)["Avg"] - 0.3}, *row, average=False)


def plant_difference(t: Tables) -> None:
    row = ("third", "Introduction", "Own-third minus Alpha")
    t.change({"Avg": t.values(*row)["Avg"] - 0.04}, *row, average=False)


def plant_resting(t: Tables) -> None:
    claim, row = (
        ("third", "Introduction", "Own-third minus Alpha"),
        ("third", "Table 1", "Own-third"),
    )
    large = {"backbone": "large"}
    average = t.values(*row, **large)["Avg"] + 0.5
    t.change({"Avg": average}, *row, average=False, **large)
    t.change(
        {"Avg": average - t.values("third", "Table 1", "Alpha", **large)["Avg"]},
        *claim,
        average=False,
        **large,
    )


# What follows of necessity from the fault that is planted.
ALONGSIDE = {
    "resting": {"average"},
    "cells": {"rounding"},
    "copy_of_a_row_that_is_quoted_from_elsewhere": {"resting"},
    "partial_of_a_row_that_is_quoted": {"resting"},
}
FAULTS = {
    name.removeprefix("plant_"): plant
    for name, plant in list(globals().items())
    if name.startswith("plant_")
}
