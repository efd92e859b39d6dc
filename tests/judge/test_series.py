"""The data of the papers' figures: figures.yaml has each, its data are the suite's numbers in the
right rows, with remarks on what is missing."""

import pandas as pd
import pytest

from bench.datasets.metrics import Cell
from bench.judge.series import POINTS_OF, figures
from bench.report.figures.papers import DRAW
from bench.reported import curves
from bench.reported.figures import load_figures
from bench.results.suite_results import read_results
from bench.utils.files import read_json, stem, write_json
from tests.support.printed_numbers import mapped, printed
from tests.support.synthetic_figures import folder, suite, write_everything
from tests.support.synthetic_suite import write_suite

__all__ = ["folder", "suite"]  # fixtures

FIGURES = {figure.id: figure for figure in load_figures()}
IDS = ["G1", "G5", "L1", "I8", "I9", "I10", "S1", "S6", "S7", "S10", "S11", "S12", "Z1"]


# --- figures.yaml ---


def test_every_figure_of_the_papers_is_described_once():
    assert list(FIGURES) == IDS
    printed_tables = set(mapped()[["source", "table"]].itertuples(index=False, name=None))
    stems = {f"{source}_{stem(table)}" for source, table in printed_tables}
    assert len({figure.stem for figure in FIGURES.values()} - stems) == len(IDS)
    for figure in FIGURES.values():
        labels = {(series.label, series.backbone) for series in figure.series}
        assert len(labels) == len(figure.series)
        assert len({bool(series.runs) == bool(series.run) for series in figure.series}) == 1
        places = {(figure.source, table) for table in figure.printed if table != "released logs"}
        assert places <= printed_tables, figure.id
    assert {figure.shows for figure in FIGURES.values()} == set(POINTS_OF)
    assert {figure.drawn for figure in FIGURES.values()} == set(DRAW)


# --- The data of a whole suite ---


def row(figure, suite):
    """The row of a figure; None without data."""
    return next((row for row in figures(suite) if row.stem == FIGURES[figure].stem), None)


def table(figure, suite):
    return pd.DataFrame(row(figure, suite).points)


def ids(rows):
    stems = {figure.stem: name for name, figure in FIGURES.items()}
    return [stems[row.stem] for row in rows]


def run(suite, method, backbone="bert-base-uncased", seed=42):
    """The results of one run."""
    place = method, backbone, seed
    return next(x for x in suite.runs if (x.run.method, x.run.backbone, x.run.seed) == place)


def test_everything_is_there_without_a_remark(suite):
    rows = figures(suite)
    assert ids(rows) == list(FIGURES)
    assert [row.remarks for row in rows if row.remarks] == []


@pytest.mark.parametrize(
    ("name", "label", "method", "backbone", "count"),
    [
        ("G5", "GS-InfoNCE", "gs-infonce[multiple=16]", "bert-base-uncased", 2),
        ("I10", "DCLR", "dclr", "roberta-large", 8),
    ],
)
def test_scores_are_those_of_a_run(suite, name, label, method, backbone, count):
    rows = table(name, suite).query("seed == 43 and series == @label")
    rows = rows[rows["run"] == f"{method}@official"].set_index("panel")
    values, panels = run(suite, method, backbone, seed=43).scores, FIGURES[name].panels
    expected = {panel: values[Cell(*key, "spearman")] for panel, key in panels.items()}
    assert rows["value"].to_dict() == expected
    assert len(rows) == count


def test_a_sweep_holds_printed_numbers(suite):
    result = table("G5", suite).query("origin == 'printed'")
    assert set(result["panel"]) == {"STS average, test"}
    assert dict(zip(result["x"], result["value"], strict=True)) == {
        "0": 76.25, "0.5": 76.96, "1": 76.90, "2": 77.11, "3": 77.63, "4": 76.81, "8": 76.94,
        "16": 75.57,
    }  # fmt: skip


@pytest.mark.parametrize("label", ["SimCSE", "DCLR", "IS-CSE"])
def test_seeds_stand_beside_all_printed_rows(suite, label):
    numbers = printed().query("source == 'is-cse' and table == 'Table 1' and task == 'Avg'")
    numbers = numbers.query("backbone == 'roberta-large' and method == @label")
    rows = table("I10", suite).query("origin == 'printed' and panel == 'average' and x == @label")
    assert rows["value"].tolist() == numbers["value"].tolist() != []


