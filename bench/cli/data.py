"""The command that provides the inputs of runs: data, corpora, backbones."""

from pathlib import Path
from typing import Annotated

from bench.cli.parameters import CORPORA, DATA, Suite, arg, command, one_of, opt, read_tasks

KINDS = ["data", "corpus", "backbone"]


@command()
def fetch(
    kind: Annotated[str, arg("What the input is.", **one_of(KINDS))],
    name: Annotated[str, arg(f"Data: {DATA}. Corpus: {CORPORA}. Or a backbone's name.", "NAME")],
    suite: Suite,
    out: Annotated[Path, opt("Where the description of the input is written.", "FILE.json")],
    tasks: Annotated[list[str], opt("For data: tasks that will be scored.", "NAME ...")] = [],
    data: Annotated[
        str, opt("For a corpus derived from evaluation data: that data.", "NAME")
    ] = "senteval",
) -> None:
    """Fetch and verify one input of a suite, and describe it."""
    from bench.runs import paths
    from bench.utils.files import write_json

    write_json(out, paths.describe_input(kind, name, suite, read_tasks(tasks), data))
