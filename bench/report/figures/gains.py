"""The printed gains over SimCSE beside what seeds alone make of SimCSE."""

from __future__ import annotations

from pathlib import Path

import matplotlib
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from bench.report.figures import style
from bench.report.figures.rows import aside, panels
from bench.reported.gains import printed_gains
from bench.utils.errors import UserError

REACH = {"color": "#C9CED6", "lw": 0}
GAIN: style.Look = {"color": style.ORANGE, "marker": "|", "ms": 13, "mew": 2.4, "ls": ""}
NOTE = (
    "Grey: 95 % of the differences of two of 50 public runs (hppRC/simple-simcse), as 1.96 √2 "
    "standard deviations. Right: share of all pairs of these runs that are at least as far apart. "
    "SSCL's averages are means of three runs."
)


def gains_figure() -> Figure:
    """A panel per method and a row per backbone; gains outside the range of seeds stand out."""
    table = printed_gains()
    within = table["gain"] < table["reach"]
    count = f"{within.sum()} of {len(table)}"
    title = f"{count} printed gains over SimCSE are within the spread of its seeds"
    handles = [
        style.key("printed gain", GAIN | style.IN_LEGEND),
        Patch(**REACH, label="differences of two runs of SimCSE, by the seed alone"),
    ]
    names = list(table["backbone"])
    scale = "gain over SimCSE on the STS average (Spearman x 100)"
    rows = table.assign(backbone=table["method"])
    figure, drawn = panels(rows, names, title, NOTE, handles, scale)
    for panel, _, part in drawn:
        for y, row in enumerate(part.itertuples()):
            panel.fill_between((0, row.reach), y - 0.32, y + 0.32, **REACH, zorder=1)
            panel.plot(row.gain, y, **GAIN, zorder=3)
            beyond = row.gain >= row.reach
            color = style.ORANGE if beyond else style.INK
            aside(panel, y, f"{100 * row.share:.0f} % of pairs", color=color, bold=beyond)
    drawn[0][0].set_xlim(0, 1.04 * table["reach"].max())
    return figure


def write_gains(path: Path) -> None:
    """Write the figure as PNG or PDF.

    Raises:
        UserError: the extension is another one.
    """
    if path.suffix.removeprefix(".") not in style.UNDATED:
        raise UserError(f"--figure is '{path}'; its extension must be .png or .pdf")
    with matplotlib.rc_context(style.STYLE):
        style.save_picture(gains_figure(), path)
