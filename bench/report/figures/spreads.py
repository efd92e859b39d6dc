"""Figures with points, densities or matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from scipy.stats import gaussian_kde

from bench.report.figures.described import PaperFigure
from bench.report.figures.labels import counted, place_of, series_of, split_name
from bench.report.figures.measured import OURS, PRINT, common_mean
from bench.report.figures.style import (
    ABOVE,
    GREY,
    INK,
    LINES,
    MARKS,
    PALE,
    PLAIN,
    WIDTH,
    color_bar,
    grid,
    heading,
)

LOWER = "{} (lower is better)"
FEWEST_BOXED = 5  # seeds; quartiles of fewer mean little


def _hollow(i: int) -> dict[str, Any]:
    return {"color": LINES[i]["color"], "marker": MARKS[i], "mew": 0.9, "mfc": "none", "ls": ""}


def draw_seeds(figure: PaperFigure, table: pd.DataFrame, title: str, note: str) -> Figure:
    """Every seed, a panel per task; all panels span the same range in points, so that spreads can
    be compared."""
    labels = series_of(table)
    handles = [
        Line2D([], [], **_hollow(i), ms=4, label=counted(table, label))
        for i, label in enumerate(labels)
    ]
    handles.append(Line2D([], [], color=INK, lw=1.2, label="mean"))
    if (table["origin"] == PRINT).any():
        handles.append(Line2D([], [], color=GREY, lw=3, label="printed"))
    scores = [
        score
        for score in figure.scores
        if ((table["task"] == score[0]) & (table["split"] == score[1])).any()
    ]
    columns = min(len(scores), 4)
    drawn, axes = grid(title, note, handles, columns=columns, rows=-(-len(scores) // columns), height=1.5,
                       below=0.2)  # fmt: skip
    for panel in axes[len(scores) :]:
        panel.remove()
    groups = [table[(table["task"] == task) & (table["split"] == split)] for task, split in scores]
    span = 1.2 * max(max(rows["value"].max() - rows["value"].min() for rows in groups), 1.0)
    for panel, (task, split), rows in zip(axes, scores, groups, strict=False):
        heading(panel, "average, test" if task == "Avg" else split_name(task, split))
        middle = (rows["value"].max() + rows["value"].min()) / 2
        panel.set_ylim(middle - span / 2, middle + span / 2)
        panel.set_xlim(-0.6, len(labels) - 0.4)
        panel.set_xticks([])
        for i, label in enumerate(labels):
            _seeds_of(panel, rows[rows["series"] == label], i)
    for panel in axes[::columns]:
        panel.set_ylabel("Spearman x 100")
    return drawn


def _seeds_of(panel: Axes, rows: pd.DataFrame, i: int) -> None:
    ours = rows.loc[rows["origin"] == OURS, "value"]
    for value in rows.loc[rows["origin"] == PRINT, "value"]:
        panel.hlines(value, i - 0.4, i + 0.4, color=GREY, lw=3, alpha=0.7, zorder=1)
    if len(ours) >= FEWEST_BOXED:
        low, high = np.percentile(ours, [25, 75])
        panel.fill_between(
            [i - 0.28, i + 0.28], low, high, color=LINES[i]["color"], alpha=0.18, lw=0, zorder=2
        )
    if len(ours):
        panel.hlines(ours.mean(), i - 0.28, i + 0.28, color=INK, lw=1.2, zorder=4)
    panel.plot([i] * len(ours), ours, **_hollow(i), ms=4, zorder=3)


def draw_alignment(figure: PaperFigure, table: pd.DataFrame, title: str, note: str) -> Figure:
    """Alignment against uniformity: the marker is the method, its colour and the number are the
    average STS score."""
    means = table.groupby(["series", "backbone"], sort=False)[
        ["alignment", "uniformity", "average"]
    ].mean()
    labels = series_of(table)
    handles = [
        Line2D([], [], color=INK, marker=MARKS[i], mfc=PALE, ms=7, ls="", label=counted(table, label))
        for i, label in enumerate(labels)
    ]  # fmt: skip
    if len(table) > len(means):
        handles.append(Line2D([], [], color=GREY, marker=".", ms=3, ls="", label="a seed"))
    handles.append(Line2D([], [], color=GREY, lw=0.9, label="one backbone"))
    drawn, (panel,) = grid(title, note, handles, height=3.2, right=0.85, above=PLAIN)
    averages = means["average"].dropna()
    scale = ScalarMappable(
        Normalize(averages.min() - 0.1, averages.max() + 0.1) if len(averages) else Normalize(0, 1),
        "cividis",
    )
    texts = []
    for backbone, rows in means.groupby(level="backbone", sort=False):
        panel.plot(rows["uniformity"], rows["alignment"], color=GREY, lw=0.9, zorder=1)
        aside = place_of(table, backbone)
        for (label, _), point in rows.iterrows():
            i = labels.index(label)
            seeds = table[(table["series"] == label) & (table["backbone"] == backbone)]
            if len(seeds) > 1:
                panel.plot(
                    seeds["uniformity"],
                    seeds["alignment"],
                    color=GREY,
                    marker=MARKS[i],
                    ms=2,
                    ls="",
                    zorder=2,
                )
            known = pd.notna(point["average"])
            panel.plot(point["uniformity"], point["alignment"], marker=MARKS[i], ms=8, mew=0.9, mec=INK, ls="",
                       mfc=scale.to_rgba(point["average"]) if known else "white", zorder=3)  # fmt: skip
            aside_here = f"{aside} " if (label, backbone) == rows.index[0] else ""
            text = f"{aside_here}({point['average']:.1f})" if known else aside_here.strip()
            texts.append((point["uniformity"], point["alignment"], text))
    panel.margins(0.15, 0.12)
    panel.autoscale_view()  # otherwise transData is still that of an empty panel
    _place(panel, texts, table[["uniformity", "alignment"]].to_numpy())
    panel.set_xlabel(LOWER.format("uniformity"))
    panel.set_ylabel(LOWER.format("alignment"))
    if len(averages):
        color_bar(drawn, panel, scale, "average STS, test")
    return drawn


def _place(panel: Axes, texts: Sequence[tuple[float, float, str]], others: np.ndarray) -> None:
    """Annotate points, each text at the first of several positions where it overlaps no text and no
    point.

    Args:
        panel: the axes.
        texts: (x, y, text), in data coordinates.
        others: further points to keep free, of shape (n, 2).
    """
    pixel = panel.figure.dpi / 72
    points = panel.transData.transform([(x, y) for x, y, _ in texts])
    frame = panel.get_window_extent()
    marks = [
        *((x, y, 5 * pixel) for x, y in points),
        *((x, y, pixel) for x, y in panel.transData.transform(others)),
    ]
    taken = [(x - size, y - size, x + size, y + size) for x, y, size in marks]
    for (x, y), (at_x, at_y, text) in zip(points, texts, strict=True):
        width, height = 4.4 * pixel * len(text), 9 * pixel  # at 7 points
        around = [
            (0, rise, side)
            for rise in (7, -14, 17, -24, 27, -34)
            for side in ("left", "right", "center")
        ]
        spots = [(7, -3, "left"), (-7, -3, "right"), *around]
        corners = [(x + a * pixel - width * {"left": 0, "center": 0.5, "right": 1}[side], y + b * pixel)
                   for a, b, side in spots]  # fmt: skip
        boxes = [(left, bottom, left + width, bottom + height) for left, bottom in corners]
        free = [
            place
            for place, box in enumerate(boxes)
            if box[0] > frame.x0 and box[2] < frame.x1 and box[1] > frame.y0 and box[3] < frame.y1
            and not any(box[0] < b[2] and b[0] < box[2] and box[1] < b[3] and b[1] < box[3] for b in taken)
        ]  # fmt: skip
        place = next(iter(free), 0)
        taken.append(boxes[place])
        panel.annotate(text, (at_x, at_y), xytext=spots[place][:2], ha=spots[place][2],
                       textcoords="offset points", size=7, color=INK)  # fmt: skip


def draw_path(figure: PaperFigure, table: pd.DataFrame, title: str, note: str) -> Figure:
    """Alignment against uniformity at each evaluation of a training, from a hollow marker to a
    filled one."""
    backbones, labels = list(table["backbone"].unique()), series_of(table)
    handles = [
        Line2D([], [], **LINES[i], marker=MARKS[i], ms=4, lw=1.1, label=counted(table, label))
        for i, label in enumerate(labels)
    ]  # fmt: skip
    handles.append(
        Line2D([], [], color=INK, marker="o", mfc="white", ms=5, ls="", label="first selection")
    )
    handles.append(Line2D([], [], color=INK, marker="o", ms=5, ls="", label="last"))
    headed = len({series.backbone for series in figure.series}) > 1
    drawn, axes = grid(
        title, note, handles, columns=len(backbones), height=2.8, above=ABOVE if headed else PLAIN
    )
    for panel, backbone in zip(axes, backbones, strict=True):
        here = table[table["backbone"] == backbone]
        if headed:
            heading(panel, place_of(table, backbone))
        panel.margins(0.08)
        panel.locator_params(axis="x", nbins=12 // len(backbones))
        panel.set_xlabel(LOWER.format("uniformity"))
        for i, label in enumerate(labels):
            own = here[here["series"] == label]
            seeds = [seed for _, seed in own.groupby("seed", sort=False)]
            if len(seeds) > 1:
                for seed in seeds:
                    panel.plot(
                        seed["uniformity"],
                        seed["alignment"],
                        color=LINES[i]["color"],
                        lw=0.4,
                        alpha=0.45,
                    )
            path = common_mean(own, "step", ["uniformity", "alignment"])
            _path_of(panel, path["uniformity"].to_numpy(), path["alignment"].to_numpy(), i)
    axes[0].set_ylabel(LOWER.format("alignment"))
    return drawn


def _path_of(panel: Axes, x: np.ndarray, y: np.ndarray, i: int) -> None:
    if not len(x):
        return
    panel.plot(x, y, **LINES[i], lw=1.1, zorder=3)
    panel.plot(x, y, color=LINES[i]["color"], marker=".", ms=2.5, ls="", zorder=3)
    for place, face in ((0, "white"), (-1, LINES[i]["color"])):
        panel.plot(
            x[place],
            y[place],
            color=LINES[i]["color"],
            marker=MARKS[i],
            mfc=face,
            ms=6,
            mew=1,
            zorder=4,
        )


def draw_densities(figure: PaperFigure, table: pd.DataFrame, title: str, note: str) -> Figure:
    """Densities of cosines, a row per range of gold scores with the highest at the top; all on the
    same scale."""
    labels = series_of(table)
    handles = [
        Patch(facecolor=(LINES[i]["color"], 0.18), edgecolor=LINES[i]["color"], ls=LINES[i]["ls"], lw=1.2,
              label=counted(table, label))
        for i, label in enumerate(labels)
    ]  # fmt: skip
    drawn, (panel,) = grid(title, note, handles, height=3.4, left=0.95, above=PLAIN)
    low, high = table["cosine"].min(), table["cosine"].max()
    xs = np.linspace(low - 0.08 * (high - low) - 0.01, high + 0.08 * (high - low) + 0.01, 400)
    curves = {
        key: _density(rows["cosine"].to_numpy(), xs)
        for key, rows in table.groupby(["group", "series"], sort=True)
    }
    tallest = max(curve.max() for curve in curves.values()) or 1.0
    means = table.groupby(["group", "series"])["cosine"].mean()
    for (group, label), curve in curves.items():
        i, line = labels.index(label), LINES[labels.index(label)]
        heights = group + 1.15 * curve / tallest
        order = 10 - group
        panel.fill_between(xs, group, heights, color=line["color"], alpha=0.18, lw=0, zorder=order)
        panel.plot(xs, heights, **line, lw=1.1, zorder=order + 0.5)
        panel.plot(
            [means[group, label]] * 2,
            [group - 0.13, group - 0.02],
            color=line["color"],
            lw=1.6,
            zorder=order + 0.6,
        )
        panel.plot(
            means[group, label],
            group - 0.13,
            color=line["color"],
            marker=MARKS[i],
            ms=3,
            zorder=order + 0.6,
        )
    counts = table.drop_duplicates(["series", "seed"])[["series", "seed"]].iloc[0]
    one = table[
        (table["series"] == counts["series"])
        & (table["seed"].eq(counts["seed"]) | table["seed"].isna())
    ]
    sizes = one["group"].value_counts()
    ends = ["0 to 1", "1 to 2", "2 to 3", "3 to 4", "4 to 5"]
    panel.set_yticks(
        range(5), [f"{name}\n{sizes.get(group, 0)} pairs" for group, name in enumerate(ends)]
    )
    panel.set_ylim(-0.3, 5.3)
    panel.set_xlim(xs[0], xs[-1])
    panel.set_ylabel("gold score")
    panel.set_xlabel("cosine")
    return drawn


def _density(values: np.ndarray, xs: np.ndarray) -> np.ndarray:
    """Kernel density estimate (Gaussian kernel, Scott's bandwidth); zero with fewer than two
    distinct values."""
    if len(np.unique(values)) < 2:
        return np.zeros_like(xs)
    return np.asarray(gaussian_kde(values)(xs))


def draw_tokens(figure: PaperFigure, table: pd.DataFrame, title: str, note: str) -> Figure:
    """The cosines between the tokens of one sentence as matrices, side by side on the same colour
    scale."""
    labels = series_of(table)
    sizes = [table.loc[table["series"] == label, "row"].max() + 1 for label in labels]
    widest = max((len(token) for token in table["token"]), default=1)
    room = min(0.062 * widest + 0.12, 1.1)
    side = min((WIDTH - 2 * room - 0.95) / 2, 2.6)
    rest = WIDTH - len(labels) * (side + room + 0.1)  # the margin that few or small matrices leave
    drawn, axes = grid(title, note, [], columns=len(labels), height=side, left=room + 0.1, right=rest, below=room,
                       gap=room + 0.1)  # fmt: skip
    scale = Normalize(np.floor(10 * table["cosine"].min()) / 10, 1)
    for panel, label, size in zip(axes, labels, sizes, strict=True):
        rows = table[table["series"] == label]
        matrix = rows.pivot(index="row", columns="column", values="cosine").to_numpy()
        panel.grid(visible=False)
        panel.imshow(matrix, norm=scale, cmap="cividis", interpolation="nearest")
        words = rows.drop_duplicates("row")["token"]
        small = max(3.5, min(7.0, 150 / size))
        panel.set_xticks(range(size), words, rotation=90, size=small)
        panel.set_yticks(range(size), words, size=small)
        panel.tick_params(length=0)
        heading(panel, f"{label}, layer {rows['layer'].iloc[0]}")
    color_bar(drawn, axes[-1], ScalarMappable(scale, "cividis"), "cosine")
    return drawn
