"""How command lines are parsed: lists, values, help; and how fast a command starts."""

import sys

import pytest

from bench.cli.program import commands
from tests.support.programs import ROOT, ended

TRAIN = ["train", "simcse", "b", "--corpus", "c", "--data", "d", "--suite", "s"]
EVALUATE = ["evaluate", "model", "--out", "o"]


@pytest.mark.parametrize(
    ("words", "name", "value"),
    [
        ([*TRAIN, "--tasks", "MR", "--tasks", "CR", "TREC"], "tasks", ["MR", "CR", "TREC"]),
        ([*TRAIN, "--tasks", "a b", "", "ö", "x=y"], "tasks", ["a b", "", "ö", "x=y"]),
        ([*TRAIN, "--recipe", "x=-1", "note=--x"], "recipe", ["x=-1", "note=--x"]),
        (["fetch", "data", "senteval", "--tasks", "--suite", "s", "--out", "o"], "tasks", []),
        (["evaluate", "--tasks", "sts", "--out", "o", "--", "m", "--x"], "model", ["m", "--x"]),
        ([*EVALUATE, "--probe-seeds", "1", "2", "--out", "o"], "probe_seeds", [1, 2]),
        ([*EVALUATE, "--prompt=--x"], "prompt", "--x"),
    ],
)
def test_a_list_takes_words_up_to_the_next_option_and_an_option_one(words, name, value):
    command, settings = commands().commands[words[0]], commands().context_settings
    result = command.make_context(words[0], words[1:], **settings).params[name]
    assert (list(result) if isinstance(value, list) else result) == value


@pytest.mark.parametrize(("words", "status"), [(["--version"], 0), (["--help"], 0), (["job"], 2)])
def test_the_program_starts_without_loading_heavy_libraries(words, status):
    command = [sys.executable, "-m", "bench", *words]
    done = ended(*command, cwd=ROOT, status=status, PYTHONPROFILEIMPORTTIME="1")
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "bench.cli" in imported
    assert not imported & {"torch", "pandas", "transformers", "numpy", "snakemake", "rich"}
