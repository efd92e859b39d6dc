"""The papers' figures, redrawn from a suite's own measurements: those of points, densities and
matrices, and the choice of the drawing."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import product

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.transforms import Bbox
from scipy.stats import gaussian_kde

from bench.datasets.metrics import BOUNDS
from bench.judged.rows import NO_BACKBONE, FigureRow, Heading
from bench.report.figures import lines
from bench.report.figures.lines import Series, Sheet, counted, keys, place_of
from bench.report.figures.style import ALIGNMENT, GREY, INK, LINE, POINTS, grid, key, looks, seen


def draw_alignment(figure: FigureRow, table: pd.DataFrame, series: Series, sheet: Sheet) -> Figure:
    """Alignment against uniformity: means over seeds with the average STS score, and every seed."""
    columns = ["uniformity", "alignment", "average"]
    means = table.groupby(["backbone", "series"], sort=False)[columns].mean()
    of_means = seen(
        (len(table) > len(means), key("a seed", color=GREY, marker=".", ms=3, ls="")),
        (len(means) > table["backbone"].nunique(), key("one backbone", color=GREY, lw=0.9)),
    )
    drawn, (panel,) = sheet([*keys(table, series, ms=7, ls=""), *of_means], height=3.7, **ALIGNMENT)
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
    places = [(x, y) for x, y, _ in texts]
    marks = [(point, 5) for point in panel.transData.transform(places)]
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


def draw_densities(figure: FigureRow, table: pd.DataFrame, series: Series, sheet: Sheet) -> Figure:
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


def draw_tokens(figure: FigureRow, table: pd.DataFrame, series: Series, sheet: Sheet) -> Figure:
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

DRAW: dict[str, Callable[[FigureRow, pd.DataFrame, Series, Sheet], Figure]] = {
    "sweep": lines.draw_sweep,
    "seeds": lines.draw_seeds,
    "setsim": lines.draw_layers,
    "toksim": lines.draw_layers,
    "in-batch": lines.draw_batches,
    "curves": lines.draw_curves,
    "path": lines.draw_path,
    "alignment": draw_alignment,
    "densities": draw_densities,
    "tokens": draw_tokens,
}


def table_of(figure: FigureRow) -> pd.DataFrame:
    """The data of a figure: a row per number or point."""
    return pd.DataFrame(figure.columns).astype({"seed": "Int64"})


def draw(heading: Heading, figure: FigureRow) -> Figure:
    """A figure with a note: how it was measured, what is missing, what it is not comparable to."""
    title, table = figure.heading, table_of(figure)
    backbones = {series.backbone for series in figure.series} - {NO_BACKBONE}
    if len(backbones) == 1:
        title += f", {place_of(table, *backbones)}"
    notes = [figure.note, *figure.remarks, heading.remark_on(table["measured_on"])]
    sheet = partial(grid, title, notes)
    return DRAW[figure.kind](figure, table, looks(table["series"].unique()), sheet)
