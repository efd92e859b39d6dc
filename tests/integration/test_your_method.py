"""The tutorials of docs/start as they stand: their files are written, their commands run, outputs
compared. docs/reference/slots.md has the signatures of slots."""

import inspect
import os
import re
import shlex
import sys
from collections.abc import Sequence

import pytest

from bench.results.records import read_scores
from methods.base import Contrastive, Terms, Tokens
from tests.support.programs import ROOT, ended

DOCS = ROOT / "docs"
TEXT = (DOCS / "start" / "your-method.md").read_text(encoding="utf-8")
FIRST_HOUR = (DOCS / "start" / "first-hour.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"^`([\w./-]+)`\n\n```\w*\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE))
CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def plain(output):
    """Lines without what depends on the machine: numbers, sums, the order of rows, verdicts."""
    lines = [re.sub(r"_[0-9a-f]{10}:", "_#:", line) for line in output.splitlines()]
    return sorted(re.sub(r"[-+]?\d+\.\d+|[?⇑⇓<]+ [a-z]+.*", "#", line) for line in lines)


REFERENCE = (DOCS / "reference" / "slots.md").read_text(encoding="utf-8")
SLOTS = re.findall(r"^\| `(\w+)\(([\w, ]+)\)` \| `(.+?)` \|", REFERENCE, re.MULTILINE)


@pytest.mark.parametrize(("name", "arguments", "returned"), SLOTS)
def test_a_slot_has_the_signature_that_is_stated(name, arguments, returned):
    signature = inspect.signature(getattr(Contrastive, name))
    names = [argument for argument in signature.parameters if argument != "self"]
    assert ", ".join(names) == arguments
    assert returned.replace("\\|", "|") == annotation(signature.return_annotation)


def annotation(kind):
    """As it is written, with the names of the contract's types."""
    names = {Tokens: "Tokens", Sequence[Tokens]: "Sequence[Tokens]", Terms: "Terms", None: "None"}
    text = names.get(kind, kind.__name__ if isinstance(kind, type) else str(kind))
    return re.sub(r"\b(?:\w+\.)+", "", text)


def run_blocks(blocks, folder):
    """Run the commands of blocks one after the other, and compare what they print."""
    (folder / "programs").mkdir()
    program = folder / "programs" / "sentbench"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m bench "$@"\n')
    program.chmod(0o755)
    path = f"{program.parent}:{os.environ['PATH']}"
    before = ""
    for block in blocks:
        commands = [line.removeprefix("$ ") for line in block.splitlines() if line.startswith("$ ")]
        expected = "\n".join(line for line in block.splitlines() if not line.startswith("$ "))
        script = "set -e -o pipefail\n" + before + "\n".join(commands)
        done = ended("bash", "-c", script, cwd=folder, PATH=path)
        assert plain(done.stdout) == plain(expected), done.stdout
        before += "".join(f"{command}\n" for command in commands if command.startswith("export "))


@pytest.mark.slow
def test_the_first_hour_does_what_it_says(tmp_path):
    """But for what shows a suite, whose scores `make smoke` compares."""
    run_blocks([block for block in CONSOLE.findall(FIRST_HOUR) if "--suite" not in block], tmp_path)


@pytest.mark.slow
def test_the_tutorial_does_what_it_says(tmp_path):
    for name, content in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content, encoding="utf-8")
    run_blocks(CONSOLE.findall(TEXT), tmp_path)
    suite, sums = tmp_path / "results" / "mine", set()
    for path in sorted((suite / "scores").iterdir()):
        read = read_scores(path)
        parts = read.provenance.run.identity["parts"]
        outside = {part[0]: part[3] for part in parts if len(part) > 3}
        assert set(outside) == ({"hard-negatives"} if "hard" in path.name else set())
        sums |= set(outside.values())
        assert {record.task for record in read.records} == {"STS-B", "SICK-R"}
    assert len(list((suite / "scores").iterdir())) == 10
    assert len(sums) == 1
    (scores,) = (tmp_path / "results" / "by-hand" / "scores").iterdir()
    cells = {(row.task, row.split, row.metric) for row in read_scores(scores).records}
    kinds = [("sts:weather", "spearman"), ("probing:negation", "accuracy")]
    kinds += [("probing:negation", "accuracy_mlp")]
    assert cells == {(task, split, metric) for task, metric in kinds for split in ("dev", "test")}
