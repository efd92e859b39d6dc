"""Figures of a suite's own tables and comparisons: positions of marks, and what is said of them.

Mutations caught in the figure of printed gains: one standard deviation instead of that of a
difference; SimCSE of another table; gains within the range that stand out.
"""

import numpy as np
import pytest

from bench.datasets.tasks import STS_TASKS
from bench.report.figures.compared import (
    comparison,
    figure_stems,
    leaderboard_figure,
    versus_figure,
)
from bench.report.figures.crossed import crossed_figure, crossed_table
from bench.report.figures.style import BLUE, GREY, INK, ORANGE, drawing
from tests.support.drawn_texts import covered
from tests.support.judged_rows import (
    BASE,
    WITH_BASELINE,
    claim,
    heading,
    leaderboard,
    measured,
    number,
    pair,
    printed_gain,
    system,
)
from tools.documents import wiki_mini

ROWS = (75.0, 75.5, 76.0, 76.5, 77.0)
STS = leaderboard()
SUITE = heading(STS, **WITH_BASELINE)


@pytest.fixture(autouse=True)
def style():
    with drawing():
        yield


def points(panel, y, marker):
    """The x values drawn with this marker in row y."""
    lines = [line for line in panel.get_lines() if line.get_marker() == marker]
    marks = [point for line in lines for point in line.get_xydata()]
    return [float(x) for x, height in marks if y < height < y + 1]


def bars(panel):
    """The ends of each bar, by its width."""
    lines = [line for line in panel.get_lines() if line.get_marker() == "None"]
    return {line.get_linewidth(): line.get_xdata().tolist() for line in lines}


def texts(artists):
    return [text.get_text() for text in artists]


def names_of(panel):
    return texts(panel.get_yticklabels())


def legend_of(figure):
    return texts(figure.legends[0].get_texts())


def title_of(figure):
    return figure.legends[0].get_title().get_text().replace("\n", " ")


def notes_of(figure):
    return " ".join(texts(figure.texts)).replace("\n", " ")


# --- Beside print ---


def test_seeds_stand_around_the_printed_stroke():
    other = measured(ROWS[:3], setting="paper")
    lower = measured([56.7], "lower", setting="paper", deterministic=True)
    averages = [
        number(76.25, measured(ROWS, next_look=10), other=other),
        number(56.8, lower, label="BERT (first-last avg)"),
    ]
    figure = comparison(SUITE, averages)
    (panel,) = figure.axes
    assert panel.get_title(loc="left") == BASE
    assert names_of(panel) == ["SimCSE", "BERT (first-last avg)"]
    assert points(panel, 0, "|") == [76.25]
    assert points(panel, 0, "o") == list(ROWS)
    assert points(panel, 0, "s") == [75.0, 75.5, 76.0]
    assert points(panel, 1, "D") == [56.7]
    assert texts(panel.texts) == ["? 10 open", "↓ lower"]
    assert [text.get_weight() for text in panel.texts] == ["normal", "bold"]
    settings = ["a seed, official settings", "a seed, paper settings"]
    assert legend_of(figure) == ["printed", *settings, "without a seed"]
    assert title_of(figure) == "SSCL, Table 2: printed and measured"


TOLERANCE = {7.0: [75.25, 76.25, 77.25]}
MEAN, ONE_RUN = {2.4: [75.25, 75.5, 75.75]}, {0.9: [74.0, 75.5, 77.0]}


@pytest.mark.parametrize(
    ("kind", "within", "expected", "notes"),
    [
        ("reproduced", True, MEAN, []),
        ("open", None, MEAN, ["? 10"]),
        ("consistent", False, MEAN | ONE_RUN, ["≈ 1/12", "Holm"]),
        ("lower", False, MEAN | ONE_RUN, ["Holm"]),
    ],
)
def test_bars_are_the_intervals_of_the_verdict_and_notes_explain_it(kind, within, expected, notes):
    of_verdict = {"within": within, "tolerance": 1.0, "half_width": 1.5, "mean_half_width": 0.25}
    figure = comparison(SUITE, [number(76.25, measured([75.0, 76.0], kind, **of_verdict))])
    assert bars(figure.axes[0]) == TOLERANCE | expected
    assert [note for note in ("? 10", "≈ 1/12", "Holm") if note in notes_of(figure)] == notes


