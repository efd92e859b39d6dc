"""The papers' figures: figures.yaml has each, the data of each are the suite's numbers in the right
rows, with remarks on what is missing, marks are at their values, and texts do not overlap."""

from dataclasses import replace
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

from bench.report.figures.measured import (
    LOG,
    OURS,
    PRINT,
    Kind,
    common_mean,
    figure_data,
    load_figures,
)  # fmt: skip
from bench.report.figures.papers import DRAW, _density, draw, paper_figures
from bench.report.figures.style import INK, SERIES, STYLE, looks
from bench.reported import SOURCES, curves
from bench.results.suite_results import read_suite
from bench.utils.files import read_json, write_json
from tests.support.printed_numbers import mapped, printed
from tests.support.synthetic_figures import write_everything
from tests.support.synthetic_suite import write_suite

FIGURES = {figure.id: figure for figure in load_figures()}
IDS = ["G1", "G5", "L1", "I8", "I9", "I10", "S1", "S6", "S7", "S10", "S11", "S12", "Z1"]


# --- figures.yaml ---


def test_every_figure_of_the_papers_is_described_once():
    figures = load_figures()
    assert [figure.id for figure in figures] == IDS
    tables = mapped()
    stems = set(tables["source"] + "_" + tables["table"].str.lower().str.replace(" ", "-"))
    assert len({figure.stem for figure in figures} - stems) == len(IDS)
    printed_tables = set(tables[["source", "table"]].itertuples(index=False, name=None))
    for figure in figures:
        assert figure.source in SOURCES
        labels = {(series.label, series.backbone) for series in figure.series}
        assert len(labels) == len(figure.series)
        sweep = figure.kind == "sweep"
        assert bool(figure.x) == sweep
        assert bool(figure.scores) == (figure.kind in ("sweep", "seeds"))
        kinds = {(bool(series.runs), bool(series.run)) for series in figure.series}
        assert kinds == {(sweep, not sweep)}
        named = {(figure.source, table) for table in figure.printed if table != "released logs"}
        assert named <= printed_tables, figure.id
    assert set(get_args(Kind)) == set(DRAW) == {figure.kind for figure in figures}


# --- The data of a whole suite ---


def table(figure, suite):
    return figure_data(FIGURES[figure], suite).table


def run(folder, method, backbone="bert-base-uncased", seed=42, setting="official"):
    """Scores and analyses of one run, read from the suite's files."""
    own = {"method": method, "setting": setting, "backbone": backbone, "seed": seed}
    plan = read_json(folder / "plan.json")["runs"]
    (name,) = [run["id"] for run in plan if own.items() <= run.items()]
    analyses = read_json(folder / "analyses" / f"{name}.json")["analyses"]
    return read_json(folder / "scores" / f"{name}.json"), analyses


def test_everything_is_there_without_a_remark(suite):
    found = {figure.id: measured for figure, measured in paper_figures(suite)}
    assert list(found) == list(FIGURES)
    remarks = {name: measured.remarks for name, measured in found.items() if measured.remarks}
    # Its logs go on for longer than the suite's trainings.
    beyond = "Printed steps and released logs beyond our last step, 3125, are not drawn."
    assert remarks == {"L1": (beyond,)}


def test_sweep_holds_scores_of_the_suite_and_of_print(folder, suite):
    rows = table("G5", suite)
    ours = rows[(rows["origin"] == OURS) & (rows["x"] == 16)]
    for seed in (42, 43):
        scores, _ = run(folder, "gs-infonce[multiple=16]", seed=seed)
        own = ours[ours["seed"] == seed].set_index(["task", "split"])["value"]
        records = [r for r in scores["records"] if r["metric"] == "spearman"]
        values = {(r["task"], r["split"]): r["value"] for r in records}
        assert own.to_dict() == {key: values[key] for key in (("STS-B", "dev"), ("Avg", "test"))}
    print_ = rows[rows["origin"] == PRINT]
    assert print_.set_index("x")["value"].to_dict() == {
        0: 76.25, 0.5: 76.96, 1: 76.90, 2: 77.11, 3: 77.63, 4: 76.81, 8: 76.94, 16: 75.57,
    }  # fmt: skip
    assert print_.set_index("x")["series"][0] == "SimCSE"
    for figure, x, value in (("S6", 11, 77.80), ("S7", 2, 77.90)):
        found = table(figure, suite).query("origin == @PRINT")
        assert found[["x", "value"]].to_numpy().tolist() == [[x, value]]


