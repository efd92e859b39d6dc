"""How options are parsed, and the parameters that several commands share."""

from __future__ import annotations

import math
import os
import re
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperOption

from bench.utils.errors import UserError, did_you_mean, suggestion
from bench.utils.files import strict_json

# A word that names an option, as argparse has it: not "-", "--", a negative number or a text with
# spaces.
OPTION = re.compile(r"(--?[A-Za-z][^\s=]*)(=.*)?", re.DOTALL)


class Command(TyperCommand):
    """A command whose list options take all words up to the next option, as in `--tasks sts TREC
    --mode dev`.

    Typer has no such options: it repeats the name, `--tasks sts --tasks TREC`, which works as well.
    Unambiguous prefixes of options are accepted. A value that begins with "-" is written
    `--option=-value`.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not ctx.resilient_parsing:  # in shell completion, where words are incomplete
            options = {
                name: one
                for one in self.get_params(ctx)
                if isinstance(one, TyperOption)
                for name in one.opts
            }
            args = _one_value_each(args, options, ctx.command_path)
        return super().parse_args(ctx, args)


def _one_value_each(
    words: Sequence[str], options: dict[str, TyperOption], command: str
) -> list[str]:
    """Write each value of an option as `--option=value`, then `--`, then the arguments.

    A list option without values stays at its default if that is the empty list.

    Raises:
        UserError: an option is unknown, ambiguous or lacks its value.
    """
    written: list[str] = []
    arguments: list[str] = []
    rest = deque(words)
    while rest:
        word = rest.popleft()
        if word == "--":
            arguments += rest
            break
        if not (match := OPTION.fullmatch(word)):
            arguments.append(word)
            continue
        name = _full_name(match[1], options, command)
        option = options[name]
        if match[2] or option.is_flag:
            written.append(name + (match[2] or ""))
            continue
        values: list[str] = []
        while (
            rest
            and rest[0] != "--"
            and not OPTION.fullmatch(rest[0])
            and (option.multiple or not values)
        ):
            values.append(rest.popleft())
        if not values and not (option.multiple and option.default == []):
            raise UserError(f"{name} needs a value; if it begins with '-', write {name}=VALUE")
        written += [f"{name}={value}" for value in values]
    return [*written, "--", *arguments]


def _full_name(name: str, options: dict[str, TyperOption], command: str) -> str:
    """The option that a name or an unambiguous prefix means."""
    if name in options:
        return name
    full_names = [known for known in options if known.startswith("--")]
    alike = [known for known in full_names if known.startswith(name)] if len(name) > 2 else []
    if len(alike) > 1:
        raise UserError(f"{name} could mean {' or '.join(alike)}; write more of it")
    if not alike:
        raise UserError(
            f"unknown option {name}{suggestion(name, full_names) or f'; see {command} --help'}"
        )
    return alike[0]


def opt(text: str, *names: str, **more: Any) -> Any:
    """An option of a command, with its help."""
    return typer.Option(*names, help=text, **more)


def arg(text: str, **more: Any) -> Any:
    """An argument of a command, with its help."""
    return typer.Argument(help=text, **more)


def one_of(values: Sequence[str]) -> dict[str, Any]:
    """What typer.Option or typer.Argument needs to take one of these values, for shell completion
    too."""

    def parse(word: str) -> str:
        if word not in values:
            raise typer.BadParameter(f"'{word}' is unknown{did_you_mean(word, values)}")
        return word

    def complete() -> Sequence[str]:
        return values

    return {"parser": parse, "autocompletion": complete, "metavar": "|".join(values)}


def whole_number(name: str, low: int = 1, high: int = 2**31 - 1) -> dict[str, Any]:
    """What typer.Option needs to take a whole number in a range."""

    def parse(word: str | int) -> int:  # typer parses defaults as well
        word = str(word)
        if not word.isdecimal() or len(word) > 19 or not low <= int(word) <= high:
            raise UserError(f"--{name} is '{word}'; write a whole number from {low} to {high}")
        return int(word)

    return {"parser": parse, "metavar": "N"}


def positive_number(name: str) -> dict[str, Any]:
    """What typer.Option needs to take a finite number above 0."""

    def parse(word: str | float) -> float:
        try:
            number = float(word)
        except ValueError:
            number = 0.0
        if not 0 < number < math.inf:
            raise UserError(f"--{name} is '{word}'; write a number above 0")
        return number

    return {"parser": parse, "metavar": "N"}


def nonempty_path(name: str, remedy: str, *, folder: bool = False) -> dict[str, Any]:
    """What typer.Option needs to take a path; Path("") would be the working folder.

    A `folder` need not exist, but must not be a file.
    """

    def parse(word: str | Path) -> Path:
        if not word:
            raise UserError(f"--{name} is empty; {remedy}")
        if folder and os.path.isfile(word):
            raise UserError(f"{word} is a file; {remedy}")
        return Path(word)

    return {"parser": parse}


def read_json_text(text: str) -> Any:
    """Parse the value of --json.

    Raises:
        UserError: it is not strict JSON, or has a key twice.
    """
    try:
        return strict_json(text, distinct=True)
    except ValueError as error:
        why = f"is not valid JSON ({error}); write the text itself, not a file's name"
    except RecursionError:
        why = "is nested too deeply; use fewer levels"
    raise UserError(f"--json {why}")


def read_tasks(words: Sequence[str]) -> list[str]:
    """Split names of tasks at commas."""
    return [name for word in words for name in word.split(",") if name]


def exactly_one(**given: object) -> None:
    """Check that one of these options, by name, was given.

    Raises:
        UserError: none or several were.
    """
    names = [f"--{name}" for name in given]
    if not (named := [f"--{name}" for name, value in given.items() if value not in (None, False)]):
        raise UserError(f"one of {', '.join(names)} is needed")
    if len(named) > 1:
        raise UserError(f"{' and '.join(named)} exclude each other; keep one")


SUITE_FOLDER = nonempty_path(
    "suite", "name the suite's folder, results/<suite>, or . for the working folder", folder=True
)
_SUITE = opt("The suite's folder, results/<suite>.", "--suite", metavar="FOLDER", **SUITE_FOLDER)
Suite = Annotated[Path, _SUITE]
OptionalSuite = Annotated[Path | None, _SUITE]
CONFIG_FILE = nonempty_path("config", "name a file such as config/smoke.yaml")

_SEED = whole_number("seed", 0, 2**63 - 1)
Seed = Annotated[int | None, opt("Seed; required for methods that train.", **_SEED)]

CORPORA = "world, wiki1m, wiki1m_fallback, nli, sts, cnsd, or a text file"
DATA = "world, senteval, or a folder with downstream/"

# A run.
Method = Annotated[str, arg("method[key=value,...]+ingredient@paper|official", metavar="METHOD")]
Backbone = Annotated[
    str, opt("Name of a backbone, or a folder in Hugging Face format.", metavar="NAME")
]
Corpus = Annotated[str, opt(f"Training corpus: {CORPORA}.", metavar="NAME")]
RunData = Annotated[str, opt(f"Evaluation data: {DATA}.", metavar="NAME")]
Recipe = Annotated[
    list[str], opt("Recipe fields that override the method's.", metavar="KEY=VALUE ...")
]

# What an encoder is scored on.
Tasks = Annotated[
    list[str],
    opt(
        "Tasks or groups: sts, transfer, probing, all (these three), xprobe, chinese.",
        metavar="NAME ...",
    ),
]
Mode = Annotated[
    str, opt("Training of classifiers: as papers report, or fast.", **one_of(["test", "dev"]))
]
Data = Annotated[
    str, opt("senteval (BENCH_DATA or the hub), or a folder with downstream/.", metavar="NAME")
]
Pooler = Annotated[
    str | None, opt("Required if the model does not store a pooler.", metavar="NAME")
]