def test_not_comparable_is_hollow_and_named():
    ours = measured(ROWS, "not comparable", measured_on="toy")
    averages = [number(76.25, measured(ROWS)), number(76.6, ours, backbone="roberta-base")]
    figure = comparison(heading(stand_ins=["toy"]), averages)
    _, panel = figure.axes
    assert panel.get_title(loc="left") == "roberta-base (ours: toy)"
    drawn = [line for line in panel.get_lines() if line.get_marker() == "o"]
    assert {line.get_markerfacecolor() for line in drawn} == {"none"}
    assert texts(panel.texts) == ["≠ not comparable"]
    assert "with any paper" in notes_of(figure)
    assert "a seed, official settings, not comparable with the paper" in legend_of(figure)


def table(ours, tasks=STS_TASKS, **more):
    """A printed row of these tasks and their average, which alone is scored."""
    return [*(number(70.0, task=task, **more) for task in tasks), number(76.25, ours, **more)]


@pytest.mark.parametrize(
    ("rows", "stems"),
    [
        ([*table(measured(ROWS)), *table(None), *table(measured(ROWS))], {"sscl_table-2": 2}),
        (table(measured(ROWS), source="is-cse", table="Table 1"), {"is-cse_table-1": 1}),
        # No scores; none that can be compared; another split; an average of less than seven tasks.
        (table(None), {}),
        (table(measured(ROWS, "not comparable")), {}),
        (table(measured(ROWS), split="dev"), {}),
        (table(measured(ROWS), tasks=STS_TASKS[:6]), {}),
    ],
)
def test_tables_that_get_a_figure(rows, stems):
    result = figure_stems(rows)
    assert {stem: len(averages) for stem, averages in result.items()} == stems
    assert {average.task for averages in result.values() for average in averages} <= {"Avg"}


# --- Leaderboards and comparisons with a baseline ---


def test_leaderboard_draws_every_seed():
    untrained = {"setting": "paper", "corpus": ""}
    systems = [
        system("simcse", ROWS),
        system("simcse", ROWS[:3], setting="paper"),
        system("mine", ROWS, setting="paper", name="Mine", own=True),
        system("sscl"),
        system("untrained", [74.7], backbone="none", **untrained),
    ]
    figure = leaderboard_figure(SUITE, leaderboard(planned=["STS12", "STS-B"]), systems)
    panel, second = figure.axes
    assert names_of(panel) == ["simcse", "simcse, paper", "Mine", "sscl"]
    assert "Settings are official unless a name says otherwise." in notes_of(figure)
    assert points(panel, 0, "o") == list(ROWS)
    assert points(panel, 0, "|") == [76.0]
    assert points(panel, 1, "s") == [75.0, 75.5, 76.0]
    assert points(second, 0, "D") == [74.7]
    assert second.get_title(loc="left") == "no backbone"
    assert texts(panel.texts) == ["76.00 ± 0.79", "75.50 ± 0.50", "76.00 ± 0.79", "–"]
    assert legend_of(figure) == [
        "a seed, official settings",
        "mean",
        "a seed, paper settings",
        "a seed, own method",
        "without a seed",
    ]
    tasks = "Spearman x 100 on STS12 and STS-B"
    assert title_of(figure) == f"Suite s: every seed of every method, {tasks}"
    assert second.get_xlabel() == f"average {tasks}"
    assert leaderboard_figure(SUITE, STS, []).axes == []


