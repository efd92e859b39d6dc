"""The papers' figures as drawn: marks are at their values, and texts do not overlap."""

import pytest
from matplotlib.text import Text

from bench.judge.stage import read_suite
from bench.judged.verdicts import LOG, OURS, PRINT
from bench.report.figures.papers import DRAW, draw, table_of
from bench.report.figures.style import GREY, INK, SERIES, drawing
from bench.reported.figures import load_figures
from tests.support.drawn_texts import covered
from tests.support.judged_rows import heading
from tests.support.synthetic_figures import write_everything

FIGURES = {figure.id: figure for figure in load_figures()}
PLOTTED = [name for name, figure in FIGURES.items() if figure.drawn != "cells"]
WITH_PRINT = [name for name in PLOTTED if FIGURES[name].printed and name not in ("L1", "S12")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three seeds, whose mean is not their median."""
    return write_everything(tmp_path_factory.mktemp("everything"))


@pytest.fixture(scope="module")
def rows(folder):
    """The figures of a suite that has all, by id."""
    result = {row.stem: row for row in read_suite(folder).series}
    return {name: result[figure.stem] for name, figure in FIGURES.items()}


@pytest.fixture(scope="module")
def pictures(rows):
    return {name: drawn(row) for name, row in rows.items()}


def drawn(row, table=None, **suite):
    """The picture of a figure, of other data if given."""
    if table is not None:
        row = row.changed(points=table.astype(object).where(table.notna(), None).to_dict("list"))
    with drawing():
        return draw(heading(**suite), row)


def parts(row):
    """The rows of each panel, with the place of `x` on its axis."""
    table = table_of(row)
    if row.drawn == "points":
        table["x"] = table["at"] = table["x"].map([*table["x"].unique()].index)
    several = table["backbone"].nunique() > 1
    return [part for _, part in table.groupby("backbone" if several else "panel", sort=False)]


def lines_of(panel, label, hollow):
    """The lines of a series: of its seeds, which are hollow, or of their mean."""
    lines = [line for line in panel.get_lines() if line.get_marker() == SERIES[label]["marker"]]
    return [line for line in lines if (line.get_markerfacecolor() == "none") == hollow]


def values(table):
    return table[["x", "value"]].to_numpy(float)


def text_of(picture):
    texts = [picture.legends[0].get_title(), *picture.texts]
    return " ".join(text.get_text().replace("\n", " ") for text in texts)


@pytest.fixture(scope="module")
def unequal(rows):
    """A sweep that has three seeds at M of 0 to 1, and two above."""
    table = table_of(rows["G5"])
    few = table["x"].isin(["0", "0.5", "1"]) | (table["seed"] != 43)
    return drawn(rows["G5"], table[few | (table["origin"] != OURS)])


def test_a_legend_gives_the_fewest_and_the_most_seeds(unequal):
    texts = [text.get_text() for text in unequal.legends[0].get_texts()]
    assert texts == ["SimCSE, n = 3", "GS-InfoNCE, n = 2 to 3", "a seed", "printed"]


def test_a_place_with_fewer_seeds_has_a_mean(unequal):
    (mean,) = lines_of(unequal.axes[0], "GS-InfoNCE", hollow=False)
    assert mean.get_xdata().tolist() == [*range(8)]


@pytest.mark.parametrize("name", PLOTTED)
def test_each_seed_is_a_line_and_so_is_their_mean(rows, pictures, name):
    for panel, part in zip(pictures[name].axes, parts(rows[name]), strict=True):
        for label, ours in part[part["origin"] == OURS].groupby("series"):
            seeds = [values(seed) for _, seed in ours.groupby("seed")]
            lines = lines_of(panel, label, hollow=True)
            for line, seed in zip(lines, seeds, strict=True):
                assert line.get_xydata() == pytest.approx(seed)
            (mean,) = lines_of(panel, label, hollow=False)
            assert mean.get_xydata() == pytest.approx(sum(seeds) / 3)
            assert mean.get_color() == SERIES[label]["color"]


def test_there_is_a_mean_where_all_seeds_have_a_point(rows):
    table = table_of(rows["S12"])
    gone = (table["seed"] == 43) & (table["x"] == 3125)
    (panel,) = drawn(rows["S12"], table[~gone]).axes
    for label in ("SimCSE", "SSCL-SimCSE"):
        (mean,) = lines_of(panel, label, hollow=False)
        assert mean.get_xdata()[-1] == 3000


def test_kept_checkpoints_have_a_mark(rows, pictures):
    (panel,), (part,) = pictures["S12"].axes, parts(rows["S12"])
    for label, ours in part[part["origin"] == OURS].groupby("series"):
        kept = [seed["kept"].to_list() for _, seed in ours.groupby("seed")]
        assert [line.get_markevery() for line in lines_of(panel, label, hollow=True)] == kept
        assert {sum(marks) for marks in kept} == {1}


@pytest.mark.parametrize("name", WITH_PRINT)
def test_printed_values_are_strokes(rows, pictures, name):
    strokes, printed = [], []
    for panel, part in zip(pictures[name].axes, parts(rows[name]), strict=True):
        lines = [line for line in panel.get_lines() if line.get_marker() == "_"]
        strokes.append(sorted(tuple(point) for line in lines for point in line.get_xydata()))
        printed.append(sorted(map(tuple, values(part[part["origin"] == PRINT]))))
    assert strokes == printed
    assert any(printed)


def test_a_printed_best_step_is_a_dotted_line(pictures):
    (panel,) = pictures["S12"].axes
    dotted = [line for line in panel.get_lines() if line.get_linestyle() == ":"]
    assert [list(line.get_xdata()) for line in dotted if line.get_color() == INK] == [[1500, 1500]]


def test_logs_are_drawn_up_to_our_last_step(rows, pictures):
    for panel, part in zip(pictures["L1"].axes, parts(rows["L1"]), strict=True):
        logs = part[(part["origin"] == LOG) & (part["x"] <= 3125)]
        expected = [values(log).tolist() for _, log in logs.groupby("series", sort=False)]
        drawn = [line for line in panel.get_lines() if line.get_color() == GREY]
        assert [line.get_xydata().tolist() for line in drawn] == expected
        assert len(expected) == 2


def test_average_scores_stand_beside_means(rows, pictures):
    for panel, part in zip(pictures["I8"].axes, parts(rows["I8"]), strict=True):
        means = part.groupby("series", sort=False)[["x", "value", "score"]].mean()
        assert [text.xy for text in panel.texts] == pytest.approx(values(means))
        assert [text.get_text() for text in panel.texts] == [f"{x:.1f}" for x in means["score"]]


def test_a_cell_is_a_mean_over_seeds_on_one_scale(rows, pictures):
    table, labels = table_of(rows["S11"]), ["SimCSE", "SSCL-SimCSE"]
    *axes, _ = pictures["S11"].axes
    headings = [panel.get_title(loc="left") for panel in axes]
    assert headings == [f"{label}, n = 3, layer 12" for label in labels]
    for panel, label in zip(axes, labels, strict=True):
        (image,) = panel.get_images()
        ours = table[table["series"] == label]
        seeds = [
            seed.pivot(index="y", columns="x", values="value").to_numpy()
            for _, seed in ours.groupby("seed")
        ]
        assert image.get_array().data == pytest.approx(sum(seeds) / 3)
        assert image.get_clim() == (table["value"].min(), 1)


@pytest.mark.parametrize("way", DRAW)
def test_nothing_passes_for_a_reproduction(rows, way):
    row = next(row for row in rows.values() if row.drawn == way)
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
