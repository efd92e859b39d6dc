"""Commands that present results: tables, figures, pages."""

import os
import shlex
from pathlib import Path
from typing import Annotated

import typer

from bench.cli.parameters import (
    OptionalSuite,
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

PAPER = arg("The paper, such as gs-infonce-v2.", "PAPER")
TABLE = arg("Its table, as printed: 'Table 2'.", "TABLE")
CORES = os.cpu_count() or 1


@command()
def show(
    paper: Annotated[str | None, PAPER] = None,
    table: Annotated[str | None, TABLE] = None,
    suite: OptionalSuite = None,
    form: Annotated[
        str, opt("Of leaderboards.", name="--format", **one_of(LEADERBOARD_FORMATS))
    ] = "text",
    rows: Annotated[
        list[str] | None, opt("Methods or labels of leaderboards; by default all.", "NAME ...")
    ] = None,
    why: Annotated[
        str | None, opt("A row or method; shows what its verdicts rest on.", "ROW")
    ] = None,
) -> None:
    """Show the leaderboards of a suite, or a printed table.

    With --suite alone, every system with its seeds and its difference from the baseline. With a
    paper and a table, the printed numbers; --suite adds our scores and verdicts below each row.
    With a paper alone, its tables. As CSV, the leaderboards are one table.
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
            "nothing to show: name a suite's folder, as in --suite results/smoke, which --format "
            "and --rows need; or a paper and its table, as in gs-infonce-v2 'Table 2'"
        )


@command()
def reproduce(
    context: typer.Context,
    paper: Annotated[str, PAPER],
    table: Annotated[str, TABLE],
    row: Annotated[str, opt("A row, as printed, or a method.", "ROW")],
    backbone: Annotated[str | None, opt("As printed; by default all of the row.", "NAME")] = None,
    seeds: Annotated[int | None, opt("By default as many as planned.", "N", min=1)] = None,
    tasks: Annotated[list[str] | None, opt("By default all that it prints.", "NAME ...")] = None,
    cores: Annotated[int, opt("CPU cores to use; by default all.", "N", min=1)] = CORES,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", "-n", help="Only print the configuration.")
    ] = False,
    yes: Yes = False,
) -> int:
    """Run one row of a printed table.

    Plans its runs, runs them, and shows the result. The paper suite has the same runs. Writes the
    configuration results/NAME/config.yaml, which Snakemake runs, and asks first if it is long; the
    same command again continues.
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
    suite = Path("results", content.suite)
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


@command()
def coverage(
    suite: OptionalSuite = None,
    config: Annotated[
        list[Path] | None, opt("Without --suite; by default paper, chinese.", "FILE.yaml ...")
    ] = None,
    out: Annotated[Path | None, opt("FILE.md.", "FILE")] = None,
) -> None:
    """Show which printed numbers are covered.

    Counts the numbers that have a recipe, a place in a plan, a score of ours and a verdict, with
    the reasons why others have none.
    """
    from bench.judge.stage import judge_plans, read_suite
    from bench.report.coverage import report
    from bench.runs import config as configurations

    if suite:
        judged = read_suite(suite)
    else:
        files = config or configurations.PAPERS
        judged = judge_plans([configurations.plan(configurations.load(file)) for file in files])
    print(report(judged, out))


@command()
def audit(paper: Annotated[str | None, PAPER] = None, suite: OptionalSuite = None) -> None:
    """Check the printed numbers for contradictions, by default of all papers.

    With --suite, the numbers that its configuration adds, if it adds any.
    """
    from bench.report.formats import rendered
    from bench.reported.address import find_paper
    from bench.reported.audit import FINDING_KINDS, findings
    from bench.reported.number import own_numbers
    from bench.runs.plan import read_plan

    source = paper and find_paper(paper)
    own = own_numbers(read_plan(suite / "plan.json").printed) if suite else []
    every = findings(own, claims=()) if own else findings()
    results = [finding for finding in every if source in (None, finding.source)]
    print(rendered("audit.txt", findings=results, kinds=FINDING_KINDS))


@command()
def render(
    suite: Annotated[Path, arg("The suite's folder, results/<suite>.", "SUITE")],
    out: Annotated[Path | None, opt("For tables/ and report/; by default SUITE.", "FOLDER")] = None,
    figures: Annotated[Path | None, opt("By default figures/ beside tables/.", "FOLDER")] = None,
) -> None:
    """Render all tables, figures and the page of a suite.

    They are made of the results that are there, and say so if runs are missing; so this works while
    a suite runs.
    """
    from bench.judge.stage import read_suite
    from bench.report.render import render as render_all

    out = out or suite
    render_all(read_suite(suite), out, figures or out / "figures", suite / "scores")
    print(out / "report" / "index.html")
