"""Rows in a file: a cache that is read only where all that it is made of is the same."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from bench.cli import main
from bench.judge.judge import judge
from bench.judge.stage import read_suite, write_rows
from bench.judged import store
from bench.judged.rows import Judged
from bench.results import suite_results
from bench.utils.errors import UserError
from bench.utils.validation import validated
from tests.support.synthetic_suite import seeds, write_suite

ANALYSES = {"alignment": {"STS-B": {"all": {"alignment": 0.2, "uniformity": -2.5}}}}
ENTRIES = [
    *seeds("simcse", [75.0, 76.0, 77.0], analyses=ANALYSES),
    *seeds("is-cse", [77.5, 78.0, 79.0]),
    *seeds("simcse", [70.0], setting="paper"),
    {"method": "untrained", "setting": "paper", "scores": 57.0},
    {"method": "sscl", "seed": 1},
]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A suite with its rows in a file, and the rows."""
    folder = write_suite(tmp_path_factory.mktemp("suite"), ENTRIES, baseline="simcse")
    (folder / "items").mkdir()
    (folder / "items" / "other.npz").write_bytes(b"1")  # of no planned run
    write_rows(folder)
    return folder, judge(suite_results.read_results(folder))


@pytest.fixture
def suite(written, tmp_path):
    """A copy of its own."""
    return shutil.copytree(written[0], tmp_path / "copy")


@pytest.fixture
def rows(written):
    return written[1].model_dump()


def fresh(suite):
    """The rows in its file; None if they are of something else."""
    return store.read(suite, store.key_of(suite))


def test_rows_that_are_read_are_those_that_were_written(suite, rows):
    """Of a copy of the suite, too."""
    assert min(len(rows[name]) for name in ("numbers", "pairs", "systems", "runs")) > 0
    assert fresh(suite).model_dump() == rows
    assert fresh(suite).folder == suite


def test_fresh_rows_are_not_judged_again(suite, rows, monkeypatch):
    monkeypatch.setattr("bench.judge.judge.judge", None)
    assert read_suite(suite).model_dump() == rows


def write(name):
    """A change: one letter more in a file, which may be new."""

    def change(suite):
        (suite / name).parent.mkdir(parents=True, exist_ok=True)
        with open(suite / name, "a", encoding="utf-8") as file:
            file.write(" ")

    return change


@pytest.mark.parametrize(
    "change",
    [
        write("scores/run000.json"),
        write("items/other.npz"),
        write("analyses/run000.json"),
        write("plan.json"),
        write("runs/run008/failure.json"),
        lambda suite: (suite / "scores" / "run000.json").unlink(),
    ],
    ids=["score", "items", "analysis", "plan", "failure", "lost score"],
)
def test_rows_of_anything_else_are_stale(suite, change):
    change(suite)
    assert fresh(suite) is None


def test_rows_of_another_rule_are_stale(suite, monkeypatch):
    monkeypatch.setattr(store, "rule_sum", lambda: "another")
    assert fresh(suite) is None


def test_a_stale_suite_is_judged(suite):
    write("runs/run008/failure.json")(suite)
    assert "1 failed" in read_suite(suite).suite.partial


@pytest.mark.parametrize(
    "change",
    [
        write("runs/run000/log.jsonl"),
        write("tables/sts.md"),
        lambda suite: os.utime(suite / "scores" / "run000.json", (1, 1)),
    ],
    ids=["log", "table", "time"],
)
def test_other_files_and_times_do_not_count(suite, rows, change):
    change(suite)
    assert fresh(suite).model_dump() == rows


def test_without_its_file_a_suite_is_judged_and_nothing_is_written(suite, rows):
    """So a folder may be read-only."""
    (suite / store.FILE).unlink()
    before = {path: path.stat().st_mtime_ns for path in suite.rglob("*")}
    assert read_suite(suite).model_dump() == rows
    assert {path: path.stat().st_mtime_ns for path in suite.rglob("*")} == before


@pytest.mark.parametrize(
    "text",
    ["{", '{"rows": {}}'],
)
def test_a_damaged_file_is_an_error_with_its_path(suite, text):
    path = suite / store.FILE
    path.write_text(text)
    with pytest.raises(UserError) as caught:
        read_suite(suite)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_rows_that_somebody_changed_are_not_read_and_not_confirmed(suite, rows, capsys):
    path = suite / store.FILE
    assert main(["verify", str(suite)]) == 0
    assert capsys.readouterr().out == f"{suite}: confirmed\n"
    content = json.loads(path.read_text())
    content["rows"]["systems"][0]["n"] += 1
    path.write_text(json.dumps(content))
    assert fresh(suite) is None
    assert read_suite(suite).model_dump() == rows
    assert main(["verify", str(suite)]) == 1
    assert (
        capsys.readouterr().out
        == f"{suite}: not confirmed: judging gives other rows; remove its judged.json\n"
    )


@pytest.mark.parametrize(
    "place", ["suite.boards.0.whole.name", "pairs.0.board", "numbers.0.source", "runs.0.id"]
)
def test_a_name_that_leads_to_another_folder_is_no_row(written, place):
    rows = found = written[1].model_dump(mode="json")
    *places, last = place.split(".")
    for part in places:
        found = found[int(part) if part.isdecimal() else part]
    found[last] = "../x"
    with pytest.raises(UserError, match=f"'{place}' should match pattern .* not '../x'"):
        validated(Judged, rows)


def test_no_other_command_writes_rows(suite, written, monkeypatch):
    (suite / store.FILE).unlink()
    monkeypatch.setattr("bench.judge.judge.judge", lambda _: written[1])
    monkeypatch.setattr("bench.report.render.render", lambda *_: None)
    for words in (["show"], ["show", "is-cse", "Table 1"], ["compare"], ["coverage"]):
        assert main([*words, "--suite", str(suite)]) == 0
    assert main(["render", str(suite)]) == 0
    assert not (suite / store.FILE).exists()
    assert main(["judge", str(suite)]) == 0
    assert fresh(suite)


@pytest.mark.parametrize(
    "code",
    [
        "from bench.judge.stage import read_suite; read_suite(sys.argv[1])",
        "from bench.cli import main; main(['show', '--suite', sys.argv[1]])",
    ],
)
def test_fresh_rows_are_read_without_the_libraries_of_judging(suite, code):
    heavy = "{'torch', 'scipy', 'pandas', 'bench.registry', 'bench.judge.judge'}"
    code = f"import sys; {code}; loaded = {heavy} & sys.modules.keys(); assert not loaded, loaded"
    ended = subprocess.run(
        [sys.executable, "-c", code, str(suite)], capture_output=True, text=True, timeout=120
    )
    assert ended.returncode == 0, ended.stderr[-500:]
