"""The papers' figures as drawn: marks are at their values, and texts do not overlap."""

from itertools import combinations
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.text import Text

from bench.judge.stage import read_suite
from bench.judged.words import LOG, OURS, PRINT
from bench.report.figures.papers import DRAW, draw, table_of
from bench.report.figures.style import INK, RANKS, SERIES, drawing
from bench.reported.figures import load_figures
from tests.support.judged_rows import BASE, heading
from tests.support.synthetic_figures import write_everything

STEMS = {figure.id: figure.stem for figure in load_figures()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three seeds, whose mean is not their median."""
    return write_everything(tmp_path_factory.mktemp("everything"))


@pytest.fixture(scope="module")
def rows(folder):
    """The figures of a suite that has all, by id."""
    found = {row.stem: row for row in read_suite(folder).series}
    return {name: found[stem] for name, stem in STEMS.items()}


def drawn(row, table=None, **suite):
    """The picture of a figure, of other data if given."""
    if table is not None:
        row = row.changed(columns=table.astype(object).where(table.notna(), None).to_dict("list"))
    with drawing():
        return draw(heading(**suite), row)


def lines_of(panel, color, marker, *, line=False):
    """What is drawn in this colour with this marker: points, or lines, which show no marker."""
    return [
        drawn
        for drawn in panel.get_lines()
        if (to_hex(drawn.get_color()), drawn.get_marker()) == (color.lower(), marker)
        if (drawn.get_linestyle() != "None") == line and len(drawn.get_xdata())
    ]


def points(*args, **kwargs):
    """The points of `lines_of` in order, of shape (n, 2)."""
    return in_order(np.concatenate([line.get_xydata() for line in lines_of(*args, **kwargs)]))


def marks(panel, label, *, line=False):
    return points(panel, SERIES[label]["color"], SERIES[label]["marker"], line=line)


def in_order(values):
    return np.array(sorted(map(tuple, np.asarray(values, dtype=float))))


def legend_of(picture):
    return [text.get_text() for text in picture.legends[0].get_texts()]


def text_of(picture):
    texts = [picture.legends[0].get_title(), *picture.texts]
    return " ".join(text.get_text().replace("\n", " ") for text in texts)


@pytest.mark.parametrize("part", ["color", "marker"])
def test_a_method_has_one_look_everywhere(part):
    labels = {series.label for figure in load_figures() for series in figure.series}
    assert labels == SERIES.keys() - {*RANKS}
    assert len({SERIES[label][part] for label in labels}) == len(labels) - 1
    assert SERIES["dropout 0.1"] == SERIES["SimCSE"]


@pytest.mark.parametrize("name", [name for name in STEMS if name not in ("S11", "G1")])
def test_a_legend_names_each_series_in_its_colour(rows, name):
    (keys,) = drawn(rows[name]).legends
    colors = {
        text.get_text(): to_hex(handle.get_color())
        for text, handle in zip(keys.get_texts(), keys.legend_handles, strict=True)
        if ", n = 3" in text.get_text()
    }
    labels = {series.label for series in rows[name].series}
    assert colors == {f"{label}, n = 3": SERIES[label]["color"].lower() for label in labels}


def test_a_legend_gives_the_fewest_and_the_most_seeds(rows):
    table = table_of(rows["G5"])
    part = table[(table["x"] < 2) | (table["seed"] != 43)]
    legend = legend_of(drawn(rows["G5"], part))
    assert legend == ["SimCSE, n = 3", "GS-InfoNCE, n = 2 to 3", "mean", "printed"]


# S6 and S7 have one panel, and print where ours has a line.
@pytest.mark.parametrize("name", ["G5", "S6", "S7", "S1", "S10", "G1"])
def test_seeds_are_marks_means_a_line_and_print_strokes(rows, name):
    table = table_of(rows[name]).rename(columns={"layer": "x", "batch": "x"})
    if name == "G1":
        table["series"] = [RANKS[rank - 1] for rank in table["rank"]]
        parts = [table.assign(value=table[column]) for column in ("sentences", "noise")]
    else:
        columns = ["reading"] if "reading" in table else ["task", "split"]
        parts = [part for _, part in table.groupby(columns, sort=False)]
    xs = sorted(table["x"].unique())
    picture = drawn(rows[name])
    for panel, part in zip(picture.axes, parts, strict=True):
        part = part.assign(at=part["x"].map(xs.index))
        for label, own in part[part["origin"] == OURS].groupby("series"):
            found = marks(panel, label)
            assert found[:, 0].tolist() == sorted(own["at"])
            assert sorted(found[:, 1]) == pytest.approx(sorted(own["value"]))
            means = own.groupby("at")["value"].mean().to_numpy()
            line = points(panel, SERIES[label]["color"], "_", line=True)
            assert line[:, 1] == pytest.approx(means)
        printed = part[part["origin"] == PRINT]
        if len(printed):
            strokes = points(panel, INK, "_")
            assert strokes.tolist() == in_order(printed[["at", "value"]]).tolist()
    # Cosines share their range.
    assert len({panel.get_ylim() for panel in picture.axes}) == 1 or name == "G5"


def test_seeds_share_their_scale(rows):
    table = table_of(rows["I10"])
    six = pd.concat([table, table.assign(seed=table["seed"] + 3, value=table["value"] + 1)])
    six = six[(six["series"] == "SimCSE") | (six["seed"] < 46) | (six["origin"] == PRINT)]
    picture = drawn(rows["I10"], six)
    spans = [np.diff(panel.get_ylim())[0] for panel in picture.axes]
    assert spans == pytest.approx([spans[0]] * 8)
    for panel, (_, part) in zip(picture.axes, six.groupby("task", sort=False), strict=True):
        assert part["value"].between(*panel.get_ylim()).all()
        ours = part[part["origin"] == OURS]
        for place, label in enumerate(("SimCSE", "DCLR", "IS-CSE")):
            found = marks(panel, label)
            assert set(found[:, 0]) == {place}
            assert found[:, 1].tolist() == sorted(ours.loc[ours["series"] == label, "value"])


def test_curves_with_logs(rows):
    table = table_of(rows["L1"])
    # The last step of one seed is missing, where there is no mean then.
    gone = (table["seed"] == 43) & (table["step"] == 3125) & (table["backbone"] == BASE)
    picture = drawn(rows["L1"], table[~gone])
    assert [panel.get_title() for panel in picture.axes] == [""] * 4
    parts = table[~gone].groupby("backbone", sort=False)
    for panel, (backbone, part) in zip(picture.axes, parts, strict=True):
        assert panel.get_title(loc="left") == backbone
        for label, own in part.groupby("series"):
            ours, log = own[own["origin"] == OURS], own[own["origin"] == LOG]
            kept = ours.loc[ours["best"].eq(True), ["step", "dev"]]
            assert marks(panel, label).tolist() == in_order(kept).tolist()
            steps = ours.groupby("step")["dev"].agg(["mean", "size"])
            mean = steps.loc[steps["size"] == 3, "mean"]
            assert len(mean) == (24 if backbone == BASE else 25)
            line = marks(panel, label, line=True)
            assert line == pytest.approx(np.array([*mean.items()]))
            logs = [line.get_xydata().tolist() for line in panel.get_lines()]
            assert log[["step", "dev"]].to_numpy().tolist() in logs


def test_a_printed_best_step_is_a_dotted_line(rows):
    (panel,) = drawn(rows["S12"]).axes
    dotted = [line for line in panel.get_lines() if line.get_linestyle() == ":"]
    assert [list(line.get_xdata()) for line in dotted if line.get_color() == INK] == [[1500, 1500]]


def test_a_path_goes_from_a_hollow_mark_to_a_filled_one(rows):
    table = table_of(rows["Z1"])
    (panel,) = drawn(rows["Z1"]).axes
    for label, own in table.groupby("series"):
        mean = own.groupby("step")[["uniformity", "alignment"]].mean().to_numpy()
        assert marks(panel, label, line=True) == pytest.approx(in_order(mean))
        color, marker = SERIES[label]["color"], SERIES[label]["marker"]
        ends = lines_of(panel, color, marker)
        assert [line.get_xydata()[0] for line in ends] == [
            pytest.approx(mean[place]) for place in (0, -1)
        ]
        assert [line.get_markerfacecolor() for line in ends] == ["white", color]


def test_alignment(rows):
    table = table_of(rows["I8"])
    axes = drawn(rows["I8"]).axes
    values = ["uniformity", "alignment", "average"]
    for panel, (_, part) in zip(axes, table.groupby("backbone", sort=False), strict=True):
        means = part.groupby("series", sort=False)[values].mean()
        assert [text.xy for text in panel.texts] == pytest.approx(means[values[:2]].to_numpy())
        assert [text.get_text() for text in panel.texts] == [f"{x:.1f}" for x in means["average"]]
        for label, own in part.groupby("series"):
            mean = [[*means.loc[label, values[:2]]]]
            assert marks(panel, label) == pytest.approx(in_order([*own[values[:2]].values, *mean]))


def test_densities(rows):
    table = table_of(rows["I9"])
    (panel,) = drawn(rows["I9"]).axes
    counts = table["group"].value_counts() // 6  # trainings
    sizes = [label.get_text().split("\n")[1] for label in panel.get_xticklabels()]
    assert sizes == [f"{counts[group]} pairs" for group in range(5)]
    means = [area for area in panel.collections if hasattr(area, "get_segments")]
    for strokes, (label, own) in zip(means, table.groupby("series", sort=False), strict=True):
        assert to_hex(strokes.get_color()[0]) == SERIES[label]["color"].lower()
        heights = [segment[0][1] for segment in strokes.get_segments()]
        assert heights == pytest.approx(own.groupby("group")["cosine"].mean().to_list())


def test_matrices_share_their_scale(rows):
    table, labels = table_of(rows["S11"]), ["SimCSE", "SSCL-SimCSE"]
    *axes, _ = drawn(rows["S11"]).axes
    assert [panel.get_title(loc="left") for panel in axes] == [
        f"{name}, layer 12" for name in labels
    ]
    for panel, label in zip(axes, labels, strict=True):
        (image,) = panel.get_images()
        own = table[table["series"] == label]
        matrix = own.pivot(index="row", columns="column", values="cosine").to_numpy()
        assert image.get_array().tolist() == matrix.tolist()
        assert image.get_clim() == (np.floor(10 * table["cosine"].min()) / 10, 1)


@pytest.mark.parametrize("kind", DRAW)
def test_nothing_passes_for_a_reproduction(rows, kind):
    row = next(row for row in rows.values() if row.kind == kind)
    table = table_of(row).assign(measured_on="toy")
    row = row.changed(note="A note.", remarks=["A remark."])
    picture = drawn(row, table, stand_ins=["toy"])
    remark = "Measured on toy. Do not compare these numbers with any paper."
    assert f"A note. A remark. {remark}" in text_of(picture)
    texts = {text.get_text().replace("\n", " ") for text in picture.findobj(Text)}
    places = {place for place in table["backbone"] if place != "none"}
    for place in places:
        assert any(f"{place} (ours: toy)" in text for text in texts)
    plain = text_of(drawn(row))
    assert "compar" not in plain
    assert "ours:" not in plain


def covered(figure):
    """Pairs of overlapping texts, and texts that exceed the figure."""
    texts = []
    with patch.object(Text, "draw", lambda text, _: texts.append(text)):
        FigureCanvasAgg(figure).draw()
    texts = [text for text in texts if text.get_text().strip()]
    boxes = [(text.get_text(), text.get_window_extent()) for text in texts]
    edge = figure.bbox
    found = [
        (text, "the edge")
        for text, box in boxes
        if not (edge.contains(box.x0, box.y0) and edge.contains(box.x1, box.y1))
    ]
    for (first, a), (second, b) in combinations(boxes, 2):
        # Overlaps of up to one pixel are allowed.
        if min(a.x1, b.x1) - max(a.x0, b.x0) > 1 and min(a.y1, b.y1) - max(a.y0, b.y0) > 1:
            found.append((first, second))
    return found


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    names = {"bert-base-uncased": "toy-bert", "roberta-base": "toy-roberta"}
    more = {"depth": 4, "seeds": (1,), "steps": 4, "stand_ins": names, "data": "world"}
    return write_everything(tmp_path_factory.mktemp("smoke"), **more)


@pytest.mark.slow
def test_no_text_covers_another(folder, smoke):
    for place in (folder, smoke):
        judged = read_suite(place)
        for row in judged.series:
            with drawing():
                assert covered(draw(judged.suite, row)) == [], row.stem


def test_covering_is_seen(rows):
    picture = drawn(rows["S6"])
    picture.text(0.02, 0.98, "on the title", va="top")
    picture.text(0.99, 0.5, "over the edge")
    found = {text for pair in covered(picture) for text in pair}
    assert found >= {"on the title", "over the edge", "the edge"}
