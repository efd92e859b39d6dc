"""The papers' figures as drawn: marks are at their values, and texts do not overlap."""

from itertools import combinations
from statistics import fmean
from typing import get_args

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.text import Text
from scipy.stats import gaussian_kde

from bench.judge.stage import read_suite
from bench.judged.words import LOG, OURS, PRINT
from bench.report.figures.lines import common_mean
from bench.report.figures.papers import _density, draw, table_of
from bench.report.figures.style import INK, SERIES, STYLE, looks
from bench.reported.figures import FigureKind, load_figures
from tests.support.figure_rows import figure, point
from tests.support.figure_rows import points as made_up
from tests.support.judged_rows import BASE, heading
from tests.support.synthetic_figures import write_everything

KINDS = get_args(FigureKind)


def drawn(row, **suite):
    """The figure of a row, and its data."""
    with matplotlib.rc_context(STYLE):
        return draw(heading(**suite), row), table_of(row)


def test_mean_over_seeds_ends_where_the_first_seed_ends():
    values = {1: [0.5, 0.25, 1.0, 0.75, 0.0], 2: [0.75, 0.0, 0.5]}
    rows = [(seed, *row) for seed in values for row in enumerate(values[seed])]
    frame = pd.DataFrame(rows, columns=["seed", "step", "dev"])
    found = common_mean(frame, ["dev"])["dev"]
    assert found.to_dict() == {n: fmean(seed[n] for seed in values.values()) for n in range(3)}


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
    labels = {series.label for described in load_figures() for series in described.series}
    labels -= {"dropout 0.1"}  # SimCSE
    own = looks(sorted(labels))
    for name in ("color", "marker"):
        assert len({one[name] for one in own.values()}) == len(labels)
    assert look("dropout 0.1") == own["SimCSE"]
    assert all(look(label) == own[label] for label in labels)  # alone as with all others
    assert len({one["color"] for one in looks(["SimCSE", "a new one", "another"]).values()}) == 3


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("tokens", "in-batch")])
@pytest.mark.parametrize("seeds", [{"SimCSE": 2, "IS-CSE": 1}, {"IS-CSE": 3}, {"other": 1}])
def test_legends_and_colours_are_of_what_is_drawn(kind, seeds):
    picture, _ = drawn(figure(kind, made_up(kind, seeds)))
    (keys,) = picture.legends
    names = [text.get_text() for text in keys.get_texts()]
    entries = dict(zip(names, keys.legend_handles, strict=True))
    own = looks(list(seeds))
    assert [name for name in names if ", n = " in name] == [
        f"{label}, n = {count}" for label, count in seeds.items()
    ]
    for label, count in seeds.items():
        handle = entries[f"{label}, n = {count}"]
        color = handle.get_edgecolor() if kind == "densities" else handle.get_color()
        assert to_hex(color) == own[label]["color"].lower()


def test_a_legend_gives_the_fewest_and_the_most_seeds():
    rows = [
        point("SimCSE", seed=seed, x=x, task="Avg", split="test", value=75.0)
        for x, seeds in ((0.0, (1, 2)), (1.0, (1, 2, 3)))
        for seed in seeds
    ]
    picture, _ = drawn(figure("sweep", rows))
    assert picture.legends[0].get_texts()[0].get_text() == "SimCSE, n = 2 to 3"


def text_of(figure):
    titles = [legend.get_title() for legend in figure.legends]
    return " ".join(text.get_text().replace("\n", " ") for text in [*titles, *figure.texts])


@pytest.mark.parametrize(("kind", "x"), [("sweep", "x"), ("setsim", "layer"), ("toksim", "layer")])
def test_scores_are_marks_means_a_line_and_print_strokes(kind, x):
    rows = made_up(kind, {"IS-CSE": 2, "SSCL-SimCSE": 3})
    single = dict(made_up(kind, {"SimCSE": 1})[0])  # a value of another series beside a line
    rows.append(single)
    if kind == "sweep":
        place = {"task": "Avg", "split": "test", "origin": PRINT, "seed": None}
        rows += [point("IS-CSE", x=at, value=74.0 + at, **place) for at in (0.5, 16.0)]
    picture, table = drawn(figure(kind, rows))
    table = table.assign(at=table[x].rank(method="dense") - 1)
    columns = ["reading"] if x == "layer" else ["task", "split"]
    panels = table[columns].drop_duplicates().merge(table).groupby(columns, sort=False)
    for panel, (_, rows) in zip(picture.axes, panels, strict=True):
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
    assert len({panel.get_ylim() for panel in picture.axes}) == 1 or x == "x"


