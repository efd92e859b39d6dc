"""Tables in four formats: the numbers in them, their captions, escaping."""

import re
from dataclasses import replace
from html import unescape
from itertools import chain
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.comparison.against_baseline import against
from bench.comparison.reproduction import Cell, judge, leaderboard
from bench.datasets.tasks import STS_TASKS
from bench.report.figures.compared import board_figure
from bench.report.formats import html
from bench.report.printed_table import (
    ShownCell,
    ShownRow,
    ShownTable,
    in_lines,
    printed_tables,
)
from bench.report.render import render_figures
from bench.report.tables import (
    columns,
    leaderboard_caption,
    render_tables,
    shown_leaderboard,
)
from bench.results.suite_results import read_suite
from tests.support.page_project import write_page
from tests.support.synthetic_suite import seeds, with_plan, write_suite

NASTY = "<script>alert(1)</script> & 50% of_it | {\\x}"


@pytest.fixture(scope="module")
def rendered(tmp_path_factory) -> tuple[Path, Path]:
    """A suite with SimCSE in both settings and one row with a nasty label, and its rendered
    tables."""
    folder = tmp_path_factory.mktemp("suite")
    rows = [dict.fromkeys(STS_TASKS, value) for value in (75.0, 75.4, 75.8, 76.2, 76.6)]
    nasty = {"method": "word-overlap", "setting": "paper", "backbone": "none", "label": NASTY}
    runs = seeds("simcse", rows, label="SimCSE")
    runs += seeds("simcse", rows[:2], setting="paper", label="SimCSE")
    write_suite(folder, [*runs, nasty | {"scores": dict.fromkeys(STS_TASKS, 40.0)}])
    rendered_in(folder, folder / "tables")
    return folder, folder / "tables"


def rendered_in(folder: Path, out: Path) -> None:
    suite = read_suite(folder)
    render_tables(suite, judge(suite), out)


@pytest.fixture(scope="module")
def all_cells(rendered) -> list[Cell]:
    return judge(read_suite(rendered[0]))


def only(monkeypatch: pytest.MonkeyPatch, *stems: str) -> None:
    """Render only these printed tables; rendering all takes seconds."""

    def some(all_cells: list[Cell]) -> dict[str, ShownTable]:
        tables = printed_tables(all_cells)
        return {stem: tables[stem] for stem in stems}

    monkeypatch.setattr("bench.report.tables.printed_tables", some)


def test_every_measured_table_in_four_formats(rendered, all_cells):
    """Of a small suite most printed tables would hold print alone."""
    _, out = rendered
    stems = {path.stem for path in out.glob("*.csv")} - {"cells"}
    printed = printed_tables(all_cells)
    measured = set(printed_tables([cell for cell in all_cells if cell.ours.n or cell.other]))
    assert {"gs-infonce-v1_table-2", "is-cse_table-1"} <= measured
    assert "is-cse_table-8" in printed.keys() - measured
    assert stems & printed.keys() == measured
    assert "sts" in stems
    for suffix in ("md", "tex", "html"):
        assert {path.stem for path in out.glob(f"*.{suffix}")} == stems


def test_csv_keeps_unrounded_numbers_that_read_back(rendered, all_cells):
    _, out = rendered
    read = pd.read_csv(out / "cells.csv")
    assert len(read) == len(all_cells)
    assert read["mean"].dropna().tolist() == [cell.ours.mean for cell in all_cells if cell.ours.n]
    own = read.query("source == 'sscl' and table == 'Table 2' and method == 'SimCSE'")
    ours = own.loc[own["task"] == "Avg", "ours"].iloc[0]
    values = [float(value) for value in ours.split()]
    assert values == pytest.approx([75.0, 75.4, 75.8, 76.2, 76.6])


@given(st.lists(st.lists(st.text(max_size=12), min_size=2, max_size=2), min_size=1, max_size=3))
def test_html_returns_any_text(rows):
    rows = [["".join(c for c in text if c.isprintable()) for text in row] for row in rows]
    page = html(pd.DataFrame(rows, columns=["a<b", "c&d"]), "caption")
    cells = re.findall(r"<t[dh](?: [^>]*)?>(.*?)</t[dh]>", page)
    assert list(map(unescape, cells)) == ["a<b", "c&d", *chain(*rows)]
    tags = {"figure", "figcaption", "div", "table", "thead", "tbody", "tr", "th", "td"}
    assert set(re.findall(r"<(\w+)", page)) == tags | {"html", "meta", "title", "style"}


