"""Commands for printed tables: show one, and reproduce a row of it."""

import os
import shlex
import sys
from pathlib import Path
from typing import Annotated

from bench.cli.parameters import OptionalSuite, arg, command, opt, read_tasks

Paper = Annotated[str, arg("The paper, such as gs-infonce-v2.", "PAPER")]
Table = Annotated[str, arg("Its table, as printed: 'Table 2'.", "TABLE")]


@command()
def show(paper: Paper, table: Table, suite: OptionalSuite = None) -> None:
    """Show a printed table.

    With --suite, our scores and their verdicts stand below each row.
    """
    from bench.report.printed_table import printed_table
    from bench.reported.address import find_paper, find_table

    source = find_paper(paper)
    print(printed_table(source, find_table(source, table), suite))


@command()
def reproduce(
    paper: Paper,
    table: Table,
    row: Annotated[str, opt("A row, as printed, or a method.", "ROW")],
    backbone: Annotated[str | None, opt("As printed; by default all of the row.", "NAME")] = None,
    seeds: Annotated[
        int | None, opt("How many; by default as many as the paper suite.", "N", min=1)
    ] = None,
    tasks: Annotated[
        list[str] | None, opt("Tasks or groups; by default those that the row prints.", "NAME ...")
    ] = None,
    cores: Annotated[int, opt("CPU cores to use; by default all.", "N", min=1)] = os.cpu_count()
    or 1,
    dry_run: Annotated[bool, opt("Only print the configuration.", name="--dry-run")] = False,
) -> int:
    """Run one row of a printed table.

    Plans its runs, runs them, and shows the result. The runs are those of the paper suite. Writes a
    configuration of its own, results/NAME/config.yaml, which Snakemake runs; the same command again
    continues.
    """
    from bench.comparison.row_config import row_config
    from bench.report.printed_table import printed_table
    from bench.reported.address import find_paper, find_rows, find_table
    from bench.runs import config as configurations
    from bench.stages.workflow import run_workflow
    from bench.utils.files import write_text

    source = find_paper(paper)
    name = find_table(source, table)
    rows = find_rows(source, name, row, backbone)
    content = row_config(rows, seeds, read_tasks(tasks or []))
    suite = Path("results", content.suite)
    file = suite / "config.yaml"
    command = shlex.join(["snakemake", "--cores", str(cores), "--configfile", str(file)])
    title = f"# {source}, {name}: {row}. As {file} it runs with: {command}"
    text = f"{title}\n{configurations.dump(content)}"
    if dry_run:
        print(text, end="")
        return 0
    configurations.planned(content)  # raises before a file is written
    write_text(file, text)
    status = run_workflow(file, cores)
    if status:
        print(
            f"error: the workflow ended with status {status}; its messages are above, "
            f"python -m bench status --suite {suite} lists the failed runs",
            file=sys.stderr,
        )
        return status
    print(printed_table(source, name, suite, rows))
    print(f"\nPage: {suite}/report/index.html")
    return 0
