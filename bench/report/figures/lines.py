"""The papers' figures of lines: over a swept value, seeds, layers or batch sizes, which share one
drawing, and of trainings; and texts of all of the papers' figures."""

from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.judged.rows import FigureRow
from bench.judged.words import LOG, OURS, PRINT
from bench.report.figures.style import GREY, INK, RANKS, SERIES, Look, grid, with_stand_ins

Looks = dict[str, Look]  # of series, by their label

POINTS: Look = {"ls": ""}
LINE: Look = {"markevery": []}
HOLLOW = POINTS | {"mfc": "none"}
# Labels of the axes of alignment and uniformity.
ALIGNMENT: Any = {"xlabel": "uniformity (lower is better)", "ylabel": "alignment (lower is better)"}


def of(origin: str, table: pd.DataFrame) -> pd.DataFrame:
    """The rows of one origin."""
    return table[table["origin"] == origin]


def looks(table: pd.DataFrame) -> Looks:
    """The look of each series of a figure. Its label has the number of seeds, as a range if that
    differs between runs."""
    found = {}
    for label, rows in of(OURS, table).groupby("series", sort=False):
        counts = rows.groupby(["backbone", "run"])["seed"].nunique()
        ends = sorted({counts.min(), counts.max()})
        text = label if ends == [0] else f"{label}, n = {' to '.join(map(str, ends))}"
        # Series stand above all else, and so first in the legend.
        found[label] = SERIES[label] | {"label": text, "zorder": 3}
    return found


def place_of(table: pd.DataFrame, backbone: str) -> str:
    """A backbone as printed, with its stand-in if there is one."""
    return with_stand_ins(backbone, table.loc[table["backbone"] == backbone, "measured_on"])


# --- Lines over a swept value, seeds, layers, or batch sizes ---

SCORE, COSINE = "Spearman x 100", "mean cosine"
READINGS = {
    "cls": "[CLS]",
    "mean": "mean of the tokens",
    "without_special": "without special tokens",
    "with_special": "with special tokens",
}

STROKE: Look = {"marker": "_", "ms": 11}
PRINTED_STROKE = STROKE | {"color": INK, "mew": 1.8, "ls": "", "label": "printed", "zorder": 1}
MEAN_STROKE = STROKE | {"label": "mean", "zorder": 2}


def draw_lines(
    picture: Figure,
    points: pd.DataFrame,
    series: Looks,
    *,
    columns: int = 2,
    height: float = 2.9,
    **labels: str,
) -> None:
    """Draw every seed over x, equally spaced, a line through the means of each series, which are
    strokes like printed values.

    Args:
        points: has the columns `panel` (its heading), `series`, `x`, `value`, `origin` and `seed`.
        columns, height, labels: as of `grid`. Panels share their range, so that spreads can be
            compared.
    """
    xs, names = sorted(points["x"].unique()), points["panel"].unique()
    axes = grid(picture, names, columns=columns, height=height, **labels)
    panels = dict(zip(names, axes, strict=True))
    for panel in axes[1:]:
        panel.sharey(axes[0])
    points = points.assign(at=points["x"].map(xs.index))
    for (name, label), rows in of(OURS, points).groupby(["panel", "series"], sort=False):
        panel, look = panels[name], series[label]
        panel.plot(rows["at"], rows["value"], **look | HOLLOW)
        means = rows.groupby("at")["value"].mean()
        panel.plot(means.index, means, **look | MEAN_STROKE)
    for name, rows in of(PRINT, points).groupby("panel"):
        panels[name].plot(rows["at"], rows["value"], **PRINTED_STROKE)
    for panel in axes:
        panel.set(xlim=(-0.6, len(xs) - 0.4), ymargin=0.12)
        panel.set_xticks(range(len(xs)), [f"{x:g}" for x in xs])


def _scores(table: pd.DataFrame) -> pd.DataFrame:
    """Scores with their panel, one for each task and split."""
    tasks = table["task"].replace("Avg", "STS average")
    return table.assign(panel=tasks + ", " + table["split"])


def draw_sweep(picture: Figure, figure: FigureRow, table: pd.DataFrame, series: Looks) -> None:
    """Scores over a swept value."""
    draw_lines(picture, _scores(table), series, xlabel=figure.x, ylabel=SCORE)


def draw_seeds(picture: Figure, figure: FigureRow, table: pd.DataFrame, series: Looks) -> None:
    """Scores of every seed, the series side by side."""
    points = _scores(table).assign(x=table["series"].map(list(series).index))
    draw_lines(picture, points, series, columns=4, height=1.8, ylabel=SCORE)
    for panel in picture.axes:
        panel.set_xticks([])


