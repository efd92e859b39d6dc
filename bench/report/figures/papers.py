"""The papers' figures, redrawn from a suite's own measurements: a function for each kind."""

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from scipy.stats import gaussian_kde

from bench.report.figures.described import PaperFigure, load_figures
from bench.report.figures.measured import (
    BOUNDS,
    LOG,
    OURS,
    PRINT,
    FigureData,
    common_mean,
    figure_data,
)
from bench.report.figures.style import (
    BELOW,
    GREY,
    INK,
    LINES,
    MARKS,
    PALE,
    WIDTH,
    SeriesLook,
    color_bar,
    grid,
    key,
    looks,
)
from bench.results.records import with_stand_ins
from bench.results.suite_results import SuiteResults

# --- Texts that depend on a figure's data ---


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


def headings(figure: PaperFigure, table: pd.DataFrame) -> list[str]:
    """Of the panels of a figure that has one per backbone."""
    names = [place_of(table, backbone) for backbone in table["backbone"].unique()]
    return names if headed(figure) else [""] * len(names)


def split_name(task: str, split: str) -> str:
    return f"{'average of the seven tasks' if task == 'Avg' else task}, {split}"


# --- Lines: over a swept value, training steps, layers, or batch sizes ---

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
    crowded = len(xs) > 12 and len(figure.scores) > 1
    drawn, axes = grid(
        title, note, handles, [split_name(*score) for score in figure.scores], height=2.3,
        below=BELOW + 0.12 if crowded else BELOW, xlabel=figure.x, ylabel="Spearman x 100",
    )  # fmt: skip
    step = 72 * WIDTH * axes[0].get_position().width / len(xs)  # between two values, in points
    stroke = STROKE | {"ms": min(STROKE["ms"], 0.7 * step)}
    for panel, (task, split) in zip(axes, figure.scores, strict=True):
        rows = table[(table["task"] == task) & (table["split"] == split)]
        shared = rows.groupby("x")["series"].nunique() > 1
        panel.set_xticks(range(len(xs)), [f"{x:g}" for x in xs], rotation=90 if crowded else 0)
        panel.set(xlim=(-0.6, len(xs) - 0.4), ymargin=0.12)
        for i, (label, look) in enumerate(series.items()):
            part = rows[rows["series"] == label]
            ours, printed = part[part["origin"] == OURS], part[part["origin"] == PRINT]
            panel.plot(printed["x"].map(at), printed["value"], **stroke, zorder=2)
            # Series are shifted where several have a value.
            shift = 0.22 * (i - (len(labels) - 1) / 2)
            place = {x: at[x] + shift * shared[x] for x in part["x"].unique()}
            means = ours.groupby("x")["value"].mean()
            panel.plot(means.index.map(place), means, **look.line, lw=1.3, zorder=3)
            mark = look.points | {"ms": 3.6, "mew": 0.8, "mfc": "none"}
            panel.plot(ours["x"].map(place), ours["value"], **mark, zorder=4)
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
    columns = min(len(backbones), 2)
    drawn, axes = grid(
        title, note, handles, headings(figure, table), columns=columns,
        height=2.3 if len(backbones) <= columns else 1.7,
        xlabel="step", ylabel="dev, Spearman x 100",
    )  # fmt: skip
    for panel, backbone in zip(axes, backbones, strict=True):
        panel.locator_params(axis="x", nbins=12 // columns)
        rows = table[table["backbone"] == backbone]
        for label, look in series.items():
            _curves_of(panel, rows[rows["series"] == label], look)
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
    drawn, axes = grid(
        title, note, handles, [READINGS.get(reading, reading) for reading in readings], height=2.3,
        xlabel="pair of layers" if pairs else "layer", ylabel="mean cosine",
    )  # fmt: skip
    low, high = table["value"].min(), table["value"].max()
    room = 0.06 * (high - low) or 0.05
    layers = sorted(table["layer"].unique())
    every = len(layers) // (8 if pairs else 14) + 1
    named = layers[::-every][::-1]  # always with the last one
    names = [f"{layer}–{layer + 1}" if pairs else str(layer) for layer in named]
    for panel, reading in zip(axes, readings, strict=True):
        panel.set_xticks(layers, minor=True)
        panel.set_xticks(named, names)
        panel.set_ylim(low - room, high + room)
        for label, look in series.items():
            rows = table[(table["series"] == label) & (table["reading"] == reading)]
            mean = rows.groupby("layer")["value"].mean()
            panel.plot(mean.index, mean, **look.marked_line, **MARKED, zorder=3)
            if rows["seed"].nunique() > 1:
                panel.plot(rows["layer"], rows["value"], color=look.color, **SEED)
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
    drawn, (panel,) = grid(
        title, note, handles, height=2.6, xlabel="batch size", ylabel="mean cosine"
    )
    means = table.groupby(["batch", "rank"])[["sentences", "noise"]].mean()
    panel.set_xscale("log", base=2)
    sizes = sorted(table["batch"].unique())
    panel.set_xticks(sizes, [str(size) for size in sizes])
    panel.set_xticks([], minor=True)
    for rank, mark in marks.items():
        rows, look = means.xs(rank, level="rank"), {"marker": mark, "ms": 4, "mew": 0.8, "lw": 1.1}
        panel.plot(rows.index, rows["sentences"], **LINES[0], **look)
        panel.plot(rows.index, rows["noise"], **LINES[1], **look, mfc="none")
    return drawn


# --- Points, densities and matrices ---

LOWER = "{} (lower is better)"
FEWEST_BOXED = 5  # seeds; quartiles of fewer mean little


HOLLOW: dict[str, Any] = {"ms": 4, "mew": 0.9, "mfc": "none"}


def draw_seeds(figure: PaperFigure, table: pd.DataFrame, title: str, note: str) -> Figure:
    """Every seed, a panel per task; all panels span the same range in points, so that spreads can
    be compared."""
    series = looks(series_of(table))
    handles = [key(counted(table, label), look.points, **HOLLOW) for label, look in series.items()]
    handles.append(key("mean", color=INK, lw=1.2))
    if (table["origin"] == PRINT).any():
        handles.append(key("printed", color=GREY, lw=3))
    by_score = dict(list(table.groupby(["task", "split"])))
    parts = {score: by_score[score] for score in figure.scores if score in by_score}
    names = ["average, test" if task == "Avg" else split_name(task, split) for task, split in parts]
    drawn, axes = grid(
        title, note, handles, names, columns=min(len(parts), 4), height=1.5, below=0.2,
        ylabel="Spearman x 100",
    )  # fmt: skip
    span = 1.2 * max(*(np.ptp(rows["value"]) for rows in parts.values()), 1.0)
    for panel, rows in zip(axes, parts.values(), strict=True):
        middle = (rows["value"].max() + rows["value"].min()) / 2
        panel.set(ylim=(middle - span / 2, middle + span / 2), xlim=(-0.6, len(series) - 0.4))
        panel.set_xticks([])
        for place, (label, look) in enumerate(series.items()):
            _seeds_of(panel, rows[rows["series"] == label], look, place)
    return drawn


def _seeds_of(panel: Axes, rows: pd.DataFrame, look: SeriesLook, place: int) -> None:
    ours, ends = rows.loc[rows["origin"] == OURS, "value"], (place - 0.28, place + 0.28)
    for value in rows.loc[rows["origin"] == PRINT, "value"]:
        panel.hlines(value, place - 0.4, place + 0.4, color=GREY, lw=3, alpha=0.7, zorder=1)
    if len(ours) >= FEWEST_BOXED:
        box = np.percentile(ours, [25, 75])
        panel.fill_between(ends, *box, color=look.color, alpha=0.18, lw=0, zorder=2)
    if len(ours):
        panel.hlines(ours.mean(), *ends, color=INK, lw=1.2, zorder=4)
    panel.plot([place] * len(ours), ours, **look.points, **HOLLOW, zorder=3)


def draw_alignment(figure: PaperFigure, table: pd.DataFrame, title: str, note: str) -> Figure:
    """Alignment against uniformity: the marker is the method, its colour and the number are the
    average STS score."""
    values = ["uniformity", "alignment", "average"]
    means = table.groupby(["series", "backbone"], sort=False)[values].mean()
    series = looks(series_of(table))
    big = {"color": INK, "mfc": PALE, "ms": 7, "ls": ""}
    handles = [
        key(counted(table, label), big, marker=look.marker) for label, look in series.items()
    ]
    if len(table) > len(means):
        handles.append(key("a seed", color=GREY, marker=".", ms=3, ls=""))
    if len(means) > means.index.get_level_values("backbone").nunique():
        handles.append(key("one backbone", color=GREY, lw=0.9))
    drawn, (panel,) = grid(
        title, note, handles, height=3.2, left=0.78, right=0.85,
        xlabel=LOWER.format("uniformity"), ylabel=LOWER.format("alignment"),
    )  # fmt: skip
    averages = means["average"].dropna()
    scale = ScalarMappable(None, "cividis")
    if len(averages):
        room = 0.1 if np.ptp(averages) > 1 else 0.5
        scale.set_clim(averages.min() - room, averages.max() + room)
    texts = []
    for backbone, rows in means.groupby(level="backbone", sort=False):
        panel.plot(rows["uniformity"], rows["alignment"], color=GREY, lw=0.9, zorder=1)
        name = place_of(table, backbone)
        for (label, _), (x, y, average) in rows.iterrows():
            seeds = table[(table["series"] == label) & (table["backbone"] == backbone)]
            if len(seeds) > 1:
                small = {"color": GREY, "marker": series[label].marker, "ms": 2, "ls": ""}
                panel.plot(seeds["uniformity"], seeds["alignment"], **small, zorder=2)
            mark = {"marker": series[label].marker, "ms": 8, "mew": 0.9, "mec": INK, "ls": ""}
            known = pd.notna(average)
            face = scale.to_rgba(average) if known else "white"
            panel.plot(x, y, **mark, mfc=face, zorder=3)
            texts.append((x, y, f"{name} ({average:.1f})".strip() if known else name))
            name = ""  # once for each backbone
    panel.margins(0.15, 0.12)
    panel.autoscale_view()  # otherwise transData is still that of an empty panel
    _place(panel, texts, table[["uniformity", "alignment"]].to_numpy())
    if len(averages):
        color_bar(drawn, panel, scale, "average STS, test")
    return drawn


def _place(panel: Axes, texts: Sequence[tuple[float, float, str]], others: np.ndarray) -> None:
    """Annotate points (x, y, text), each at the first of several positions where the text overlaps
    no text, no point, and none of `others`, further points of shape (n, 2)."""
    pixel = panel.figure.dpi / 72
    points = panel.transData.transform([(x, y) for x, y, _ in texts])
    frame = panel.get_window_extent()
    marks = np.concatenate([points, panel.transData.transform(others)])
    sizes = np.array([5 * pixel] * len(points) + [pixel] * len(others))[:, None]
    taken = np.hstack([marks - sizes, marks + sizes])  # boxes: left, bottom, right, top
    spots = [(7, -3, "left"), (-7, -3, "right")]
    spots += product([0], (7, -14, 17, -24, 27, -34), ("left", "right", "center"))
    for point, (x, y, text) in zip(points, texts, strict=True):
        size = np.array([4.4 * len(text), 9]) * pixel  # at 7 points
        boxes = []
        for *shift, side in spots:
            align = {"left": 0, "center": 0.5, "right": 1}[side]
            corner = point + np.multiply(shift, pixel) - size * [align, 0]
            boxes.append(np.concatenate([corner, corner + size]))
        free = [
            bool((box[:2] > frame.min).all() and (box[2:] < frame.max).all())
            and not ((box[:2] < taken[:, 2:]) & (taken[:, :2] < box[2:])).all(axis=1).any()
            for box in boxes
        ]
        best = free.index(True) if any(free) else 0
        taken = np.vstack([taken, boxes[best]])
        *shift, side = spots[best]
        panel.annotate(
            text, (x, y), xytext=shift, textcoords="offset points", ha=side, size=7, color=INK
        )


def draw_path(figure: PaperFigure, table: pd.DataFrame, title: str, note: str) -> Figure:
    """Alignment against uniformity at each evaluation of a training, from a hollow marker to a
    filled one."""
    backbones, series = table["backbone"].unique(), looks(series_of(table))
    handles = [
        key(counted(table, label), look.marked_line, ms=4, lw=1.1) for label, look in series.items()
    ]
    if table["seed"].nunique() > 1:
        handles.append(key("a seed", color=INK, lw=0.4, alpha=0.45))
    handles.append(key("first selection", color=INK, marker="o", mfc="white", ms=5, ls=""))
    handles.append(key("last", color=INK, marker="o", ms=5, ls=""))
    drawn, axes = grid(
        title, note, handles, headings(figure, table), height=2.8, left=0.72, gap=0.76,
        xlabel=LOWER.format("uniformity"), ylabel=LOWER.format("alignment"),
    )  # fmt: skip
    for panel, backbone in zip(axes, backbones, strict=True):
        panel.margins(0.08)
        panel.locator_params(axis="x", nbins=12 // len(backbones))
        for label, look in series.items():
            rows = table[(table["backbone"] == backbone) & (table["series"] == label)]
            if rows["seed"].nunique() > 1:
                thin = {"color": look.color, "lw": 0.4, "alpha": 0.45}
                for _, seed in rows.groupby("seed", sort=False):
                    panel.plot(seed["uniformity"], seed["alignment"], **thin)
            mean = common_mean(rows, "step", ["uniformity", "alignment"])
            path = mean["uniformity"], mean["alignment"]
            panel.plot(*path, **look.line, lw=1.1, zorder=3)
            panel.plot(*path, color=look.color, marker=".", ms=2.5, ls="", zorder=3)
            for end, face in ((mean[:1], "white"), (mean[-1:], look.color)):
                mark = look.points | {"mfc": face, "ms": 6, "mew": 1}
                panel.plot(end["uniformity"], end["alignment"], **mark, zorder=4)
    return drawn


def draw_densities(figure: PaperFigure, table: pd.DataFrame, title: str, note: str) -> Figure:
    """Densities of cosines, a row per range of gold scores with the highest at the top; all on the
    same scale."""
    series = looks(series_of(table))
    handles = [
        Patch(
            facecolor=(look.color, 0.18), edgecolor=look.color, ls=look.ls, lw=1.2,
            label=counted(table, label),
        )
        for label, look in series.items()
    ]  # fmt: skip
    drawn, (panel,) = grid(
        title, note, handles, height=3.4, left=0.95, xlabel="cosine", ylabel="gold score"
    )
    low, high = table["cosine"].min(), table["cosine"].max()
    room = 0.08 * (high - low) + 0.01
    xs = np.linspace(max(low - room, -1), min(high + room, 1), 400)
    cosines = table.groupby(["group", "series"])["cosine"]
    curves = {place: _density(values.to_numpy(), xs) for place, values in cosines}
    tallest = max(curve.max() for curve in curves.values()) or 1.0
    for ((group, label), curve), mean in zip(curves.items(), cosines.mean(), strict=True):
        look, order = series[label], 10 - group
        heights = group + 1.15 * curve / tallest
        panel.fill_between(xs, group, heights, color=look.color, alpha=0.18, lw=0, zorder=order)
        panel.plot(xs, heights, **look.line, lw=1.1, zorder=order + 0.5)
        stem = {"color": look.color, "marker": look.marker, "ms": 3, "markevery": [0], "lw": 1.6}
        panel.plot([mean, mean], [group - 0.13, group - 0.02], **stem, zorder=order + 0.6)
    first = table.iloc[0]  # every training has the same pairs
    same = table["seed"].eq(first["seed"]) | table["seed"].isna()
    sizes = table.loc[same & (table["series"] == first["series"]), "group"].value_counts()
    groups = range(len(BOUNDS) + 1)
    names = [f"{group} to {group + 1}\n{sizes.get(group, 0)} pairs" for group in groups]
    panel.set_yticks(groups, names)
    panel.set(xlim=(xs[0], xs[-1]), ylim=(-0.3, 5.3))
    return drawn


def _density(values: np.ndarray, xs: np.ndarray) -> np.ndarray:
    """Kernel density estimate of cosines (Gaussian kernel, Scott's bandwidth); zero with fewer than
    two distinct values. What the kernels put beyond -1 and 1 is reflected there (Silverman 1986,
    section 2.10)."""
    if len(np.unique(values)) < 2:
        return np.zeros_like(xs)
    density = gaussian_kde(values)
    return np.asarray(density(xs) + density(2 - xs) + density(-2 - xs))


def draw_tokens(figure: PaperFigure, table: pd.DataFrame, title: str, note: str) -> Figure:
    """The cosines between the tokens of one sentence as matrices, side by side on the same colour
    scale."""
    parts = dict(list(table.groupby("series", sort=False)))
    room = min(0.062 * table["token"].str.len().max() + 0.12, 1.1)
    side = min((WIDTH - 2 * room - 0.95) / 2, 2.6)
    left, rest = room + 0.1, WIDTH - len(parts) * (side + room + 0.1)  # what small matrices leave
    names = [f"{label}, layer {rows['layer'].iloc[0]}" for label, rows in parts.items()]
    drawn, axes = grid(
        title, note, [], names, height=side, left=left, right=rest, below=room, gap=left
    )
    scale = Normalize(np.floor(10 * table["cosine"].min()) / 10, 1)
    for panel, rows in zip(axes, parts.values(), strict=True):
        matrix = rows.pivot(index="row", columns="column", values="cosine").to_numpy()
        panel.grid(visible=False)
        panel.imshow(matrix, norm=scale, cmap="cividis", interpolation="nearest")
        words, places = rows.drop_duplicates("row")["token"], range(len(matrix))
        small = max(3.5, min(7.0, 150 / len(matrix)))
        panel.set_xticks(places, words, rotation=90, size=small)
        panel.set_yticks(places, words, size=small)
        panel.tick_params(length=0)
    color_bar(drawn, axes[-1], ScalarMappable(scale, "cividis"), "cosine")
    return drawn


# --- All figures ---

DRAW: dict[str, Callable[[PaperFigure, pd.DataFrame, str, str], Figure]] = {
    "sweep": draw_sweep,
    "seeds": draw_seeds,
    "curves": draw_curves,
    "path": draw_path,
    "alignment": draw_alignment,
    "densities": draw_densities,
    "setsim": draw_layers,
    "toksim": draw_layers,
    "tokens": draw_tokens,
    "in-batch": draw_in_batch,
}


def paper_figures(suite: SuiteResults) -> Iterator[tuple[PaperFigure, FigureData]]:
    """The figures of `figures.yaml` that the suite has data for, each with its data.

    Raises:
        UserError: `figures.yaml` or an analysis of the suite is damaged.
    """
    for figure in load_figures():
        if data := figure_data(figure, suite):
            yield figure, data


def draw(suite: SuiteResults, figure: PaperFigure, data: FigureData) -> Figure:
    """A figure with a note: how it was measured, what is missing, what it is not comparable to."""
    title, table = figure.heading, data.table
    if not headed(figure):
        title += f", {place_of(table, figure.series[0].backbone)}"
    notes = [figure.note, *data.remarks, suite.remark_on(table["measured_on"])]
    return DRAW[figure.kind](figure, table, title, " ".join(filter(None, notes)))


def paper_stems(suite: SuiteResults) -> dict[str, str]:
    """The papers' figures that the suite has data for: stem of the file names -> heading."""
    return {figure.stem: figure.heading for figure, _ in paper_figures(suite)}
