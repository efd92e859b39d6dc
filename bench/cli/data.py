"""The command that provides the inputs of runs: data, corpora, backbones."""

from pathlib import Path
from typing import Annotated

import typer

from bench.cli.parameters import CORPORA, DATA, Command, Suite, arg, one_of, opt, read_tasks

app = typer.Typer()


@app.command(cls=Command)
def fetch(
    kind: Annotated[str, arg("What the input is.", **one_of(["data", "corpus", "backbone"]))],
    name: Annotated[
        str,
        arg(
            f"As in configurations. Data: {DATA}. Corpus: {CORPORA}. Or a backbone's name.",
            metavar="NAME",
        ),
    ],
    suite: Suite,
    out: Annotated[
        Path, opt("Where the description of the input is written.", metavar="FILE.json")
    ],
    tasks: Annotated[
        list[str], opt("For data: tasks that will be scored.", metavar="NAME ...")
    ] = [],
    data: Annotated[
        str, opt("For a corpus derived from evaluation data: that data.", metavar="NAME")
    ] = "senteval",
) -> None:
    """Fetch and verify one input of a suite, and describe it."""
    from bench.runs import paths
    from bench.utils.files import write_json

    write_json(out, paths.describe_input(kind, name, suite, read_tasks(tasks), data))
