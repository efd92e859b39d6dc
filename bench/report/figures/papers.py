"""The papers' figures, redrawn from a suite's own measurements."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pandas as pd
from matplotlib.figure import Figure

from bench.report.figures import lines, spreads
from bench.report.figures.described import PaperFigure, load_figures
from bench.report.figures.labels import headed, place_of
from bench.report.figures.measured import FigureData, figure_data
from bench.results.suite_results import SuiteResults

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


def paper_figures(suite: SuiteResults) -> Iterator[tuple[PaperFigure, FigureData]]:
    """The figures of `figures.yaml` that the suite has data for, each with its data.

    Raises:
        UserError: `figures.yaml` or an analysis of the suite is damaged.
    """
    for figure in load_figures():
        if data := figure_data(figure, suite):
            yield figure, data


def draw(suite: SuiteResults, figure: PaperFigure, data: FigureData) -> Figure:
    """A figure with a note: how it was measured, what is missing, what it is not comparable to."""
    title, table = figure.heading, data.table
    if not headed(figure):
        title += f", {place_of(table, figure.series[0].backbone)}"
    notes = [figure.note, *data.remarks, suite.remark_on(table["measured_on"])]
    return DRAW[figure.kind](figure, table, title, " ".join(filter(None, notes)))


def paper_stems(suite: SuiteResults) -> dict[str, str]:
    """The papers' figures that the suite has data for: stem of the file names -> heading."""
    return {figure.stem: figure.heading for figure, _ in paper_figures(suite)}
