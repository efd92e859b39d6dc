"""Figures of rows: a panel per backbone below each other, a row per method, an axis of scores that
all share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import ArrayLike

from bench.registry.backbones import NO_BACKBONE
from bench.report.figures.style import (
    GREY,
    INK,
    KEYS,
    LINE,
    NOTE_WIDTH,
    PALE,
    TITLE,
    TITLE_WIDTH,
    WIDTH,
    frame,
    heading,
    key_columns,
    wrapped,
)
from bench.results.records import is_outside

# Inches: margins, least height of a row, height of a line of its name and space between two names,
# extra height of a panel.
LEFT, RIGHT, TOP, BOTTOM, ROW, NAME, SPACE, PANEL = 2.55, 1.25, 0.35, 0.62, 0.22, 0.12, 0.05, 0.38
NAME_SIZE, NAME_WIDTH = 7, 45  # points, letters per line
AXIS = WIDTH - LEFT - RIGHT
# A gap separates outliers if it is wider than this share of the rest, these points, and this many
# median gaps.
APART, NEAR, USUAL = 0.2, 3.0, 2
FEW = 0.25  # the largest share of marks that can be outliers
MARGIN, ARROW = 0.05, 0.5  # share of the axis beside the marks; inches of an arrow and its value

Panels = list[tuple[Axes, str, pd.DataFrame]]
Ends = tuple[float, float]


def panels(
    table: pd.DataFrame,
    names: Sequence[str],
    title: str,
    note: str,
    handles: Sequence[Artist],
    scale: str,
) -> tuple[Figure, Panels]:
    """A figure with a panel per backbone.

    Args:
        table: has a column `backbone`, and one row per row of a panel.
        names: of the rows. All have the same size, and rows are as high as the longest needs.
        title, note: texts above and below the panels.
        handles: of the legend, between title and panels.
        scale: label of the axis.

    Returns:
        The figure, and each panel, headed by its backbone, with the backbone and its rows.
    """
    title, note = wrapped(title, TITLE_WIDTH), wrapped(note, NOTE_WIDTH)
    lines = pd.Series([wrapped(name, NAME_WIDTH) for name in names], index=table.index)
    row = max([ROW, *(NAME * (text.count("\n") + 1) + SPACE for text in lines)])
    parts = dict(list(table.groupby("backbone", sort=False)))
    keys = key_columns(handles)
    above = TOP + title.count("\n") * TITLE + KEYS * (ceil(len(handles) / max(keys, 1)) - 1)
    height = above + BOTTOM + note.count("\n") * LINE
    height += sum(len(part) * row + PANEL for part in parts.values())
    figure = Figure(figsize=(WIDTH, height))
    axes: list[Axes] = []
    top = height - above
    for backbone, part in parts.items():
        count = len(part)
        bottom = top - PANEL - count * row
        box = (LEFT / WIDTH, bottom / height, AXIS / WIDTH, count * row / height)
        panel = figure.add_axes(box, sharex=axes[0] if axes else None)
        panel.set_ylim(count - 0.5, -0.5)
        panel.set_yticks(range(count), lines[part.index], size=NAME_SIZE)
        panel.tick_params(axis="y", length=0)
        panel.tick_params(axis="x", length=2, color=GREY, labelbottom=False)
        panel.grid(axis="x", color="#F0F0F0", lw=0.6)
        panel.set_axisbelow(True)
        across = panel.get_yaxis_transform()
        panel.hlines(range(count), 0, 1, transform=across, color=PALE, lw=0.6, zorder=0)
        heading(panel, place(backbone, part))
        axes.append(panel)
        top = bottom
    for last in axes[-1:]:  # there are none if the suite has no data
        last.tick_params(axis="x", labelbottom=True)
        last.locator_params(axis="x", nbins=8)
        last.set_xlabel(scale)
    frame(figure, title, note, handles, keys)
    return figure, [(axis, *part) for axis, part in zip(axes, parts.items(), strict=True)]


def place(backbone: str, rows: pd.DataFrame) -> str:
    """A backbone, or what its rows are that have none."""
    if backbone != NO_BACKBONE.name:
        return backbone
    outside = [is_outside(label) for label in rows.get("label", ())]
    kinds = [] if outside and all(outside) else ["no backbone"]
    kinds += ["outside encoder" + "s" * (sum(outside) > 1)] * any(outside)
    return ", ".join(kinds)


def aside(panel: Axes, y: float, text: str, *, color: str = INK, bold: bool = False) -> None:
    """A text to the right of a row."""
    weight = "bold" if bold else "normal"
    across = panel.get_yaxis_transform()
    panel.text(1.02, y, text, transform=across, va="center", color=color, weight=weight)


def core(values: ArrayLike) -> Ends:
    """The range of the values without outliers: the few at an end that a wide gap separates.

    >>> core([24.0, 49.0, 69.0, 69.5, 70.0, 70.5, 71.0, 71.5])
    (69.0, 71.5)
    """
    kept = np.sort(np.asarray(values, dtype=float))
    spare = int(FEW * len(kept))
    found = True
    while found:  # one end may hide what is far at the other
        found = False
        for side in (1, -1):  # from the lowest, then from the highest
            gaps = np.abs(np.diff(kept[::side]))[:spare]
            rest = np.abs(kept[::side][-1] - kept[::side][1 : len(gaps) + 1])
            usual = max(NEAR, USUAL * np.median(np.diff(kept))) if spare else NEAR
            if len(far := np.flatnonzero(gaps > np.maximum(APART * rest, usual))):
                kept = kept[::side][far[-1] + 1 :][::side]
                spare -= int(far[-1]) + 1
                found = True
    return float(kept[0]), float(kept[-1])


def zoom(drawn: Panels, always: Sequence[float] = ()) -> None:
    """Zoom on the marks that lie together, and on the scores `always`. Where a row has marks
    beyond, an arrow at the edge shows their mean. Call it when all marks are drawn."""
    marks = {panel: _marks(panel) for panel, *_ in drawn}
    values = np.array([x for lines in marks.values() for line in lines for x in line.get_xdata()])
    values = values[np.isfinite(values)]
    if not len(values):
        return
    low, high = core(values)
    inner, ends = (min([low, *always]), max([high, *always])), (np.nan, np.nan)
    while inner != ends:  # the space for arrows may reach an outlier, which is then none
        ends = inner
        limits = _limits(marks, ends)
        seen = values[(limits[0] <= values) & (values <= limits[1])]
        inner = (float(min(seen.min(), ends[0])), float(max(seen.max(), ends[1])))
    next(iter(marks)).set_xlim(limits)
    for panel, lines in marks.items():
        for side, end in zip((-1, 1), ends, strict=True):
            for y, texts in _beyond(lines, side, end).items():
                for place, (text, color) in enumerate(texts.items()):
                    _arrow(panel, y, text, side, color, place)


def _marks(panel: Axes) -> list[Line2D]:
    """What is drawn at scores, not at places of the panel."""
    return [line for line in panel.get_lines() if line.get_transform() is panel.transData]


def _limits(marks: Mapping[Axes, Sequence[Line2D]], ends: Ends) -> Ends:
    """Limits of an axis that shows all between `ends`, and arrows for what lies beyond."""
    low, high = ends
    margin = MARGIN * (high - low) or 1.0
    shares = []
    for side, end in zip((-1, 1), ends, strict=True):
        most = 0  # arrows beside a row's other marks
        for lines in marks.values():
            shown = {_row(line) for line in lines if _within(line, ends)}
            beyond = _beyond(lines, side, end)
            most = max([most, *(len(beyond[y]) for y in shown & beyond.keys())])
        shares.append(ARROW / AXIS * most)
    span = (high - low + 2 * margin) / (1 - sum(shares))
    return low - margin - shares[0] * span, high + margin + shares[1] * span


def _row(line: Line2D) -> int:
    return round(float(line.get_ydata()[0]))


def _within(line: Line2D, ends: Ends) -> bool:
    xs = np.asarray(line.get_xdata(), dtype=float)
    return bool(((ends[0] <= xs) & (xs <= ends[1])).any())


def _beyond(lines: Sequence[Line2D], side: int, end: float) -> dict[int, dict[str, str]]:
    """By row, what lies beyond an end of the axis: as text the mean of a line's values there, with
    the line's colour."""
    found: dict[int, dict[str, str]] = {}
    for line in lines:
        xs = np.asarray(line.get_xdata(), dtype=float)
        if len(out := xs[side * xs > side * end]):
            text = f"{out.mean():.2f}".replace("-", "−")
            found.setdefault(_row(line), {}).setdefault(text, str(line.get_color()))
    return found


def _arrow(panel: Axes, y: float, text: str, side: int, color: str, place: int) -> None:
    """An arrow at the edge of a row, and its value; `place` counts from the edge."""
    across = panel.get_yaxis_transform()
    at = (0.0 if side < 0 else 1.0) - side * (place * ARROW / AXIS + 0.012)
    look = {"marker": "<" if side < 0 else ">", "ms": 5, "color": color, "ls": ""}
    panel.plot([at], [y], **look, transform=across, zorder=5)
    panel.text(
        at - side * 0.02, y, text, transform=across, size=NAME_SIZE, color=color,
        va="center_baseline", ha="left" if side < 0 else "right",
    )  # fmt: skip
