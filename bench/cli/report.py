"""Commands that present results: tables, figures, pages, comparisons, exports."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from bench.cli.parameters import SUITE_FOLDER, Command, Suite, arg, one_of, opt
from bench.export import EXPORT_FORMATS
from bench.utils.errors import UserError

app = typer.Typer()


@app.command(cls=Command)
def compare(
    suite: Suite,
    baseline: Annotated[
        str, opt("The baseline, as in configurations: method[key=value,...].", metavar="METHOD")
    ],
    method: Annotated[
        list[str] | None, opt("By default all planned methods.", metavar="METHOD ...")
    ] = None,
    backbone: Annotated[
        list[str] | None, opt("By default all planned backbones.", metavar="NAME ...")
    ] = None,
    out: Annotated[Path | None, opt("A folder for tables and figures.", metavar="FOLDER")] = None,
    figures: Annotated[
        Path | None, opt("Another folder for the figures.", metavar="FOLDER")
    ] = None,
) -> None:
    """Compare methods of a suite with a baseline, paired by seed.

    Gains printed in papers are shown beside those measured.
    """
    from bench.report.comparison_table import render_versus

    print(render_versus(suite, baseline, method or [], backbone or [], out, figures))


@app.command(cls=Command)
def coverage(
    suite: Annotated[
        list[Path] | None,
        opt(
            "results/<suite>; without it, no run has finished.",
            metavar="FOLDER ...",
            **SUITE_FOLDER,
        ),
    ] = None,
    config: Annotated[
        list[Path] | None,
        opt(
            "Planned suites, without --suite; by default paper and chinese.",
            metavar="FILE.yaml ...",
        ),
    ] = None,
    out: Annotated[
        Path | None, opt("FILE.md, or FILE.csv with one row per printed number.", metavar="FILE")
    ] = None,
) -> None:
    """Show which printed numbers are covered.

    Counts the numbers that have a recipe, a place in a plan, a score of ours and a verdict, with
    the reasons why others have none.
    """
    from bench.report.coverage import render_coverage
    from bench.runs.config import PAPERS

    if suite and config:
        raise UserError(
            "--suite has a plan of its own; leave --config out, or name the configuration alone"
        )
    print(render_coverage(suite or [], config or PAPERS, out))


@app.command(cls=Command)
def audit(
    out: Annotated[Path | None, opt("FILE.csv or FILE.md.", metavar="FILE")] = None,
    figure: Annotated[
        Path | None, opt("FILE.png: printed gains beside the spread of seeds.", metavar="FILE")
    ] = None,
) -> None:
    """Check the printed numbers for contradictions."""
    from bench.report.audit import report, write
    from bench.reported.audit import findings

    contradictions = findings()
    if out:
        write(contradictions, out)
    if figure:
        from bench.report.figures.compared import write_gains

        write_gains(figure)
    print(report(contradictions))


@app.command(cls=Command)
def export(
    suite: Suite,
    what: Annotated[str, opt("The format.", **one_of(EXPORT_FORMATS))],
    out: Annotated[
        Path,
        opt(
            "A folder used for nothing else; a later export may replace it.",
            metavar="FOLDER",
            file_okay=False,
        ),
    ],
    run: Annotated[
        list[str] | None, opt("By default all runs with the necessary results.", metavar="ID ...")
    ] = None,
) -> None:
    """Export results of a suite in a format of other tools.

    The formats are model folders of sentence-transformers, results of mteb, and tidy tables.
    """
    from bench.export import export as export_suite

    for remark in export_suite(suite, what, out, run or []):
        print(f"note: {remark}", file=sys.stderr)
    print(out)


@app.command(cls=Command)
def render(
    suite: Annotated[Path, arg("The suite's folder, results/<suite>.", metavar="SUITE")],
    out: Annotated[
        Path | None, opt("For tables/ and report/; by default SUITE.", metavar="FOLDER")
    ] = None,
    figures: Annotated[
        Path | None, opt("For the figures; by default figures/ beside tables/.", metavar="FOLDER")
    ] = None,
) -> None:
    """Render all tables, figures and the page of a suite.

    They are made of the results that are there, and say so if runs are missing; so this works while
    a suite runs.
    """
    from bench.report.render import render as render_all

    out = out or suite
    render_all(suite, out, figures or out / "figures")
    print(out / "report" / "index.html")
