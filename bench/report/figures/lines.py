"""The papers' figures of lines: over a swept value, seeds, layers or batch sizes, which share one
drawing, and of trainings; and texts of all of the papers' figures."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from bench.judged.rows import FigureRow
from bench.judged.words import LOG, OURS, PRINT
from bench.report.figures.style import (
    ALIGNMENT,
    GREY,
    INK,
    LINE,
    POINTS,
    Look,
    key,
    looks,
    seen,
    with_stand_ins,
)

Series = Mapping[str, Look]  # label -> look
Sheet = Callable[..., tuple[Figure, list[Axes]]]  # `grid` with title and note

# --- Texts that depend on a figure's data ---


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


# --- Lines over a swept value, seeds, layers, or batch sizes ---

SCORE, COSINE = "Spearman x 100", "mean cosine"
READINGS = {
    "cls": "[CLS]",
    "mean": "mean of the tokens",
    "without_special": "without special tokens",
    "with_special": "with special tokens",
}
RANKS = {1: "nearest", 2: "2nd", 3: "3rd"}
FEWEST_BOXED = 5  # seeds; quartiles of fewer mean little

PRINTED_STROKE: Look = {"color": INK, "marker": "_", "mew": 1.8, "ls": ""}
MEAN_STROKE: Look = {"marker": "_", "ms": 15, "mew": 1, "ls": ""}  # where there is no line
HOLLOW: Look = {"ms": 3.8, "mew": 0.9, "mfc": "none"}


def as_lines(points: pd.DataFrame, series: Series) -> Series:
    """The looks of series, without a line where ours have a single x."""
    counts = of(OURS, points).groupby("series")["x"].nunique()
    return {label: look if counts[label] > 1 else look | POINTS for label, look in series.items()}


def draw_lines(
    points: pd.DataFrame,
    series: Series,
    sheet: Sheet,
    *,
    shift: "pd.Series[float] | float" = 0.0,
    tick: str = "{:g}",
    columns: int = 2,
    height: float = 2.9,
    **labels: str,
) -> tuple[Figure, dict[str, Axes]]:
    """Every seed over x, equally spaced, a line through the means of each series, and printed
    values as strokes.

    Args:
        points: has the columns `panel` (its heading), `series`, `x`, `value`, `origin` and `seed`.
        shift: of our points along x, where 1 is the distance of two neighbours.
        tick: the form of the text of an x, which may name the next as well.
        columns, height, labels: as of `grid`. Panels of cosines share their range.

    Returns:
        The figure, and its panels by heading.
    """
    xs, series = sorted(points["x"].unique()), as_lines(points, series)
    handles = keys(points, series, lw=1.3, **HOLLOW) + seen(
        ([not look["ls"] for look in series.values()], key("mean", MEAN_STROKE, color=INK)),
        (points["origin"] == PRINT, key("printed", PRINTED_STROKE, ms=15)),
    )
    names = list(points["panel"].unique())
    columns = min(len(names), columns)
    drawn, axes = sheet(handles, names, columns=columns, height=height, **labels)
    panels = dict(zip(names, axes, strict=True))
    if labels["ylabel"] == COSINE:
        for panel in axes[1:]:
            panel.sharey(axes[0])
    points = points.assign(at=points["x"].map(xs.index) + shift)
    stroke = PRINTED_STROKE | {"ms": min(15, 320 / len(xs) / columns)}  # strokes do not touch
    for (name, label), rows in points.groupby(["panel", "series"], sort=False):
        panel, look = panels[name], series[label]
        ours, printed = of(OURS, rows), of(PRINT, rows)
        panel.plot(printed["at"], printed["value"], **stroke, zorder=2)
        means = ours.groupby("at")["value"].mean()
        mean = look | LINE | {"lw": 1.3} if look["ls"] else look | MEAN_STROKE
        panel.plot(means.index, means, **mean, zorder=3)
        panel.plot(ours["at"], ours["value"], **look | POINTS | HOLLOW, zorder=4)
    ticks = [tick.format(x, x + 1) for x in xs]
    every = sum(map(len, ticks)) // (60 // columns) + 1  # as many as have room
    named = range(len(xs))[::-every][::-1]  # always with the last
    for panel in axes:
        panel.set(xlim=(-0.6, len(xs) - 0.4), ymargin=0.12)
        panel.set_xticks(named, [ticks[number] for number in named])
    return drawn, panels


def scores_of(table: pd.DataFrame) -> pd.DataFrame:
    """Scores with their panel, one for each task and split."""
    tasks = table["task"].replace("Avg", "STS average")
    return table.assign(panel=tasks + ", " + table["split"])


def draw_sweep(figure: FigureRow, table: pd.DataFrame, series: Series, sheet: Sheet) -> Figure:
    """Scores over a swept value. Our series are side by side where several have a value."""
    several = table.groupby("x")["series"].transform("nunique") > 1
    order = table["series"].map(list(series).index) - (len(series) - 1) / 2
    shift = 0.22 * order * (several & (table["origin"] != PRINT))
    points = scores_of(table)
    return draw_lines(points, series, sheet, shift=shift, xlabel=figure.x, ylabel=SCORE)[0]


def draw_seeds(figure: FigureRow, table: pd.DataFrame, series: Series, sheet: Sheet) -> Figure:
    """Scores of every seed, the series side by side, with a box between quartiles. All panels have
    the same range in points, so that spreads can be compared."""
    points = scores_of(table).assign(x=pd.factorize(table["series"])[0])
    drawn, panels = draw_lines(points, series, sheet, columns=4, height=1.8, ylabel=SCORE)
    ours = of(OURS, points)
    for (name, label), rows in ours.groupby(["panel", "series"], sort=False):
        if len(rows) >= FEWEST_BOXED:
            box, middle = np.percentile(rows["value"], [25, 75]), rows["x"].iloc[0]
            shade = {"color": series[label]["color"], "alpha": 0.18, "lw": 0}
            panels[name].fill_between((middle - 0.28, middle + 0.28), *box, **shade)
    ends = np.array([panel.dataLim.intervaly for panel in drawn.axes])
    half = 0.6 * (np.ptp(ends, axis=1).max() or 1.0)
    for panel, middle in zip(drawn.axes, ends.mean(axis=1), strict=True):
        panel.set(xticks=[], ylim=(middle - half, middle + half))
    return drawn


def draw_layers(figure: FigureRow, table: pd.DataFrame, series: Series, sheet: Sheet) -> Figure:
    """Similarity by layer, or of the layers of a pair."""
    points = table.assign(panel=table["reading"].replace(READINGS), x=table["layer"])
    xlabel, tick = "layer", "{}"
    if figure.kind == "setsim":
        xlabel, tick = "pair of layers", "{}–{}"
    return draw_lines(points, series, sheet, tick=tick, xlabel=xlabel, ylabel=COSINE)[0]


def draw_batches(figure: FigureRow, table: pd.DataFrame, series: Series, sheet: Sheet) -> Figure:
    """Similarity of neighbours by batch size, a series per rank."""
    ranks = {rank: RANKS.get(rank, f"{rank}th") for rank in table["rank"].unique()}
    points = table.assign(series=table["rank"].map(ranks), x=table["batch"])
    points = points.rename(columns={"noise": "Gaussian noise"})
    names, kept = ["sentences", "Gaussian noise"], ["series", "x", "origin", "seed"]
    points = points.melt(kept, names, var_name="panel")
    own = looks(list(ranks.values()))
    return draw_lines(points, own, sheet, xlabel="batch size", ylabel=COSINE)[0]


# --- Trainings ---

BEST_STEP: Look = {"color": INK, "lw": 0.9, "ls": ":"}


def panels_of(
    figure: FigureRow, table: pd.DataFrame, sheet: Sheet, handles: Sequence[Artist], **labels: Any
) -> tuple[Figure, dict[str, Axes]]:
    """A figure with a panel per backbone, and its panels by backbone. If there is only one, the
    title names it."""
    several = len({series.backbone for series in figure.series}) > 1
    names = table["backbone"].unique()
    headings = [place_of(table, name) if several else "" for name in names]
    drawn, axes = sheet(handles, headings, **labels)
    return drawn, dict(zip(names, axes, strict=True))


def common_mean(rows: pd.DataFrame, values: list[str]) -> pd.DataFrame:
    """Means over seeds, at the steps that all seeds have: elsewhere the mean would jump as seeds
    drop out."""
    groups = rows.groupby("step")
    return groups[values].mean()[groups["seed"].nunique() == rows["seed"].nunique()]


def draw_curves(figure: FigureRow, table: pd.DataFrame, series: Series, sheet: Sheet) -> Figure:
    """Dev score against the step: mean and range over seeds, the kept checkpoints, the printed best
    step, and a released log."""
    points = table.assign(x=table["step"])
    handles = keys(points, as_lines(points, series), lw=1.3, **HOLLOW) + seen(
        (several_seeds(points), Patch(color=INK, alpha=0.2, lw=0, label="all seeds")),
        (of(OURS, points)["best"], key("kept checkpoint", HOLLOW, color=INK, marker="o", ls="")),
        (points["origin"] == PRINT, key("printed best step", BEST_STEP)),
        (points["origin"] == LOG, key("released log (same dashes)", color=GREY, lw=0.9)),
    )
    labels = {"xlabel": "step", "ylabel": "dev, Spearman x 100"}
    drawn, panels = panels_of(figure, table, sheet, handles, height=2.6, **labels)
    for (backbone, label), rows in points.groupby(["backbone", "series"], sort=False):
        panel, look = panels[backbone], series[label]
        own, log = of(OURS, rows), of(LOG, rows)
        panel.plot(log["step"], log["dev"], color=GREY, ls=look["ls"], lw=0.9, zorder=1)
        for step in of(PRINT, rows)["step"]:
            panel.axvline(step, **BEST_STEP, zorder=1)
        ends = own.groupby("step")["dev"].agg(["min", "max"])
        shade = {"color": look["color"], "alpha": 0.2, "lw": 0}
        panel.fill_between(ends.index, ends["min"], ends["max"], **shade, zorder=2)
        mean = common_mean(own, ["dev"])
        panel.plot(mean.index, mean, **look | LINE, lw=1.3, zorder=3)
        best = own[own["best"].eq(True)]
        panel.plot(best["step"], best["dev"], **look | POINTS | HOLLOW, zorder=4)
    return drawn


def draw_path(figure: FigureRow, table: pd.DataFrame, series: Series, sheet: Sheet) -> Figure:
    """Alignment against uniformity at each evaluation of a training, from a hollow marker to a
    filled one."""
    handles = [
        *keys(table, series, ms=4, lw=1.1),
        *seen((several_seeds(table), key("a seed", color=INK, lw=0.4, alpha=0.45))),
        key("first selection", color=INK, marker="o", mfc="white", ms=5, ls=""),
        key("last", color=INK, marker="o", ms=5, ls=""),
    ]
    drawn, panels = panels_of(figure, table, sheet, handles, height=3.4, **ALIGNMENT)
    for (backbone, label), rows in table.groupby(["backbone", "series"], sort=False):
        panel, look = panels[backbone], series[label]
        if several_seeds(rows):
            thin = {"color": look["color"], "lw": 0.4, "alpha": 0.45}
            for _, seed in rows.groupby("seed", sort=False):
                panel.plot(seed["uniformity"], seed["alignment"], **thin)
        mean = common_mean(rows, ["uniformity", "alignment"])
        path = mean["uniformity"], mean["alignment"]
        panel.plot(*path, **look | LINE, lw=1.1, zorder=3)
        panel.plot(*path, color=look["color"], marker=".", ms=2.5, ls="", zorder=3)
        mark = look | POINTS | {"ms": 6, "mew": 1}
        panel.plot(*mean.iloc[0], **mark | {"mfc": "white"}, zorder=4)
        panel.plot(*mean.iloc[-1], **mark, zorder=4)
        panel.margins(0.08)
    return drawn
