"""Palette, layout, titles, notes and saving of all figures. Series differ in shape and colour."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle
from math import ceil
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from bench.report.formats import csv
from bench.utils.files import atomic_file, write_text

# From Okabe and Ito's palette: distinguishable with all common kinds of colour vision, and by
# lightness in greyscale.
BLUE, ORANGE, GREEN, PURPLE, SKY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9"
AMBER = "#E69F00"
WINE = "#882255"  # from Paul Tol's palette
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
# Metadata of each file format, without dates.
UNDATED: dict[str, Any] = {
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Producer": None},
}
WIDTH, LINE = 7.2, 0.12  # inches: width of a figure, height of a note's line
# Inches, of `grid`: space below and above panels (with and without a heading), height of a legend
# row and of a title line.
BELOW, ABOVE, PLAIN, KEYS, TITLE = 0.42, 0.2, 0.06, 0.16, 0.15
GAP = 0.05  # inches between title and legend
LETTER, KEY = 0.058, 0.5  # inches: width of a legend letter and of a legend key
NOTE_WIDTH, TITLE_WIDTH = 120, 86  # letters per line

Look = dict[str, Any]
IN_LEGEND: Look = {"ms": 9}  # strokes no higher than a line of the legend
PRINTED: Look = {"color": INK, "marker": "|", "ms": 13, "mew": 1.8, "ls": ""}
OFFICIAL: Look = {"color": BLUE, "marker": "o", "ms": 4.2, "mew": 0.8, "ls": "", "alpha": 0.8}
PAPER: Look = {"color": ORANGE, "marker": "s", "ms": 3.6, "mew": 0.9, "ls": "", "alpha": 0.8}
UNTRAINED: Look = {"color": INK, "marker": "D", "ms": 4.2, "mew": 0.8, "ls": ""}
# Line styles and markers of series.
LINES: list[Look] = [
    {"color": BLUE, "ls": "-"},
    {"color": ORANGE, "ls": (0, (5, 1.6))},
    {"color": GREEN, "ls": (0, (1.2, 1.2))},
    {"color": PURPLE, "ls": (0, (5, 1.4, 1.2, 1.4))},
    {"color": INK, "ls": (0, (8, 2))},
    {"color": AMBER, "ls": "-"},
    {"color": SKY, "ls": (0, (5, 1.4, 1.2, 1.4, 1.2, 1.4))},
    {"color": WINE, "ls": (0, (2, 2))},
]
MARKS = ["o", "s", "^", "D", ">", "<", "v", "p"]
# Methods and variants as labelled in figures.yaml: each has the same look in every figure.
PLACES = {
    "SimCSE": 0, "GS-InfoNCE": 1, "SSCL-SimCSE": 2, "IS-CSE": 3, "no dropout": 4, "ESimCSE": 5,
    "DCLR": 6, "delete one word": 7, "dropout 0.1": 0,
}  # fmt: skip


@dataclass(frozen=True)
class SeriesLook:
    """How a series is drawn."""

    color: str
    ls: Any
    marker: str

    @property
    def line(self) -> Look:
        return {"color": self.color, "ls": self.ls}

    @property
    def points(self) -> Look:
        return {"color": self.color, "marker": self.marker, "ls": ""}

    @property
    def marked_line(self) -> Look:
        return self.points | self.line


def looks(labels: Sequence[str]) -> dict[str, SeriesLook]:
    """The look of each series of a figure. A method has its own, whatever else the figure shows;
    labels that are no method take what is left, in order."""
    taken = {PLACES[label] for label in labels if label in PLACES}
    free = cycle([place for place in range(len(LINES)) if place not in taken] or range(len(LINES)))
    places = {label: PLACES[label] if label in PLACES else next(free) for label in labels}
    return {label: SeriesLook(**LINES[i], marker=MARKS[i]) for label, i in places.items()}


def key(label: str, look: Look | None = None, **more: Any) -> Line2D:
    """A handle of a legend."""
    return Line2D([], [], **(look or {}), **more, label=label)


def sheet(title: str, note: str, handles: Sequence[Artist], height: float) -> tuple[Figure, float]:
    """A figure with title, legend and note, high enough for panels of `height` between legend and
    note; and where these end above. Heights are in inches from below."""
    title, note = wrapped(title, TITLE_WIDTH), wrapped(note, NOTE_WIDTH)
    columns = key_columns(handles)
    head = GAP + TITLE * (title.count("\n") + 1)
    above = 0.15 + head + KEYS * ceil(len(handles) / max(columns, 1))
    below = 0.12 + (note.count("\n") + 1 if note else 0) * LINE
    whole = above + height + below
    figure = Figure(figsize=(WIDTH, whole))
    left = 0.1 / WIDTH
    figure.text(left, 1 - 0.1 / whole, title, va="top", weight="bold", size=9, linespacing=1.1)
    figure.text(left, 0.08 / whole, note, va="bottom", size=7, color=INK, style="italic")
    if handles:
        figure.legend(
            handles=list(handles), loc="upper left", ncols=columns,
            bbox_to_anchor=(left, 1 - (0.09 + head) / whole),
            frameon=False, borderaxespad=0, borderpad=0.2,
            handletextpad=0.4, columnspacing=1.4, labelspacing=0.25,
        )  # fmt: skip
    return figure, whole - above


def grid(
    title: str,
    note: str,
    handles: Sequence[Artist],
    headings: Sequence[str] = ("",),
    *,
    xlabel: str = "",
    ylabel: str = "",
    columns: int | None = None,
    height: float = 2.4,
    left: float = 0.58,
    right: float = 0.12,
    below: float = BELOW,
    gap: float = 0.62,
) -> tuple[Figure, list[Axes]]:
    """A figure with a panel per heading, row by row, and a legend between title and panels.

    Args:
        title, note: texts above and below the panels.
        handles: of the legend.
        headings: of the panels; all are empty, or none.
        xlabel: of every panel.
        ylabel: of the first panel in each row.
        columns: number of panels in a row; all by default.
        height: of each panel, in inches, as all of the following.
        left, right: margins of the figure.
        below: space for a panel's axis.
        gap: space between two panels in a row.
    """
    columns = columns or len(headings)
    above = ABOVE if any(headings) else PLAIN
    rows = ceil(len(headings) / columns)
    figure, top = sheet(title, note, handles, rows * (above + height + below))
    whole = figure.get_figheight()
    width = (WIDTH - left - right - (columns - 1) * gap) / columns
    for number, text in enumerate(headings):
        row, column = divmod(number, columns)
        x = left + column * (width + gap)
        y = top - (row + 1) * (above + height) - row * below
        panel = figure.add_axes((x / WIDTH, y / whole, width / WIDTH, height / whole))
        panel.tick_params(length=2, color=GREY)
        panel.grid(color="#F0F0F0", lw=0.6)
        panel.set(axisbelow=True, xlabel=xlabel, ylabel="" if column else ylabel)
        heading(panel, text)
    return figure, figure.axes


def key_columns(handles: Sequence[Artist]) -> int:
    """The largest number of legend columns that fit; matplotlib fills by column."""
    lengths = [len(str(handle.get_label())) for handle in handles]
    for columns in range(len(lengths), 1, -1):
        longest = [max(part) for part in np.array_split(lengths, columns)]
        if sum(KEY + LETTER * length for length in longest) < WIDTH - 0.2:
            return columns
    return min(len(lengths), 1)


def wrapped(text: str, width: int) -> str:
    return fill(text, width, break_on_hyphens=False)  # names of backbones are not broken


def heading(panel: Axes, text: str) -> None:
    """A panel's title."""
    panel.set_title(text, loc="left", size=8, weight="bold", pad=3)


def color_bar(figure: Figure, panel: Axes, scale: ScalarMappable, text: str) -> None:
    """A colour bar in the right margin of a panel."""
    box = panel.get_position()
    place = figure.add_axes((box.x1 + 0.12 / WIDTH, box.y0, 0.12 / WIDTH, box.height))
    bar = figure.colorbar(scale, cax=place)
    bar.outline.set_visible(False)
    bar.set_label(text)
    place.tick_params(length=2, color=GREY)


def save(figure: Figure, stem: Path, data: pd.DataFrame) -> None:
    """Write PNG and PDF without dates, so that files are reproducible, and their data as CSV."""
    write_text(stem.with_name(stem.name + ".csv"), csv(data))
    for kind in UNDATED:
        save_picture(figure, stem.with_name(f"{stem.name}.{kind}"))


def save_picture(figure: Figure, path: Path) -> None:
    """Write one file, in a format of `UNDATED`."""
    kind = path.suffix.removeprefix(".")
    with atomic_file(path) as temporary:
        figure.savefig(temporary, format=kind, dpi=150, metadata=UNDATED[kind])
