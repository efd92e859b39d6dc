"""The tables of the papers' figures, and their texts that depend on the data."""

from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.judged.rows import FigureRow
from bench.judged.words import OURS
from bench.report.figures.style import Look, key, with_stand_ins

Series = Mapping[str, Look]  # label -> look
Sheet = Callable[..., tuple[Figure, list[Axes]]]  # `grid` with title and note


def table_of(figure: FigureRow) -> pd.DataFrame:
    """The data of a figure: a row per number or point."""
    return pd.DataFrame(figure.columns).astype({"seed": "Int64"})


def of(origin: str, table: pd.DataFrame) -> pd.DataFrame:
    """The rows of one origin."""
    return table[table["origin"] == origin]


def counted(table: pd.DataFrame, label: str) -> str:
    """The label of a series with its number of seeds, as a range if that differs between points."""
    ours = of(OURS, table[(table["series"] == label) & table["seed"].notna()])
    if ours.empty:
        return label
    counts = ours.groupby([name for name in ("backbone", "x") if name in ours])["seed"].nunique()
    least, most = counts.min(), counts.max()
    return f"{label}, n = {most}" if least == most else f"{label}, n = {least} to {most}"


def keys(table: pd.DataFrame, series: Series, **changes: Any) -> list[Artist]:
    """Legend entries of the series of a figure."""
    return [key(counted(table, label), look | changes) for label, look in series.items()]


def several_seeds(table: pd.DataFrame) -> bool:
    return bool(table["seed"].nunique() > 1)


def place_of(table: pd.DataFrame, backbone: str) -> str:
    """A backbone as printed, with its stand-in if there is one."""
    ours = of(OURS, table[table["backbone"] == backbone])
    return with_stand_ins(backbone, ours["measured_on"])
