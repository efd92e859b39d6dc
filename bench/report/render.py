"""Everything that is rendered of a suite, at once: what the workflow's last rules write."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from bench.judge.against_baseline import with_baseline
from bench.judge.reproduction import Cell, frame, judge
from bench.judge.world import judge_world
from bench.report import audit, coverage
from bench.report.comparison_table import render_versus
from bench.report.figures.compared import board_figure, board_stem, comparison, figure_stems
from bench.report.figures.papers import draw, paper_figures
from bench.report.figures.style import drawing, save
from bench.report.leaderboard import leaderboards, write_leaderboards
from bench.report.page import render_page
from bench.report.summary import summary
from bench.report.tables import write_tables
from bench.reported.audit import findings
from bench.results.suite_results import SuiteResults, read_suite
from bench.utils.files import files_together, write_text


def render(suite_dir: Path, out: Path, figures_dir: Path) -> None:
    """Write tables and page of a suite into `out`, and its figures, from the results it has.
    If anything fails, nothing is written."""
    suite = read_suite(suite_dir)
    cells, world, compared = judge(suite), judge_world(suite), with_baseline(suite)
    if all(cell.verdict.kind == "not comparable" for cell in world):
        world = []  # a suite of its own recipe
    boards = leaderboards(suite, compared and compared[0])
    with files_together(out) as made, files_together(figures_dir) as figures:
        tables, report = made / "tables", made / "report"
        write_leaderboards(suite, boards, tables)
        write_tables(suite, cells, world, tables)
        coverage.report(suite, cells, tables / "coverage.md")
        audit.write(findings(), tables / "audit.md")
        render_figures(suite, cells, boards, figures)
        if compared:
            render_versus(suite, *compared, tables, figures)
        scores, place = suite_dir / "scores", out / "report"
        render_page(suite, cells, world, boards, figures, report, out / "tables", scores, place)
        write_text(report / "summary.txt", summary(suite, cells, world, compared, out, figures_dir))


def render_figures(
    suite: SuiteResults, cells: Sequence[Cell], boards: Mapping[str, pd.DataFrame], out: Path
) -> None:
    """Write the leaderboards, `<paper>_<table>` where a number of ours can be compared with print,
    and `<paper>_<figure>` as PNG and PDF, each with its data as CSV."""
    with drawing():
        for name, board in boards.items():
            save(board_figure(suite, board, name), out / board_stem(name), board)
        for stem, averages in figure_stems(cells).items():
            save(comparison(suite, averages), out / stem, frame(averages))
        for figure, data in paper_figures(suite):
            save(draw(suite, figure, data), out / figure.stem, data.table)
