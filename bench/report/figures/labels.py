"""What legends, titles and headings say of the numbers of a figure."""

from __future__ import annotations

import pandas as pd

from bench.report.figures.measured import OURS


def series_of(table: pd.DataFrame) -> list[str]:
    """The series of a figure, in its order."""
    return list(table["series"].unique())


def counted(table: pd.DataFrame, label: str) -> str:
    """The label of a series with the number of its seeds; the fewest and the most where that differs."""
    ours = table[(table["series"] == label) & (table["origin"] == OURS) & table["seed"].notna()]
    if ours.empty:
        return label
    counts = ours.groupby([name for name in ("backbone", "x") if name in ours])["seed"].nunique()
    least, most = counts.min(), counts.max()
    return f"{label}, n = {most}" if least == most else f"{label}, n = {least} to {most}"


def place_of(table: pd.DataFrame, backbone: str) -> str:
    """A backbone as printed, with the one that stands in for it."""
    ours = table[(table["backbone"] == backbone) & (table["origin"] == OURS)]
    others = sorted(set(ours["measured_on"]) - {backbone})
    return f"{backbone} (ours: {', '.join(others)})" if others else backbone


def split_name(task: str, split: str) -> str:
    """A task and its split, in words."""
    return f"{'average of the seven tasks' if task == 'Avg' else task}, {split}"
