"""Rows are made of the results, and nothing is written; what they name are names of files."""

import sys

import pytest

from bench.judge.stage import read_suite
from bench.judged.rows import Judged
from bench.utils.errors import UserError
from bench.utils.validation import validated
from tests.support.programs import ROOT, ended
from tests.support.synthetic_suite import seeds, write_suite

WIKI_MINI = ROOT / "results" / "wiki-mini"  # not compared with print
ENTRIES = [*seeds("simcse", [75.0, 76.0, 77.0]), *seeds("is-cse", [77.5, 78.0, 79.0])]


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    return write_suite(tmp_path_factory.mktemp("suite"), ENTRIES, baseline="simcse")


@pytest.mark.parametrize(
    "place",
    ["suite.leaderboards.0.whole.name", "pairs.0.leaderboard", "numbers.0.source", "runs.0.id"],
)
def test_a_name_that_leads_to_another_folder_is_no_row(suite, place):
    rows = read_suite(suite).model_dump(mode="json")
    *places, last = place.split(".")
    row = rows
    for part in places:
        row = row[int(part) if part.isdecimal() else part]
    row[last] = "../x"
    with pytest.raises(UserError, match=f"'{place}' should match pattern .* not '../x'"):
        validated(Judged, rows)


def test_no_command_writes_rows(suite, said, monkeypatch):
    """So a folder may be read-only."""
    monkeypatch.setattr("bench.report.render.render", lambda *_: None)
    before = {path: path.stat().st_mtime_ns for path in suite.rglob("*")}
    for words in (
        ["show"],
        ["show", "is-cse", "Table 1"],
        ["compare", "is-cse", "simcse"],
        ["coverage"],
    ):
        said(*words, "--suite", suite)
    said("render", suite)
    assert {path: path.stat().st_mtime_ns for path in suite.rglob("*")} == before


@pytest.mark.parametrize("words", [["show", "--rows", "simcse"], ["compare", "is-cse", "simcse"]])
@pytest.mark.parametrize("is_beside_print", [False, True])
def test_what_computes_nothing_loads_no_torch(suite, words, is_beside_print):
    """Every command that shows results would wait for it. scipy.stats takes half a second, for
    which only suites wait that are compared with print."""
    heavy = {"torch", "transformers", "methods", "bench.registry"}
    if not is_beside_print:
        suite, heavy = WIKI_MINI, heavy | {"scipy.stats"}
    code = (
        f"import sys; from bench.cli import main; status = main({[*words, '--suite', str(suite)]})"
        f"; loaded = {heavy} & sys.modules.keys(); assert not (status or loaded), (status, loaded)"
    )
    ended(sys.executable, "-c", code, cwd=ROOT)
