"""Figures of a suite's own tables and comparisons: positions of marks, and what is said of them.

Mutations caught in the figure of printed gains: one standard deviation instead of that of a
difference; SimCSE of another table; gains within the range that stand out.
"""

from pathlib import Path

import matplotlib
import numpy as np
import pytest
from scipy import stats

from bench.datasets.tasks import STS_TASKS
from bench.judge.against_baseline import against
from bench.judge.reproduction import judge, leaderboard
from bench.report.figures.compared import (
    board_figure,
    comparison,
    figure_stems,
    gains_figure,
    versus_figure,
)
from bench.report.figures.style import BLUE, GREY, INK, ORANGE, STYLE
from bench.reported import prior_sd
from bench.reported.number import printed_gains
from bench.results.suite_results import read_suite
from tests.integration.test_findings import AVERAGES, BEYOND, public, ranging
from tests.report.test_paper_figures import covered
from tests.support.compared_runs import BASE, scored
from tests.support.compared_runs import suite as in_memory
from tests.support.synthetic_suite import seeds, with_plan, write_suite

ROWS = (75.0, 75.5, 76.0, 76.5, 77.0)


@pytest.fixture(autouse=True)
def style():
    with matplotlib.rc_context(STYLE):
        yield


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    entry = {"method": "untrained", "setting": "paper", "scores": 56.7}
    runs = [*seeds("simcse", ROWS), *seeds("simcse", ROWS[:3], setting="paper"), entry]
    return read_suite(write_suite(tmp_path_factory.mktemp("suite"), runs))


def averages(suite, baseline):
    frame, claims = against(suite, baseline)
    return frame[frame["task"] == "Avg"], claims[claims["task"] == "Avg"]


def points(panel, y, marker):
    """The x values drawn with this marker within half a row of y."""
    lines = [line for line in panel.get_lines() if line.get_marker() == marker]
    marks = [point for line in lines for point in line.get_xydata()]
    return [float(x) for x, height in marks if abs(height - y) < 0.5]


def texts(artists):
    return [text.get_text() for text in artists]


# --- Beside print ---


def test_seeds_stand_around_the_printed_stroke(suite):
    figure = comparison(suite, figure_stems(judge(suite))["is-cse_table-1"])
    (panel,) = figure.axes
    assert panel.get_title(loc="left") == BASE
    names = texts(panel.get_yticklabels())
    y, first_last = names.index("SimCSE"), names.index("BERT (first-last avg)")
    assert points(panel, y, "|") == [76.25]
    assert points(panel, y, "o") == [75.0, 75.5, 76.0, 76.5, 77.0]
    assert points(panel, y, "s") == [75.0, 75.5, 76.0]
    assert points(panel, first_last, "D") == pytest.approx([56.7])
    assert "CT-BERT" not in names  # it was not run
    said = texts(panel.texts)
    assert len(said) == len(names)
    assert said[first_last] == "↓ lower"  # 56.80 is printed
    assert "ours, paper settings" in texts(figure.legends[0].get_texts())


@pytest.mark.parametrize(
    ("mean", "spread", "verdict", "widths"),
    [
        (76.25, 0.2, "reproduced", {"mean_half_width": 2.4}),
        (75.5, 1.0, "inconclusive", {"mean_half_width": 2.4}),
        (74.7, 0.8, "consistent", {"mean_half_width": 2.4, "half_width": 0.9}),
        (70.0, 0.8, "lower", {"mean_half_width": 2.4, "half_width": 0.9}),
    ],
)
def test_bars_are_the_intervals_of_the_verdict(mean, spread, verdict, widths, tmp_path):
    rows = [mean + spread * step for step in (-1, 0, 1) * 4]
    own = read_suite(write_suite(tmp_path, seeds("simcse", rows)))
    table = figure_stems(judge(own))["sscl_table-7"]
    (ours,) = [cell.ours for cell in table if cell.number.method == "SimCSE" and cell.ours.n]
    assert ours.verdict.kind == verdict
    quantile = stats.t.ppf(0.95 if verdict == "reproduced" else 0.975, 11 + 5)
    sd = max(ours.sd, ((5 * prior_sd(BASE, "Avg") ** 2 + 11 * ours.sd**2) / 16) ** 0.5)
    assert ours.verdict.mean_half_width == pytest.approx(quantile * sd / 12**0.5)
    figure = comparison(own, table)
    (panel,) = figure.axes
    bars = [line for line in panel.get_lines() if line.get_marker() == "None"]
    found = {line.get_linewidth(): list(line.get_xdata()) for line in bars}
    half = {width: getattr(ours.verdict, name) for name, width in widths.items()}
    assert found == {w: pytest.approx([mean - half[w], mean + half[w]]) for w in half}
    bands = [c.get_datalim(panel.transData) for c in panel.collections if not c.get_linewidth()[0]]
    assert [(box.x0, box.x1) for box in bands] == [pytest.approx((75.25, 77.25))]
    keys = texts(figure.legends[0].get_texts())
    assert ("95 % of single runs of ours" in keys) == ("half_width" in widths)
    assert {
        "printed ± tolerance",
        "our mean: 90 % interval if =, else 95 %; wider if grown",
    } <= set(keys)


