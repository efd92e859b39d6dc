"""Commands that present results: tables, figures, pages."""

import os
import shlex
from pathlib import Path
from typing import Annotated

import typer

from bench.cli.parameters import (
    RESULTS,
    OptionalSuite,
    Suite,
    Yes,
    arg,
    command,
    one_of,
    opt,
    parse_tasks,
)
from bench.cli.start import start
from bench.report import LEADERBOARD_FORMATS
from bench.utils.errors import UserError, listed

PAPER = arg("A paper, such as gs-infonce-v2.", "PAPER")
TABLE = arg("A table of the paper, such as 'Table 2'.", "TABLE")
CORES = os.cpu_count() or 1


@command(epilog="Example: sentbench show gs-infonce-v2 'Table 2' --suite paper")
def show(
    paper: Annotated[str | None, PAPER] = None,
    table: Annotated[str | None, TABLE] = None,
    suite: OptionalSuite = None,
    form: Annotated[
        str, opt("The format of leaderboards.", name="--format", **one_of(LEADERBOARD_FORMATS))
    ] = "text",
    rows: Annotated[
        list[str] | None, opt("Methods or labels in leaderboards. By default all.", "NAME ...")
    ] = None,
    why: Annotated[
        str | None, opt("Show what the verdicts of this row or method rest on.", "ROW")
    ] = None,
) -> None:
    """Show the leaderboards of a suite, or a printed table.

    With --suite alone, the leaderboards have every system with its seeds and its difference from
    the baseline. As CSV they are one table. With a paper and a table, the printed numbers are
    shown, and --suite adds our scores and verdicts below each row. With a paper alone, the names
    of its tables are shown.
    """
    from bench.judge.stage import judge_plans, read_suite

    if paper and not table:
        from bench.reported.address import find_paper, tables_of

        for name, titles in tables_of(find_paper(paper)).items():
            print(f"{name}: {listed(titles)}")
    elif paper and table and form == "text" and not rows:
        from bench.report.printed_table import printed_table
        from bench.reported.address import address, find_paper, find_rows, find_table

        source = find_paper(paper)
        name = find_table(source, table)
        judged = read_suite(suite) if suite else judge_plans([])
        addresses = {*map(address, find_rows(source, name, why))} if why else ()
        print(printed_table(judged, source, name, addresses, print_alone=not suite))
    elif suite and not paper:
        from bench.report.leaderboard import show_leaderboards
        from bench.report.printed_table import printed_table
        from bench.runs.naming import find_runs
        from bench.runs.plan import read_plan

        judged = read_suite(suite)
        systems = []
        if why:  # of one row, all that its verdicts rest on
            rows, form = [why], "why"
        for text in rows or []:
            runs = find_runs(text, read_plan(suite / "plan.json").runs)
            names = {(run.method, run.setting) for run in runs}
            systems += [row for row in judged.systems if (row.method, row.setting) in names]
        print(show_leaderboards(judged, form, systems if rows else judged.systems))
        if form == "text" and not rows:
            own = [(number.source, number.table) for number in judged.numbers if number.is_own]
            for place in dict.fromkeys(own):
                print(f"\n{printed_table(judged, *place)}")
    else:
        raise UserError(
            "nothing to show: name a suite, as in --suite smoke, which --format and --rows need; "
            "or a paper and its table, as in gs-infonce-v2 'Table 2'"
        )


