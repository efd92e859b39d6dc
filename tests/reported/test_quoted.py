"""Quoted scores: their files, their runs, and the arithmetic of their averages."""

import re
from pathlib import Path

import pytest

from bench.datasets.tasks import BOARDS
from bench.reported import FOLDER, SOURCES, quoted

# A new file needs a board of its name; the numbers of the five papers have files of their own.
FILES = sorted(path.stem.removeprefix("quoted_") for path in FOLDER.glob("quoted_*.csv"))
LABEL = ["name", "run", "backbone", "quoted_from"]


@pytest.mark.parametrize("board", FILES)
def test_every_row_says_where_it_was_read(board):
    rows = quoted(board)
    assert list(rows.columns) == [*LABEL, *BOARDS[board].tasks, "Avg"]
    assert (rows[["name", "backbone", "quoted_from"]] != "").all(axis=None)
    assert not rows.duplicated(["name", "backbone", "quoted_from"]).any()
    assert "quoted" not in SOURCES  # such a paper would be judged


@pytest.mark.parametrize("board", FILES)
def test_a_score_is_a_number_of_points_with_or_without_a_spread(board):
    scores = quoted(board).drop(columns=LABEL).stack()
    assert scores[scores != ""].str.fullmatch(r"\d{2}\.\d{2}( ± \d\.\d{2})?").all()


def test_averages_that_are_not_the_mean_of_their_row():
    """A change means a typo of ours, or a new row that is wrong where it is quoted from."""
    odd = {}
    for board in FILES:
        for row in quoted(board).to_dict("records"):
            values = [row[task].partition(" ")[0] for task in (*BOARDS[board].tasks, "Avg")]
            if all(values):
                *points, average = map(float, values)
                if abs(gap := average - sum(points) / len(points)) > 0.011:
                    odd[row["name"], row["backbone"]] = round(gap, 2)
    assert odd == {("MixCSE", "bert-large-uncased"): 0.01}


def test_methods_without_a_run_are_those_left_out_with_a_reason():
    page = Path(__file__, "../../../docs/methods.md").resolve().read_text(encoding="utf-8")
    section = page.partition("### Left out\n")[2].partition("\n## ")[0].partition("\n### ")[0]
    without = {row.name for board in FILES for row in quoted(board).query("run == ''").itertuples()}
    assert set(re.findall(r"^\*\*(\w+)\*\* \(", section, re.MULTILINE)) == without
    assert without == {"ArcCSE", "WhitenedCSE"}


def test_every_run_is_one_that_the_suite_knows_by_that_name():
    from bench.runs.resolve import resolve

    for board in FILES:
        for row in quoted(board).query("run != ''").itertuples():
            where = {"corpus": "wiki1m", "data": "senteval", "seed": 1}
            found = resolve(row.run, backbone_name=row.backbone, **where)
            assert (found.text, found.skip) == (row.run, None)
