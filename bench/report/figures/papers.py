"""The papers' figures, redrawn from a suite's own measurements: a function for each kind."""

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

from bench.report.figures.measured import (
    BOUNDS,
    LOG,
    OURS,
    PRINT,
    FigureData,
    PaperFigure,
    common_mean,
    figure_data,
    load_figures,
)
from bench.report.figures.style import (
    GREY,
    INK,
    LINE,
    PALE,
    POINTS,
    SERIES,
    Look,
    color_bar,
    grid,
    key,
    looks,
    seen,
)
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


def headings(figure: PaperFigure, table: pd.DataFrame) -> list[str]:
    """Of the panels of a figure that has one per backbone."""
    names = table["backbone"].unique()
    return [place_of(table, backbone) if headed(figure) else "" for backbone in names]


def split_name(task: str, split: str) -> str:
    return f"{'average of the seven tasks' if task == 'Avg' else task}, {split}"


# --- Lines: over a swept value, training steps, layers, or batch sizes ---

PRINTED_STROKE: Look = {"color": INK, "marker": "_", "mew": 1.8, "ls": ""}
SEED_STROKE: Look = {"marker": "_", "ms": 5, "mew": 0.7, "ls": ""}
MARKED: Look = {"ms": 4, "mew": 0.8, "lw": 1.3}  # lines with markers
HOLLOW: Look = {"mew": 0.9, "mfc": "none"}


def draw_sweep(figure: PaperFigure, table: pd.DataFrame, series: Series, sheet: Sheet) -> Figure:
    """Scores against a swept value, equally spaced: every seed, a line through the means, printed
    values as strokes."""
    several = table[table["origin"] == OURS].groupby("series")["x"].nunique() > 1
    shown = {label: look if several[label] else look | POINTS for label, look in series.items()}
    handles = keys(table, shown, **MARKED | HOLLOW)
    handles += seen((table["origin"] == PRINT, key("printed", PRINTED_STROKE, ms=15)))
    xs = sorted(table["x"].unique())
    at = {x: position for position, x in enumerate(xs)}
    names = [split_name(*score) for score in figure.scores]
    drawn, axes = sheet(handles, names, height=2.9, xlabel=figure.x, ylabel="Spearman x 100")
    crowded = len(xs) > 12 and len(axes) > 1
    stroke = PRINTED_STROKE | {"ms": min(15, 320 / len(xs) / len(axes))}  # strokes do not touch
    for panel, (task, split) in zip(axes, figure.scores, strict=True):
        rows = table[(table["task"] == task) & (table["split"] == split)]
        shared = rows.groupby("x")["series"].nunique() > 1
        panel.set_xticks(range(len(xs)), [f"{x:g}" for x in xs], rotation=90 if crowded else 0)
        panel.set(xlim=(-0.6, len(xs) - 0.4), ymargin=0.12)
        for number, (label, look) in enumerate(series.items()):
            part = rows[rows["series"] == label]
            ours, printed = part[part["origin"] == OURS], part[part["origin"] == PRINT]
            panel.plot(printed["x"].map(at), printed["value"], **stroke, zorder=2)
            # Series are shifted where several have a value.
            shift = 0.22 * (number - (len(series) - 1) / 2)
            shifted = {x: at[x] + shift * shared[x] for x in part["x"].unique()}
            means = ours.groupby("x")["value"].mean()
            panel.plot(means.index.map(shifted), means, **look | LINE, lw=1.3, zorder=3)
            mark = look | POINTS | HOLLOW | {"ms": 3.6}
            panel.plot(ours["x"].map(shifted), ours["value"], **mark, zorder=4)
    return drawn


def draw_curves(figure: PaperFigure, table: pd.DataFrame, series: Series, sheet: Sheet) -> Figure:
    """Dev score against the step: mean and range over seeds, the kept checkpoints, and released
    logs."""
    handles = keys(table, series, **LINE, lw=1.3)
    kept = table["best"].eq(True) & (table["origin"] == OURS)
    handles += seen(
        (several_seeds(table), Patch(color=INK, alpha=0.2, lw=0, label="all seeds")),
        (kept, key("kept checkpoint", color=INK, marker="o", mfc="white", ms=4, ls="")),
        (table["origin"] == PRINT, key("printed best step", color=INK, lw=0.9, ls=":")),
        (table["origin"] == LOG, key("released log (same dashes)", color=GREY, lw=0.9)),
    )
    drawn, axes = sheet(
        handles, headings(figure, table), height=2.6,
        xlabel="step", ylabel="dev, Spearman x 100",
    )  # fmt: skip
    panels = dict(zip(table["backbone"].unique(), axes, strict=True))
    for (backbone, label), rows in table.groupby(["backbone", "series"], sort=False):
        panel, look = panels[backbone], series[label]
        ours, log = rows[rows["origin"] == OURS], rows[rows["origin"] == LOG]
        panel.plot(log["step"], log["dev"], color=GREY, ls=look["ls"], lw=0.9, zorder=1)
        for step in rows.loc[rows["origin"] == PRINT, "step"]:
            panel.axvline(step, color=INK, lw=0.9, ls=":", zorder=1)
        ends = ours.groupby("step")["dev"].agg(["min", "max"])
        shade = {"color": look["color"], "alpha": 0.2, "lw": 0}
        panel.fill_between(ends.index, ends["min"], ends["max"], **shade, zorder=2)
        mean = common_mean(ours, "step", ["dev"])
        panel.plot(mean.index, mean["dev"], **look | LINE, lw=1.3, zorder=3)
        best = ours[ours["best"].eq(True)]
        panel.plot(best["step"], best["dev"], **look | POINTS, mfc="white", ms=4, zorder=4)
    return drawn


