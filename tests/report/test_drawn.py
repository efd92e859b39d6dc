"""The papers' figures as drawn: marks are at their values, texts do not overlap, files are
reproducible."""

from dataclasses import replace
from itertools import combinations

import matplotlib
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.text import Text
from scipy.stats import gaussian_kde

from bench.report.figures.measured import OURS, FigureData, figure_data, load_figures
from bench.report.figures.papers import _density, draw, paper_figures
from bench.report.figures.style import INK, SERIES, STYLE, looks
from bench.results.suite_results import read_suite
from tests.support.synthetic_figures import write_everything

FIGURES = {figure.id: figure for figure in load_figures()}


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    names = {"bert-base-uncased": "toy-bert", "roberta-base": "toy-roberta"}
    more = {"depth": 4, "seeds": (1,), "steps": 4, "stand_ins": names, "data": "world"}
    return read_suite(write_everything(tmp_path_factory.mktemp("smoke"), **more))


def drawn(name, suite):
    measured = figure_data(FIGURES[name], suite)
    with matplotlib.rc_context(STYLE):
        return draw(suite, FIGURES[name], measured), measured.table


def look(label):
    return looks([label])[label]


def marks(panel, label, marker=None):
    """Every point drawn in the colour of a series with a marker (its own by default), sorted, of
    shape (n, 2)."""
    return points(panel, look(label)["color"], marker or look(label)["marker"])


def points(panel, color, marker):
    return in_order(
        (x, y)
        for line in panel.get_lines()
        if line.get_marker() == marker and to_hex(line.get_color()) == color.lower()
        for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)
    )


def in_order(points):
    return np.array(sorted((float(x), float(y)) for x, y in points))


def test_a_method_has_one_look_everywhere():
    labels = {series.label for figure in FIGURES.values() for series in figure.series}
    labels -= {"dropout 0.1"}  # SimCSE
    own = looks(sorted(labels))
    for name in ("color", "marker"):
        assert len({one[name] for one in own.values()}) == len(labels)
    assert look("dropout 0.1") == own["SimCSE"]
    assert all(look(label) == own[label] for label in labels)  # alone as with all others
    assert len({one["color"] for one in looks(["SimCSE", "a new one", "another"]).values()}) == 3


@pytest.mark.parametrize("name", ["G5", "I8", "I9", "I10", "L1", "S1", "S12", "Z1"])
def test_legends_and_colours_are_of_what_is_drawn(name, suite, smoke):
    known = {series.label for series in FIGURES[name].series}
    simcse = [run for run in suite.runs if run.plan.method == "simcse"]
    for one in (suite, smoke, replace(suite, runs=simcse)):
        if figure_data(FIGURES[name], one) is None:
            continue
        figure, table = drawn(name, one)
        (keys,) = figure.legends
        labels = [text.get_text().partition(", n =")[0] for text in keys.get_texts()]
        ours = set(table.loc[table["origin"] == OURS, "series"])
        assert known & set(labels) == ours == set(table["series"])
        for label, handle in zip(labels, keys.legend_handles, strict=True):
            if label in ours:
                color = handle.get_edgecolor() if name == "I9" else handle.get_color()
                assert to_hex(color) == look(label)["color"].lower()


def text_of(figure):
    titles = [legend.get_title() for legend in figure.legends]
    return " ".join(text.get_text().replace("\n", " ") for text in [*titles, *figure.texts])


@pytest.mark.parametrize(
    ("name", "x"), [("G5", "x"), ("S6", "x"), ("S1", "layer"), ("S10", "layer")]
)
def test_scores_are_marks_means_a_line_and_print_strokes(name, x, suite):
    figure, table = drawn(name, suite)
    table = table.assign(at=table[x].rank(method="dense") - 1)
    columns = ["reading"] if x == "layer" else ["task", "split"]
    panels = table[columns].drop_duplicates().merge(table).groupby(columns, sort=False)
    for panel, (_, rows) in zip(figure.axes, panels, strict=True):
        ours = rows[rows["origin"] == OURS]
        for label, own in ours.groupby("series"):
            # Where several series have a value, they stand beside each other.
            found = marks(panel, label)
            assert np.rint(found[:, 0]).tolist() == sorted(own["at"])
            assert sorted(found[:, 1]) == pytest.approx(sorted(own["value"]))
            means = own.groupby("at")["value"].mean().tolist()
            single = points(panel, look(label)["color"], "_")  # which has no line
            line = single if len(means) == 1 else marks(panel, label, "None")
            assert line[:, 1] == pytest.approx(means)
        printed = in_order(rows.loc[rows["origin"] != OURS, ["at", "value"]].to_numpy())
        assert points(panel, INK, "_").tolist() == printed.tolist()
    assert len({panel.get_ylim() for panel in figure.axes}) == 1 or x == "x"


