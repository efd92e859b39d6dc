"""All figures of a suite."""

from pathlib import Path

from bench.judged.rows import Judged
from bench.report.comparison_table import decisive, pairs_frame
from bench.report.figures.compared import (
    comparison,
    figure_stems,
    leaderboard_figure,
    versus_figure,
)
from bench.report.figures.crossed import crossed_figure, crossed_table
from bench.report.figures.papers import draw, table_of
from bench.report.figures.style import drawing, save
from bench.report.formats import leaderboard_stem
from bench.report.leaderboard import frame, shown_leaderboards
from bench.report.tables import number_frame
from bench.utils.groups import grouped


def render_figures(judged: Judged, out: Path) -> None:
    """Write the leaderboards, the comparisons with a baseline, `<paper>_<table>` if a number of
    ours can be compared with it, and `<paper>_<figure>`: PNG, PDF, and their data as CSV."""
    heading = judged.suite
    with drawing():
        for leaderboard in shown_leaderboards(judged):
            picture = leaderboard_figure(
                heading, leaderboard, judged.leaderboard_systems(leaderboard.name)
            )
            save(picture, out, leaderboard_stem(leaderboard.name), frame(judged, leaderboard.name))
        for pairs in grouped(judged.pairs, "leaderboard"):
            picture = versus_figure(heading, decisive(heading, pairs))
            name = leaderboard_stem(pairs[0].leaderboard, "compare")
            save(picture, out, name, pairs_frame(pairs))
        crossed = crossed_table(judged.pairs)
        if len(crossed) > 2:  # two systems have no order to speak of
            save(crossed_figure(heading, crossed), out, "compare_sts_transfer", crossed)
        for stem, averages in figure_stems(judged.numbers).items():
            save(comparison(heading, averages), out, stem, number_frame(averages))
        for figure in judged.series:
            # A figure has the columns of all kinds of figures, most of them empty.
            data = table_of(figure).dropna(axis="columns", how="all")
            save(draw(heading, figure), out, figure.stem, data)