def test_only_planned_tasks_are_columns(tmp_path):
    rows = [{"STS-B": value, "SICK-R": value - 10} for value in (70.0, 72.0)]
    runs = seeds("simcse", rows, tasks=["STS-B", "SICK-R"])
    suite = read_suite(write_suite(tmp_path, runs))
    board = leaderboard(suite)
    shown = shown_leaderboard(board, columns(suite, "sts"))
    assert list(shown.columns) == ["Backbone", "Method", "Setting", "n", "STS-B", "SICK-R"]
    assert shown["SICK-R"].tolist() == ["61.00 ± 1.41"]
    caption = leaderboard_caption(suite, "sts", board)
    assert caption.startswith("Suite paper: Spearman x 100 on STS-B and SICK-R, mean ±")
    (panel,) = board_figure(suite, board).axes
    assert [65.0, 67.0] in [list(line.get_xdata()) for line in panel.get_lines()]
    assert panel.get_xlabel() == "average Spearman x 100 on STS-B and SICK-R"
    assert suite.planned("transfer") == suite.boards["transfer"]
    quick = with_plan(suite, mode="dev")
    assert leaderboard_caption(quick, "sts", board) == caption
    assert "over n seeds, classifiers of mode dev." in leaderboard_caption(quick, "transfer", board)
    assert suite.boards["sts"].tasks == STS_TASKS


@pytest.mark.parametrize(
    ("quoted", "told"),
    [("", ""), ("A", "quoted"), ("unknown", "origin unknown")],
)
def test_origins(all_cells, quoted, told):
    first, second = (
        ShownCell(replace(cell, number=replace(cell.number, quoted_from=quoted)), "", "")
        for cell in all_cells[:2]
    )
    own = ShownCell(replace(first.cell, number=replace(first.cell.number, quoted_from="")), "", "")
    for texts, expected in (([first, second], told), ([first, own], "")):
        row = ShownRow("", "", "", dict(enumerate(texts)), first.cell)
        assert row.origin == expected


def test_a_rise_and_a_fall_are_told_apart(all_cells):
    shown = in_lines(printed_tables(all_cells)["is-cse_figure-3-text"])
    assert {name.rpartition(", ")[2] for name in shown["Method"] if name} == {"rise", "fall"}


@pytest.mark.slow
def test_tasks_of_ones_own_have_tables_figures_and_comparisons(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = {"task": "probing:negation", "split": "test", "metric": "accuracy", "aggregation": "all"}
    tasks = ["sts:weather", "sts:law", "probing:negation"]
    runs = []
    for method, low, probed in (("simcse", 50.0, 80.0), ("sscl", 60.0, 81.0)):
        rows = [
            dict(zip(tasks[:2], low + np.array(more), strict=True)) for more in ((0, 4), (2, 0))
        ]
        runs += seeds(method, rows, tasks=tasks, records=[own | {"value": probed}])
    folder = write_suite(tmp_path / "suite", runs, data="mine")
    only(monkeypatch)  # no printed table or figure shows tasks of one's own
    tables = tmp_path / "tables"
    suite = read_suite(folder)
    cells = judge(suite)
    render_tables(suite, cells, tables)
    board = pd.read_csv(tables / "own_sts.csv").set_index("method")
    assert list(board.index) == ["sscl", "simcse"]
    assert board.loc["sscl", ["sts:weather", "sts:law", "Avg"]].to_list() == [61.0, 62.0, 61.5]
    probing = pd.read_csv(tables / "own_probing.csv")
    assert probing["probing:negation"].to_list() == [81.0, 80.0]
    lines = (tables / "own_probing.md").read_text(encoding="utf-8").splitlines()
    assert lines[2] == "| Backbone | Method | Setting | n | probing:negation |"
    assert not (tables / "own_probing_mlp.csv").exists()
    own_sts = (tables / "own_sts.md").read_text(encoding="utf-8")
    assert "Spearman x 100 on STS sets of its own" in own_sts
    assert "{lllrrrr}" in (tables / "own_sts.tex").read_text(encoding="utf-8")
    frame, _ = against(suite, "simcse")
    found = frame.set_index(["board", "task"])["difference"]
    assert found["own_sts"][["sts:weather", "Avg"]].tolist() == [10.0, 10.0]
    assert found["own_probing", "probing:negation"] == 1.0
    monkeypatch.setattr("bench.report.render.paper_figures", lambda _: [])
    render_figures(suite, [], tmp_path / "figures")
    assert (tmp_path / "figures" / "leaderboard_own_sts.png").is_file()
    write_page(folder, tmp_path / "figures", tmp_path / "report")
    assert "Own STS" in (tmp_path / "report" / "index.html").read_text(encoding="utf-8")
