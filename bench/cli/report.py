"""Commands that present results: tables, figures, pages, comparisons, exports."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from bench.cli.parameters import Command, Suite, one_of, suite_dir
from bench.utils.errors import UserError

app = typer.Typer()

OutFolder = Annotated[Path, typer.Option(metavar="FOLDER", help="The folder to write.")]


@app.command(cls=Command)
def tables(suite: Suite, out: OutFolder) -> None:
    """Render all tables of a suite."""
    from bench.report.tables import render_tables

    render_tables(suite, out)


@app.command(cls=Command)
def figures(suite: Suite, out: OutFolder) -> None:
    """Render all figures of a suite."""
    from bench.report.figures import render_figures

    render_figures(suite, out)


@app.command(cls=Command)
def page(
    suite: Suite,
    figures: Annotated[Path, typer.Option(metavar="FOLDER", help="The folder with the figures.")],
    out: OutFolder,
) -> None:
    """Render a web page that links tables and figures."""
    from bench.report.page import render_page

    render_page(suite, figures, out)


@app.command(cls=Command)
def compare(
    suite: Suite,
    baseline: Annotated[
        str,
        typer.Option(
            metavar="METHOD", help="The baseline, as in configurations: method[key=value,...]."
        ),
    ],
    method: Annotated[
        list[str] | None, typer.Option(metavar="METHOD ...", help="By default all planned methods.")
    ] = None,
    backbone: Annotated[
        list[str] | None, typer.Option(metavar="NAME ...", help="By default all planned backbones.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="A folder for tables and figures.")
    ] = None,
    figures: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Another folder for the figures.")
    ] = None,
) -> None:
    """Compare methods of a suite with a baseline, paired by seed.

    Gains printed in papers are shown beside those measured.
    """
    from bench.report.comparison_table import render_versus

    print(render_versus(suite, baseline, method or [], backbone or [], out, figures), end="")


@app.command(cls=Command)
def coverage(
    suite: Annotated[
        list[Path] | None,
        typer.Option(
            parser=suite_dir,
            metavar="FOLDER ...",
            help="results/<suite>; without it, no run has finished.",
        ),
    ] = None,
    config: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE.yaml ...",
            help="Planned suites, without --suite; by default paper and chinese.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="FILE.md, or FILE.csv with one row per printed number."),
    ] = None,
) -> None:
    """Show which printed numbers are covered.

    Counts the numbers that have a recipe, a place in a plan, a score of ours and a verdict, with
    the reasons why others have none.
    """
    from bench.report.coverage import CONFIGS, render_coverage

    if suite and config:
        raise UserError(
            "--suite has a plan of its own; leave --config out, or name the configuration alone"
        )
    print(render_coverage(suite or [], config or CONFIGS, out))


@app.command(cls=Command)
def audit(
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="FILE.csv or FILE.md.")] = None,
) -> None:
    """Check the printed numbers for contradictions."""
    from bench.report.audit import report, write
    from bench.reported.audit import findings

    found = findings()
    if out:
        write(found, out)
    print(report(found))


@app.command(cls=Command)
def export(
    suite: Suite,
    what: Annotated[
        str,
        typer.Option(
            **one_of(["sentence-transformers", "mteb", "table", "tensorboard"]), help="The format."
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            metavar="FOLDER", help="A folder used for nothing else; a later export may replace it."
        ),
    ],
    run: Annotated[
        list[str] | None,
        typer.Option(metavar="ID ...", help="By default all runs with the necessary results."),
    ] = None,
) -> None:
    """Export results of a suite in a format of other tools.

    The formats are model folders of sentence-transformers, results of mteb, tidy tables, and logs
    for TensorBoard.
    """
    from bench.export import export as export_suite

    for remark in export_suite(suite, what, out, run or []):
        print(f"note: {remark}", file=sys.stderr)
    print(out)
