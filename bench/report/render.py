"""Everything that is rendered of a suite, at once: what the workflow's last rules write."""

from __future__ import annotations

from pathlib import Path

from bench.report.audit import write as write_audit
from bench.report.comparison_table import render_versus
from bench.report.coverage import render_coverage
from bench.report.figures import render_figures
from bench.report.page import render_page
from bench.report.tables import render_tables
from bench.reported.audit import findings
from bench.results.readers import read_plan


def render(suite_dir: Path, out: Path) -> None:
    """Write `tables/`, `figures/` and `report/` of a suite into `out`, from the results it has.

    Captions, notes and page say how many runs are missing, if any are.

    Raises:
        UserError: files of the suite are missing or damaged, or `out` cannot be written.
    """
    plan = read_plan(suite_dir / "plan.json")
    tables, figures = out / "tables", out / "figures"
    render_tables(suite_dir, tables)
    render_coverage([suite_dir], out=tables / "coverage.md")
    write_audit(findings(), tables / "audit.md")
    render_figures(suite_dir, figures)
    if "baseline" in plan:
        render_versus(suite_dir, plan["baseline"], out=tables, figures=figures)
    render_page(suite_dir, figures, out / "report", tables)