def test_curves_hold_the_training_and_the_log(suite):
    place = "backbone == 'roberta-base'"
    rows = table("L1", suite).query(f"series == 'ESimCSE' and {place}")
    outcome = run(suite, "esimcse", "roberta-base", seed=43).provenance.outcome
    seed, points = rows.query("seed == 43"), [[point.step, point.dev] for point in outcome.curve]
    assert seed[["x", "value"]].to_numpy().tolist() == points
    assert seed.loc[seed["kept"].eq(True), "x"].tolist() == [outcome.best_step]
    logs = curves().query(f"method == 'ESimCSE' and {place} and task == 'STS-B'")
    result = rows.query("origin == 'released log'")[["x", "value"]]
    assert result.to_numpy().tolist() == logs[["step", "value"]].to_numpy().tolist() != []


def test_a_printed_best_step_is_an_x(suite):
    best = table("S12", suite).query("origin == 'printed'")
    assert best[["series", "x"]].to_numpy().tolist() == [["SSCL-SimCSE", 1500]]


def test_a_path_is_that_of_a_training(suite):
    made = run(suite, "simcse[dropout=0,schedule=constant,select_every=10,sentences=12800]")
    curve = made.provenance.outcome.curve
    points = table("Z1", suite).query("series == 'no dropout' and seed == 42")
    expected = [[point.step, point.uniformity, point.alignment] for point in curve]
    assert points[["at", "x", "value"]].to_numpy().tolist() == expected


def test_alignment_is_that_of_all_pairs(suite):
    made = run(suite, "is-cse", "roberta-large")
    rows = table("I8", suite).query("series == 'IS-CSE' and backbone == 'roberta-large'")
    (point,) = rows.query("seed == 42").to_dict("records")
    whole = made.analyses["alignment"]["STS-B"]["all"]
    assert (point["x"], point["value"]) == (whole["uniformity"], whole["alignment"])
    assert point["score"] == made.scores[Cell("Avg", "test", "spearman")]


def test_neighbours_are_those_of_every_batch_size_and_rank(suite):
    published = "published[model=princeton-nlp/sup-simcse-roberta-large,pooler=cls]"
    result = run(suite, published, "none").analyses["in-batch"]
    points = table("G1", suite).query("seed == 42")
    for panel, name in (("sentences", "mean"), ("Gaussian noise", "noise")):
        values = points[points["panel"] == panel]["value"].to_numpy().reshape(-1, 4)
        assert values.tolist() == result[name]
    assert [*points["x"].unique()] == [str(size) for size in result["sizes"]]
    assert [*points["series"].unique()] == ["nearest", "2nd", "3rd", "4th"]


@pytest.mark.parametrize(
    ("name", "measure", "layers"), [("S1", "setsim", range(1, 12)), ("S10", "toksim", range(13))]
)
def test_layers_are_counted_from_the_embeddings(suite, name, measure, layers):
    result = run(suite, "sscl[layer=11]", seed=43).analyses["layers"]
    points = table(name, suite).query("series == 'SSCL-SimCSE' and seed == 43")
    for panel, (_, reading) in FIGURES[name].panels.items():
        at = points[points["panel"] == panel]
        assert at["x"].tolist() == [str(layer) for layer in layers]
        assert at["value"].tolist() == result[measure][reading]


def test_tokens_are_in_their_row_and_column(suite):
    result = run(suite, "sscl[layer=11]", seed=43).analyses["tokens"]
    points = table("S11", suite).query("series == 'SSCL-SimCSE' and seed == 43")
    assert (
        points.pivot(index="y", columns="x", values="value").to_numpy().tolist()
        == result["cosines"]
    )
    assert points[points["y"] == 0]["token"].tolist() == result["tokens"]
    assert set(points["panel"]) == {"layer 12"}


def change_analyses(folder, **changes):
    for path in (folder / "analyses").iterdir():
        content = read_json(path)
        for name, change in changes.items():
            content["analyses"][name] |= change
        write_json(path, content)


