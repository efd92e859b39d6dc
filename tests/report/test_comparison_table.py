"""Comparisons with a baseline as tables and figure."""

import matplotlib
import numpy as np
import pandas as pd
import pytest
from scipy import stats

from bench.comparison.against_baseline import against
from bench.datasets.tasks import STS_TASKS
from bench.report.comparison_table import caption, render_versus, shown
from bench.report.figures.compared import versus_figure
from bench.report.figures.style import BLUE, GREY, INK, ORANGE, STYLE
from bench.report.printed_table import NOTHING_RUN
from bench.results.suite_results import read_suite
from bench.utils.errors import UserError
from tests.support.compared_runs import BASE, each, row_of, scored, suite
from tests.support.synthetic_suite import seeds, write_suite


def test_figures_need_a_folder_for_tables(tmp_path):
    with pytest.raises(UserError, match="--figures needs --out"):
        render_versus(NOTHING_RUN, "simcse", figures=tmp_path / "figures")


def test_papers_that_agree_share_a_line_and_others_have_their_own():
    large = "bert-large-uncased"  # two versions of a paper print 79.13 and 78.96
    frame, claims = against(suite(*each("gs-infonce simcse", backbone=large)), "simcse")
    own = claims[claims["task"] == "Avg"]
    lines = shown(frame[frame["task"] == "Avg"], own)
    assert len(lines) == len(own[["printed_a", "printed_b"]].drop_duplicates()) > 1
    assert list(lines["Backbone"]) == [large] + [""] * (len(lines) - 1)
    assert sum(text.count(",") for text in lines["Source"]) == len(own)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    rows = [dict.fromkeys(STS_TASKS, value) for value in (75.0, 75.4, 75.8)]
    higher = [dict.fromkeys(STS_TASKS, value) for value in (76.0, 76.5, 77.0)]
    runs = seeds("simcse", rows) + seeds("is-cse", higher) + seeds("sscl", rows)
    return write_suite(tmp_path_factory.mktemp("suite"), runs)


@pytest.mark.slow
def test_files_of_a_comparison(folder, tmp_path):
    tables, figures = tmp_path / "tables", tmp_path / "figures"
    render_versus(read_suite(folder), "simcse", ["is-cse"], out=tables, figures=figures)
    for place, kinds in ((tables, ("csv", "md", "tex", "html")), (figures, ("csv", "png", "pdf"))):
        files = {path.name for path in place.iterdir()}
        assert files == {"compare_printed.csv", *(f"compare.{kind}" for kind in kinds)}
    average = row_of(pd.read_csv(tables / "compare.csv"))  # one, however often it is printed
    differences = [float(word) for word in average["differences"].split()]
    assert differences == pytest.approx([1.0, 1.1, 1.2])
    claim = row_of(pd.read_csv(tables / "compare_printed.csv"), source="is-cse")
    assert claim["claimed"] == pytest.approx(2.05)


def test_several_methods_without_an_average_show_their_tasks(tmp_path):
    rows = [{"STS12": 70.0, "STS-B": 70.0}]
    runs = [run for method in ("simcse", "is-cse", "sscl") for run in seeds(method, rows)]
    folder = write_suite(tmp_path / "suite", runs)
    render_versus(read_suite(folder), "simcse", out=tmp_path)
    lines = (tmp_path / "compare.md").read_text(encoding="utf-8").splitlines()
    assert lines[2].startswith("| Backbone | Method | Task | n |")
    found = [line.split(" | ")[1:3] for line in lines[4:] if line.startswith(f"| {BASE}")]
    methods = ("is-cse, official", "sscl, official")
    assert found == [[method, task] for method in methods for task in ("STS12", "STS-B")]


def test_the_figure_shows_the_numbers():
    values = {BASE: (1.0, 2.0, 4.0), "roberta-base": (-1.0, 0.0, 0.5)}
    runs = [
        scored(method, seed, 75.0 + (value if method == "is-cse" else 0.0), backbone=backbone)
        for backbone, differences in values.items()
        for seed, value in enumerate(differences)
        for method in ("is-cse", "simcse")
    ]
    frame, claims = against(suite(*runs), "simcse")
    with matplotlib.rc_context(STYLE):
        figure = versus_figure(suite(*runs), frame, claims)
    assert [panel.get_title(loc="left") for panel in figure.axes] == list(values)
    for panel, (backbone, differences) in zip(figure.axes, values.items(), strict=True):
        assert [label.get_text() for label in panel.get_yticklabels()] == [*STS_TASKS, "Avg"]
        lines: dict[str, list[list[float]]] = {}
        for line in panel.lines:
            lines.setdefault(line.get_color(), []).append(list(line.get_xdata()))
        assert lines[GREY] == [[0, 0]]
        assert lines[BLUE] == [pytest.approx(differences)] * 8
        low, high = stats.ttest_1samp(differences, 0).confidence_interval(0.95)
        assert lines[INK] == [pytest.approx([low, np.mean(differences), high])] * 8
        printed = claims[claims["backbone"] == backbone].groupby("task")["claimed"].apply(list)
        assert lines[ORANGE] == [pytest.approx(printed[task]) for task in (*STS_TASKS, "Avg")]
        assert [text.get_text() for text in panel.texts] == ["? undecided"] * 8


@pytest.mark.parametrize(
    ("baseline", "name"), [("simcse", "SIMCSE, official"), ("Mine", "Mine (outside encoder)")]
)
def test_the_baseline_has_the_name_of_its_row(baseline, name):
    label = "Mine (outside encoder)"
    outside = scored("a", None, 50.0, backbone="none", setting="paper", label=label)
    both = suite(*each("sscl simcse"), outside)
    frame, claims = against(both, baseline)
    averages = frame[frame["task"] == "Avg"]
    assert f" against {name} (B), " in caption(both, averages, claims)
    figure = versus_figure(both, averages, claims)
    title = " ".join(figure.legends[0].get_title().get_text().split())
    assert f" minus {name}, seed by seed" in title


def test_untrained_methods_do_not_squeeze_the_figure():
    untrained = scored("untrained", None, 50.0, setting="paper")
    both = suite(*each("sscl simcse is-cse"), untrained)
    trained = ["SSCL", "SIMCSE", "IS-CSE"]
    for baseline, named in (("simcse", trained[::2]), ("untrained", trained)):
        frame, claims = against(both, baseline)
        averages = frame[frame["task"] == "Avg"]
        assert len(averages) == 3
        panel = versus_figure(both, averages, claims[claims["task"] == "Avg"]).axes[0]
        shown_names = [label.get_text() for label in panel.get_yticklabels()]
        assert shown_names == [f"{name}, official" for name in named]
