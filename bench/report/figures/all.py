"""All figures of a suite, besides the comparisons, which are drawn with their tables."""

from pathlib import Path

from bench.judged.rows import Judged
from bench.report.figures.compared import board_figure, comparison, figure_stems
from bench.report.figures.papers import draw, table_of
from bench.report.figures.style import drawing, save
from bench.report.formats import board_stem
from bench.report.leaderboard import frame, shown_boards
from bench.report.tables import number_frame


def render_figures(judged: Judged, out: Path) -> None:
    """Write the leaderboards, `<paper>_<table>` if a number of ours can be compared with it, and
    `<paper>_<figure>` as PNG and PDF, each with its data as CSV."""
    heading = judged.suite
    with drawing():
        for board in shown_boards(judged):
            picture = board_figure(heading, board, judged.board_systems(board.name))
            save(picture, out, board_stem(board.name), frame(judged, board.name))
        for stem, averages in figure_stems(judged.numbers).items():
            save(comparison(heading, averages), out, stem, number_frame(averages))
        for figure in judged.series:
            data = table_of(figure).dropna(axis="columns", how="all")
            save(draw(heading, figure), out, figure.stem, data)