def draw_layers(picture: Figure, figure: FigureRow, table: pd.DataFrame, series: Looks) -> None:
    """Similarity by layer, or of a layer and the next."""
    points = table.assign(panel=table["reading"].replace(READINGS), x=table["layer"])
    xlabel = "layer and the next" if figure.kind == "setsim" else "layer"
    draw_lines(picture, points, series, xlabel=xlabel, ylabel=COSINE)


def draw_batches(picture: Figure, figure: FigureRow, table: pd.DataFrame, series: Looks) -> None:
    """Similarity of neighbours by batch size, a series per rank."""
    points = table.rename(columns={"batch": "x", "noise": "Gaussian noise"})
    points["series"] = [RANKS[rank - 1] for rank in table["rank"]]
    kept = ["series", "run", "backbone", "seed", "origin", "x"]
    points = points.melt(kept, ["sentences", "Gaussian noise"], var_name="panel")
    draw_lines(picture, points, looks(points), xlabel="batch size", ylabel=COSINE)


# --- Trainings ---


def _panels(picture: Figure, table: pd.DataFrame, height: float, **labels: Any) -> dict[str, Axes]:
    """A panel per backbone."""
    names = table["backbone"].unique()
    headings = [place_of(table, name) for name in names]
    return dict(zip(names, grid(picture, headings, height=height, **labels), strict=True))


def common_mean(rows: pd.DataFrame, values: list[str]) -> pd.DataFrame:
    """Means over seeds, at the steps that all seeds have: elsewhere the mean would jump as seeds
    drop out."""
    groups = rows.groupby("step")
    return groups[values].mean()[groups["seed"].nunique() == rows["seed"].nunique()]


def draw_curves(picture: Figure, figure: FigureRow, table: pd.DataFrame, series: Looks) -> None:
    """Dev score against the step: mean and range over seeds, the kept checkpoints, the printed best
    step, and a released log."""
    panels = _panels(picture, table, 2.6, xlabel="step", ylabel="dev, Spearman x 100")
    places = ["backbone", "series", "origin"]
    for (backbone, label, origin), rows in table.groupby(places, sort=False):
        panel, look = panels[backbone], series[label]
        if origin == LOG:
            log = {"ls": look["ls"], "lw": 0.9, "label": "released log (same dashes)"}
            panel.plot(rows["step"], rows["dev"], color=GREY, **log, zorder=1)
        elif origin == PRINT:
            for step in rows["step"]:
                panel.axvline(step, color=INK, lw=0.9, ls=":", zorder=1, label="printed best step")
        else:
            mean = common_mean(rows, ["dev"])["dev"]
            panel.plot(mean.index, mean, **look | LINE)
            ends = rows.groupby("step")["dev"].agg(["min", "max"])
            shade = {"color": look["color"], "alpha": 0.2, "lw": 0, "label": "all seeds"}
            panel.fill_between(ends.index, ends["min"], ends["max"], **shade)
            best = rows[rows["best"].eq(True)]
            panel.plot(best["step"], best["dev"], **look | HOLLOW | {"label": "kept checkpoint"})


def draw_path(picture: Figure, figure: FigureRow, table: pd.DataFrame, series: Looks) -> None:
    """Alignment against uniformity at each evaluation of a training, from a hollow marker to a
    filled one."""
    panels = _panels(picture, table, 3.4, **ALIGNMENT)
    for (backbone, label), rows in table.groupby(["backbone", "series"], sort=False):
        panel, look = panels[backbone], series[label]
        for _, seed in rows.groupby("seed"):
            thin = {"color": look["color"], "lw": 0.4, "alpha": 0.45, "label": "a seed"}
            panel.plot(seed["uniformity"], seed["alignment"], **thin)
        mean = common_mean(rows, ["uniformity", "alignment"])
        panel.plot(mean["uniformity"], mean["alignment"], **look | LINE)
        ends = look | POINTS | {"ms": 6}
        panel.plot(*mean.iloc[0], **ends | {"mfc": "white", "label": "first selection"})
        panel.plot(*mean.iloc[-1], **ends | {"label": "last"})


def draw_alignment(picture: Figure, figure: FigureRow, table: pd.DataFrame, series: Looks) -> None:
    """Alignment against uniformity: every seed, and means with the average STS score."""
    panels = _panels(picture, table, 2.9, **ALIGNMENT)
    for (backbone, label), rows in table.groupby(["backbone", "series"], sort=False):
        panel, look = panels[backbone], series[label]
        panel.plot(rows["uniformity"], rows["alignment"], **look | HOLLOW | {"label": "a seed"})
        x, y, average = rows[["uniformity", "alignment", "average"]].mean()
        panel.plot(x, y, **look | POINTS | {"ms": 7})
        if pd.notna(average):
            panel.annotate(f"{average:.1f}", (x, y), (8, 4), textcoords="offset points")
        panel.margins(0.2)
