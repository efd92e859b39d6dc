"""The papers' figures, redrawn from a suite's own measurements: as lines, points or cells."""

from collections.abc import Callable, Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.judged.rows import NO_BACKBONE, FigureRow, Heading
from bench.judged.verdicts import LOG, OURS, PRINT
from bench.report.figures.style import (
    GREY,
    INK,
    PRINTED_LOOK,
    SERIES,
    WIDTH,
    Look,
    add_texts,
    with_stand_ins,
)

Looks = dict[str, Look]  # of series, by their label

SEED: Look = {"ms": 5, "lw": 0.4, "alpha": 0.7, "mfc": "none", "label": "a seed", "zorder": 2}
MEAN: Look = {"markevery": [-1], "zorder": 3}
PRINTED: Look = PRINTED_LOOK | {"marker": "_", "ms": 11, "zorder": 1}
PRINTED_STEP: Look = {
    "color": INK, "lw": 0.9, "ls": ":", "label": "printed best step", "zorder": 1,
}  # fmt: skip
RELEASED: Look = {
    "color": GREY, "lw": 0.9, "marker": "", "label": "released log (same dashes)", "zorder": 1,
}  # fmt: skip


def table_of(figure: FigureRow) -> pd.DataFrame:
    """The data of a figure: a row per point."""
    return pd.DataFrame(figure.points).astype({"seed": "Int64"})


def looks(table: pd.DataFrame) -> Looks:
    """The look of each series of a figure. Its label has the number of seeds, as a range if that
    differs between runs."""
    series = {}
    for label, rows in table[table["origin"] == OURS].groupby("series", sort=False):
        counts = rows.groupby(["backbone", "run"])["seed"].nunique()
        ends = sorted({counts.min(), counts.max()})
        # No seed was counted: the runs of the series are not trained.
        text = label if ends == [0] else f"{label}, n = {' to '.join(map(str, ends))}"
        series[label] = SERIES[label] | {"label": text}
    return series


def grid(picture: Figure, figure: FigureRow, headings: Sequence[str]) -> dict[str, Axes]:
    """The panels of a picture by heading, row by row; the picture gets its size. Panels share their
    range of values, so that panels can be compared."""
    columns = min(figure.columns, len(headings))
    rows = -(-len(headings) // columns)
    picture.set_size_inches(WIDTH, rows * (1 + 3.8 / figure.columns))
    axes = picture.subplots(rows, columns, sharey=True, squeeze=False)
    for panel in axes[:, 0]:
        panel.set_ylabel(figure.y)
    panels = dict(zip(headings, axes.flat, strict=False))
    for heading, panel in panels.items():
        panel.set(title=heading, xlabel=figure.x)
    for panel in axes.flat[len(panels) :]:
        panel.remove()
    return panels


def means(rows: pd.DataFrame) -> pd.DataFrame:
    """Means over seeds, where all seeds of a run have a point: elsewhere the mean would jump as
    seeds drop out."""
    seeds = rows.groupby("run")["seed"].transform("nunique")
    groups = rows.assign(seeds=seeds).groupby("at")
    values = groups[["x", "value", "score", "seeds"]].mean()
    return values[groups["seed"].nunique() == values["seeds"]]


def _draw(picture: Figure, figure: FigureRow, table: pd.DataFrame, series: Looks) -> None:
    """A thin line for each seed with a hollow mark at its kept checkpoint, a line of means that
    ends in a filled mark, and the printed values."""
    panels = grid(picture, figure, table["panel"].unique())
    for (name, label, origin), rows in table.groupby(["panel", "series", "origin"], sort=False):
        panel, look = panels[name], series[label]
        if origin == PRINT and rows["value"].isna().all():
            for step in rows["x"]:
                panel.axvline(step, **PRINTED_STEP)
        elif origin == PRINT:
            panel.plot(rows["x"], rows["value"], **PRINTED)
        elif origin == LOG:
            if len(rows) > 1:  # a single point is no line, and would stretch the axis
                panel.plot(rows["x"], rows["value"], **RELEASED | {"ls": look["ls"]})
        else:
            for _, of_seed in rows.groupby("seed", dropna=False):
                kept = of_seed["kept"].eq(True).to_list()
                panel.plot(of_seed["x"], of_seed["value"], **look | SEED, markevery=kept)
            # Only the mean has a number at its end; one per seed would cover the lines.
            mean = means(rows)
            panel.plot(mean["x"], mean["value"], **look | MEAN)
            *place, score = mean[["x", "value", "score"]].iloc[-1]
            if pd.notna(score):
                panel.annotate(f"{score:.1f}", place, (8, 4), textcoords="offset points")


def draw_lines(picture: Figure, figure: FigureRow, table: pd.DataFrame, series: Looks) -> None:
    """Lines up to our last x: printed lines go on, and would squeeze ours into a corner."""
    end = table.loc[table["origin"] == OURS, "x"].max()
    near = table[table["x"] <= end]
    _draw(picture, figure, near.assign(at=near["at"].fillna(near["x"])), series)


def draw_points(picture: Figure, figure: FigureRow, table: pd.DataFrame, series: Looks) -> None:
    """Points at equally spaced x, which have a mark each."""
    xs = [*table["x"].unique()]
    places = table["x"].map(xs.index)
    _draw(picture, figure, table.assign(x=places, at=places, kept=True), series)
    for panel in picture.axes:
        panel.set_xticks(range(len(xs)), xs)
        panel.set_xlim(-0.5, len(xs) - 0.5)


def draw_cells(picture: Figure, figure: FigureRow, table: pd.DataFrame, series: Looks) -> None:
    """A matrix of cosines for each series, means over seeds, on one scale of colours."""
    parts = table.groupby(["series", "panel"], sort=False)
    headings = [f"{series[label]['label']}, {panel}" for label, panel in parts.groups]
    axes = [*grid(picture, figure, headings).values()]
    picture.set_figheight(3.4)  # a row of squares with names below
    for panel, (_, rows) in zip(axes, parts, strict=True):
        matrix, words = rows.pivot_table("value", "y", "x"), rows.drop_duplicates("x")["token"]
        image = panel.imshow(matrix, vmin=table["value"].min(), vmax=1, cmap="cividis")
        panel.grid(visible=False)
        panel.set_xticks(matrix.columns, words, rotation=90, size=6)
        panel.set_yticks(matrix.index, words, size=6)
    picture.colorbar(image, ax=axes, fraction=0.03, aspect=30, label="cosine")


DRAW: dict[str, Callable[[Figure, FigureRow, pd.DataFrame, Looks], None]] = {
    "lines": draw_lines,
    "points": draw_points,
    "cells": draw_cells,
}


def draw(heading: Heading, figure: FigureRow) -> Figure:
    """A figure with a note: how it was measured, and why it cannot be compared with the paper."""
    picture, table, title = Figure(layout="constrained"), table_of(figure), figure.heading
    places = {
        backbone: with_stand_ins(backbone, rows["measured_on"])
        for backbone, rows in table.groupby("backbone", sort=False)
        if backbone != NO_BACKBONE
    }
    if len(places) > 1:  # a panel for each
        table["panel"] = table["backbone"].map(places)
    else:
        title = ", ".join([title, *places.values()])
    DRAW[figure.drawn](picture, figure, table, looks(table))
    add_texts(
        picture, title, [figure.note, *figure.remarks, heading.remark_on(table["measured_on"])]
    )
    return picture
