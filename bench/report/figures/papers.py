"""The figures of the papers, redrawn from a suite's own measurements."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pandas as pd
from matplotlib.figure import Figure

from bench.report.figures import lines, spreads
from bench.report.figures.described import PaperFigure, load_figures
from bench.report.figures.labels import place_of
from bench.report.figures.measured import Measured, measure
from bench.results.suite_results import Suite

DRAW: dict[str, Callable[[PaperFigure, pd.DataFrame, str, str], Figure]] = {
    "sweep": lines.draw_sweep,
    "seeds": spreads.draw_seeds,
    "curves": lines.draw_curves,
    "path": spreads.draw_path,
    "alignment": spreads.draw_alignment,
    "densities": spreads.draw_densities,
    "setsim": lines.draw_layers,
    "toksim": lines.draw_layers,
    "tokens": spreads.draw_tokens,
    "in-batch": lines.draw_in_batch,
}


def paper_figures(suite: Suite) -> Iterator[tuple[PaperFigure, Measured]]:
    """The figures of `figures.yaml` of which the suite has anything, each with its numbers.

    Raises:
        UserError: `figures.yaml` or an analysis of the suite is damaged.
    """
    for figure in load_figures():
        if measured := measure(figure, suite):
            yield figure, measured


def draw(suite: Suite, figure: PaperFigure, measured: Measured) -> Figure:
    """A figure with its note: how it was measured, what is missing, and what it cannot be compared with."""
    title, table = figure.heading, measured.table
    if len({series.backbone for series in figure.series}) == 1:
        title += f", {place_of(table, figure.series[0].backbone)}"
    note = " ".join(filter(None, [figure.note, *measured.remarks, suite.remark_on(table["measured_on"])]))
    return DRAW[figure.kind](figure, table, title, note)


def paper_stems(suite: Suite) -> dict[str, str]:
    """The names of the files of the papers' figures that the suite has, each with its heading."""
    return {figure.stem: figure.heading for figure, _ in paper_figures(suite)}
