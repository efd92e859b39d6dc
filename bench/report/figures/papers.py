"""The papers' figures, redrawn from a suite's own measurements: lines over a value, which share one
drawing, and a function for each other kind."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
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
from matplotlib.transforms import Bbox
from scipy.stats import gaussian_kde

from bench.datasets.metrics import BOUNDS
from bench.registry.backbones import NO_BACKBONE
from bench.report.figures.measured import (
    LOG,
    OURS,
    PRINT,
    FigureData,
    PaperFigure,
    common_mean,
    figure_data,
    load_figures,
)
from bench.report.figures.style import GREY, INK, LINE, POINTS, Look, grid, key, looks, seen
from bench.results.records import with_stand_ins
from bench.results.suite_results import SuiteResults

Series = Mapping[str, Look]  # label -> look
Sheet = Callable[..., tuple[Figure, list[Axes]]]  # `grid` with title and note

# --- Texts that depend on a figure's data ---


def counted(table: pd.DataFrame, label: str) -> str:
    """The label of a series with its number of seeds, as a range if that differs between points."""
    ours = table[(table["series"] == label) & (table["origin"] == OURS) & table["seed"].notna()]
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
    ours = table[(table["backbone"] == backbone) & (table["origin"] == OURS)]
    return with_stand_ins(backbone, ours["measured_on"])


def headed(figure: PaperFigure) -> bool:
    """Whether panels name their backbones, since there are several; otherwise the title does."""
    return len({series.backbone for series in figure.series}) > 1


def headings(figure: PaperFigure, table: pd.DataFrame) -> dict[str, str]:
    """Of the panels of a figure that has one per backbone."""
    names = table["backbone"].unique()
    return {name: place_of(table, name) if headed(figure) else "" for name in names}


# --- Lines: over a swept value, seeds, training steps, layers, or batch sizes ---

COSINE = "mean cosine"
# Labels of the axes, and height of a panel in inches.
LINES = {
    "sweep": ("", "Spearman x 100", 2.9),  # the figure names its x
    "seeds": ("", "Spearman x 100", 1.8),
    "curves": ("step", "dev, Spearman x 100", 2.6),
    "setsim": ("pair of layers", COSINE, 2.9),
    "toksim": ("layer", COSINE, 2.9),
    "in-batch": ("batch size", COSINE, 2.9),
}
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
BEST_STEP: Look = {"color": INK, "lw": 0.9, "ls": ":"}
HOLLOW: Look = {"ms": 3.8, "mew": 0.9, "mfc": "none"}


def lines_of(figure: PaperFigure, table: pd.DataFrame) -> pd.DataFrame:
    """The data of a figure of lines, with the columns `panel` (its heading), `series`, `x`,
    `value`, `origin`, `seed` and, of curves, `best`."""
    match figure.kind:
        case "curves":
            panels = table["backbone"].map(headings(figure, table))
            return table.assign(panel=panels, x=table["step"], value=table["dev"])
        case "setsim" | "toksim":
            return table.assign(panel=table["reading"].replace(READINGS), x=table["layer"])
        case "in-batch":
            ranks = {rank: RANKS.get(rank, f"{rank}th") for rank in table["rank"].unique()}
            points = table.assign(series=table["rank"].map(ranks), x=table["batch"])
            points = points.rename(columns={"noise": "Gaussian noise"})
            names, kept = ["sentences", "Gaussian noise"], ["series", "x", "origin", "seed"]
            return points.melt(kept, names, var_name="panel")
    tasks = table["task"].replace("Avg", "STS average")
    points = table.assign(panel=tasks + ", " + table["split"])
    if figure.kind == "seeds":  # the series are side by side
        points["x"] = pd.factorize(points["series"])[0]
    return points


def _draw_training(panel: Axes, rows: pd.DataFrame, look: Look) -> None:
    """Dev score against the step: mean and range over seeds, the kept checkpoints, the printed best
    step, and a released log."""
    ours, log = rows[rows["origin"] == OURS], rows[rows["origin"] == LOG]
    panel.plot(log["x"], log["value"], color=GREY, ls=look["ls"], lw=0.9, zorder=1)
    for step in rows.loc[rows["origin"] == PRINT, "x"]:
        panel.axvline(step, **BEST_STEP, zorder=1)
    ends = ours.groupby("x")["value"].agg(["min", "max"])
    shade = {"color": look["color"], "alpha": 0.2, "lw": 0}
    panel.fill_between(ends.index, ends["min"], ends["max"], **shade, zorder=2)
    mean = common_mean(ours, "x", ["value"])
    panel.plot(mean.index, mean, **look | LINE, lw=1.3, zorder=3)
    best = ours[ours["best"].eq(True)]
    panel.plot(best["x"], best["value"], **look | POINTS | HOLLOW, zorder=4)


def draw_lines(figure: PaperFigure, points: pd.DataFrame, series: Series, sheet: Sheet) -> Figure:
    """Every seed over x, a line through the means of each series, and printed values as strokes.
    Curves are drawn at their steps, all others equally spaced."""
    kind, (xlabel, ylabel, height) = figure.kind, LINES[figure.kind]
    ours, is_printed = points[points["origin"] == OURS], points["origin"] == PRINT
    has_line = ours.groupby("series")["x"].nunique() > 1
    shown = {label: look if has_line[label] else look | POINTS for label, look in series.items()}
    handles = keys(points, shown, lw=1.3, **HOLLOW)
    if kind == "curves":
        area = Patch(color=INK, alpha=0.2, lw=0, label="all seeds")
        handles += seen(
            (several_seeds(points), area),
            (ours["best"], key("kept checkpoint", HOLLOW, color=INK, marker="o", ls="")),
            (is_printed, key("printed best step", BEST_STEP)),
            (points["origin"] == LOG, key("released log (same dashes)", color=GREY, lw=0.9)),
        )
    else:
        handles += seen(
            (~has_line, key("mean", MEAN_STROKE, color=INK)),
            (is_printed, key("printed", PRINTED_STROKE, ms=15)),
        )
    names = list(points["panel"].unique())
    columns = min(len(names), 4 if kind == "seeds" else 2)
    drawn, axes = sheet(
        handles, names, columns=columns, height=height, xlabel=xlabel or figure.x, ylabel=ylabel
    )
    if kind == "curves":
        for (name, label), rows in points.groupby(["panel", "series"], sort=False):
            _draw_training(axes[names.index(name)], rows, series[label])
        return drawn

    xs = sorted(points["x"].unique())
    at = points["x"].map(xs.index)
    if kind == "sweep":  # our series are side by side where several have a value
        shared = points.groupby("x")["series"].transform("nunique") > 1
        order = points["series"].map(list(series).index) - (len(series) - 1) / 2
        at += 0.22 * order * (shared & ~is_printed)
    if ylabel == COSINE:
        for panel in axes[1:]:
            panel.sharey(axes[0])
    stroke = PRINTED_STROKE | {"ms": min(15, 320 / len(xs) / columns)}  # strokes do not touch
    for (name, label), rows in points.assign(at=at).groupby(["panel", "series"], sort=False):
        panel, look = axes[names.index(name)], series[label]
        ours, printed = rows[rows["origin"] == OURS], rows[rows["origin"] == PRINT]
        panel.plot(printed["at"], printed["value"], **stroke, zorder=2)
        if kind == "seeds" and len(ours) >= FEWEST_BOXED:
            box, middle = np.percentile(ours["value"], [25, 75]), ours["at"].iloc[0]
            ends = (middle - 0.28, middle + 0.28)
            panel.fill_between(ends, *box, color=look["color"], alpha=0.18, lw=0)
        means = ours.groupby("at")["value"].mean()
        mean = look | LINE | {"lw": 1.3} if has_line[label] else look | MEAN_STROKE
        panel.plot(means.index, means, **mean, zorder=3)
        panel.plot(ours["at"], ours["value"], **look | POINTS | HOLLOW, zorder=4)

    names = [f"{x}–{x + 1}" if kind == "setsim" else f"{x:g}" for x in xs]
    every = sum(map(len, names)) // (60 // columns) + 1  # as many as have room
    named = [] if kind == "seeds" else range(len(xs))[::-every][::-1]  # always with the last
    ends = points.groupby("panel", sort=False)["value"].agg(["min", "max"])
    half = 0.6 * ((ends["max"] - ends["min"]).max() or 1.0)
    for panel, middle in zip(axes, ends.mean(axis=1), strict=True):
        panel.set(xlim=(-0.6, len(xs) - 0.4), ymargin=0.12)
        panel.set_xticks(named, [names[number] for number in named])
        if kind == "seeds":  # the same range in points, so that spreads can be compared
            panel.set_ylim(middle - half, middle + half)
    return drawn


# --- Points, densities and matrices ---

LOWER = "{} (lower is better)"


def draw_alignment(
    figure: PaperFigure, table: pd.DataFrame, series: Series, sheet: Sheet
) -> Figure:
    """Alignment against uniformity: means over seeds with the average STS score, and every seed."""
    columns = ["uniformity", "alignment", "average"]
    means = table.groupby(["backbone", "series"], sort=False)[columns].mean()
    of_means = seen(
        (len(table) > len(means), key("a seed", color=GREY, marker=".", ms=3, ls="")),
        (len(means) > table["backbone"].nunique(), key("one backbone", color=GREY, lw=0.9)),
    )
    drawn, (panel,) = sheet(
        [*keys(table, series, ms=7, ls=""), *of_means], height=3.7,
        xlabel=LOWER.format("uniformity"), ylabel=LOWER.format("alignment"),
    )  # fmt: skip
    if len(table) > len(means):
        seeds = POINTS | {"marker": ".", "color": GREY, "ms": 3}
        panel.plot(table["uniformity"], table["alignment"], **seeds, zorder=2)
    texts = []
    for backbone, rows in means.groupby(level="backbone", sort=False):
        panel.plot(rows["uniformity"], rows["alignment"], color=GREY, lw=0.9, zorder=1)
        name = place_of(table, backbone)
        for (_, label), (x, y, average) in rows.iterrows():
            panel.plot(x, y, **series[label] | POINTS | {"ms": 7}, zorder=3)
            texts.append((x, y, name if pd.isna(average) else f"{name} ({average:.1f})".strip()))
            name = ""  # once for each backbone
    panel.margins(0.15, 0.12)
    _annotate(panel, texts, table[["uniformity", "alignment"]].to_numpy())
    return drawn


# Shifts of a text from its point, in points, and the side of the text at the point.
BESIDE = [
    (7, -3, "left"), (-7, -3, "right"),
    *product([0], (7, -14, 17, -24, 27, -34), ("left", "right", "center")),
]  # fmt: skip


def _annotate(panel: Axes, texts: Sequence[tuple[float, float, str]], seeds: np.ndarray) -> None:
    """Annotate points (x, y, text), each where its text overlaps no text and no mark, neither its
    own nor one of `seeds`, of shape (n, 2)."""
    panel.figure.draw_without_rendering()  # lays out the panel
    frame = panel.get_window_extent()
    marks = [(point, 5) for point in panel.transData.transform([(x, y) for x, y, _ in texts])]
    marks += [(point, 1) for point in panel.transData.transform(seeds)]
    taken = [Bbox([point - size, point + size]) for point, size in marks]
    for x, y, text in texts:
        shown = panel.annotate(text, (x, y), (0, 0), textcoords="offset points", size=7, color=INK)
        for *shift, side in [*BESIDE, BESIDE[0]]:  # the first if all overlap
            shown.set(position=shift, horizontalalignment=side)
            box = shown.get_window_extent()
            inside = (box.min > frame.min).all() and (box.max < frame.max).all()
            if inside and not box.count_overlaps(taken):
                break
        taken.append(box)


def draw_path(figure: PaperFigure, table: pd.DataFrame, series: Series, sheet: Sheet) -> Figure:
    """Alignment against uniformity at each evaluation of a training, from a hollow marker to a
    filled one."""
    handles = [
        *keys(table, series, ms=4, lw=1.1),
        *seen((several_seeds(table), key("a seed", color=INK, lw=0.4, alpha=0.45))),
        key("first selection", color=INK, marker="o", mfc="white", ms=5, ls=""),
        key("last", color=INK, marker="o", ms=5, ls=""),
    ]
    names = headings(figure, table)
    drawn, axes = sheet(
        handles, list(names.values()), height=3.4,
        xlabel=LOWER.format("uniformity"), ylabel=LOWER.format("alignment"),
    )  # fmt: skip
    panels = dict(zip(names, axes, strict=True))
    for (backbone, label), rows in table.groupby(["backbone", "series"], sort=False):
        panel, look = panels[backbone], series[label]
        if several_seeds(rows):
            thin = {"color": look["color"], "lw": 0.4, "alpha": 0.45}
            for _, seed in rows.groupby("seed", sort=False):
                panel.plot(seed["uniformity"], seed["alignment"], **thin)
        mean = common_mean(rows, "step", ["uniformity", "alignment"])
        path = mean["uniformity"], mean["alignment"]
        panel.plot(*path, **look | LINE, lw=1.1, zorder=3)
        panel.plot(*path, color=look["color"], marker=".", ms=2.5, ls="", zorder=3)
        mark = look | POINTS | {"ms": 6, "mew": 1}
        panel.plot(*mean.iloc[0], **mark | {"mfc": "white"}, zorder=4)
        panel.plot(*mean.iloc[-1], **mark, zorder=4)
        panel.margins(0.08)
    return drawn


def draw_densities(
    figure: PaperFigure, table: pd.DataFrame, series: Series, sheet: Sheet
) -> Figure:
    """Densities of cosines, a row per range of gold scores with the highest at the top; all on the
    same scale."""
    handles = [
        Patch(
            facecolor=(look["color"], 0.18), edgecolor=look["color"], ls=look["ls"], lw=1.2,
            label=counted(table, label),
        )
        for label, look in series.items()
    ]  # fmt: skip
    drawn, (panel,) = sheet(handles, height=3.9, xlabel="cosine", ylabel="gold score")
    low, high = table["cosine"].min(), table["cosine"].max()
    room = 0.08 * (high - low) + 0.01
    xs = np.linspace(max(low - room, -1), min(high + room, 1), 400)
    cosines = table.groupby(["group", "series"])["cosine"]
    curves = {place: _density(values.to_numpy(), xs) for place, values in cosines}
    tallest = max(curve.max() for curve in curves.values()) or 1.0
    for ((group, label), curve), mean in zip(curves.items(), cosines.mean(), strict=True):
        look, order = series[label], 10 - group
        heights = group + 1.15 * curve / tallest
        panel.fill_between(xs, group, heights, color=look["color"], alpha=0.18, lw=0, zorder=order)
        panel.plot(xs, heights, **look | LINE, lw=1.1, zorder=order + 0.5)
        stem = look | {"ls": "-", "ms": 3, "markevery": [0], "lw": 1.6}
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


def draw_tokens(figure: PaperFigure, table: pd.DataFrame, series: Series, sheet: Sheet) -> Figure:
    """The cosines between the tokens of one sentence as matrices, side by side on the same colour
    scale."""
    parts = dict(list(table.groupby("series", sort=False)))
    names = [f"{label}, layer {rows['layer'].iloc[0]}" for label, rows in parts.items()]
    drawn, axes = sheet([], names, height=3.4)
    scale = Normalize(np.floor(10 * table["cosine"].min()) / 10, 1)
    for panel, rows in zip(axes, parts.values(), strict=True):
        matrix = rows.pivot(index="row", columns="column", values="cosine").to_numpy()
        panel.grid(visible=False)
        panel.imshow(matrix, norm=scale, cmap="cividis", interpolation="nearest")
        words, positions = rows.drop_duplicates("row")["token"], range(len(matrix))
        small = max(3.5, min(7.0, 150 / len(matrix)))
        panel.set_xticks(positions, words, rotation=90, size=small)
        panel.set_yticks(positions, words, size=small)
        panel.tick_params(length=0)
    drawn.colorbar(
        ScalarMappable(scale, "cividis"), ax=axes, fraction=0.03, aspect=30, label="cosine"
    )
    return drawn


# --- All figures ---

DRAW: dict[str, Callable[[PaperFigure, pd.DataFrame, Series, Sheet], Figure]] = {
    **dict.fromkeys(LINES, draw_lines),
    "path": draw_path,
    "alignment": draw_alignment,
    "densities": draw_densities,
    "tokens": draw_tokens,
}


def paper_figures(suite: SuiteResults) -> Iterator[tuple[PaperFigure, FigureData]]:
    """The figures of `figures.yaml` that the suite has data for, each with its data."""
    for figure in load_figures():
        if data := figure_data(figure, suite):
            yield figure, data


def draw(suite: SuiteResults, figure: PaperFigure, data: FigureData) -> Figure:
    """A figure with a note: how it was measured, what is missing, what it is not comparable to."""
    title, table = figure.heading, data.table
    backbones = {series.backbone for series in figure.series} - {NO_BACKBONE.name}
    if len(backbones) == 1:
        title += f", {place_of(table, *backbones)}"
    notes = [figure.note, *data.remarks, suite.remark_on(table["measured_on"])]
    sheet = partial(grid, title, " ".join(filter(None, notes)))
    if figure.kind in LINES:
        table = lines_of(figure, table)
    return DRAW[figure.kind](figure, table, looks(table["series"].unique()), sheet)
