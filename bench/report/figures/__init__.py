"""Figures: printed averages beside ours, the suite's leaderboards, and the papers' figures redrawn
from our scores."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib

from bench.comparison.reproduction import Cell, frame
from bench.report.figures.compared import board_figure, board_stem, comparison, figure_stems
from bench.report.figures.papers import draw, paper_figures
from bench.report.figures.style import STYLE, save
from bench.report.tables import leaderboards
from bench.results.suite_results import SuiteResults


def render_figures(suite: SuiteResults, cells: Sequence[Cell], out: Path) -> None:
    """Write the leaderboards, `<paper>_<table>` where a number of ours stands beside print, and
    `<paper>_<figure>` as PNG and PDF, each with its data as CSV."""
    with matplotlib.rc_context(STYLE):
        for name, board in leaderboards(suite).items():
            data = board.drop(columns="run_ids")
            save(board_figure(suite, board, name), out / board_stem(name), data)
        for stem, averages in figure_stems(cells).items():
            if any(cell.is_measured for cell in averages):
                save(comparison(suite, averages), out / stem, frame(averages))
        for figure, data in paper_figures(suite):
            save(draw(suite, figure, data), out / figure.stem, data.table)