def test_cosines_are_counted_by_gold_score(tmp_path):
    """A gold score ends its range, and cosines below 0 count as 0."""
    write_everything(tmp_path, only=["I9"], seeds=(1,))
    pairs = [(0.0, -0.2), (0.999, 0.01), (1.0, 0.12), (1.001, 0.97), (2.0, 1.0), (5.0, 0.52)]
    gold, cosine = zip(*pairs, strict=True)
    change_analyses(tmp_path, cosines={"gold": gold, "cosine": cosine})
    rows = table("I9", read_results(tmp_path)).query("series == 'SimCSE' and value > 0")
    heads = {
        "gold score 0 to 1, 3 pairs": [(0.025, 200 / 3), (0.125, 100 / 3)],
        "gold score 1 to 2, 2 pairs": [(0.975, 100)], "gold score 4 to 5, 1 pairs": [(0.525, 100)],
    }  # fmt: skip
    expected = [(panel, x, share) for panel, shares in heads.items() for x, share in shares]
    for result, (panel, x, share) in zip(rows.itertuples(), expected, strict=True):
        assert (result.panel, result.x, result.value) == (
            panel,
            pytest.approx(x),
            pytest.approx(share),
        )


# --- What is missing or differs ---


# Printed numbers alone make no figure; nor do scores, of which a single value is no sweep.
@pytest.mark.parametrize("scores", [None, 70.0])
def test_there_is_no_figure_without_data(tmp_path, scores):
    entries = [{"method": name, "seed": 1, "scores": scores} for name in ("simcse", "sscl")]
    assert figures(read_results(write_suite(tmp_path, entries))) == []


def test_an_analysis_that_could_not_be_made_is_no_data(tmp_path):
    write_everything(tmp_path, only=["S1", "I8"], seeds=(1,))
    no_pair = {"STS-B": {"all": {"alignment": None, "uniformity": -2.0}}}
    change_analyses(tmp_path, layers={"reason": "no transformer"}, alignment=no_pair)
    result = ids(figures(read_results(tmp_path)))
    assert "S11" in result
    assert not {"S1", "I8"} & {*result}


def test_stand_ins_are_named_and_what_is_missing_is_said(tmp_path):
    stand_ins = {"bert-base-uncased": "toy-bert"}
    write_everything(tmp_path, depth=4, seeds=(1,), stand_ins=stand_ins, data="world")
    rows = figures(read_results(tmp_path))
    assert ids(rows) == ["G5", "L1", "I8", "S1", "S6", "S7", "S10", "S11", "S12", "Z1"]
    for result in rows:
        points = pd.DataFrame(result.points)
        assert set(points.query("origin == 'ours'")["measured_on"]) == {"toy-bert"}
        # Nor are printed numbers of other backbones.
        assert set(points["backbone"]) == {"bert-base-uncased"}
    result = dict(zip(ids(rows), rows, strict=True))
    missing = ", ".join(f"SSCL-SimCSE ({layer})" for layer in range(4, 12))
    assert result["S6"].remarks == (f"Not in this suite: {missing}.",)
    stand_in = "SSCL-SimCSE (bert-base-uncased) is sscl[layer=3], official here."
    assert result["S1"].remarks == (stand_in,)
    # Of these, neither a run nor a log is drawn.
    places = ("bert-large-uncased", "roberta-base", "roberta-large")
    missing = ", ".join(f"{name} ({place})" for name in ("SimCSE", "IS-CSE") for place in places)
    assert result["I8"].remarks == (f"Not in this suite: {missing}.",)


def test_the_first_run_of_several_is_taken_and_diverged_trainings_are_told(tmp_path):
    names = ("sscl[stack=3]", "sscl[stack=1]", "sscl[layer=11]")
    entries = [{"method": name, "seed": 1, "scores": 70.0} for name in names]
    entries += [{"method": names[2], "seed": 2, "status": "diverged", "reason": "NaN"}]
    for last, runs, remark in (
        (4, [names[2], names[0]], "1 of 2 seeds of SSCL-SimCSE (1) diverged."),
        (2, [names[1], names[0]], "SSCL-SimCSE (1) is sscl[stack=1], official here."),
    ):
        suite = read_results(write_suite(tmp_path / str(last), entries[:last]))
        drawn = table("S7", suite).query("origin == 'ours'")["run"].tolist()
        assert drawn == [f"{name}@official" for name in runs]
        assert row("S7", suite).remarks[0] == remark