def test_not_comparable_is_hollow_and_named(tmp_path):
    runs = [*seeds("simcse", ROWS), *seeds("simcse", ROWS, backbone="toy")]
    own = read_suite(write_suite(tmp_path, runs, stand_ins={"roberta-base": "toy"}))
    figure = comparison(own, figure_stems(judge(own))["is-cse_table-1"])
    _, panel = figure.axes
    assert panel.get_title(loc="left") == "roberta-base (ours: toy)"
    drawn = [line for line in panel.get_lines() if line.get_marker() == "o"]
    assert {line.get_markerfacecolor() for line in drawn if len(line.get_xdata())} == {"none"}
    assert "≠ not comparable" in texts(panel.texts)
    assert any("with any paper" in text for text in texts(figure.texts))
    keys = texts(figure.legends[0].get_texts())
    assert "ours, official settings, not comparable with print" in keys


def test_a_table_of_which_nothing_can_be_compared_has_no_figure(tmp_path):
    runs = seeds("simcse", ROWS, backbone="toy-bert", corpus="world")
    suite = write_suite(tmp_path, runs, data="world", stand_ins={BASE: "toy-bert"})
    assert figure_stems(judge(read_suite(suite))) == {}


# --- Leaderboards and comparisons with a baseline ---


def test_leaderboard_draws_every_seed(suite):
    (panel,) = board_figure(suite, leaderboard(suite)).axes
    names = texts(panel.get_yticklabels())
    assert names == ["simcse, official", "simcse, paper", "untrained, paper"]
    assert points(panel, 0, "o") == [75.0, 75.5, 76.0, 76.5, 77.0]
    assert points(panel, 0, "|") == [76.0]
    assert points(panel, 1, "s") == [75.0, 75.5, 76.0]
    said = texts(panel.texts)
    assert said == ["76.00 ± 0.79", "75.50 ± 0.50", "56.70"]


def test_an_own_method_is_not_called_paper(tmp_path):
    file = {"parts": [["mine", 1, {}, "sum of its file"]]}
    runs = seeds("mine", ROWS, setting="paper", label="Mine", identity=file)
    own = read_suite(write_suite(tmp_path, runs))
    figure = board_figure(own, leaderboard(own))
    assert texts(figure.axes[0].get_yticklabels()) == ["Mine"]
    assert texts(figure.legends[0].get_texts()) == ["a seed, own method", "mean"]


def test_the_figure_of_a_comparison_shows_its_numbers():
    values = {BASE: (1.0, 2.0, 4.0), "roberta-base": (-1.0, 0.0, 0.5)}
    runs = [
        scored(method, seed, 75.0 + (value if method == "is-cse" else 0.0), backbone=backbone)
        for backbone, differences in values.items()
        for seed, value in enumerate(differences)
        for method in ("is-cse", "simcse")
    ]
    frame, claims = against(in_memory(*runs), "simcse")
    figure = versus_figure(in_memory(*runs), frame, claims)
    assert [panel.get_title(loc="left") for panel in figure.axes] == list(values)
    for panel, (backbone, differences) in zip(figure.axes, values.items(), strict=True):
        assert texts(panel.get_yticklabels()) == ["Avg", *STS_TASKS]
        lines = {}
        for line in panel.lines:
            lines.setdefault(line.get_color(), []).append(list(line.get_xdata()))
        assert lines[GREY] == [[0, 0]]
        assert lines[BLUE] == [pytest.approx(differences)] * 8
        low, high = stats.ttest_1samp(differences, 0).confidence_interval(0.95)
        assert lines[INK] == [pytest.approx([low, np.mean(differences), high])] * 8
        printed = claims[claims["backbone"] == backbone].groupby("task")["claimed"].apply(list)
        assert lines[ORANGE] == [pytest.approx(printed[task]) for task in ("Avg", *STS_TASKS)]
        assert texts(panel.texts) == [f"{np.mean(differences):+.2f} ? undecided"] * 8


