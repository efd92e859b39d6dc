"""The figure of printed gains over SimCSE, with what seeds alone make of them."""

from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from bench.report.figures.compared import BAND, Mark, Strip, figure_of_rows
from bench.report.figures.style import GREY, ORANGE, PRINTED_LOOK, drawing, save_picture

GAIN = PRINTED_LOOK | {"color": ORANGE, "mew": 2.4, "label": "printed gain"}
SPREAD = BAND | {"label": "± 95 %, by the seeds alone"}
GAINS_NOTE = (
    "Grey: the gain ± 1.96 standard deviations of the difference of the runs behind print (right) "
    "and one run of SimCSE, with the spread of 50 public runs of SimCSE (hppRC/simple-simcse). "
    "Together the gains are more than seeds alone give (p = {:.1g}), unless print has the best of "
    "several runs."
)


def gains_figure(gains: pd.DataFrame) -> Figure:
    """A panel per method and a row per backbone; gains whose interval excludes 0 stand out.

    Args:
        gains: columns `method`, `backbone`, `gain` (points), `half_width` (points, of its 95 %
            interval by seeds alone), `runs` (of the method, behind the printed number), and
            `together` (the probability that seeds alone give as much in all, the same in all rows).
    """
    strips = []
    for row in gains.itertuples():
        text = "1 run" if row.runs == 1 else f"mean of {row.runs} runs"
        ends = [row.gain - row.half_width, row.gain + row.half_width]
        marks: list[Mark] = [(ends, 0, SPREAD), ([row.gain], 0, GAIN)]
        strips.append(Strip(row.method, row.backbone, text, marks, ends[0] > 0))
    undecided = sum(gains["gain"] < gains["half_width"])
    title = f"So few runs neither confirm nor refute {undecided} of {len(gains)} printed gains"
    scale = "gain over SimCSE on the STS average (Spearman x 100)"
    figure = figure_of_rows(strips, title, [GAINS_NOTE.format(gains["together"][0])], scale)
    for panel in figure.axes:
        panel.axvline(0, color=GREY, lw=1, zorder=1)
    return figure


def write_gains(path: Path, gains: pd.DataFrame) -> None:
    """Write the figure in the format that the extension names."""
    with drawing():
        save_picture(gains_figure(gains), path)
