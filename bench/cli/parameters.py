"""Parsing and help of commands, and the parameters that several share, such as a suite."""

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from bench.datasets.tasks import GROUPS
from bench.runs import SUITES
from bench.utils.errors import UserError, did_you_mean

# A word that names an option, as argparse has it: not "-", a negative number or a text with spaces.
OPTION = re.compile(r"--?[A-Za-z][^\s=]*")


# Help names arguments without their Python types: SUITE, not SUITE <Path>.
TyperArgument.display_type_rich = lambda self, ctx: None  # type: ignore[method-assign]


class Command(TyperCommand):
    """A command whose list options take all words up to the next option, as in `--tasks sts TREC
    --mode dev`. Typer's own form, `--tasks sts --tasks TREC`, works as well."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.obj = list(args)  # as typed, for what prints the command again
        lists = {
            name: option
            for option in self.get_params(ctx)
            if isinstance(option, TyperOption) and option.multiple
            for name in option.opts
        }
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


# All commands, in the groups and the order of --help.
COMMANDS = {
    "Run": ["run", "reproduce", "train", "status"],
    "Look": ["show", "coverage", "audit", "methods", "tasks", "papers"],
    "Encoders": ["evaluate", "compare", "verify"],
    "Extend": ["plan", "check-method"],
    "Workflow": ["job", "fetch", "render"],
}


class Program(TyperGroup):
    """The program, whose --help shows the commands in groups."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the names of commands and the first sentence of each one's help."""
        for title, names in COMMANDS.items():
            with formatter.section(title):
                # As wide as the longest name, so that the columns of all groups are aligned.
                formatter.write_dl(
                    (f"{name:12}", self.commands[name].get_short_help_str(formatter.width))
                    for name in names
                )


app = typer.Typer(
    cls=Program,
    epilog="sentbench COMMAND --help shows the arguments of a command and an example.",
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


RESULTS = Path("results")  # of all suites, in the working folder
SHIPPED = sorted(path.stem for path in SUITES.glob("*.yaml"))


def suite_folder(suite: str | Path) -> Path:
    """The folder of a suite, which may not exist yet: of the name `smoke` it is results/smoke, a
    text with a `/` is the folder itself, and of a configuration it has the suite's name."""
    path = Path(suite)
    if path.is_file():
        from bench.runs.config import load

        return RESULTS / load(path).suite
    return path if "/" in str(suite) else RESULTS / path


def suite_configuration(suite: str) -> Path:
    """The configuration of a suite: the file itself or, for a name or a folder, the one in its
    folder (which `reproduce` writes), in config/, or of the project; `UserError` if none is there.
    """
    path = Path(suite)
    file = f"{path.name}.yaml"
    for place in (path, suite_folder(suite) / "config.yaml", Path("config", file), SUITES / file):
        if place.is_file():
            return place
    raise UserError(
        f"'{suite}' is no suite{did_you_mean(path.stem, SHIPPED)}; give a suite's name, its folder "
        "or its YAML file"
    )


SUITE_HELP = (
    f"A suite: its name ({', '.join(SHIPPED)} or yours), its folder results/NAME, or its YAML file."
)
_SUITE = opt(SUITE_HELP, "SUITE", "--suite", parser=suite_folder)
Suite = Annotated[Path, arg(SUITE_HELP, "SUITE", parser=suite_folder)]
SuiteOption = Annotated[Path, _SUITE]
OptionalSuite = Annotated[Path | None, _SUITE]
Configuration = Annotated[Path, arg(SUITE_HELP, "SUITE", parser=suite_configuration)]

CORPORA_HELP = "world, wiki1m, wiki1m_fallback, nli, sts, cnsd, or a text file"
DATA_HELP = "world, senteval, or a folder with downstream/"

# What an encoder is scored on.
Tasks = Annotated[list[str], opt(f"Tasks to score: {', '.join(GROUPS)}, or names.", "NAME ...")]
Mode = Annotated[
    str, opt("Train classifiers as in papers (test) or faster (dev).", **one_of(["test", "dev"]))
]

Yes = Annotated[bool, opt("Start without a question, however long it takes.", name="--yes")]
