"""The program: all commands, and how a command line is parsed and run."""

import sys
from contextlib import redirect_stdout
from functools import cache
from typing import Annotated, Any

import typer
from typer.main import get_command

from bench.cli.parameters import app
from bench.utils.errors import UserError

# They declare the commands.
from bench.cli import runs, evaluate, report, lists  # noqa: F401 # isort: skip

NAME = "sentbench"  # [project.scripts] in pyproject.toml


@app.callback()
def _program(
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    """Benchmark suite for unsupervised sentence embeddings."""


@cache
def commands() -> Any:
    """The parser with all commands."""
    return get_command(app)


def run(words: list[str]) -> int:
    """Run a command line without the program's name; the exit status.

    Raises:
        UserError: the command line is wrong, or what the command works on.
    """
    group = commands()
    if not words:  # a mistake, so the help goes to the stream of errors
        with redirect_stdout(sys.stderr):
            run(["--help"])
        return 2
    try:
        # Not `group.main`, which ends the process where a reader of the output has ended.
        with group.make_context(NAME, words) as context:
            return group.invoke(context) or 0
    except typer.Exit as ended:
        return ended.exit_code
    except typer.TyperException as error:
        # In the form of the other messages.
        message = error.format_message().rstrip(".")
        failed = getattr(error, "ctx", None)
        where = failed.command_path if failed else NAME
        raise UserError(f"{message[0].lower()}{message[1:]}; see {where} --help") from None
