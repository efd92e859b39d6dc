"""The table of a suite's cells is read while nothing behind it changed, and judged again if not."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.comparison import reproduction
from bench.comparison.cell import frame
from bench.comparison.reproduction import judge, judged, write_cells
from bench.datasets.tasks import STS_TASKS
from bench.report.formats import csv
from bench.results.suite_results import read_suite
from bench.utils.files import read_json, write_json
from tests.support.synthetic_suite import seeds, write_suite


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A rendered suite with every kind of line: both settings, a difference and a checkpoint."""
    rows = [dict.fromkeys(STS_TASKS, value) for value in (74.0, 75.4, 76.0, 75.0, 75.2)]
    runs = [*seeds("simcse", rows), *seeds("simcse", rows[:2], setting="paper")]
    runs += [*seeds("sscl", rows[:4]), *seeds("is-cse", rows[:1])]
    runs.append({"method": "is-cse", "seed": 7, "status": "diverged", "reason": "loss is nan"})
    published = {"method": "published", "setting": "paper", "backbone": "none"}
    runs.append(published | {"scores": dict.fromkeys(STS_TASKS, 76.25)})
    suite = read_suite(write_suite(tmp_path / "s", runs))
    write_cells(suite, csv(frame(judge(suite))), tmp_path / "s" / "tables")
    return tmp_path / "s"


def refuse(*_: object) -> list[object]:
    raise AssertionError("it was judged again")


def test_what_was_written_is_read_without_loss(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite = read_suite(folder)
    cells = judge(suite)
    assert {cell.ours.verdict.kind for cell in cells} >= {"inconclusive", "diverged", "not run"}
    assert any(cell.other for cell in cells)
    assert any(cell.checkpoint and cell.checkpoint.n for cell in cells)
    monkeypatch.setattr(reproduction, "judge", refuse)
    assert judged(suite) == cells


def another_score(folder: Path) -> None:
    path = next((folder / "scores").glob("*.json"))
    content = read_json(path)
    content["records"][0]["value"] += 0.01
    write_json(path, content)


def another_cell(folder: Path) -> None:
    path = folder / "tables" / "cells.csv"
    path.write_text(path.read_text().replace("lower", "higher"))


def another_stand_in(folder: Path) -> None:
    plan = read_json(folder / "plan.json")
    write_json(folder / "plan.json", plan | {"stand_ins": {"roberta-base": "bert-base-uncased"}})


def no_stamp(folder: Path) -> None:
    (folder / "tables" / "cells.sha256").unlink()


def a_failed_attempt(folder: Path) -> None:
    """The reason why a run is missing changes."""
    path = next((folder / "scores").glob("*.json"))
    path.unlink()
    write_json(folder / "runs" / path.stem / "failure.json", {})


@pytest.mark.parametrize(
    "change", [another_score, another_cell, another_stand_in, no_stamp, a_failed_attempt]
)
def test_what_changed_is_judged_again(folder: Path, change: Callable[[Path], None]) -> None:
    before = judged(read_suite(folder))
    change(folder)
    suite = read_suite(folder)
    assert judged(suite) == judge(suite)
    if change in (another_score, another_stand_in, a_failed_attempt):
        assert judged(suite) != before


@pytest.mark.parametrize("name", ["recipes.yaml", "sscl_table2_sts.csv", "comparison/verdict.py"])
def test_print_and_code_count(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A file of print or of the rule that is another one makes the table out of date."""
    copy = tmp_path / "bench"
    for part in ("comparison", "reported"):
        shutil.copytree(reproduction.BENCH / part, copy / part)
    monkeypatch.setattr(reproduction, "BENCH", copy)
    monkeypatch.setattr(reproduction, "FOLDER", copy / "reported")
    suite = read_suite(folder)
    cells = judge(suite)
    write_cells(suite, csv(frame(cells)), folder / "tables")
    assert judged(suite) == cells
    path = next(copy.rglob(Path(name).name))
    path.write_text(path.read_text() + "\n")
    monkeypatch.setattr(reproduction, "judge", lambda _: [])
    assert judged(suite) == []
