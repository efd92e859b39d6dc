"""Figures: positions of marks, the data files, reproducible bytes."""

from itertools import pairwise
from operator import itemgetter
from pathlib import Path

import matplotlib
import pandas as pd
import pytest
from matplotlib.textpath import TextPath
from scipy import stats

from bench.comparison.against_baseline import against
from bench.comparison.reproduction import judge, leaderboard
from bench.datasets.tasks import STS_TASKS
from bench.report.figures.compared import (
    NAME_SIZE,
    board_figure,
    comparison,
    figure_stems,
    versus_figure,
)
from bench.report.figures.style import STYLE
from bench.reported import prior_sd
from bench.results.suite_results import SuiteResults, read_suite
from tests.report.test_drawn import covered
from tests.support.synthetic_suite import seeds, with_plan, write_suite

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
    table = figure_stems(judge(read_suite(suite)))["is-cse_table-1"]
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
    drawn = [line for line in panel.get_lines() if line.get_marker() in ("o", "s")]
    assert "none" not in {line.get_markerfacecolor() for line in drawn}
    assert "ours, paper settings" in [text.get_text() for text in figure.legends[0].get_texts()]


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
    rows = [dict.fromkeys(STS_TASKS, mean + spread * step) for step in (-1, 0, 1) * 4]
    own = read_suite(write_suite(tmp_path, seeds("simcse", rows)))
    table = figure_stems(judge(own))["sscl_table-7"]
    (ours,) = [cell.ours for cell in table if cell.number.method == "SimCSE" and cell.ours.n]
    judged = ours.verdict
    assert judged.kind == verdict
    quantile = stats.t.ppf(0.95 if verdict == "reproduced" else 0.975, 11 + 5)
    prior = prior_sd("bert-base-uncased", "Avg")
    sd = max(ours.sd, ((5 * prior**2 + 11 * ours.sd**2) / 16) ** 0.5)
    assert judged.mean_half_width == pytest.approx(quantile * sd / 12**0.5)
    with matplotlib.rc_context(STYLE):
        figure = comparison(own, table)
    (panel,) = figure.axes
    bars = [line for line in panel.get_lines() if line.get_marker() == "None"]
    found = {line.get_linewidth(): list(line.get_xdata()) for line in bars}
    ends = {
        width: pytest.approx([mean - getattr(judged, name), mean + getattr(judged, name)])
        for name, width in widths.items()
    }
    assert found == ends
    bands = [c.get_datalim(panel.transData) for c in panel.collections if not c.get_linewidth()[0]]
    assert [(box.x0, box.x1) for box in bands] == [pytest.approx((75.25, 77.25))]
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert ("95 % of single runs of ours" in texts) == ("half_width" in widths)
    assert {"printed ± tolerance", "our mean: 90 % interval if =, else 95 %"} <= set(texts)
    notes = " ".join(text.get_text() for text in figure.texts)
    assert ("? 8: 8 seeds" in notes) == (verdict == "inconclusive")
    assert ("one run of ours in 12" in notes) == (verdict == "consistent")


def test_not_comparable_is_hollow_and_named(tmp_path):
    write_suite(
        tmp_path, seeds("simcse", ROWS, backbone="toy-bert", corpus="world"),
        name="smoke", data="world", stand_ins={"bert-base-uncased": "toy-bert"},
    )  # fmt: skip
    own = read_suite(tmp_path)
    with matplotlib.rc_context(STYLE):
        figure = comparison(own, figure_stems(judge(own))["sscl_table-7"])
    (panel,) = figure.axes
    assert panel.get_title(loc="left") == "bert-base-uncased (ours: toy-bert)"
    drawn = [line for line in panel.get_lines() if line.get_marker() == "o"]
    assert {line.get_markerfacecolor() for line in drawn if len(line.get_xdata())} == {"none"}
    assert "≠ not comparable" in [text.get_text() for text in panel.texts]
    assert any("with any paper" in text.get_text() for text in figure.texts)
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert texts == ["printed", "ours, official settings, not comparable with print"]