def test_curves_with_logs(suite):
    figure, table = drawn("L1", suite)
    backbones = ["bert-base-uncased", "bert-large-uncased", "roberta-base", "roberta-large"]
    assert [panel.get_title(loc="left") for panel in figure.axes] == backbones
    for panel, backbone in zip(figure.axes[:2], backbones[:2], strict=True):
        rows = table[(table["backbone"] == backbone) & (table["series"] == "ESimCSE")]
        kept = rows[rows["best"].eq(True)][["step", "dev"]].to_numpy()
        assert len(kept) == 2
        assert marks(panel, "ESimCSE") == pytest.approx(in_order(kept))
        plain = (line for line in panel.get_lines() if line.get_marker() == "None")
        lines = [list(line.get_ydata()) for line in plain]
        assert rows[rows["origin"] == "released log"]["dev"].tolist() in lines
        mean = rows[rows["origin"] == OURS].groupby("step")["dev"].mean().tolist()
        assert any(line == pytest.approx(mean) for line in lines)


def test_printed_best_step(suite, smoke):
    figure, _ = drawn("S12", suite)
    (dotted,) = [line for line in figure.axes[0].get_lines() if line.get_linestyle() == ":"]
    assert list(dotted.get_xdata()) == [1500, 1500]
    for one, has_step in ((suite, True), (smoke, False)):
        keys = [text.get_text() for text in drawn("S12", one)[0].legends[0].get_texts()]
        assert ("printed best step" in keys) == has_step


def test_in_batch(suite):
    figure, table = drawn("G1", suite)
    sizes = sorted(table["batch"].unique())
    for panel, name in zip(figure.axes, ("sentences", "noise"), strict=True):
        for rank, look_of_rank in zip(range(1, 5), SERIES, strict=False):
            rows = table[table["rank"] == rank]
            every = in_order(zip(rows["batch"].map(sizes.index), rows[name], strict=True))
            found = points(panel, look_of_rank["color"], look_of_rank["marker"])
            assert found == pytest.approx(every)
            means = points(panel, look_of_rank["color"], "None")[:, 1]
            assert means == pytest.approx(rows.groupby("batch")[name].mean().to_numpy())


def test_alignment(suite):
    figure, table = drawn("I8", suite)
    panel = figure.axes[0]
    values = ["uniformity", "alignment", "average"]
    means = table.groupby(["series", "backbone"], sort=False)[values].mean()
    big = [line for line in panel.get_lines() if line.get_markersize() == 7]
    assert len(big) == 8
    spots = {(float(line.get_xdata()[0]), float(line.get_ydata()[0])): line for line in big}
    texts = {text.xy: text.get_text() for text in panel.texts}
    for (label, backbone), row in means.iterrows():
        spot = (row["uniformity"], row["alignment"])
        assert spots[spot].get_marker() == look(label)["marker"]
        assert spots[spot].get_color() == look(label)["color"]
        name = f"{backbone} " if label == "SimCSE" else ""
        assert texts[spot] == f"{name}({row['average']:.1f})"


def test_path_begins_hollow_and_ends_full(suite):
    figure, table = drawn("Z1", suite)
    (panel,) = figure.axes
    for label in ("no dropout", "dropout 0.1", "delete one word"):
        path = table[table["series"] == label].groupby("step")[["uniformity", "alignment"]].mean()
        own = [line for line in panel.get_lines() if line.get_marker() == look(label)["marker"]]
        ends = [line for line in own if line.get_markersize() == 6]
        assert [line.get_markerfacecolor() for line in ends] == ["white", look(label)["color"]]
        for line, step in zip(ends, (125, 3125), strict=True):
            assert line.get_xydata()[0] == pytest.approx(path.loc[step].to_numpy())


def test_seeds_share_their_scale(suite):
    figure, table = drawn("I10", suite)
    spans = [np.diff(panel.get_ylim())[0] for panel in figure.axes]
    assert spans == pytest.approx([spans[0]] * 8)
    for panel, task in zip(figure.axes, table["task"].unique(), strict=True):
        low, high = panel.get_ylim()
        assert table.loc[table["task"] == task, "value"].between(low, high).all()
        ours = table[(table["task"] == task) & (table["origin"] == OURS)]
        for i, label in enumerate(("SimCSE", "DCLR", "IS-CSE")):
            values = ours.loc[ours["series"] == label, "value"]
            assert marks(panel, label) == pytest.approx(in_order((i, value) for value in values))


def test_densities(suite):
    figure, table = drawn("I9", suite)
    (panel,) = figure.axes
    counts = table.query("series == 'SimCSE' and seed == 42")["group"].value_counts()
    sizes = [label.get_text().split("\n")[1] for label in panel.get_yticklabels()]
    assert sizes == [f"{counts[group]} pairs" for group in range(5)]
    curves = [line for line in panel.get_lines() if len(line.get_xdata()) == 400]
    heights = np.array([line.get_ydata() for line in curves])
    heights -= np.repeat(range(5), 2)[:, None]
    xs = curves[0].get_xdata()
    # Within a group the series stand in the order of their names.
    groups = table.groupby(["group", "series"])["cosine"]
    wanted = np.array([_density(cosines.to_numpy(), xs) for _, cosines in groups])
    assert heights == pytest.approx(1.15 * wanted / wanted.max())  # one scale for all
    assert panel.get_xlim() == (xs[0], 1)
    assert xs[-1] == 1


