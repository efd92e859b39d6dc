"""The papers' figures, redrawn from a suite's own measurements: those of points, densities and
matrices, and the choice of the drawing."""

from collections.abc import Callable

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from bench.datasets.metrics import BOUNDS
from bench.judged.rows import NO_BACKBONE, FigureRow, Heading
from bench.report.figures import lines
from bench.report.figures.lines import Looks, looks, place_of
from bench.report.figures.style import add_texts, grid


def draw_densities(picture: Figure, figure: FigureRow, table: pd.DataFrame, series: Looks) -> None:
    """Densities of cosines by range of gold scores, those of the first series at the left."""
    (panel,) = grid(picture, height=3.9, xlabel="gold score", ylabel="cosine")
    for side, (label, rows) in zip(
        ("low", "high"), table.groupby("series", sort=False), strict=False
    ):
        groups, look = rows.groupby("group")["cosine"], series[label]
        drawn = panel.violinplot(
            [*groups.apply(list)], [*groups.groups], widths=0.9, side=side,
            showmeans=True, showextrema=False,
        )  # fmt: skip
        for drawing in (*drawn["bodies"], drawn["cmeans"]):
            drawing.set_color(look["color"])
        panel.plot([], [], **look)  # in the legend
    # Every training has the same pairs.
    trainings = len(table[["series", "seed"]].drop_duplicates())
    sizes = table["group"].value_counts() // trainings
    groups = range(len(BOUNDS) + 1)
    names = [f"{group} to {group + 1}\n{sizes.get(group, 0)} pairs" for group in groups]
    panel.set_xticks(groups, names)


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
    "alignment": lines.draw_alignment,
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