@pytest.mark.parametrize(
    ("kind", "texts"), [("setsim", ["1–2", "2–3", "3–4", "4–5"]), ("toksim", list("1234"))]
)
def test_layers_are_named(kind, texts):
    picture, _ = drawn(figure(kind, made_up(kind)))
    for panel in picture.axes:
        assert [label.get_text() for label in panel.get_xticklabels()] == texts


def test_curves_with_logs():
    backbones = [BASE, "roberta-base"]
    rows = made_up("curves", {"SimCSE": 2, "ESimCSE": 2}, backbones)
    del rows[-1]  # the last step of one seed, where there is no mean then
    logs = [(step, 70.0 + step / 100) for step in (125, 300, 600)]
    for backbone in backbones:
        head = {"seed": None, "origin": LOG}
        rows += [point("ESimCSE", backbone, step=step, dev=dev, **head) for step, dev in logs]
    rows.append(point("SimCSE", step=250, best=True, seed=None, origin=PRINT))
    picture, table = drawn(figure("curves", rows))
    assert [panel.get_title(loc="left") for panel in picture.axes] == backbones
    for panel, backbone in zip(picture.axes, backbones, strict=True):
        rows = table[(table["backbone"] == backbone) & (table["series"] == "ESimCSE")]
        kept = rows[rows["best"].eq(True)][["step", "dev"]].to_numpy()
        assert len(kept) == 2
        assert marks(panel, "ESimCSE") == pytest.approx(in_order(kept))
        plain = [line for line in panel.get_lines() if line.get_marker() == "None"]
        lines = [line.get_xydata().tolist() for line in plain]
        assert [list(row) for row in logs] in lines
        steps = rows[rows["origin"] == OURS].groupby("step")["dev"].agg(["mean", "size"])
        mean = steps[steps["size"] == 2]["mean"]
        assert len(mean) == (4 if backbone == "roberta-base" else 5)
        assert any(line == [pytest.approx(pair) for pair in mean.items()] for line in lines)
    stroke = [line for line in picture.axes[0].get_lines() if line.get_linestyle() == ":"]
    assert [list(line.get_xdata()) for line in stroke] == [[250, 250]]


def test_a_path_goes_from_a_hollow_mark_to_a_filled_one():
    picture, table = drawn(figure("path", made_up("path", {"SimCSE": 2})))
    (panel,) = picture.axes
    mean = table.groupby("step")[["uniformity", "alignment"]].mean()
    ends = [line for line in panel.get_lines() if line.get_marker() == look("SimCSE")["marker"]]
    assert [line.get_xydata()[0].tolist() for line in ends] == [
        pytest.approx(mean.iloc[place].tolist()) for place in (0, -1)
    ]
    assert [line.get_markerfacecolor() for line in ends] == ["white", look("SimCSE")["color"]]


def test_in_batch():
    picture, table = drawn(figure("in-batch", made_up("in-batch", {"SimCSE": 2})))
    sizes = sorted(table["batch"].unique())
    for panel, name in zip(picture.axes, ("sentences", "noise"), strict=True):
        for rank, look_of_rank in zip(range(1, 5), SERIES, strict=False):
            rows = table[table["rank"] == rank]
            every = in_order(zip(rows["batch"].map(sizes.index), rows[name], strict=True))
            found = points(panel, look_of_rank["color"], look_of_rank["marker"])
            assert found == pytest.approx(every)
            means = points(panel, look_of_rank["color"], "None")[:, 1]
            assert means == pytest.approx(rows.groupby("batch")[name].mean().to_numpy())


def test_alignment():
    rows = made_up("alignment", {"SimCSE": 2, "IS-CSE": 3}, [BASE, "roberta-base"])
    picture, table = drawn(figure("alignment", rows))
    (panel,) = picture.axes
    values = ["uniformity", "alignment", "average"]
    means = table.groupby(["series", "backbone"], sort=False)[values].mean()
    big = [line for line in panel.get_lines() if line.get_markersize() == 7]
    assert len(big) == 4
    spots = {(float(line.get_xdata()[0]), float(line.get_ydata()[0])): line for line in big}
    texts = {text.xy: text.get_text() for text in panel.texts}
    for (label, backbone), row in means.iterrows():
        spot = (row["uniformity"], row["alignment"])
        assert spots[spot].get_marker() == look(label)["marker"]
        assert spots[spot].get_color() == look(label)["color"]
        name = f"{backbone} " if label == "SimCSE" else ""
        assert texts[spot] == f"{name}({row['average']:.1f})"