def test_seeds_hold_every_task_and_both_printed_rows(folder, suite):
    rows = table("I10", suite)
    scores, _ = run(folder, "dclr", backbone="roberta-large", seed=43)
    own = rows.query("series == 'DCLR' and seed == 43").set_index("task")["value"].to_dict()
    assert len(own) == 8
    kind = {"metric": "spearman", "aggregation": "all", "split": "test"}
    test = [record for record in scores["records"] if kind.items() <= record.items()]
    assert own == {record["task"]: record["value"] for record in test}
    numbers = printed().query("source == 'is-cse' and table == 'Table 1' and task == 'Avg'")
    numbers = numbers[numbers["backbone"] == "roberta-large"]
    rows = rows[(rows["origin"] == PRINT) & (rows["task"] == "Avg")]
    for label in ("SimCSE", "DCLR", "IS-CSE"):
        expected = numbers.loc[numbers["method"] == label, "value"].tolist()
        assert rows.loc[rows["series"] == label, "value"].tolist() == expected != []


def test_curves_hold_the_training_and_the_log(folder, suite):
    of_esimcse = "series == 'ESimCSE' and backbone == 'roberta-base'"
    rows = table("L1", suite).query(of_esimcse)
    scores, _ = run(folder, "esimcse", backbone="roberta-base", seed=43)
    own = rows.query("seed == 43")
    outcome = scores["provenance"]["outcome"]
    points = [[point["step"], point["dev"]] for point in outcome["curve"]]
    assert own[["step", "dev"]].to_numpy().tolist() == points
    assert own.loc[own["best"].eq(True), "step"].tolist() == [outcome["best_step"]]
    logs = curves().query("method == 'ESimCSE' and backbone == 'roberta-base' and task == 'STS-B'")
    logs = logs[logs["step"] <= points[-1][0]][["step", "value"]].to_numpy().tolist()
    assert rows[rows["origin"] == LOG][["step", "dev"]].to_numpy().tolist() == logs
    assert len(logs) == 25
    best = table("S12", suite).query("origin == @PRINT")[["series", "step"]].to_numpy().tolist()
    assert best == [["SSCL-SimCSE", 1500]]


def test_analyses_as_they_were_written(folder, suite):
    scores, found = run(folder, "is-cse", backbone="roberta-large")
    large = "series == 'IS-CSE' and backbone == 'roberta-large' and seed == 42"
    own = table("I8", suite).query(large).iloc[0]
    whole = found["alignment"]["STS-B"]["all"]
    whole["average"] = next(r["value"] for r in scores["records"] if r["task"] == "Avg")
    for name in ("alignment", "uniformity", "average"):
        assert own[name] == whole[name]

    own = table("I9", suite).query("series == 'IS-CSE' and seed == 42")
    assert own["gold"].tolist() == found["cosines"]["gold"]
    assert own["cosine"].tolist() == found["cosines"]["cosine"]

    published = "published[model=princeton-nlp/sup-simcse-roberta-large,pooler=cls]"
    _, found = run(folder, published, backbone="none", setting="paper")
    own = table("G1", suite).query("seed == 42")
    for place, size in enumerate(found["in-batch"]["sizes"]):
        at = own[own["batch"] == size]
        assert at["rank"].tolist() == [1, 2, 3, 4]
        assert at["sentences"].tolist() == found["in-batch"]["mean"][place]
        assert at["noise"].tolist() == found["in-batch"]["noise"][place]

    _, found = run(folder, "sscl[layer=11]", seed=43)
    for figure, measure, layers in (("S1", "setsim", range(1, 12)), ("S10", "toksim", range(13))):
        own = table(figure, suite).query("series == 'SSCL-SimCSE' and seed == 43")
        for reading, values in found["layers"][measure].items():
            at = own[own["reading"] == reading]
            assert at["layer"].tolist() == list(layers)
            assert at["value"].tolist() == values
    _, found = run(folder, "sscl[layer=11]")
    own = table("S11", suite).query("series == 'SSCL-SimCSE'")
    assert own["seed"].unique().tolist() == [42]  # one matrix
    matrix = own.pivot(index="row", columns="column", values="cosine")
    assert matrix.to_numpy().tolist() == found["tokens"]["cosines"]
    tokens = own.query("column == 3").sort_values("row")["token"]
    assert tokens.tolist() == found["tokens"]["tokens"]


# --- What is missing or differs ---


@pytest.mark.parametrize(
    ("entries", "figures"),
    [
        # Printed numbers alone make no figure.
        ([{"method": "gs-infonce", "seed": 1, "scores": None}], []),
        # Without curve and analyses there are scores alone; a single value is no sweep.
        ([{"method": name, "seed": 1, "scores": 70.0} for name in ("simcse", "sscl")], ["S7"]),
        ([{"method": "simcse", "seed": 1, "scores": 70.0}], []),
    ],
)
def test_there_is_no_figure_without_data(tmp_path, entries, figures):
    suite = read_suite(write_suite(tmp_path, entries))
    assert [figure.id for figure, _ in paper_figures(suite)] == figures


