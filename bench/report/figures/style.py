"""Palette, layout, titles, notes and saving of all figures. Series differ in shape and colour.

matplotlib's constrained layout makes room for labels, title, legend and note.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import cycle
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.style import context

from bench.judged.rows import NO_BACKBONE
from bench.report.formats import csv
from bench.utils.files import atomic_file, write_text

# From Okabe and Ito's palette: distinguishable with all common kinds of colour vision, and by
# lightness in greyscale.
BLUE, ORANGE, GREEN, PURPLE, SKY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9"
AMBER, WINE = "#E69F00", "#882255"  # the second from Paul Tol's palette
GREY, PALE, INK = "#8A8A8A", "#E6E6E6", "#222222"
STYLE: Any = {
    "font.family": "DejaVu Sans",  # bundled with matplotlib, so files are equal on every machine
    "font.size": 8.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.edgecolor": GREY,
    "pdf.fonttype": 42,
    "text.parse_math": False,  # labels may contain "$"
}
# matplotlib's own style, whatever the user's matplotlibrc says, under ours.
drawing = partial(context, ["default", STYLE])
# Metadata of each file format, without dates.
UNDATED: dict[str, Any] = {
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Producer": None},
}
WIDTH, MARGIN = 7.2, 0.08  # inches: width of a figure, its margins
NOTE_WIDTH, TITLE_WIDTH = 120, 86  # letters per line

Look = dict[str, Any]
PRINTED: Look = {"color": INK, "marker": "|", "ms": 13, "mew": 1.8, "ls": ""}
OFFICIAL: Look = {"color": BLUE, "marker": "o", "ms": 4.2, "mew": 0.8, "ls": "", "alpha": 0.8}
PAPER: Look = {"color": ORANGE, "marker": "s", "ms": 3.6, "mew": 0.9, "ls": "", "alpha": 0.8}
UNTRAINED: Look = {"color": INK, "marker": "D", "ms": 4.2, "mew": 0.8, "ls": ""}
# Colour, line style and marker of series.
SERIES: list[Look] = [
    {"color": BLUE, "ls": "-", "marker": "o"},
    {"color": ORANGE, "ls": (0, (5, 1.6)), "marker": "s"},
    {"color": GREEN, "ls": (0, (1.2, 1.2)), "marker": "^"},
    {"color": PURPLE, "ls": (0, (5, 1.4, 1.2, 1.4)), "marker": "D"},
    {"color": INK, "ls": (0, (8, 2)), "marker": ">"},
    {"color": AMBER, "ls": "-", "marker": "<"},
    {"color": SKY, "ls": (0, (5, 1.4, 1.2, 1.4, 1.2, 1.4)), "marker": "v"},
    {"color": WINE, "ls": (0, (2, 2)), "marker": "p"},
]
# What of a look is left out for a line alone, or markers alone: `look | LINE`.
LINE: Look = {"marker": "None"}
POINTS: Look = {"ls": ""}
# Labels of the axes of alignment and uniformity.
ALIGNMENT = {"xlabel": "uniformity (lower is better)", "ylabel": "alignment (lower is better)"}
# Methods and variants as labelled in figures.yaml: each has the same look in every figure.
PLACES = {
    "SimCSE": 0, "GS-InfoNCE": 1, "SSCL-SimCSE": 2, "IS-CSE": 3, "no dropout": 4, "ESimCSE": 5,
    "DCLR": 6, "delete one word": 7, "dropout 0.1": 0,
}  # fmt: skip


def looks(labels: Sequence[str]) -> dict[str, Look]:
    """The look of each series of a figure. A method has its own, whatever else the figure shows;
    labels that are no method take what is left, in order."""
    taken = {PLACES[label] for label in labels if label in PLACES}
    free = cycle([place for place in range(len(SERIES)) if place not in taken])
    return {label: SERIES[PLACES[label] if label in PLACES else next(free)] for label in labels}


def with_stand_ins(backbone: str, measured_on: Iterable[str]) -> str:
    """A backbone as printed, with what our runs were measured on instead. An encoder without a
    backbone of the suite, such as a published one, stands in for nothing."""
    others = sorted(set(measured_on) - {backbone, NO_BACKBONE, ""})
    return f"{backbone} (ours: {', '.join(others)})" if others else backbone


def key(label: str, look: Look | None = None, **more: Any) -> Line2D:
    """A handle of a legend."""
    return Line2D([], [], **(look or {}), **more, label=label)


def seen(*entries: tuple[Any, Artist]) -> list[Artist]:
    """Legend entries of marks that are drawn: each comes with whether they are, as one boolean or
    as one per row."""
    return [entry for drawn, entry in entries if np.any(drawn)]


def wrapped(text: str, width: int) -> str:
    return fill(text, width, break_on_hyphens=False)  # names of backbones are not broken


def sheet(title: str, notes: Iterable[str], handles: Sequence[Artist], height: float) -> Figure:
    """A figure with title and legend above, and notes below panels of `height` inches in all."""
    figure = Figure((WIDTH, height), layout="constrained")
    figure.get_layout_engine().set(w_pad=MARGIN, h_pad=MARGIN, hspace=0, wspace=0.03)
    below = figure.supxlabel(
        wrapped(" ".join(filter(None, notes)), NOTE_WIDTH),
        x=MARGIN / WIDTH,
        ha="left",
        size=7,
        color=INK,
        style="italic",
    )
    # As many columns as fit.
    for columns in range(len(handles) or 1, 0, -1):
        above = figure.legend(
            handles=list(handles), ncols=columns, loc="outside upper left", alignment="left",
            title=wrapped(title, TITLE_WIDTH), title_fontproperties={"weight": "bold", "size": 9},
            frameon=False, borderaxespad=0.8, borderpad=0,
            handletextpad=0.4, columnspacing=1.4, labelspacing=0.25,
        )  # fmt: skip
        if columns == 1 or above.get_window_extent().width < figure.bbox.width:
            break
        above.remove()
    around = above.get_window_extent().height + below.get_window_extent().height
    figure.set_figheight(height + around / figure.dpi + 2 * MARGIN)
    return figure


def grid(
    title: str,
    notes: Iterable[str],
    handles: Sequence[Artist],
    headings: Sequence[str] = ("",),
    *,
    xlabel: str = "",
    ylabel: str = "",
    columns: int = 2,
    height: float = 2.4,
) -> tuple[Figure, list[Axes]]:
    """A figure with a panel per heading, row by row.

    Args:
        title, notes: texts above and below the panels.
        handles: of the legend, between title and panels.
        xlabel, ylabel: of every panel, of the first panel in each row.
        columns: the most panels in a row.
        height: of a row of panels with their labels, in inches.
    """
    columns = min(columns, len(headings))
    rows = -(-len(headings) // columns)
    figure = sheet(title, notes, handles, rows * height)
    for number, text in enumerate(headings):
        panel = figure.add_subplot(rows, columns, number + 1)
        panel.tick_params(length=2, color=GREY)
        panel.grid(color="#F0F0F0", lw=0.6)
        panel.set(axisbelow=True, xlabel=xlabel, ylabel="" if number % columns else ylabel)
        heading(panel, text)
    return figure, figure.axes


def heading(panel: Axes, text: str) -> None:
    """A panel's title."""
    panel.set_title(text, loc="left", size=8, weight="bold", pad=3)


def save(figure: Figure, stem: Path, data: pd.DataFrame) -> None:
    """Write PNG and PDF, and their data as CSV."""
    write_text(stem.with_name(f"{stem.name}.csv"), csv(data))
    for kind in UNDATED:
        save_picture(figure, stem.with_name(f"{stem.name}.{kind}"))


def save_picture(figure: Figure, path: Path) -> None:
    """Write one file; PNG and PDF are reproducible."""
    kind = path.suffix.removeprefix(".")
    with atomic_file(path) as temporary:
        figure.savefig(temporary, format=kind, dpi=150, metadata=UNDATED.get(kind))