READINGS = {
    "cls": "[CLS]",
    "mean": "mean of the tokens",
    "without_special": "without special tokens",
    "with_special": "with special tokens",
}


def draw_layers(figure: PaperFigure, table: pd.DataFrame, series: Series, sheet: Sheet) -> Figure:
    """A similarity by layer, or by pair of adjacent layers, a panel per pooling: means over seeds,
    and every seed."""
    pairs, readings = figure.kind == "setsim", table["reading"].unique()
    handles = keys(table, series, **MARKED)
    handles += seen((several_seeds(table), key("a seed", SEED_STROKE, color=INK)))
    drawn, axes = sheet(
        handles, [READINGS.get(reading, reading) for reading in readings], height=2.9,
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
            panel.plot(mean.index, mean, **look | MARKED, zorder=3)
            if several_seeds(rows):
                panel.plot(rows["layer"], rows["value"], **look | SEED_STROKE)
    return drawn


RANKS = {1: "nearest", 2: "2nd", 3: "3rd"}


def draw_in_batch(figure: PaperFigure, table: pd.DataFrame, series: Series, sheet: Sheet) -> Figure:
    """Cosines of the nearest neighbours in a batch, and of the nearest noise vectors, against the
    batch size."""
    sentences, noise = SERIES[0] | MARKED, SERIES[1] | MARKED
    marks = {rank: SERIES[rank - 1]["marker"] for rank in sorted(table["rank"].unique())}
    handles = [
        key(RANKS.get(rank, f"{rank}th"), color=INK, marker=mark, ms=4, ls="")
        for rank, mark in marks.items()
    ]
    count = counted(table.assign(series="sentences"), "sentences")
    handles += [key(count, sentences | LINE), key("Gaussian noise", noise | LINE)]
    drawn, (panel,) = sheet(handles, height=3.1, xlabel="batch size", ylabel="mean cosine")
    means = table.groupby(["batch", "rank"])[["sentences", "noise"]].mean()
    panel.set_xscale("log", base=2)
    sizes = sorted(table["batch"].unique())
    panel.set_xticks(sizes, [str(size) for size in sizes])
    panel.set_xticks([], minor=True)
    for rank, mark in marks.items():
        rows = means.xs(rank, level="rank")
        panel.plot(rows.index, rows["sentences"], **sentences | {"marker": mark})
        panel.plot(rows.index, rows["noise"], **noise | {"marker": mark}, mfc="none")
    return drawn


# --- Points, densities and matrices ---

LOWER = "{} (lower is better)"
FEWEST_BOXED = 5  # seeds; quartiles of fewer mean little


def draw_seeds(figure: PaperFigure, table: pd.DataFrame, series: Series, sheet: Sheet) -> Figure:
    """Every seed, a panel per task; all panels span the same range in points, so that spreads can
    be compared."""
    mark = POINTS | HOLLOW | {"ms": 4}
    handles = [*keys(table, series, **mark), key("mean", color=INK, lw=1.2)]
    handles += seen((table["origin"] == PRINT, key("printed", color=GREY, lw=3)))
    by_score = dict(list(table.groupby(["task", "split"])))
    parts = {score: by_score[score] for score in figure.scores if score in by_score}
    names = ["average, test" if task == "Avg" else split_name(task, split) for task, split in parts]
    drawn, axes = sheet(handles, names, columns=4, height=1.8, ylabel="Spearman x 100")
    span = 1.2 * max(*(np.ptp(rows["value"]) for rows in parts.values()), 1.0)
    for panel, task_rows in zip(axes, parts.values(), strict=True):
        middle = (task_rows["value"].max() + task_rows["value"].min()) / 2
        panel.set(ylim=(middle - span / 2, middle + span / 2), xlim=(-0.6, len(series) - 0.4))
        panel.set_xticks([])
        for x, (label, look) in enumerate(series.items()):
            rows, ends = task_rows[task_rows["series"] == label], (x - 0.28, x + 0.28)
            ours = rows.loc[rows["origin"] == OURS, "value"]
            printed = rows.loc[rows["origin"] == PRINT, "value"]
            panel.hlines(printed, x - 0.4, x + 0.4, color=GREY, lw=3, alpha=0.7, zorder=1)
            if len(ours) >= FEWEST_BOXED:
                box = np.percentile(ours, [25, 75])
                panel.fill_between(ends, *box, color=look["color"], alpha=0.18, lw=0, zorder=2)
            if len(ours):
                panel.hlines(ours.mean(), *ends, color=INK, lw=1.2, zorder=4)
            panel.plot([x] * len(ours), ours, **look | mark, zorder=3)
    return drawn


def draw_alignment(
    figure: PaperFigure, table: pd.DataFrame, series: Series, sheet: Sheet
) -> Figure:
    """Alignment against uniformity: the marker is the method, its colour and the number are the
    average STS score."""
    values = ["uniformity", "alignment", "average"]
    means = table.groupby(["series", "backbone"], sort=False)[values].mean()
    handles = keys(table, series, color=INK, mfc=PALE, ms=7, ls="")
    handles += seen(
        (len(table) > len(means), key("a seed", color=GREY, marker=".", ms=3, ls="")),
        (len(means) > table["backbone"].nunique(), key("one backbone", color=GREY, lw=0.9)),
    )
    drawn, (panel,) = sheet(
        handles, height=3.7,
        xlabel=LOWER.format("uniformity"), ylabel=LOWER.format("alignment"),
    )  # fmt: skip
    averages = means["average"].dropna()
    scale = ScalarMappable(Normalize(averages.min() - 0.3, averages.max() + 0.3), "cividis")
    if len(averages):
        color_bar(drawn, [panel], scale, "average STS, test")
    texts = []
    for backbone, rows in means.groupby(level="backbone", sort=False):
        panel.plot(rows["uniformity"], rows["alignment"], color=GREY, lw=0.9, zorder=1)
        name = place_of(table, backbone)
        for (label, _), (x, y, average) in rows.iterrows():
            seeds = table[(table["series"] == label) & (table["backbone"] == backbone)]
            mark = series[label] | POINTS
            if len(seeds) > 1:
                small = mark | {"color": GREY, "ms": 2}
                panel.plot(seeds["uniformity"], seeds["alignment"], **small, zorder=2)
            known = pd.notna(average)
            face = scale.to_rgba(average) if known else "white"
            panel.plot(x, y, **mark | {"ms": 8, "mew": 0.9, "mec": INK, "mfc": face}, zorder=3)
            texts.append((x, y, f"{name} ({average:.1f})".strip() if known else name))
            name = ""  # once for each backbone
    panel.margins(0.15, 0.12)
    _annotate(panel, texts, table[["uniformity", "alignment"]].to_numpy())
    return drawn


# Shifts of a text from its point, in points, and the side of the text at the point.
BESIDE = [(7, -3, "left"), (-7, -3, "right")]
BESIDE += product([0], (7, -14, 17, -24, 27, -34), ("left", "right", "center"))


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
    handles = keys(table, series, ms=4, lw=1.1)
    handles += seen((several_seeds(table), key("a seed", color=INK, lw=0.4, alpha=0.45)))
    handles.append(key("first selection", color=INK, marker="o", mfc="white", ms=5, ls=""))
    handles.append(key("last", color=INK, marker="o", ms=5, ls=""))
    drawn, axes = sheet(
        handles, headings(figure, table), height=3.4,
        xlabel=LOWER.format("uniformity"), ylabel=LOWER.format("alignment"),
    )  # fmt: skip
    panels = dict(zip(table["backbone"].unique(), axes, strict=True))
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
        for end, face in ((mean[:1], "white"), (mean[-1:], look["color"])):
            mark = look | POINTS | {"mfc": face, "ms": 6, "mew": 1}
            panel.plot(end["uniformity"], end["alignment"], **mark, zorder=4)
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
    color_bar(drawn, axes, ScalarMappable(scale, "cividis"), "cosine")
    return drawn


# --- All figures ---

DRAW: dict[str, Callable[[PaperFigure, pd.DataFrame, Series, Sheet], Figure]] = {
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
    """The figures of `figures.yaml` that the suite has data for, each with its data."""
    for figure in load_figures():
        if data := figure_data(figure, suite):
            yield figure, data


def draw(suite: SuiteResults, figure: PaperFigure, data: FigureData) -> Figure:
    """A figure with a note: how it was measured, what is missing, what it is not comparable to."""
    title, table = figure.heading, data.table
    if not headed(figure):
        title += f", {place_of(table, figure.series[0].backbone)}"
    notes = [figure.note, *data.remarks, suite.remark_on(table["measured_on"])]
    sheet = partial(grid, title, " ".join(filter(None, notes)))
    return DRAW[figure.kind](figure, table, looks(table["series"].unique()), sheet)
