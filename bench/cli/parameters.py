"""How options are parsed, and the parameters that several commands share."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperOption

from bench.utils.errors import UserError, did_you_mean, suggestion

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


def _seed(word: str | int) -> int:  # typer parses defaults as well
    if isinstance(word, int):
        return word
    if not word.isdecimal() or int(word) >= 2**63:
        raise UserError(f"--seed is '{word}'; seeds are whole numbers from 0 to 2**63 - 1")
    return int(word)


def suite_dir(word: str | Path) -> Path:
    if not word:  # Path("") would be the working folder
        raise UserError(
            "--suite is empty; name the suite's folder, results/<suite>, or . for the working folder"
        )
    return Path(word)


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


_SUITE = typer.Option(
    "--suite", parser=suite_dir, metavar="FOLDER", help="The suite's folder, results/<suite>."
)
Suite = Annotated[Path, _SUITE]
OptionalSuite = Annotated[Path | None, _SUITE]

Seed = Annotated[
    int | None,
    typer.Option(parser=_seed, metavar="N", help="Seed; required for methods that train."),
]
WorldSeed = Annotated[
    int, typer.Option(parser=_seed, metavar="N", help="Seed of the random numbers.")
]

# A run.
Method = Annotated[
    str, typer.Argument(metavar="METHOD", help="method[key=value,...]+ingredient@paper|official")
]
Backbone = Annotated[
    str,
    typer.Option(metavar="NAME", help="Name of a backbone, or a folder in Hugging Face format."),
]
Corpus = Annotated[
    str,
    typer.Option(
        metavar="NAME", help="Training corpus: world, wiki1m, wiki1m_fallback, or a file."
    ),
]
RunData = Annotated[
    str,
    typer.Option(
        metavar="NAME", help="Evaluation data: world, senteval, or a folder with downstream/."
    ),
]
Recipe = Annotated[
    list[str],
    typer.Option(metavar="KEY=VALUE ...", help="Recipe fields that override the method's."),
]

# What an encoder is scored on.
Tasks = Annotated[
    list[str],
    typer.Option(
        metavar="NAME ...",
        help="Tasks or groups: sts, transfer, probing, all (these three), xprobe, chinese.",
    ),
]
Mode = Annotated[
    str,
    typer.Option(
        **one_of(["test", "dev"]), help="Training of classifiers: as papers report, or fast."
    ),
]
Data = Annotated[
    str,
    typer.Option(
        metavar="NAME", help="senteval (BENCH_DATA or the hub), or a folder with downstream/."
    ),
]
Pooler = Annotated[
    str | None, typer.Option(metavar="NAME", help="Required if the model does not store a pooler.")
]
