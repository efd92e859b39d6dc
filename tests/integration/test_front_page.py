"""README.md, and `import sentbench`, which it shows."""

import ast
import doctest
import re
import sys

import pandas as pd
import pytest

import sentbench
from bench.reported.number import numbers
from tests.support.programs import ROOT, ended
from tools import documents

README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_its_python(monkeypatch):
    (code,) = re.findall(r"^```python\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    monkeypatch.chdir(ROOT)
    names, values = {}, []
    for statement in ast.parse(code).body:
        if isinstance(statement, ast.Expr):
            values.append(eval(ast.unparse(statement), names))
        else:
            exec(ast.unparse(statement), names)
    leaderboard, kind = values
    assert {"label", "n", "Avg", "Avg sd"} <= set(leaderboard)
    assert set(names["rows"]["leaderboard"]) == {"sts", "transfer", "xprobe"}
    assert kind in code.splitlines()[-1]


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