def test_a_row_may_be_undecided_although_its_interval_excludes_zero(tmp_path):
    """Two gains whose p is between 0.025 and 0.05: Holm's correction doubles it."""
    gains = [dict.fromkeys(STS_TASKS, 75.0 + gain) for gain in (0.5, 1.0, 1.5)]
    runs = [*seeds("sscl", gains), *seeds("is-cse", gains), *seeds("simcse", [ROWS[0]] * 3)]
    suite = read_suite(write_suite(tmp_path, runs))
    frame, claims = _averages(suite, "simcse")
    frame = frame.assign(half_width=0.9)
    assert set(frame["verdict"]) == {"undecided"}
    with matplotlib.rc_context(STYLE):
        figure = versus_figure(suite, frame, claims)
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert "mean, 95 % interval before Holm's correction" in texts
    notes = " ".join(text.get_text() for text in figure.texts).replace("\n", " ")
    assert "may be undecided although its interval excludes 0" in notes


def test_leaderboard_draws_every_seed(suite):
    with matplotlib.rc_context(STYLE):
        figure = board_figure(read_suite(suite), leaderboard(read_suite(suite)))
    (panel,) = figure.axes
    names = [label.get_text() for label in panel.get_yticklabels()]
    assert names == ["simcse, official", "simcse, paper", "untrained, paper"]
    assert points(panel, 0, "o") == [75.0, 75.5, 76.0, 76.5, 77.0]
    assert points(panel, 0, "|") == [76.0]
    assert points(panel, 1, "s") == [75.0, 75.5, 76.0]
    texts = [text.get_text() for text in panel.texts]
    assert texts == ["76.00 ± 0.79", "75.50 ± 0.50", "56.70", "56.70"]  # the last beside an arrow


def test_a_panel_without_a_backbone_says_so(tmp_path):
    """That of an encoder whose score is printed is of the printed backbone."""
    mapping = "published[model=johngiorgi/declutr-base,pooler=avg]"
    encoder = {"setting": "paper", "backbone": "none", "scores": ROWS[0]}
    runs = [*seeds("simcse", ROWS, backbone="roberta-base"), {"method": mapping} | encoder]
    runs.append({"method": "published[model=a]", "label": "Mine (outside encoder)"} | encoder)
    suite = read_suite(write_suite(tmp_path, runs))
    with matplotlib.rc_context(STYLE):
        board = board_figure(suite, leaderboard(suite))
        versus = versus_figure(suite, *_averages(suite, "Mine"))
        printed = comparison(suite, figure_stems(judge(suite))["is-cse_table-1"])
    for figure in (board, versus):
        titles = {panel.get_title(loc="left") for panel in figure.axes}
        assert titles == {"roberta-base", "no backbone"}
    titles = [panel.get_title(loc="left") for panel in printed.axes]
    assert "roberta-base" in titles
    assert not [title for title in titles if "none" in title]


def scored_marks(panel) -> list[tuple[float, float]]:
    """Every mark at a score, as (score, row)."""
    lines = [line for line in panel.get_lines() if line.get_transform() is panel.transData]
    return [(float(x), float(y)) for line in lines for x, y in line.get_xydata()]


LONG = "A method_of_y (layer=3, the_most_this backbone_has=11, alpha_start=0.005, $x^2$)"


@pytest.mark.parametrize(("label", "lines"), [("A_y", 1), (LONG[:60], 2), (LONG, 3), (LONG * 2, 5)])
def test_names_have_one_size_and_do_not_touch(label, lines, tmp_path):
    runs = [run for i in range(3) for run in seeds(f"m{i}", ROWS, label=label)]
    suite = read_suite(write_suite(tmp_path, [*runs, *seeds("simcse", ROWS, label="y_")]))
    with matplotlib.rc_context(STYLE):
        figure = board_figure(suite, leaderboard(suite))
        assert covered(figure) == []
        names = figure.axes[0].get_yticklabels()
        boxes = sorted(
            (name.get_window_extent().extents * 72 / figure.dpi).tolist() for name in names
        )
        ink = TextPath((0, 0), "(A_y", size=NAME_SIZE).get_extents().height
    assert {name.get_fontsize() for name in names} == {NAME_SIZE}
    assert max(name.get_text().count("\n") for name in names) == lines - 1
    heights = [top - bottom for _, bottom, _, top in boxes]
    if lines > 1:  # underscores do not touch the next line
        assert (max(heights) - min(heights)) / (lines - 1) > ink
    gaps = [upper[1] - lower[3] for lower, upper in pairwise(sorted(boxes, key=itemgetter(1)))]
    assert min(gaps) > 1  # point


