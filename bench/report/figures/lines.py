"""Figures with lines: over a swept value, training steps, layers, or batch sizes."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from bench.report.figures.described import PaperFigure
from bench.report.figures.labels import counted, place_of, series_of, split_name
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
    grid,
    heading,
)

STROKE: dict[str, Any] = {"color": INK, "marker": "_", "ms": 15, "mew": 1.8, "ls": ""}
SEED: dict[str, Any] = {"marker": "_", "ms": 5, "mew": 0.7, "ls": ""}


def _handles(table: pd.DataFrame, **more: Any) -> list[Line2D]:
    return [
        Line2D([], [], **LINES[i], marker=MARKS[i], ms=4, mew=0.8, lw=1.3, label=counted(table, label), **more)
        for i, label in enumerate(series_of(table))
    ]  # fmt: skip


def draw_sweep(figure: PaperFigure, table: pd.DataFrame, title: str, note: str) -> Figure:
    """Scores against a swept value, equally spaced: every seed, a line through the means, printed
    values as strokes."""
    labels, printed = series_of(table), (table["origin"] == PRINT).any()
    handles = _handles(table, mfc="none") + (
        [Line2D([], [], **STROKE, label="printed")] if printed else []
    )
    xs = sorted(table["x"].unique())
    crowded = len(xs) > 12 and len(figure.scores) > 1
    drawn, axes = grid(
        title, note, handles, columns=len(figure.scores), height=2.3, below=BELOW + 0.12 * crowded
    )
    step = (
        72 * WIDTH * axes[0].get_position().width / len(xs)
    )  # distance between two values, in points
    stroke = STROKE | {"ms": min(STROKE["ms"], 0.7 * step)}
    for panel, (task, split) in zip(axes, figure.scores, strict=True):
        heading(panel, split_name(task, split))
        rows = table[(table["task"] == task) & (table["split"] == split)]
        panel.set_xticks(range(len(xs)), [f"{x:g}" for x in xs], rotation=90 if crowded else 0)
        panel.set_xlim(-0.6, len(xs) - 0.4)
        panel.set_xlabel(figure.x)
        panel.margins(y=0.12)
        for i, label in enumerate(labels):
            own = rows[rows["series"] == label]
            ours, print_ = own[own["origin"] == OURS], own[own["origin"] == PRINT]
            panel.plot([xs.index(x) for x in print_["x"]], print_["value"], **stroke, zorder=2)
            # Series are shifted where several have a value.
            shift = 0.22 * (i - (len(labels) - 1) / 2)
            place = {
                x: xs.index(x) + shift * (rows.loc[rows["x"] == x, "series"].nunique() > 1)
                for x in xs
            }
            means = ours.groupby("x")["value"].mean()
            panel.plot([place[x] for x in means.index], means, **LINES[i], lw=1.3, zorder=3)
            panel.plot([place[x] for x in ours["x"]], ours["value"], color=LINES[i]["color"], marker=MARKS[i], ms=3.6,
                       mew=0.8, mfc="none", ls="", zorder=4)  # fmt: skip
    axes[0].set_ylabel("Spearman x 100")
    return drawn


def draw_curves(figure: PaperFigure, table: pd.DataFrame, title: str, note: str) -> Figure:
    """Dev score against the step: mean and range over seeds, the kept checkpoints, and released
    logs."""
    backbones = list(table["backbone"].unique())
    handles: list[Artist] = [
        Line2D([], [], **LINES[i], lw=1.3, label=counted(table, label))
        for i, label in enumerate(series_of(table))
    ]
    if table["seed"].nunique() > 1:
        handles.append(Patch(color=INK, alpha=0.2, lw=0, label="all seeds"))
    handles.append(
        Line2D([], [], color=INK, marker="o", mfc="white", ms=4, ls="", label="kept checkpoint")
    )
    if (table["origin"] == PRINT).any():
        handles.append(Line2D([], [], color=INK, lw=0.9, ls=":", label="printed best step"))
    if (table["origin"] == LOG).any():
        handles.append(Line2D([], [], color=GREY, lw=0.9, label="released log (same dashes)"))
    columns = min(len(backbones), 2)
    rows = -(-len(backbones) // columns)
    headed = len({series.backbone for series in figure.series}) > 1
    drawn, axes = grid(title, note, handles, columns=columns, rows=rows, height=2.3 if rows == 1 else 1.7,
                       above=ABOVE if headed else PLAIN)  # fmt: skip
    for panel in axes[len(backbones) :]:
        panel.remove()
    for panel, backbone in zip(axes, backbones, strict=False):
        if headed:
            heading(panel, place_of(table, backbone))
        panel.set_xlabel("step")
        panel.locator_params(axis="x", nbins=12 // columns)
        for i, label in enumerate(series_of(table)):
            _curves_of(
                panel, table[(table["backbone"] == backbone) & (table["series"] == label)], i
            )
    for panel in axes[::columns]:
        panel.set_ylabel("dev, Spearman x 100")
    return drawn


def _curves_of(panel: Axes, rows: pd.DataFrame, i: int) -> None:
    ours, log = rows[rows["origin"] == OURS], rows[rows["origin"] == LOG]
    panel.plot(log["step"], log["dev"], color=GREY, ls=LINES[i]["ls"], lw=0.9, zorder=1)
    for step in rows.loc[rows["origin"] == PRINT, "step"]:
        panel.axvline(step, color=INK, lw=0.9, ls=":", zorder=1)
    ends = ours.groupby("step")["dev"].agg(["min", "max"])
    panel.fill_between(
        ends.index, ends["min"], ends["max"], color=LINES[i]["color"], alpha=0.2, lw=0, zorder=2
    )
    mean = common_mean(ours, "step", ["dev"])
    panel.plot(mean.index, mean["dev"], **LINES[i], lw=1.3, zorder=3)
    kept = ours[ours["best"].eq(True)]
    panel.plot(
        kept["step"],
        kept["dev"],
        color=LINES[i]["color"],
        marker=MARKS[i],
        mfc="white",
        ms=4,
        ls="",
        zorder=4,
    )


READINGS = {
    "cls": "[CLS]",
    "mean": "mean of the tokens",
    "without_special": "without special tokens",
    "with_special": "with special tokens",
}


def draw_layers(figure: PaperFigure, table: pd.DataFrame, title: str, note: str) -> Figure:
    """A similarity by layer, or by pair of adjacent layers, a panel per pooling: means over seeds,
    and every seed."""
    pairs = figure.kind == "setsim"
    readings = list(table["reading"].unique())
    handles = _handles(table)
    if table["seed"].nunique() > 1:
        handles.append(Line2D([], [], color=INK, **SEED, label="a seed"))
    drawn, axes = grid(title, note, handles, columns=len(readings), height=2.3)
    low, high = table["value"].min(), table["value"].max()
    room = 0.06 * (high - low) or 0.05
    layers = sorted(table["layer"].unique())
    for panel, reading in zip(axes, readings, strict=True):
        heading(panel, READINGS.get(reading, reading))
        named = layers[:: -(len(layers) // (8 if pairs else 14) + 1)][
            ::-1
        ]  # always with the last one
        panel.set_xticks(layers, minor=True)
        panel.set_xticks(
            named, [f"{layer}–{layer + 1}" if pairs else str(layer) for layer in named]
        )
        panel.set_xlabel("pair of layers" if pairs else "layer")
        panel.set_ylim(low - room, high + room)
        for i, label in enumerate(series_of(table)):
            own = table[(table["series"] == label) & (table["reading"] == reading)]
            mean = own.groupby("layer")["value"].mean()
            panel.plot(
                mean.index, mean, **LINES[i], marker=MARKS[i], ms=4, mew=0.8, lw=1.3, zorder=3
            )
            if own["seed"].nunique() > 1:
                panel.plot(own["layer"], own["value"], color=LINES[i]["color"], **SEED)
    axes[0].set_ylabel("mean cosine")
    return drawn


RANKS = ["nearest", "2nd", "3rd", "4th"]


def draw_in_batch(figure: PaperFigure, table: pd.DataFrame, title: str, note: str) -> Figure:
    """Cosines of the nearest neighbours in a batch, and of the nearest noise vectors, against the
    batch size."""
    ranks = sorted(table["rank"].unique())
    handles = [
        Line2D(
            [], [], color=INK, marker=MARKS[(rank - 1) % len(MARKS)], ms=4, ls="", label=_rank(rank)
        )
        for rank in ranks
    ]
    handles += [
        Line2D(
            [], [], **LINES[0], lw=1.3, label=counted(table.assign(series="sentences"), "sentences")
        ),
        Line2D([], [], **LINES[1], lw=1.3, label="Gaussian noise"),
    ]
    drawn, (panel,) = grid(title, note, handles, height=2.6, above=PLAIN)
    means = table.groupby(["batch", "rank"])[["sentences", "noise"]].mean()
    panel.set_xscale("log", base=2)
    sizes = sorted(table["batch"].unique())
    panel.set_xticks(sizes, [str(size) for size in sizes])
    panel.set_xticks([], minor=True)
    panel.set_xlabel("batch size")
    panel.set_ylabel("mean cosine")
    for rank in ranks:
        rows = means.xs(rank, level="rank")
        mark = {"marker": MARKS[(rank - 1) % len(MARKS)], "ms": 4, "mew": 0.8, "lw": 1.1}
        panel.plot(rows.index, rows["sentences"], **LINES[0], **mark)
        panel.plot(rows.index, rows["noise"], **LINES[1], **mark, mfc="none")
    return drawn


def _rank(rank: int) -> str:
    return RANKS[rank - 1] if rank <= len(RANKS) else f"{rank}th"
