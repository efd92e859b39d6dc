"""The help of the program and of each command."""

import re

import pytest

from bench.cli.parameters import COMMANDS, SHIPPED
from bench.cli.program import commands


@pytest.fixture
def help_of(said, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    return lambda *words: said(*words, "--help").out


def test_the_help_of_the_program_has_each_group_and_no_cut_sentence(help_of):
    text = help_of()
    assert re.findall(r"^(\w+):$", text, re.MULTILINE) == ["Options", *COMMANDS]
    for name in commands().commands:
        assert re.search(rf"^  {name} +[A-Z].*[a-z]\.$", text, re.MULTILINE)


@pytest.mark.parametrize("name", commands().commands)
def test_the_help_of_a_command_ends_with_an_example_and_has_no_type_of_python(name, help_of):
    text = help_of(name)
    # Each is parsed by tests/integration/test_printed_commands.py.
    assert re.search(rf"^  Example: sentbench {name}\b.*\n\Z", text, re.MULTILINE)
    assert not re.search(r"<(list|str|int|float|path|file|bool)\b", text, re.IGNORECASE)


def test_run_names_the_suites_of_the_project(help_of):
    assert {*SHIPPED} <= {*re.split(r"[\s,.()]+", help_of("run"))}