def test_limits_contain_all_but_marked_outliers(tmp_path):
    rows = dict.fromkeys(("simcse", "is-cse", "sscl", "dclr", "esimcse"), (75.0, 76.0, 77.0))
    rows |= {"ct-bert": (24.0, 24.5, 25.0), "gs-infonce": (76.5, 40.0)}
    runs = [run for name, values in rows.items() for run in seeds(name, values)]
    own = read_suite(write_suite(tmp_path, runs))
    board = board_figure(own, leaderboard(own))
    versus = versus_figure(own, *averages(own, "simcse"))
    for figure in (board, versus):
        (panel,) = figure.axes
        low, high = panel.get_xlim()
        lines = [line for line in panel.get_lines() if line.get_transform() is panel.transData]
        hidden = {round(y) for line in lines for x, y in line.get_xydata() if not low <= x <= high}
        at_edge = [line for line in panel.get_lines() if line.get_marker() in ("<", ">")]
        assert {round(line.get_ydata()[0]) for line in at_edge} == hidden
        assert len(hidden) == 2
        assert covered(figure) == []


def test_the_highest_score_of_a_leaderboard_is_on_the_axis(tmp_path):
    """Mutation caught: an arrow for any score that is far from the others."""
    runs = [*seeds("simcse", ROWS), *seeds("is-cse", ROWS)]
    runs += [{"method": "untrained", "scores": 99.0}, {"method": "word-overlap", "scores": 10.0}]
    own = read_suite(write_suite(tmp_path, runs))
    (panel,) = board_figure(own, leaderboard(own)).axes
    assert panel.get_xlim()[1] > 99.0
    markers = {line.get_marker() for line in panel.get_lines()}
    assert "<" in markers
    assert ">" not in markers


def test_a_figure_has_the_first_25_rows_and_says_so(tmp_path):
    """Mutation caught: as many rows of each panel, although one has fewer."""
    runs = [run for n in range(30) for run in seeds(f"m{n:02d}", [80.0 - n, 79.0 - n])]
    runs += seeds("small", [70.0, 71.0], backbone="roberta-base")
    own = read_suite(write_suite(tmp_path, runs))
    figure = board_figure(own, leaderboard(own))
    first, second = (texts(panel.get_yticklabels()) for panel in figure.axes)
    assert first == [f"m{n:02d}, official" for n in range(24)]
    assert second == ["small, official"]
    said = " ".join(texts(figure.texts)).replace("\n", " ")
    assert "The first 25 of 31 rows; the table has all." in said


@pytest.mark.slow
def test_texts_cover_nothing_and_stay_inside(suite, tmp_path):
    long = "A method_of_y (layer=3, the_most_this backbone_has=11, alpha_start=0.005, $x^2$)"
    other = read_suite(write_suite(tmp_path, seeds("simcse", ROWS, label=long)))
    mini = read_suite(Path("results/wiki-mini"))
    tables = figure_stems(judge(suite))
    drawn = {stem: comparison(suite, table) for stem, table in tables.items()}
    name = "an-unusually-long-name-of-a-suite" * 2
    other, renamed = with_plan(other, suite=name), with_plan(suite, suite=name)
    drawn["leaderboard"] = board_figure(other, leaderboard(other))
    drawn["compare"] = versus_figure(renamed, *against(suite, "simcse"))
    drawn["wiki-mini"] = board_figure(mini, leaderboard(mini))
    drawn["wiki-mini, compare"] = versus_figure(mini, *averages(mini, "simcse"))
    for stem, figure in drawn.items():
        assert covered(figure) == [], stem
        box = figure.get_tightbbox()  # with marks
        assert box.min.min() >= 0, stem
        assert (box.max <= figure.get_size_inches()).all(), stem


# --- Printed gains over SimCSE beside public runs of SimCSE ---


def test_printed_gains_are_those_of_the_findings():
    for row, gain in zip(printed_gains().itertuples(), AVERAGES, strict=True):
        assert (row.method, row.backbone, row.gain) == (gain.method, gain.backbone, gain.points)
        assert row.reach == pytest.approx(BEYOND * gain.s0)
        assert row.share == pytest.approx(ranging(2, public(gain.backbone), gain.points))


def test_gains_beyond_the_seeds_stand_out():
    figure, gains, bold = gains_figure(), printed_gains(), 0
    assert covered(figure) == []
    for panel, (method, rows) in zip(figure.axes, gains.groupby("method", sort=False), strict=True):
        assert panel.get_title(loc="left") == method
        bars = [bar.get_datalim(panel.transData) for bar in panel.collections]
        assert [bar.x1 for bar in bars] == pytest.approx(list(rows["reach"]))
        assert [line.get_xdata()[0] for line in panel.get_lines()] == list(rows["gain"])
        stands_out = [text.get_weight() == "bold" for text in panel.texts]
        assert stands_out == list(rows["gain"] >= rows["reach"])
        bold += sum(stands_out)
    title = figure.legends[0].get_title().get_text()
    assert title.startswith(f"{len(gains) - bold} of {len(gains)} printed")