def test_the_figure_of_a_comparison_shows_its_numbers():
    values = {BASE: (1.0, 2.0, 4.0), "roberta-base": (-1.0, 0.0, 0.5)}
    gains = [printed_gain(77.5, 76.25), printed_gain(78.0, 76.5), printed_gain(78.0, None)]
    pairs = []
    for backbone, differences in values.items():
        of_all = {"backbone": backbone, "half_width": 1.5, "printed": gains}
        pairs += [pair("is-cse", differences, task=task, **of_all) for task in STS_TASKS]
        pairs.append(claim("is-cse", differences, **of_all))
    figure = versus_figure(SUITE, pairs)
    assert [panel.get_title(loc="left") for panel in figure.axes] == list(values)
    for panel, differences in zip(figure.axes, values.values(), strict=True):
        assert names_of(panel) == ["Avg", *STS_TASKS]
        lines = {}
        for line in panel.lines:
            lines.setdefault(line.get_color(), []).append(list(line.get_xdata()))
        mean = np.mean(differences)
        assert lines[GREY] == [[1], [0, 0]]  # the margin of the claim, and no difference
        assert lines[BLUE] == [list(differences)] * 8
        assert lines[INK] == [pytest.approx([mean - 1.5, mean, mean + 1.5])] * 8
        assert lines[ORANGE] == [[1.25, 1.5]] * 8
        assert texts(panel.texts) == [f"{mean:+.2f} ? open", *[f"{mean:+.2f}"] * 7]
    assert "verdicts hold after Holm's correction" in notes_of(figure)


UNTRAINED = pair("untrained", [-20.0, -21.0], kind="one-sample")


@pytest.mark.parametrize(
    ("pairs", "names", "title"),
    [
        ([UNTRAINED], ["Avg"], "untrained, official, minus SimCSE, official, seed by seed"),
        (
            [pair("is-cse", [1.0, 2.0]), pair("sscl", [3.0, 4.0]), UNTRAINED],
            ["is-cse", "sscl", "untrained"],
            "every method minus SimCSE, official, seed by seed",
        ),
        (
            [pair(name, [-20.0], kind="items", half_width=None) for name in ("glove", "untrained")],
            ["glove", "untrained"],
            "every method minus SimCSE, official, over the test items",
        ),
        (
            [pair(name, [1.0], task=task) for task in ("STS12", "Avg") for name in ("a", "b")],
            ["a, Avg", "b, Avg", "a, STS12", "b, STS12"],
            "every method minus SimCSE, official, seed by seed",
        ),
    ],
)
def test_rows_and_title_of_a_comparison(pairs, names, title):
    figure = versus_figure(SUITE, pairs)
    assert names_of(figure.axes[0]) == names
    assert title_of(figure) == f"Suite s: {title}"
    seeds = [line for line in figure.axes[0].lines if line.get_color() == BLUE]
    assert bool(seeds) == ("items" not in title)


def test_a_comparison_without_a_pair_has_a_row():
    """Of a training that diverged."""
    nothing = {"differences": (), "difference": None, "half_width": None}
    diverged = pair("sscl", [1.0]).model_copy(update=nothing)
    (panel,) = versus_figure(SUITE, [claim("is-cse", [1.0], verdict="better"), diverged]).axes
    assert texts(panel.texts) == ["+1.00 ⇑ better", "–"]
    assert [text.get_weight() for text in panel.texts] == ["bold", "normal"]


def test_the_axis_ends_near_the_other_marks_and_an_arrow_has_the_value_beyond():
    """Mutations caught: the row is left out; the number is of its nearest mark."""
    systems = [system(name, ROWS) for name in ("simcse", "is-cse")]
    systems += [system("oracle", [99.0]), system("word-overlap", [10.0, 12.0])]
    systems.append(system("partly", [69.0, 73.0]))
    figure = leaderboard_figure(SUITE, STS, systems)
    (panel,) = figure.axes
    low, high = panel.get_xlim()
    assert 60.0 < low < 69.0
    assert 77.0 < high < 85.0
    arrows = {text.get_text(): text.get_position() for text in panel.texts if text.get_size() == 6}
    assert arrows == {"99.0 ▶": (1, 2.5), "◀ 10.0": (0, 3.5)}
    assert "the furthest mark of a row beyond the axis" in notes_of(figure)


