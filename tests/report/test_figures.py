"""Figures: positions of marks, the data files, reproducible bytes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import matplotlib
import pandas as pd
import pytest
from PIL import Image

from bench.comparison.against_baseline import against
from bench.comparison.reproduction import cells, leaderboard
from bench.datasets.tasks import STS_TASKS
from bench.report.comparison_table import versus_figure
from bench.report.figures import figure_stems, render_figures
from bench.report.figures.compared import board_figure, comparison
from bench.report.figures.style import STYLE
from bench.results.suite_results import read_suite
from tests.support.synthetic_suite import seeds, write_suite

ROWS = [dict.fromkeys(STS_TASKS, value) for value in (75.0, 75.5, 76.0, 76.5, 77.0)]


@pytest.fixture(scope="module")
def suite(tmp_path_factory) -> Path:
    entry = {"method": "untrained", "setting": "paper", "scores": dict.fromkeys(STS_TASKS, 56.7)}
    runs = [*seeds("simcse", ROWS), *seeds("simcse", ROWS[:3], setting="paper"), entry]
    return write_suite(tmp_path_factory.mktemp("suite"), runs)


def points(panel, y: float, marker: str) -> list[float]:
    """The x values drawn with this marker within half a row of y."""
    lines = [line for line in panel.get_lines() if line.get_marker() == marker]
    marks = [point for line in lines for point in line.get_xydata()]
    return [float(x) for x, height in marks if abs(height - y) < 0.5]


def test_seeds_stand_around_the_printed_stroke(suite):
    table = figure_stems(cells(read_suite(suite)))["is-cse_table-1"]
    with matplotlib.rc_context(STYLE):
        figure = comparison(read_suite(suite), table)
    panels = {panel.get_title(loc="left"): panel for panel in figure.axes}
    berts = ["bert-base-uncased", "bert-large-uncased", "roberta-base", "roberta-large"]
    assert list(panels) == ["glove", *berts]
    panel = panels["bert-base-uncased"]
    names = [label.get_text() for label in panel.get_yticklabels()]
    y = names.index("SimCSE")
    assert points(panel, y, "|") == [76.25]
    assert points(panel, y, "o") == [75.0, 75.5, 76.0, 76.5, 77.0]
    assert points(panel, y, "s") == [75.0, 75.5, 76.0]
    assert points(panel, names.index("BERT (first-last avg)"), "D") == pytest.approx([56.7])
    assert points(panel, names.index("CT-BERT"), "o") == []
    texts = [text.get_text() for text in panel.texts]
    assert len(texts) == len(names)
    assert texts[names.index("BERT (first-last avg)")] == "↓ lower"  # 56.80 is printed
    assert texts[names.index("CT-BERT")] == "– not run"
    shown = [line.get_xdata() for line in panel.get_lines() if line.get_marker() == "None"]
    row = table.query("method == 'SimCSE' and backbone == 'bert-base-uncased'").iloc[0]
    assert [list(ends) for ends in shown] == [[76.0 - row["half_width"], 76.0 + row["half_width"]]]


def test_not_comparable_is_hollow_and_named(tmp_path):
    write_suite(
        tmp_path, seeds("simcse", ROWS, backbone="toy-bert", corpus="world"),
        name="smoke", data="world", stand_ins={"bert-base-uncased": "toy-bert"},
    )  # fmt: skip
    own = read_suite(tmp_path)
    with matplotlib.rc_context(STYLE):
        figure = comparison(own, figure_stems(cells(own))["sscl_table-7"])
    (panel,) = figure.axes
    assert panel.get_title(loc="left") == "bert-base-uncased  (ours: toy-bert)"
    drawn = [line for line in panel.get_lines() if line.get_marker() == "o"]
    assert {line.get_markerfacecolor() for line in drawn if len(line.get_xdata())} == {"none"}
    assert "≠ not comparable" in [text.get_text() for text in panel.texts]
    assert any("with no paper" in text.get_text() for text in figure.texts)


def test_leaderboard_draws_every_seed(suite):
    with matplotlib.rc_context(STYLE):
        figure = board_figure(read_suite(suite), leaderboard(read_suite(suite)))
    (panel,) = figure.axes
    names = [label.get_text() for label in panel.get_yticklabels()]
    assert names == ["simcse, official", "simcse, paper", "untrained"]
    assert points(panel, 0, "o") == [75.0, 75.5, 76.0, 76.5, 77.0]
    assert points(panel, 0, "|") == [76.0]
    assert points(panel, 1, "s") == [75.0, 75.5, 76.0]
    assert [text.get_text() for text in panel.texts] == ["76.00 ± 0.79", "75.50 ± 0.50", "56.70"]


@pytest.mark.slow
def test_nothing_is_written_over_the_edge(suite, tmp_path):
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    long = "A method (layer=3, the most this backbone has (of 11), alpha_start=0.005, $x^2$)"
    write_suite(tmp_path, seeds("simcse", ROWS, label=long))
    with matplotlib.rc_context(STYLE):
        whole, other = read_suite(suite), read_suite(tmp_path)
        tables = figure_stems(cells(whole))
        drawn = {stem: comparison(whole, table) for stem, table in tables.items()}
        other = replace(other, name="an-unusually-long-name-of-a-suite" * 2)
        drawn["leaderboard"] = board_figure(other, leaderboard(other))
        drawn["compare"] = versus_figure(replace(whole, name=other.name), *against(whole, "simcse"))
    for stem, figure in drawn.items():
        with matplotlib.rc_context(STYLE):
            canvas = FigureCanvasAgg(figure)
            canvas.draw()
        box = figure.get_tightbbox(canvas.get_renderer())
        assert box.min.min() >= 0, stem
        assert (box.max <= figure.get_size_inches()).all(), stem


@pytest.mark.slow
def test_files_and_equal_bytes(suite, tmp_path, monkeypatch):
    monkeypatch.setattr("bench.report.figures.paper_figures", lambda _: [])  # test_drawn.py
    tables = figure_stems(cells(read_suite(suite)))
    assert len(tables) == 8
    # One of eight, which are all drawn above: rendering takes a second each.
    drawn = {"sscl_table-2": tables["sscl_table-2"]}
    monkeypatch.setattr("bench.report.figures.cells", lambda _: None)
    monkeypatch.setattr("bench.report.figures.figure_stems", lambda _: drawn)
    render_figures(suite, tmp_path / "one")
    files = {path.name for path in (tmp_path / "one").iterdir()}
    kinds = ("png", "pdf", "csv")
    assert files == {f"{stem}.{kind}" for stem in ("leaderboard", *drawn) for kind in kinds}
    monkeypatch.setattr("bench.report.figures.figure_stems", lambda _: {})
    render_figures(suite, tmp_path / "two")
    for path in (tmp_path / "two").iterdir():
        assert (tmp_path / "one" / path.name).read_bytes() == path.read_bytes(), path.name
    with Image.open(tmp_path / "one" / "leaderboard.png") as image:
        assert image.size[0] == 1080
        assert "Software" not in image.info
    data = pd.read_csv(tmp_path / "one" / "sscl_table-2.csv").query("method == 'SimCSE'")
    assert data["printed"].tolist() == [76.25, 77.53]
    assert data["ours"].iloc[0] == "75.0 75.5 76.0 76.5 77.0"
