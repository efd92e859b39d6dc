"""How command lines are parsed: lists, values, errors, help and completion."""

import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from bench.__main__ import main as main_of_module
from bench.cli import main
from bench.cli.program import commands
from bench.utils.version import __version__

ROOT = Path(__file__).parents[2]
RUN = ["--run", "simcse", "--backbone", "b", "--corpus", "c", "--data", "d", "--suite", "s"]
OUT = ["--suite", "s", "--out", "o"]


def parsed(*words: str) -> dict[str, Any]:
    """The values that a command line gives to its command."""
    command, settings = commands().commands[words[0]], commands().context_settings
    return command.make_context(words[0], list(words[1:]), **settings).params


def bench(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command, env = [sys.executable, "-m", "bench", *words], os.environ | environment
    return subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(
    ("words", "name", "values"),
    [
        (["job", *RUN], "tasks", ["sts"]),
        (["job", *RUN, "--tasks", "STS12", "TREC", "MR"], "tasks", ["STS12", "TREC", "MR"]),
        (["job", *RUN, "--tasks", "STS12", "TREC", "--mode", "dev"], "tasks", ["STS12", "TREC"]),
        (["job", *RUN, "--tasks=STS12"], "tasks", ["STS12"]),
        (["job", *RUN, "--tasks", "MR", "--tasks", "CR", "TREC"], "tasks", ["MR", "CR", "TREC"]),
        (["job", *RUN, "--tasks", "a b", "", "ö", "x=y"], "tasks", ["a b", "", "ö", "x=y"]),
        (["job", *RUN, "--recipe", "x=-1", "note=--x"], "recipe", ["x=-1", "note=--x"]),
        (["job", *RUN, "--recipe", "--seed", "1"], "recipe", []),
        (["fetch", "data", "senteval", "--tasks", *OUT], "tasks", []),
        (["job", "--suite", "s"], "stages", ["train", "score", "analyse"]),
        (["evaluate", "m", "n", "--out", "o"], "model", ["m", "n"]),
        (["evaluate", "--tasks", "sts", "--out", "o", "--", "m", "--x"], "model", ["m", "--x"]),
        (["coverage", "--suite", "a", "b", "--out", "o.md"], "suite", [Path("a"), Path("b")]),
    ],
)  # fmt: skip
def test_a_list_option_takes_words_up_to_the_next_option(words, name, values):
    assert list(parsed(*words)[name]) == values


@pytest.mark.parametrize(
    ("words", "name", "value"),
    [
        (["--prompt", ""], "prompt", ""),
        (["--prompt="], "prompt", ""),
        (["--prompt=--x"], "prompt", "--x"),
        (["--prompt", "- item"], "prompt", "- item"),
        (["--prompt", "a", "--prompt", "b"], "prompt", "b"),
        (["--normalize"], "normalize", True),
    ],
)
def test_an_option_takes_its_value(words, name, value):
    values = parsed("evaluate", "model", "--out", "o", *words)
    assert values[name] == value
    assert list(values["model"]) == ["model"]


def test_the_version_of_both_entry_points(capsys):
    (script,) = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"].items()
    for program in (EntryPoint(*script, "console_scripts").load(), main_of_module):
        assert program(["--version"]) == 0
        assert program(["--version", "more"]) == 0
        first, second = capsys.readouterr().out.splitlines()
        assert first == second == __version__


@pytest.mark.parametrize("command", commands().commands)
def test_the_help_of_a_command_describes_all_parameters(command, capsys):
    assert main([command, "-h"]) == 0
    assert capsys.readouterr().out.startswith(f"Usage: python -m bench {command} [OPTIONS]")
    assert all(
        getattr(parameter, "help", None) for parameter in commands().commands[command].params
    )


def test_the_list_of_commands_has_whole_sentences(capsys):
    assert main(["--help"]) == 0
    listed = capsys.readouterr().out.partition("Commands:\n")[2].partition("\n\n")[0].splitlines()
    assert not [name for name, command in commands().commands.items() if command.hidden]
    assert len(listed) == len(commands().commands)
    assert all(re.fullmatch(r"  [\w-]+ +[A-Z].*[^.]\.", line) for line in listed), listed


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("sentbench cov", ["coverage"]),
        ("sentbench job x --mode ", ["test", "dev"]),
        ("sentbench job --att", ["--attempt"]),
    ],
)
def test_shells_complete_commands_options_and_values(line, words):
    shell = {"_SENTBENCH_COMPLETE": "complete_bash", "COMP_WORDS": line}
    done = bench(COMP_CWORD=str(line.count(" ")), **shell)
    assert (done.returncode, done.stdout.split()) == (0, words)


@pytest.mark.parametrize(
    ("words", "unwanted"),
    [
        (["--version"], {"typer"}),
        (["--help"], {"pydantic"}),
        (["job", "--help"], set()),  # typer itself loads pydantic to parse a command
        (["job"], set()),
    ],
)
def test_the_program_starts_without_loading_heavy_libraries(words, unwanted):
    done = bench(*words, PYTHONPROFILEIMPORTTIME="1")
    imported = {
        line.rpartition("|")[2].strip()
        for line in done.stderr.splitlines()
        if line.startswith("import time:")
    }
    assert "bench.cli" in imported
    heavy = {"torch", "pandas", "transformers", "numpy", "snakemake", "rich"}
    assert not imported & (heavy | unwanted)
