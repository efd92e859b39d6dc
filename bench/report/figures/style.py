"""Palette, layout, titles, notes and saving of all figures. Series differ in shape and colour.

matplotlib's constrained layout makes room for labels, title, legend and note.
"""

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from textwrap import fill
from typing import Any

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.style import context

from bench.judged.rows import NO_BACKBONE
from bench.judged.verdicts import RANKS
from bench.report.formats import TEMPLATES, csv
from bench.utils.files import atomic_file, inside, write_text

# From Okabe and Ito's palette: distinguishable with all common kinds of colour vision, and by
# lightness in greyscale.
BLUE, ORANGE, GREEN, PURPLE, SKY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9"
AMBER, WINE = "#E69F00", "#882255"  # the second from Paul Tol's palette
GREY, INK = "#8A8A8A", "#222222"
WIDTH, MARGIN = 7.2, 0.08  # inches: width of a figure, its margins
NOTE_WIDTH, TITLE_WIDTH = 120, 86  # letters per line
# The style of matplotlib below ours: a user's matplotlibrc must not change the figures.
drawing = partial(context, ["default", TEMPLATES / "figures.mplstyle"])
# Metadata of each file format, without dates.
UNDATED: dict[str, Any] = {
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Producer": None},
}

Look = dict[str, Any]  # arguments of `Axes.plot`; the label is the entry of the legend
PRINTED_LOOK: Look = {
    "color": INK, "marker": "|", "ms": 9, "mew": 1.8, "ls": "", "label": "printed",
}  # fmt: skip
OFFICIAL: Look = {"color": BLUE, "marker": "o", "ls": "", "alpha": 0.8}
PAPER_LOOK: Look = OFFICIAL | {"color": ORANGE, "marker": "s"}
UNTRAINED_LOOK: Look = {
    "color": INK, "marker": "D", "ls": "",
    "label": "without a seed",  # untrained, published, or fitted once
}  # fmt: skip
# The look of each label of figures.yaml, in every figure.
SERIES: dict[str, Look] = {
    "SimCSE": {"color": BLUE, "ls": "-", "marker": "o"},
    "GS-InfoNCE": {"color": ORANGE, "ls": "--", "marker": "s"},
    "SSCL-SimCSE": {"color": GREEN, "ls": ":", "marker": "^"},
    "IS-CSE": {"color": PURPLE, "ls": "-.", "marker": "D"},
    "no dropout": {"color": INK, "ls": "--", "marker": ">"},
    "ESimCSE": {"color": AMBER, "ls": "-", "marker": "<"},
    "DCLR": {"color": SKY, "ls": "-.", "marker": "v"},
    "delete one word": {"color": WINE, "ls": ":", "marker": "p"},
}
# SimCSE's own dropout is 0.1, so both labels are one series.
SERIES["dropout 0.1"] = SERIES["SimCSE"]
SERIES |= dict(zip(RANKS, SERIES.values(), strict=False))


def with_stand_ins(backbone: str, measured_on: Iterable[str]) -> str:
    """A backbone as printed, with what our runs were measured on instead. An encoder without a
    backbone of the suite, such as a published one, stands in for nothing."""
    stand_ins = sorted(set(measured_on) - {backbone, NO_BACKBONE, ""})
    return f"{backbone} (ours: {', '.join(stand_ins)})" if stand_ins else backbone


wrapped = partial(fill, break_on_hyphens=False)  # names of backbones are not broken


def add_texts(figure: Figure, title: str, notes: Iterable[str]) -> None:
    """Add title and legend above the panels, and notes below; the figure grows by their heights."""
    entries: dict[str, Artist] = {}
    for panel in figure.axes:
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    # The legend names first what is drawn on top.
    handles = sorted(entries.values(), key=Artist.get_zorder, reverse=True)
    text = wrapped(" ".join(filter(None, notes)), NOTE_WIDTH)
    below = figure.supxlabel(text, x=MARGIN / WIDTH, ha="left", size=7, style="italic")
    columns = NOTE_WIDTH // (max(map(len, entries), default=0) + 6)  # as many as have room
    above = figure.legend(
        handles=handles, ncols=max(1, columns), loc="outside upper left", alignment="left",
        title=wrapped(title, TITLE_WIDTH), title_fontproperties={"weight": "bold", "size": 9},
    )  # fmt: skip
    around = above.get_window_extent().height + below.get_window_extent().height
    figure.set_figheight(figure.get_figheight() + around / figure.dpi + 2 * MARGIN)


def save(figure: Figure, out: Path, name: str, data: pd.DataFrame) -> None:
    """Write PNG and PDF, and their data as CSV."""
    write_text(inside(out, f"{name}.csv"), csv(data))
    for extension in UNDATED:
        save_picture(figure, inside(out, f"{name}.{extension}"))


def save_picture(figure: Figure, path: Path) -> None:
    """Write one file; PNG and PDF are reproducible."""
    extension = path.suffix.removeprefix(".")
    with atomic_file(path) as temporary:
        figure.savefig(temporary, format=extension, metadata=UNDATED.get(extension))
