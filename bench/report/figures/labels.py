"""Texts of legends, titles and headings that depend on a figure's data."""

from __future__ import annotations

import pandas as pd

from bench.report.figures.described import PaperFigure
from bench.report.figures.measured import OURS
from bench.results.records import with_stand_ins


def series_of(table: pd.DataFrame) -> list[str]:
    """The labels of a figure's series, in order."""
    return list(table["series"].unique())


def counted(table: pd.DataFrame, label: str) -> str:
    """The label of a series with its number of seeds, as a range if that differs between points."""
    ours = table[(table["series"] == label) & (table["origin"] == OURS) & table["seed"].notna()]
    if ours.empty:
        return label
    counts = ours.groupby([name for name in ("backbone", "x") if name in ours])["seed"].nunique()
    least, most = counts.min(), counts.max()
    return f"{label}, n = {most}" if least == most else f"{label}, n = {least} to {most}"


def headed(figure: PaperFigure) -> bool:
    """Whether panels name their backbones, since there are several; otherwise the title does."""
    return len({series.backbone for series in figure.series}) > 1


def place_of(table: pd.DataFrame, backbone: str) -> str:
    """A backbone as printed, with its stand-in if there is one."""
    ours = table[(table["backbone"] == backbone) & (table["origin"] == OURS)]
    return with_stand_ins(backbone, ours["measured_on"])


def split_name(task: str, split: str) -> str:
    return f"{'average of the seven tasks' if task == 'Avg' else task}, {split}"