def test_what_print_has_beyond_our_last_step_is_left_out(tmp_path):
    """A log of a single point would be no line, and would stretch the axis."""
    write_everything(tmp_path / "a", only=["S12", "L1"], seeds=(1,), steps=4)
    short = read_suite(tmp_path / "a")
    assert set(table("S12", short)["origin"]) == {OURS}
    assert table("L1", short).query("origin != @OURS")["step"].max() == 500
    write_everything(tmp_path / "b", only=["L1"], seeds=(1,), steps=1)
    measured = figure_data(FIGURES["L1"], read_suite(tmp_path / "b"))
    assert set(measured.table["origin"]) == {OURS}
    assert measured.remarks == (
        "Printed steps and released logs beyond our last step, 125, are not drawn, "
        "nor are logs with a single point up to it.",
    )


def change_analyses(folder, **changes):
    for path in (folder / "analyses").iterdir():
        content = read_json(path)
        for name, change in changes.items():
            content["analyses"][name] |= change
        write_json(path, content)


def test_gold_scores_end_their_group(tmp_path):
    write_everything(tmp_path, only=["I9"], seeds=(1,))
    gold = [0.0, 0.999, 1.0, 1.001, 2.0, 2.5, 3.0, 3.2, 4.0, 4.2, 5.0]
    change_analyses(tmp_path, cosines={"gold": gold, "cosine": [score / 5 for score in gold]})
    groups = table("I9", read_suite(tmp_path)).query("series == 'SimCSE'")["group"].tolist()
    assert groups == [0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4]


def test_an_analysis_that_could_not_be_made_is_no_data(tmp_path):
    write_everything(tmp_path, only=["S1", "I8"], seeds=(1,))
    no_pair = {"STS-B": {"all": {"alignment": None, "uniformity": -2.0}}}
    change_analyses(tmp_path, layers={"reason": "no transformer"}, alignment=no_pair)
    suite = read_suite(tmp_path)
    assert [figure_data(FIGURES[name], suite) for name in ("S1", "I8")] == [None, None]
    assert figure_data(FIGURES["S11"], suite) is not None


def test_stand_ins_are_named_and_what_is_missing_is_said(tmp_path):
    stand_ins = {"bert-base-uncased": "toy-bert"}
    write_everything(tmp_path, depth=4, seeds=(1,), stand_ins=stand_ins, data="world")
    found = {figure.id: measured for figure, measured in paper_figures(read_suite(tmp_path))}
    assert list(found) == ["G5", "L1", "I8", "S1", "S6", "S7", "S10", "S11", "S12", "Z1"]
    for measured in found.values():
        ours = measured.table[measured.table["origin"] == OURS]
        assert set(ours["measured_on"]) == {"toy-bert"}
        # Nor are printed numbers of other backbones.
        assert set(measured.table["backbone"]) == {"bert-base-uncased"}
    assert found["S6"].remarks == ("Not in this suite: SSCL-SimCSE at 4, 5, 6, 7, 8, 9, 10, 11.",)
    assert found["S1"].remarks == ("SSCL-SimCSE is sscl[layer=3], official here.",)
    others = "bert-large-uncased, roberta-base, roberta-large"
    assert found["I8"].remarks == (f"Not in this suite: SimCSE on {others}; IS-CSE on {others}.",)


def test_the_first_run_of_several_is_taken_and_diverged_trainings_are_told(tmp_path):
    names = ("sscl[stack=3]", "sscl[stack=1]", "sscl[layer=11]")
    entries = [{"method": name, "seed": 1, "scores": 70.0} for name in names]
    entries += [{"method": names[2], "seed": 2, "status": "diverged", "reason": "NaN"}]
    for last, runs, remark in (
        (4, [names[2], names[0]], "1 of 2 trainings of sscl[layer=11], official diverged."),
        (2, [names[1], names[0]], "SSCL-SimCSE at 1 is sscl[stack=1], official here."),
    ):
        suite = read_suite(write_suite(tmp_path / str(last), entries[:last]))
        measured = figure_data(FIGURES["S7"], suite)
        drawn = measured.table.query("origin == @OURS")["run"].tolist()
        assert drawn == [f"{name}@official" for name in runs]
        assert measured.remarks[0] == remark


def test_mean_over_seeds_ends_where_the_first_seed_ends():
    values = {1: [0.5, 0.25, 1.0, 0.75, 0.0], 2: [0.75, 0.0, 0.5]}
    rows = [(seed, *row) for seed in values for row in enumerate(values[seed])]
    frame = pd.DataFrame(rows, columns=["seed", "step", "dev"])
    found = common_mean(frame, "step", ["dev"])["dev"]
    assert found.to_dict() == {n: fmean(seed[n] for seed in values.values()) for n in range(3)}


# --- As drawn ---


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
