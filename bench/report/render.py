"""Everything that is rendered of a suite, at once: what the workflow's last rules write."""

from pathlib import Path

from bench.comparison.against_baseline import NothingToCompare
from bench.comparison.reproduction import judge
from bench.report.audit import write as write_audit
from bench.report.comparison_table import render_versus
from bench.report.coverage import report as report_coverage
from bench.report.figures import render_figures
from bench.report.page import render_page
from bench.report.tables import render_tables
from bench.reported.audit import findings
from bench.results.suite_results import read_suite
from bench.utils.errors import warn
from bench.utils.files import files_together


def render(suite_dir: Path, out: Path, figures_dir: Path) -> None:
    """Write tables and page of a suite into `out`, and its figures, from the results it has.
    If anything fails, nothing is written."""
    suite = read_suite(suite_dir)
    cells = judge(suite)
    with files_together(out) as made, files_together(figures_dir) as figures:
        tables, report = made / "tables", made / "report"
        render_tables(suite, cells, tables)
        report_coverage(suite, cells, tables / "coverage.md")
        write_audit(findings(), tables / "audit.md")
        render_figures(suite, cells, figures)
        if suite.plan.baseline:
            try:
                render_versus(suite, suite.plan.baseline, out=tables, figures=figures)
            except NothingToCompare as error:
                warn(f"no comparison: {error}")
        scores, place = suite_dir / "scores", out / "report"
        render_page(suite, cells, figures, report, out / "tables", scores, place)
