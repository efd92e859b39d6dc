"""Commands that provide the inputs of runs: data, corpora, backbones."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bench.cli.parameters import Command, Suite, WorldSeed, one_of, read_tasks

app = typer.Typer()

World = Annotated[
    Path, typer.Option(metavar="FOLDER", help="The embedded world, as the command world writes it.")
]


@app.command(cls=Command)
def fetch(
    kind: Annotated[
        str, typer.Argument(**one_of(["data", "corpus", "backbone"]), help="What the input is.")
    ],
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its name, as in configurations.")],
    suite: Suite,
    out: Annotated[
        Path,
        typer.Option(metavar="FILE.json", help="Where the description of the input is written."),
    ],
    tasks: Annotated[
        list[str], typer.Option(metavar="NAME ...", help="For data: tasks that will be scored.")
    ] = [],
    data: Annotated[
        str,
        typer.Option(metavar="NAME", help="For a corpus derived from evaluation data: that data."),
    ] = "senteval",
) -> None:
    """Fetch and verify one input of a suite, and describe it."""
    from bench.runs import paths
    from bench.utils.files import write_json

    write_json(out, paths.describe_input(kind, name, suite, read_tasks(tasks), data))


@app.command(cls=Command)
def world(
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="The folder to write.")],
    seed: WorldSeed = 0,
) -> None:
    """Generate the data folder of the embedded world."""
    from bench.world import build

    build(out, seed=seed)


@app.command(cls=Command)
def pretrain(
    world: World,
    kind: Annotated[
        str,
        typer.Option(**one_of(["bert", "roberta", "chinese"]), help="Architecture and language."),
    ],
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="The folder to write.")],
    seed: WorldSeed = 0,
    threads: Annotated[int, typer.Option(metavar="N", help="Number of threads.")] = 1,
) -> None:
    """Pre-train a toy backbone on the embedded world."""
    from bench.world.toy_backbones import pretrain as pretrain_backbone

    pretrain_backbone(world, kind, out, seed=seed, threads=threads)


@app.command("word-vectors", cls=Command)
def word_vectors(
    world: World,
    out: Annotated[Path, typer.Option(metavar="FILE.txt", help="The file to write.")],
) -> None:
    """Make toy word vectors, in GloVe's format.

    They come from the corpus of the embedded world.
    """
    from bench.world.toy_word_vectors import make_vectors

    make_vectors(world, out)
