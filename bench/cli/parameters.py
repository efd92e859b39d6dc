"""Parsing of options, and the parameters that several commands share."""

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperOption

from bench.datasets.tasks import GROUPS
from bench.utils.errors import UserError, did_you_mean

# A word that names an option, as argparse has it: not "-", a negative number or a text with spaces.
OPTION = re.compile(r"--?[A-Za-z][^\s=]*")


class Command(TyperCommand):
    """A command whose list options take all words up to the next option, as in `--tasks sts TREC
    --mode dev`. Typer's own form, `--tasks sts --tasks TREC`, works as well."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.obj = list(args)  # as typed, for what prints the command again
        options = [option for option in self.get_params(ctx) if isinstance(option, TyperOption)]
        lists = {name: option for option in options if option.multiple for name in option.opts}
        # Each word of a list becomes an option of Typer's form.
        words: list[str] = []
        current = ""  # the list option that takes the next word
        for count, word in enumerate(args):
            if word == "--":
                words += args[count:]
                break
            if not OPTION.match(word):
                words.append(f"{current}={word}" if current else word)
                continue
            current = word if word in lists else ""
            # A list may be empty where that is its default: rules pass lists that can be empty.
            is_bare = not args[count + 1 :] or OPTION.match(args[count + 1])
            if not current:
                words.append(word)
            elif is_bare and lists[current].default != []:
                raise UserError(f"{current} needs a value")
        return super().parse_args(ctx, words)


app = typer.Typer(
    epilog="COMMAND --help shows the arguments of a command. README.md has examples.",
    subcommand_metavar="COMMAND ...",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    add_completion=False,
    rich_markup_mode=None,  # rich loads longer than everything else here
)
command = partial(app.command, cls=Command)  # declares a function as a command


def opt(text: str, metavar: str | None = None, name: str = "", **more: Any) -> Any:
    """An option of a command, with its help; its name is by default the parameter's name."""
    return typer.Option(*filter(None, [name]), help=text, metavar=metavar, **more)


def arg(text: str, metavar: str | None = None, **more: Any) -> Any:
    """An argument of a command, with its help."""
    return typer.Argument(help=text, metavar=metavar, **more)


def one_of(values: Sequence[str]) -> dict[str, Any]:
    """Settings of an option or argument that takes one of these values."""

    def parse(word: str) -> str:
        if word not in values:
            raise typer.BadParameter(f"'{word}' is unknown{did_you_mean(word, values)}")
        return word

    return {"parser": parse, "metavar": "|".join(values)}


def parse_tasks(words: Sequence[str]) -> list[str]:
    """Split names of tasks at commas."""
    return [name for word in words for name in word.split(",") if name]


_SUITE = opt("The suite's folder, results/<suite>.", "FOLDER", "--suite", file_okay=False)
SuiteFolder = Annotated[Path, _SUITE]
OptionalSuite = Annotated[Path | None, _SUITE]

CORPORA_HELP = "world, wiki1m, wiki1m_fallback, nli, sts, cnsd, or a text file"
DATA_HELP = "world, senteval, or a folder with downstream/"

# What an encoder is scored on.
Tasks = Annotated[list[str], opt(f"{', '.join(GROUPS)}, or names of tasks.", "NAME ...")]
Mode = Annotated[
    str, opt("Training of classifiers: as in papers, or fast.", **one_of(["test", "dev"]))
]

Yes = Annotated[bool, opt("Start without a question, however long it takes.", name="--yes")]