@command(epilog="Example: sentbench reproduce gs-infonce-v2 'Table 2' --row GS-InfoNCE")
def reproduce(
    context: typer.Context,
    paper: Annotated[str, PAPER],
    table: Annotated[str, TABLE],
    row: Annotated[str, opt("A row as printed, or a method for all its rows.", "ROW")],
    backbone: Annotated[
        str | None, opt("A backbone as printed. By default all of the row.", "NAME")
    ] = None,
    seeds: Annotated[
        int | None, opt("The number of seeds. By default as many as planned.", "N", min=1)
    ] = None,
    tasks: Annotated[
        list[str] | None, opt("Tasks to score. By default all that the row has.", "NAME ...")
    ] = None,
    cores: Annotated[
        int, opt("The number of CPU cores. By default all.", "N", min=1, show_default=False)
    ] = CORES,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", "-n", help="Only print the configuration.")
    ] = False,
    yes: Yes = False,
) -> int:
    """Run one row of a printed table.

    The command writes the configuration results/NAME/config.yaml, runs it with Snakemake, and shows
    the table with the results. It prints hours, disk and device first, and asks if it is long. The
    paper suite has the same runs. To continue an interrupted run, give the same command again.
    """
    import torch

    from bench.judge.stage import read_suite
    from bench.report.formats import rendered
    from bench.report.printed_table import printed_table
    from bench.reported.address import address, find_paper, find_rows, find_table
    from bench.results.provenance import runs_per_gpu
    from bench.runs import config as configurations
    from bench.runs.row_config import row_config
    from bench.stages.cost import rough, work_of
    from bench.utils.files import write_text

    source = find_paper(paper)
    name = find_table(source, table)
    rows = find_rows(source, name, row, backbone)
    content = row_config(rows, seeds, parse_tasks(tasks or []))
    suite = RESULTS / content.suite
    file = suite / "config.yaml"
    show_again = f"sentbench show {shlex.join([source, name])} --suite {suite}"
    suite_plan = configurations.plan(content)
    hours = rough(work_of(suite_plan.runs))
    text = rendered(
        "reproduce.txt", title=f"{source}, {name}: {row}", file=file, cores=cores, hours=hours,
        slurm=configurations.SLURM, show_again=show_again,
        content=configurations.dump(content),
    )  # fmt: skip
    if dry_run:  # the output is the file itself, with comments on how to write it
        again = f"sentbench reproduce {shlex.join(context.obj)}"
        print(f"# Write this file with:\n#   mkdir -p {suite} && {again} > {file}")
        print(text, end="")
        return 0
    write_text(file, text)
    options, slots = ["--cores", str(cores)], torch.cuda.device_count() * runs_per_gpu()
    if slots:
        options += ["--resources", f"gpu={slots}"]
    status = start(file, suite_plan, options, yes)
    if status:
        return status
    print(printed_table(read_suite(suite), source, name, {*map(address, rows)}))
    print(f"\nPage: {suite}/report/index.html\nShow the table again: {show_again}")
    return 0


@command(epilog="Example: sentbench coverage --suite paper")
def coverage(
    suite: OptionalSuite = None,
    out: Annotated[Path | None, opt("Write the tables to this file.", "FILE.md")] = None,
) -> None:
    """Show which printed numbers are covered.

    The command counts the printed numbers that have a recipe, a planned run, a score of ours and a
    verdict, and gives the reasons why others have none. Without --suite, the plans of the suites
    paper and chinese count.
    """
    from bench.judge.stage import judge_plans, read_suite
    from bench.report.coverage import report
    from bench.runs import config as configurations

    if suite:
        judged = read_suite(suite)
    else:
        suites = map(configurations.load, configurations.PAPERS)
        judged = judge_plans([configurations.plan(content) for content in suites])
    print(report(judged, out))


@command(epilog="Example: sentbench audit sscl")
def audit(paper: Annotated[str | None, PAPER] = None, suite: OptionalSuite = None) -> None:
    """Check the printed numbers for contradictions.

    By default all papers are checked. With --suite, the numbers that its configuration adds are
    checked, if it adds any.
    """
    from bench.report.formats import rendered
    from bench.reported.address import find_paper
    from bench.reported.audit import FINDING_KINDS, findings
    from bench.reported.number import own_numbers
    from bench.runs.plan import read_plan

    source = paper and find_paper(paper)
    own = own_numbers(read_plan(suite / "plan.json").printed) if suite else []
    results = findings(own, claims=()) if own else findings()
    if source:
        results = [finding for finding in results if finding.source == source]
    print(rendered("audit.txt", findings=results, kinds=FINDING_KINDS))


@command(epilog="Example: sentbench render paper --out partial")
def render(
    suite: Suite,
    out: Annotated[
        Path | None,
        opt("Write tables/ and report/ here. By default to the suite's folder.", "FOLDER"),
    ] = None,
    figures: Annotated[
        Path | None, opt("Write figures here. By default to figures/ beside tables/.", "FOLDER")
    ] = None,
) -> None:
    """Render all tables, figures and the page of a suite.

    The command works while a suite runs. It uses the results that exist, and tables and page say
    which runs are missing.
    """
    from bench.judge.stage import read_suite
    from bench.report.render import render as render_all

    out = out or suite
    render_all(read_suite(suite), out, figures or out / "figures", suite / "scores")
    print(out / "report" / "index.html")
