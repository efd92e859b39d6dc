"""Figures with lines: over a swept value, training steps, layers, or batch sizes."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from bench.report.figures.described import PaperFigure
from bench.report.figures.labels import counted, headed, place_of, series_of, split_name
from bench.report.figures.measured import LOG, OURS, PRINT, common_mean
from bench.report.figures.style import (
    ABOVE,
    BELOW,
    GREY,
    INK,
    LINES,
    MARKS,
    PLAIN,
    WIDTH,
    SeriesLook,
    grid,
    heading,
    key,
    looks,
)

STROKE: dict[str, Any] = {"color": INK, "marker": "_", "ms": 15, "mew": 1.8, "ls": ""}
SEED: dict[str, Any] = {"marker": "_", "ms": 5, "mew": 0.7, "ls": ""}


MARKED: dict[str, Any] = {"ms": 4, "mew": 0.8, "lw": 1.3}  # lines with markers


def draw_sweep(figure: PaperFigure, table: pd.DataFrame, title: str, note: str) -> Figure:
    """Scores against a swept value, equally spaced: every seed, a line through the means, printed
    values as strokes."""
    labels = series_of(table)
    series = looks(labels)
    several = table[table["origin"] == OURS].groupby("series")["x"].nunique() > 1
    handles = [
        key(
            counted(table, label),
            (look.marked_line if several[label] else look.points) | MARKED | {"mfc": "none"},
        )
        for label, look in series.items()
    ]
    if (table["origin"] == PRINT).any():
        handles.append(key("printed", STROKE))
    xs = sorted(table["x"].unique())
    at = {x: place for place, x in enumerate(xs)}
    panels = len(figure.scores)
    crowded = len(xs) > 12 and panels > 1
    below = BELOW + 0.12 * crowded
    drawn, axes = grid(title, note, handles, count=panels, height=2.3, below=below)
    step = 72 * WIDTH * axes[0].get_position().width / len(xs)  # between two values, in points
    stroke = STROKE | {"ms": min(STROKE["ms"], 0.7 * step)}
    for panel, (task, split) in zip(axes, figure.scores, strict=True):
        heading(panel, split_name(task, split))
        rows = table[(table["task"] == task) & (table["split"] == split)]
        shared = rows.groupby("x")["series"].nunique() > 1
        panel.set_xticks(range(len(xs)), [f"{x:g}" for x in xs], rotation=90 if crowded else 0)
        panel.set(xlim=(-0.6, len(xs) - 0.4), xlabel=figure.x, ymargin=0.12)
        for i, (label, look) in enumerate(series.items()):
            own = rows[rows["series"] == label]
            ours, print_ = own[own["origin"] == OURS], own[own["origin"] == PRINT]
            panel.plot(print_["x"].map(at), print_["value"], **stroke, zorder=2)
            # Series are shifted where several have a value.
            shift = 0.22 * (i - (len(labels) - 1) / 2)
            place = {x: at[x] + shift * shared[x] for x in own["x"].unique()}
            means = ours.groupby("x")["value"].mean()
            panel.plot(means.index.map(place), means, **look.line, lw=1.3, zorder=3)
            mark = look.points | {"ms": 3.6, "mew": 0.8, "mfc": "none"}
            panel.plot(ours["x"].map(place), ours["value"], **mark, zorder=4)
    axes[0].set_ylabel("Spearman x 100")
    return drawn


def draw_curves(figure: PaperFigure, table: pd.DataFrame, title: str, note: str) -> Figure:
    """Dev score against the step: mean and range over seeds, the kept checkpoints, and released
    logs."""
    backbones, series = table["backbone"].unique(), looks(series_of(table))
    handles: list[Artist] = [
        key(counted(table, label), look.line, lw=1.3) for label, look in series.items()
    ]
    if table["seed"].nunique() > 1:
        handles.append(Patch(color=INK, alpha=0.2, lw=0, label="all seeds"))
    if (table["best"].eq(True) & (table["origin"] == OURS)).any():
        handles.append(key("kept checkpoint", color=INK, marker="o", mfc="white", ms=4, ls=""))
    if (table["origin"] == PRINT).any():
        handles.append(key("printed best step", color=INK, lw=0.9, ls=":"))
    if (table["origin"] == LOG).any():
        handles.append(key("released log (same dashes)", color=GREY, lw=0.9))
    count, columns = len(backbones), min(len(backbones), 2)
    height, above = 2.3 if count <= columns else 1.7, ABOVE if headed(figure) else PLAIN
    drawn, axes = grid(
        title, note, handles, count=count, columns=columns, height=height, above=above
    )
    for panel, backbone in zip(axes, backbones, strict=True):
        if headed(figure):
            heading(panel, place_of(table, backbone))
        panel.set_xlabel("step")
        panel.locator_params(axis="x", nbins=12 // columns)
        rows = table[table["backbone"] == backbone]
        for label, look in series.items():
            _curves_of(panel, rows[rows["series"] == label], look)
    for panel in axes[::columns]:
        panel.set_ylabel("dev, Spearman x 100")
    return drawn


def _curves_of(panel: Axes, rows: pd.DataFrame, look: SeriesLook) -> None:
    ours, log = rows[rows["origin"] == OURS], rows[rows["origin"] == LOG]
    panel.plot(log["step"], log["dev"], color=GREY, ls=look.ls, lw=0.9, zorder=1)
    for step in rows.loc[rows["origin"] == PRINT, "step"]:
        panel.axvline(step, color=INK, lw=0.9, ls=":", zorder=1)
    ends = ours.groupby("step")["dev"].agg(["min", "max"])
    shade = {"color": look.color, "alpha": 0.2, "lw": 0}
    panel.fill_between(ends.index, ends["min"], ends["max"], **shade, zorder=2)
    mean = common_mean(ours, "step", ["dev"])
    panel.plot(mean.index, mean["dev"], **look.line, lw=1.3, zorder=3)
    kept = ours[ours["best"].eq(True)]
    panel.plot(kept["step"], kept["dev"], **look.points, mfc="white", ms=4, zorder=4)


READINGS = {
    "cls": "[CLS]",
    "mean": "mean of the tokens",
    "without_special": "without special tokens",
    "with_special": "with special tokens",
}


def draw_layers(figure: PaperFigure, table: pd.DataFrame, title: str, note: str) -> Figure:
    """A similarity by layer, or by pair of adjacent layers, a panel per pooling: means over seeds,
    and every seed."""
    pairs, series = figure.kind == "setsim", looks(series_of(table))
    readings = table["reading"].unique()
    handles = [
        key(counted(table, label), look.marked_line | MARKED) for label, look in series.items()
    ]
    if table["seed"].nunique() > 1:
        handles.append(key("a seed", SEED, color=INK))
    drawn, axes = grid(title, note, handles, count=len(readings), height=2.3)
    low, high = table["value"].min(), table["value"].max()
    room = 0.06 * (high - low) or 0.05
    layers = sorted(table["layer"].unique())
    every = len(layers) // (8 if pairs else 14) + 1
    named = layers[::-every][::-1]  # always with the last one
    names = [f"{layer}–{layer + 1}" if pairs else str(layer) for layer in named]
    for panel, reading in zip(axes, readings, strict=True):
        heading(panel, READINGS.get(reading, reading))
        panel.set_xticks(layers, minor=True)
        panel.set_xticks(named, names)
        panel.set(xlabel="pair of layers" if pairs else "layer", ylim=(low - room, high + room))
        for label, look in series.items():
            own = table[(table["series"] == label) & (table["reading"] == reading)]
            mean = own.groupby("layer")["value"].mean()
            panel.plot(mean.index, mean, **look.marked_line, **MARKED, zorder=3)
            if own["seed"].nunique() > 1:
                panel.plot(own["layer"], own["value"], color=look.color, **SEED)
    axes[0].set_ylabel("mean cosine")
    return drawn


RANKS = ["nearest", "2nd", "3rd"]


def draw_in_batch(figure: PaperFigure, table: pd.DataFrame, title: str, note: str) -> Figure:
    """Cosines of the nearest neighbours in a batch, and of the nearest noise vectors, against the
    batch size."""
    marks = {rank: MARKS[(rank - 1) % len(MARKS)] for rank in sorted(table["rank"].unique())}
    names = {rank: RANKS[rank - 1] if rank <= len(RANKS) else f"{rank}th" for rank in marks}
    sentences = counted(table.assign(series="sentences"), "sentences")
    handles = [
        *(key(names[rank], color=INK, marker=mark, ms=4, ls="") for rank, mark in marks.items()),
        key(sentences, LINES[0], lw=1.3),
        key("Gaussian noise", LINES[1], lw=1.3),
    ]
    drawn, (panel,) = grid(title, note, handles, height=2.6, above=PLAIN)
    means = table.groupby(["batch", "rank"])[["sentences", "noise"]].mean()
    panel.set_xscale("log", base=2)
    sizes = sorted(table["batch"].unique())
    panel.set_xticks(sizes, [str(size) for size in sizes])
    panel.set_xticks([], minor=True)
    panel.set(xlabel="batch size", ylabel="mean cosine")
    for rank, mark in marks.items():
        rows, look = means.xs(rank, level="rank"), {"marker": mark, "ms": 4, "mew": 0.8, "lw": 1.1}
        panel.plot(rows.index, rows["sentences"], **LINES[0], **look)
        panel.plot(rows.index, rows["noise"], **LINES[1], **look, mfc="none")
    return drawn