def test_a_density_ends_where_cosines_do():
    cosines = 1 - np.abs(np.random.default_rng(1).normal(0, 0.05, 500))
    xs = np.linspace(-1, 1, 4001)
    density, free = _density(cosines, xs), gaussian_kde(cosines)
    assert free.integrate_box_1d(1, np.inf) > 0.05  # beyond, where no cosine is
    assert np.trapezoid(density, xs) == pytest.approx(1, abs=1e-6)
    assert density[:2000] == pytest.approx(free(xs[:2000]))  # unchanged far from the end
    assert _density(-cosines, -xs) == pytest.approx(density)
    assert not _density(np.array([0.5, 0.5, 0.5]), xs).any()  # of one value there is none


def test_matrices_share_their_scale(suite):
    figure, table = drawn("S11", suite)
    images = [panel.get_images()[0] for panel in figure.axes[:2]]
    for image, label in zip(images, ("SimCSE", "SSCL-SimCSE"), strict=True):
        rows = table[table["series"] == label]
        matrix = rows.pivot(index="row", columns="column", values="cosine").to_numpy()
        assert image.get_array().tolist() == matrix.tolist()
        assert image.get_clim() == (np.floor(10 * table["cosine"].min()) / 10, 1)
    titles = [panel.get_title(loc="left") for panel in figure.axes[:2]]
    assert titles == ["SimCSE, layer 12", "SSCL-SimCSE, layer 12"]


def test_nothing_passes_for_a_reproduction(suite, smoke):
    for figure, measured in paper_figures(smoke):
        with matplotlib.rc_context(STYLE):
            picture = draw(smoke, figure, measured)
        assert "Do not compare these numbers with any paper" in text_of(picture)
        assert "(ours: toy-bert)" in " ".join(text.get_text() for text in picture.findobj(Text))
    figure, _ = drawn("S6", suite)
    assert "comparable" not in text_of(figure)
    assert "ours:" not in text_of(figure)


def shown(figure):
    """Every visible text of a figure; tick labels only within the limits of their axis."""
    texts = list(figure.texts)
    for legend in figure.legends:
        texts += [legend.get_title(), *legend.get_texts()]
    for panel in figure.axes:
        texts += [*panel.texts, panel._left_title, panel.xaxis.label, panel.yaxis.label]
        for axis in (panel.xaxis, panel.yaxis):
            low, high = sorted(axis.get_view_interval())
            ticks = axis.get_major_ticks()
            texts += [tick.label1 for tick in ticks if low <= tick.get_loc() <= high]
    return [text for text in texts if text.get_text().strip() and text.get_visible()]


def covered(figure):
    """Pairs of overlapping texts, and texts that exceed the figure."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    draw = canvas.get_renderer()
    boxes = [(text.get_text(), text.get_window_extent(draw)) for text in shown(figure)]
    (x0, y0), (x1, y1) = figure.bbox.get_points()
    found = [
        (text, "the edge")
        for text, box in boxes
        if box.x0 < x0 or box.y0 < y0 or box.x1 > x1 or box.y1 > y1
    ]
    for (one, a), (other, b) in combinations(boxes, 2):
        # Overlaps of up to one pixel are allowed.
        if min(a.x1, b.x1) - max(a.x0, b.x0) > 1 and min(a.y1, b.y1) - max(a.y0, b.y0) > 1:
            found.append((one, other))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", FIGURES)
def test_no_text_covers_another_one(name, suite, smoke):
    for one in (suite, smoke):
        if measured := figure_data(FIGURES[name], one):
            with matplotlib.rc_context(STYLE):
                assert covered(draw(one, FIGURES[name], measured)) == []


def test_covering_is_seen(suite):
    figure, _ = drawn("S6", suite)
    figure.text(0.02, 0.98, "on the title", va="top")
    figure.text(0.99, 0.5, "over the edge")
    found = {text for pair in covered(figure) for text in pair}
    assert found >= {"on the title", "over the edge", "the edge"}


@pytest.mark.parametrize("name", ["S6", "I8"])
def test_odd_labels_are_texts(name, suite):
    odd = "$x_2^$ <b> & \\alpha {é} " + "a long name " * 3
    measured = figure_data(FIGURES[name], suite)
    table = measured.table.assign(series=odd + "|" + measured.table["series"])
    described = FIGURES[name].model_copy(update={"title": odd * 2, "note": odd * 3})
    with matplotlib.rc_context(STYLE):
        figure = draw(suite, described, FigureData(table, ()))
        assert covered(figure) == []
    assert odd.strip() in text_of(figure)
