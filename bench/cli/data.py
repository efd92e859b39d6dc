"""Commands that provide the inputs of runs: data, corpora, backbones."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bench.cli.parameters import (
    CORPORA,
    DATA,
    Command,
    Suite,
    WorldSeed,
    arg,
    one_of,
    opt,
    read_tasks,
    whole_number,
)
from bench.utils.errors import UserError

app = typer.Typer()


def _world(word: str) -> Path:
    if not (Path(word) / "world.txt").is_file():
        raise UserError(
            f"--world '{word}' is no embedded world; "
            "make it with: python -m bench world --out FOLDER"
        )
    return Path(word)


World = Annotated[
    Path,
    typer.Option(
        parser=_world, metavar="FOLDER", help="The embedded world, as the command world writes it."
    ),
]


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


@app.command(cls=Command)
def world(
    out: Annotated[Path, opt("The folder to write.", metavar="FOLDER")], seed: WorldSeed = 0
) -> None:
    """Generate the data folder of the embedded world."""
    from bench.world import build

    build(out, seed=seed)


@app.command(cls=Command)
def pretrain(
    world: World,
    kind: Annotated[
        str, opt("Architecture and language.", **one_of(["bert", "roberta", "chinese"]))
    ],
    out: Annotated[Path, opt("The folder to write.", metavar="FOLDER")],
    seed: WorldSeed = 0,
    threads: Annotated[int, opt("Number of threads.", **whole_number("threads", high=1024))] = 1,
) -> None:
    """Pre-train a toy backbone on the embedded world."""
    from bench.world.toy_backbones import pretrain as pretrain_backbone

    pretrain_backbone(world, kind, out, seed=seed, threads=threads)


@app.command("word-vectors", cls=Command)
def word_vectors(
    world: World, out: Annotated[Path, opt("The file to write.", metavar="FILE.txt")]
) -> None:
    """Make toy word vectors, in GloVe's format.

    They come from the corpus of the embedded world.
    """
    from bench.world.toy_word_vectors import make_vectors

    make_vectors(world, out)
