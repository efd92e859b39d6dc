"""Everything that is rendered of a judged suite, at once: the files of the workflow's last rule."""

import os
from pathlib import Path
from urllib.parse import quote

from bench.judged.rows import Judged
from bench.report import coverage
from bench.report.comparison_table import write_comparisons
from bench.report.figures.all import render_figures
from bench.report.leaderboard import write_leaderboards
from bench.report.page import render_page
from bench.report.summary import summary
from bench.report.tables import write_tables
from bench.utils.errors import warn
from bench.utils.files import files_together, write_text


def render(judged: Judged, out: Path, figures_dir: Path, scores: Path) -> None:
    """Write tables and page of a suite into `out`, and its figures; `scores` is the folder of its
    scores, to which the page links. If anything fails, nothing is written."""
    if judged.suite.uncompared:
        warn(f"no comparison: {judged.suite.uncompared}")
    with files_together(out) as folder, files_together(figures_dir) as figures:
        tables, report = folder / "tables", folder / "report"
        # The page is last: it links to tables and copies figures, which must be there.
        write_leaderboards(judged, tables)
        write_tables(judged, tables)
        coverage.report(judged, tables / "coverage.md")
        render_figures(judged, figures)
        write_comparisons(judged.suite, judged.pairs, tables)
        render_page(judged, figures, report, quote(os.path.relpath(scores, out / "report")))
        write_text(report / "summary.txt", summary(judged, out, figures_dir))
