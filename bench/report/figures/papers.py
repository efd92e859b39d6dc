"""The papers' figures, redrawn from a suite's own measurements: those of points, densities and
matrices, and the choice of the drawing."""

from collections.abc import Callable

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox
from scipy.stats import gaussian_kde

from bench.datasets.metrics import BOUNDS
from bench.judged.rows import NO_BACKBONE, FigureRow, Heading
from bench.report.figures import lines
from bench.report.figures.lines import ALIGNMENT, POINTS, Looks, looks, place_of
from bench.report.figures.style import GREY, add_texts, grid


def draw_alignment(picture: Figure, figure: FigureRow, table: pd.DataFrame, series: Looks) -> None:
    """Alignment against uniformity: means over seeds with the average STS score, and every seed."""
    (panel,) = grid(picture, height=3.7, **ALIGNMENT)
    columns = ["uniformity", "alignment", "average"]
    means = table.groupby(["backbone", "series"], sort=False)[columns].mean()
    texts = []
    for backbone, rows in means.groupby(level="backbone", sort=False):
        name = place_of(table, backbone)
        for (_, label), (x, y, average) in rows.iterrows():
            panel.plot(x, y, **series[label] | POINTS | {"ms": 7})
            texts.append((x, y, name if pd.isna(average) else f"{name} ({average:.1f})".strip()))
            name = ""  # once for each backbone
        if len(rows) > 1:
            line = {"color": GREY, "lw": 0.9, "zorder": 1, "label": "one backbone"}
            panel.plot(rows["uniformity"], rows["alignment"], **line)
    seeds = {"color": GREY, "marker": ".", "ms": 3, "ls": "", "label": "a seed"}
    panel.plot(table["uniformity"], table["alignment"], **seeds)
    panel.margins(0.15, 0.12)
    _annotate(panel, texts, table[["uniformity", "alignment"]].to_numpy())


def _annotate(panel: Axes, texts: list[tuple[float, float, str]], seeds: np.ndarray) -> None:
    """Annotate points (x, y, text) towards the middle of the panel, each where its text overlaps no
    text and no mark, neither one of these points nor one of `seeds`, of shape (n, 2)."""
    panel.figure.draw_without_rendering()  # lays out the panel
    points = [(x, y) for x, y, _ in texts]
    middle = sum(panel.get_xlim()) / 2
    taken = [Bbox([spot - 5, spot + 5]) for spot in panel.transData.transform([*points, *seeds])]
    for x, y, text in texts:
        shift, side = (7, "left") if x < middle else (-7, "right")
        shown = panel.annotate(
            text, (x, y), (shift, 0), textcoords="offset points", size=7, ha=side, va="center"
        )
        for height in (0, 10, -10, 20, -20, 30, -30, 40, -40, 0):  # the first if all overlap
            shown.set_y(height)
            box = shown.get_window_extent()
            if not box.count_overlaps(taken):
                break
        taken.append(box)


def draw_densities(picture: Figure, figure: FigureRow, table: pd.DataFrame, series: Looks) -> None:
    """Densities of cosines, a row per range of gold scores with the highest at the top; all on the
    same scale."""
    (panel,) = grid(picture, height=3.9, xlabel="cosine", ylabel="gold score")
    room = 0.08 * np.ptp(table["cosine"]) + 0.01
    low, high = max(table["cosine"].min() - room, -1), min(table["cosine"].max() + room, 1)
    xs = np.linspace(low, high, 400)
    cosines = table.groupby(["group", "series"], sort=False)["cosine"]
    curves = [density(values.to_numpy(), xs) for _, values in cosines]
    tallest = np.max(curves) or 1.0
    for ((group, label), mean), curve in zip(cosines.mean().items(), curves, strict=True):
        look, heights = series[label], group + 1.15 * curve / tallest
        panel.plot(xs, heights, **look, lw=1.1, markevery=[])
        panel.fill_between(xs, group, heights, color=look["color"], alpha=0.18, lw=0)
        stem = look | {"ls": "-", "ms": 3, "markevery": [0], "lw": 1.6}
        panel.plot([mean, mean], [group - 0.13, group - 0.02], **stem)
    # Every training has the same pairs.
    trainings = len(table[["series", "seed"]].drop_duplicates())
    sizes = table["group"].value_counts() // trainings
    groups = range(len(BOUNDS) + 1)
    names = [f"{group} to {group + 1}\n{sizes.get(group, 0)} pairs" for group in groups]
    panel.set_yticks(groups, names)
    panel.set(xlim=(low, high), ylim=(-0.3, 5.3))


def density(values: np.ndarray, xs: np.ndarray) -> np.ndarray:
    """Kernel density estimate of cosines (Gaussian kernel, Scott's bandwidth); zero with fewer than
    two distinct values. What the kernels put beyond -1 and 1 is reflected there (Silverman 1986,
    section 2.10)."""
    if np.ptp(values) == 0:
        return np.zeros_like(xs)
    free = gaussian_kde(values)
    return np.asarray(free(xs) + free(2 - xs) + free(-2 - xs))


def draw_tokens(picture: Figure, figure: FigureRow, table: pd.DataFrame, series: Looks) -> None:
    """The cosines between the tokens of one sentence as matrices, side by side on the same colour
    scale."""
    low = np.floor(10 * table["cosine"].min()) / 10
    parts = table.groupby("series", sort=False)
    axes = grid(
        picture, [f"{label}, layer {rows['layer'].iloc[0]}" for label, rows in parts], height=3.4
    )
    for panel, (_, rows) in zip(axes, parts, strict=True):
        matrix = rows.pivot(index="row", columns="column", values="cosine")
        panel.grid(visible=False)
        image = panel.imshow(matrix, vmin=low, vmax=1, cmap="cividis", interpolation="nearest")
        words, size = rows.drop_duplicates("row")["token"], min(7.0, 150 / len(matrix))
        panel.set_xticks(matrix.index, words, rotation=90, size=size)
        panel.set_yticks(matrix.index, words, size=size)
    picture.colorbar(image, ax=axes, fraction=0.03, aspect=30, label="cosine")


# --- All figures ---

DRAW: dict[str, Callable[[Figure, FigureRow, pd.DataFrame, Looks], None]] = {
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
    picture, table, title = Figure(layout="constrained"), table_of(figure), figure.heading
    DRAW[figure.kind](picture, figure, table, looks(table))
    backbones = {series.backbone for series in figure.series} - {NO_BACKBONE}
    if len(backbones) == 1:
        title += f", {place_of(table, *backbones)}"
    add_texts(
        picture, title, [figure.note, *figure.remarks, heading.remark_on(table["measured_on"])]
    )
    return picture