def test_limits_contain_all_but_marked_outliers(tmp_path):
    far = [dict.fromkeys(STS_TASKS, value) for value in (24.0, 24.5, 25.0)]
    split = [dict.fromkeys(STS_TASKS, value) for value in (76.5, 40.0)]
    runs = [
        run for name in ("simcse", "is-cse", "sscl", "dclr", "esimcse") for run in seeds(name, ROWS)
    ]
    runs += [*seeds("ct-bert", far), *seeds("gs-infonce", split)]
    suite = read_suite(write_suite(tmp_path, runs))
    with matplotlib.rc_context(STYLE):
        board = board_figure(suite, leaderboard(suite))
        versus = versus_figure(suite, *_averages(suite, "simcse"))
    for figure, arrows in ((board, ["24.50", "40.00"]), (versus, ["−51.00", "−35.50"])):
        (panel,) = figure.axes
        texts = {part for text in panel.texts for part in text.get_text().split(", ")}
        assert texts >= set(arrows)
        low, high = panel.get_xlim()
        hidden = {round(y) for x, y in scored_marks(panel) if not low <= x <= high}
        at_edge = [line for line in panel.get_lines() if line.get_marker() in ("<", ">")]
        assert {round(line.get_ydata()[0]) for line in at_edge} == hidden
        assert len(hidden) == 2
        assert covered(figure) == []
    low, high = versus.axes[0].get_xlim()
    assert low < 0 < high
    low, high = board.axes[0].get_xlim()
    assert 40 < low < 75
    assert 77 < high < 80


def test_the_highest_score_of_a_leaderboard_is_on_the_axis(tmp_path):
    """Mutation caught: an arrow for any score that is far from the others."""
    far = {"method": "untrained", "scores": dict.fromkeys(STS_TASKS, 99.0)}
    low = {"method": "word-overlap", "scores": dict.fromkeys(STS_TASKS, 10.0)}
    runs = [run for name in ("simcse", "is-cse") for run in seeds(name, ROWS)]
    suite = read_suite(write_suite(tmp_path, [*runs, far, low]))
    with matplotlib.rc_context(STYLE):
        (panel,) = board_figure(suite, leaderboard(suite)).axes
    assert (99.0, 0.0) in scored_marks(panel)
    assert panel.get_xlim()[1] > 99.0
    markers = {line.get_marker() for line in panel.get_lines()}
    assert "<" in markers
    assert ">" not in markers


@pytest.mark.slow
def test_texts_cover_nothing_and_stay_inside(suite, tmp_path):
    write_suite(tmp_path, seeds("simcse", ROWS, label=LONG))
    mini = read_suite(Path("results/wiki-mini"))
    with matplotlib.rc_context(STYLE):
        whole, other = read_suite(suite), read_suite(tmp_path)
        tables = figure_stems(judge(whole))
        drawn = {stem: comparison(whole, table) for stem, table in tables.items()}
        name = "an-unusually-long-name-of-a-suite" * 2
        other, renamed = with_plan(other, suite=name), with_plan(whole, suite=name)
        drawn["leaderboard"] = board_figure(other, leaderboard(other))
        drawn["compare"] = versus_figure(renamed, *against(whole, "simcse"))
        drawn["wiki-mini"] = board_figure(mini, leaderboard(mini))
        drawn["wiki-mini, compare"] = versus_figure(mini, *_averages(mini, "simcse"))
        for stem, figure in drawn.items():
            assert covered(figure) == [], stem
            box = figure.get_tightbbox()  # with marks
            assert box.min.min() >= 0, stem
            assert (box.max <= figure.get_size_inches()).all(), stem


def _averages(suite: SuiteResults, baseline: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    frame, claims = against(suite, baseline)
    return frame[frame["task"] == "Avg"], claims[claims["task"] == "Avg"]
