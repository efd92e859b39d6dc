"""README.md, and `import sentbench`, which it shows."""

import ast
import doctest
import re
import sys

import pandas as pd
import pytest
from sentence_transformers import SentenceTransformer

import sentbench
from bench.reported.number import numbers
from tests.support.programs import ROOT, ended
from tools import documents

README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_its_python(tiny_bert, tiny_data, tmp_path, monkeypatch):
    """Run as it stands, with a tiny model and data in place of those that are downloaded."""
    SentenceTransformer(str(tiny_bert)).save(str(tmp_path / "model"))
    (code,) = re.findall(r"^```python\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("BENCH_DATA", str(tiny_data))
    names, values = {}, []
    code = code.replace("sentence-transformers/all-MiniLM-L6-v2", str(tmp_path / "model"))
    for statement in ast.parse(code).body:
        if isinstance(statement, ast.Expr):
            values.append(eval(ast.unparse(statement), names))
        else:
            exec(ast.unparse(statement), names)
    leaderboard, pairs, printed, verdicts, records = values
    assert {"label", "n", "Avg", "Avg sd"} <= set(leaderboard)
    verdict_of = dict(zip(pairs["leaderboard"], pairs["verdict"], strict=True))
    assert verdict_of.keys() == {"sts", "transfer"}
    assert verdict_of["sts"] == "gain below the margin"
    assert 76.25 in set(printed["value"])
    assert len(verdicts) == sum(number.is_measurement for number in numbers())
    assert {record["task"] for record in records} == {"STS-B"}


def test_the_example_of_the_module(monkeypatch):
    monkeypatch.chdir(ROOT)
    examples = doctest.testmod(sentbench)
    assert examples.attempted
    assert not examples.failed


def test_every_name_is_there():
    assert {name for name in dir(sentbench) if hasattr(sentbench, name)} == set(sentbench.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        sentbench.nothing  # noqa: B018


def test_what_is_no_suite_is_refused_and_a_suite_shows_its_name():
    for function in (sentbench.leaderboard, sentbench.against, sentbench.verdicts):
        with pytest.raises(sentbench.UserError, match="'results/wiki-mini' is not a suite; pass"):
            function("results/wiki-mini")
    assert repr(documents.wiki_mini()) == "Judged(suite='wiki-mini')"
    with pytest.raises(sentbench.UserError, match="unknown mode 'fast'"):
        sentbench.score("toy-bert", pooler="avg", mode="fast")


def test_printed_numbers_have_a_row_each():
    printed = sentbench.printed()
    assert isinstance(printed, pd.DataFrame)
    assert list(printed["value"]) == [number.value for number in numbers()]


def test_importing_it_loads_neither_torch_nor_pandas():
    code = "import sys, sentbench; print({'torch', 'pandas', 'numpy'} & {*sys.modules})"
    assert ended(sys.executable, "-c", code, cwd=ROOT).stdout == "set()\n"