def test_seeds_share_their_scale():
    rows = made_up("seeds", {"SimCSE": 5, "DCLR": 2, "IS-CSE": 3})
    rows.append(point("DCLR", task="Avg", split="test", value=79.0, origin=PRINT, seed=None))
    picture, table = drawn(figure("seeds", rows))
    spans = [np.diff(panel.get_ylim())[0] for panel in picture.axes]
    assert spans == pytest.approx([spans[0]] * 3)
    for panel, task in zip(picture.axes, table["task"].unique(), strict=True):
        low, high = panel.get_ylim()
        assert table.loc[table["task"] == task, "value"].between(low, high).all()
        ours = table[(table["task"] == task) & (table["origin"] == OURS)]
        for i, label in enumerate(("SimCSE", "DCLR", "IS-CSE")):
            values = ours.loc[ours["series"] == label, "value"]
            assert marks(panel, label) == pytest.approx(in_order((i, value) for value in values))
        # A box needs five seeds.
        (box,) = (area.get_datalim(panel.transData) for area in panel.collections)
        quartiles = np.percentile(ours.loc[ours["series"] == "SimCSE", "value"], [25, 75])
        assert [box.y0, box.y1] == pytest.approx(quartiles)


def test_densities():
    picture, table = drawn(figure("densities", made_up("densities")))
    (panel,) = picture.axes
    counts = table.query("series == 'SimCSE' and seed == 1")["group"].value_counts()
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


def test_matrices_share_their_scale():
    picture, table = drawn(figure("tokens", made_up("tokens", {"SimCSE": 1, "IS-CSE": 1})))
    images = [panel.get_images()[0] for panel in picture.axes[:2]]
    for image, label in zip(images, ("SimCSE", "IS-CSE"), strict=True):
        rows = table[table["series"] == label]
        matrix = rows.pivot(index="row", columns="column", values="cosine").to_numpy()
        assert image.get_array().tolist() == matrix.tolist()
        assert image.get_clim() == (np.floor(10 * table["cosine"].min()) / 10, 1)
    titles = [panel.get_title(loc="left") for panel in picture.axes[:2]]
    assert titles == ["SimCSE, layer 12", "IS-CSE, layer 12"]


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_passes_for_a_reproduction(kind):
    seeds = {"SimCSE": 1, "IS-CSE": 1}
    rows = made_up(kind, seeds, measured_on="toy-bert")
    row = figure(kind, rows, note="A note.", remarks=["A remark."])
    picture, _ = drawn(row, stand_ins=["toy-bert"])
    assert (
        "A note. A remark. Measured on toy-bert. Do not compare these numbers with any paper."
        in text_of(picture)
    )
    assert f"Figure 1: a title, {BASE} (ours: toy-bert)" in text_of(picture)
    picture, _ = drawn(figure(kind, made_up(kind, seeds)))
    assert "comparable" not in text_of(picture)
    assert "ours:" not in text_of(picture)


@pytest.mark.parametrize("kind", ["curves", "path", "alignment"])
def test_of_several_backbones_each_is_named_with_its_stand_in(kind):
    rows = made_up(kind, backbones=[BASE, "roberta-base"], measured_on="toy-bert")
    picture, _ = drawn(figure(kind, rows))
    texts = " ".join(text.get_text() for text in picture.findobj(Text))
    for backbone in (BASE, "roberta-base"):
        assert f"{backbone} (ours: toy-bert)" in texts
    assert "(ours" not in picture.legends[0].get_title().get_text()


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


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    names = {"bert-base-uncased": "toy-bert", "roberta-base": "toy-roberta"}
    more = {"depth": 4, "seeds": (1,), "steps": 4, "stand_ins": names, "data": "world"}
    return write_everything(tmp_path_factory.mktemp("smoke"), **more)


@pytest.mark.slow
def test_no_text_covers_another_one(folder, smoke):
    for one in (folder, smoke):
        judged = read_suite(one)
        for row in judged.series:
            with matplotlib.rc_context(STYLE):
                assert covered(draw(judged.suite, row)) == [], row.stem


def test_covering_is_seen():
    picture, _ = drawn(figure("sweep", made_up("sweep")))
    picture.text(0.02, 0.98, "on the title", va="top")
    picture.text(0.99, 0.5, "over the edge")
    found = {text for pair in covered(picture) for text in pair}
    assert found >= {"on the title", "over the edge", "the edge"}
