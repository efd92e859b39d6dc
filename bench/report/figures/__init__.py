"""Figures: printed averages beside ours, the suite's leaderboards, and the papers' figures redrawn
from our scores."""

from pathlib import Path

import matplotlib

from bench.comparison.reproduction import cells
from bench.report.figures.compared import board_figure, board_stem, comparison, figure_stems
from bench.report.figures.papers import draw, paper_figures
from bench.report.figures.style import STYLE, save
from bench.report.printed_table import is_measured
from bench.report.tables import leaderboards
from bench.results.suite_results import read_suite

__all__ = ["board_stem", "figure_stems", "render_figures"]


def render_figures(suite_dir: Path, out: Path) -> None:
    """Write the leaderboards, `<paper>_<table>` where a number of ours stands beside print, and
    `<paper>_<figure>` as PNG and PDF, each with its data as CSV.

    Raises:
        UserError: files of the suite are missing or damaged, or `out` cannot be written.
    """
    suite = read_suite(suite_dir)
    with matplotlib.rc_context(STYLE):
        for name, board in leaderboards(suite).items():
            data = board.drop(columns="run_ids")
            save(board_figure(suite, board, name), out / board_stem(name), data)
        for stem, table in figure_stems(cells(suite)).items():
            if not is_measured(table):
                continue
            save(comparison(suite, table), out / stem, table)
        for figure, data in paper_figures(suite):
            save(draw(suite, figure, data), out / figure.stem, data.table)