def test_an_interval_that_leaves_the_axis_goes_to_its_end():
    pairs = [pair(name, [0.0, 0.0]) for name in "abcd"] + [pair("wide", [0.0], half_width=30.0)]
    (panel,) = versus_figure(SUITE, pairs).axes
    interval = next(
        line for line in panel.lines if len(line.get_xdata()) == 3 and max(line.get_xdata()) > 1
    )
    assert list(interval.get_xdata()) == [-5.0, 0.0, 5.0]
    assert interval.get_markevery() == [False, True, False]
    assert [text.get_text() for text in panel.texts][-3:] == ["◀ -30.0", "30.0 ▶", "+0.00"]


# --- STS against transfer tasks ---

BOTH = heading(STS, leaderboard("transfer"), **WITH_BASELINE)
GAINS = {"is-cse": (1.0, 2.0), "sscl": (2.0, 1.0), "overlap": (-40.0, 3.0), "mixcse": (3.0, 0.5)}


def crossing(**more):
    """The systems that are compared on both leaderboards."""
    pairs = []
    for method, values in GAINS.items():
        kind = "one-sample" if method == "overlap" else "paired"
        for name, value in zip(("sts", "transfer"), values, strict=True):
            pairs.append(pair(method, [value], leaderboard=name, kind=kind, **more))
    return crossed_table(pairs)


def test_a_cross_has_both_differences_with_their_intervals():
    figure = crossed_figure(BOTH, crossing())
    (panel,) = figure.axes
    assert title_of(figure) == "Suite s: STS against transfer tasks, rank correlation -1.00"
    marks = {line.get_marker(): [] for line in panel.lines}
    for line in panel.lines:
        marks[line.get_marker()] += line.get_xydata().tolist()
    assert marks["o"] == [[3.0, 0.5], [2.0, 1.0], [1.0, 2.0]]
    assert marks["D"] == [[-40.0, 3.0]]
    assert texts(panel.texts) == ["mixcse", "sscl", "is-cse", "overlap"]
    ends = [path.vertices.tolist() for bars in panel.collections for path in bars.get_paths()]
    assert [[2.5, 0.5], [3.5, 0.5]] in ends
    assert [[3.0, 0.0], [3.0, 1.0]] in ends
    assert len(ends) == 8


def test_names_of_crosses_have_the_backbone_where_there_are_several():
    table = crossing()
    table["backbone"] = ["a", "a", "b", "b"]
    (panel,) = crossed_figure(BOTH, table).axes
    assert texts(panel.texts)[::2] == ["a, mixcse", "b, is-cse"]


def test_systems_with_intervals_on_both_averages_are_crossed():
    assert crossing(half_width=None).empty
    assert crossing(task="STS12").empty


@pytest.mark.slow
def test_texts_cover_nothing_and_stay_inside():
    long = "A method_of_y (layer=3, the_most_this backbone_has=11, alpha_start=0.005, $x^2$)"
    renamed = SUITE.changed(suite="an-unusually-long-name-of-a-suite" * 2)
    averages = [number(76.25, measured(ROWS)), number(56.8, measured([56.7], "lower"), label=long)]
    mini = wiki_mini()
    overall = [row for row in mini.pairs if (row.leaderboard, row.task) == ("sts", "Avg")]
    drawn = {
        "table": comparison(SUITE, averages),
        "leaderboard": leaderboard_figure(renamed, STS, [system("simcse", ROWS, label=long)]),
        "wiki-mini": leaderboard_figure(
            mini.suite, mini.suite.leaderboard("sts"), mini.leaderboard_systems("sts")
        ),
        "wiki-mini, compare": versus_figure(mini.suite, overall),
        "wiki-mini, crossed": crossed_figure(mini.suite, crossed_table(mini.pairs)),
    }
    for stem, figure in drawn.items():
        assert covered(figure) == [], stem
        box = figure.get_tightbbox()  # with marks
        assert box.min.min() >= 0, stem
        assert (box.max <= figure.get_size_inches()).all(), stem
