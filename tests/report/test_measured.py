"""The papers' figures: figures.yaml has each with runs that exist, and the data of each are the
suite's numbers in the right rows, with remarks on what is missing."""

from statistics import fmean
from typing import get_args

import pandas as pd
import pytest
import yaml

from bench.datasets.tasks import STS_TASKS
from bench.report.figures.measured import (
    LOG,
    OURS,
    PRINT,
    Kind,
    common_mean,
    figure_data,
    load_figures,
)
from bench.report.figures.papers import DRAW, paper_figures
from bench.reported import FOLDER, SOURCES, curves
from bench.results.suite_results import read_suite
from bench.runs.resolve import resolve
from bench.utils.errors import UserError
from bench.utils.files import read_json, write_json
from tests.support.printed_numbers import mapped, printed
from tests.support.synthetic_figures import write_everything
from tests.support.synthetic_suite import write_suite

FIGURES = {figure.id: figure for figure in load_figures()}
IDS = ["G1", "G5", "L1", "I8", "I9", "I10", "S1", "S6", "S7", "S10", "S11", "S12", "Z1"]
SCORES = dict.fromkeys(STS_TASKS, 70.0)


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


def test_every_run_is_one_that_the_suite_knows_by_that_name():
    every = [series for figure in load_figures() for series in figure.series]
    pairs = [(texts, series.backbone) for series in every for _, texts in series.points]
    runs = {(text, backbone) for texts, backbone in pairs for text in texts}
    assert len(runs) > 50
    for text, backbone in runs:
        found = resolve(text, backbone_name=backbone, corpus="wiki1m", data="senteval", seed=1)
        assert (found.text, found.skip) == (text, None)


def test_released_logs():
    logs = curves()
    counts = logs.groupby(["method", "backbone"], sort=False).size()
    assert counts.tolist() == [250, 250, 250, 124, 250, 250, 250, 250]
    first = logs.iloc[0]
    assert (first["step"], first["task"], first["value"]) == (125, "STS-B", 71.851)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"titel": "x"}, "unknown key 'titel'; did you mean 'title'?"),
        ({"kind": "sweeep"}, "kind' should be 'sweep', .* not 'sweeep'"),
    ],
)
def test_mistakes_are_named(tmp_path, changes, message):
    figures = yaml.safe_load((FOLDER / "figures.yaml").read_text(encoding="utf-8"))["figures"]
    path = tmp_path / "figures.yaml"
    path.write_text(yaml.safe_dump({"figures": [figures[0] | changes]}), encoding="utf-8")
    with pytest.raises(UserError, match=message):
        load_figures(path)


# --- The data of a whole suite ---


def table(figure, suite):
    return figure_data(FIGURES[figure], suite).table


def run(folder, method, backbone="bert-base-uncased", seed=42):
    """Scores and analyses of one run with official settings, read from the suite's files."""
    own = {"method": method, "setting": "official", "backbone": backbone, "seed": seed}
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

    _, found = run(folder, "simcse", backbone="roberta-large")
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
        ([{"method": name, "seed": 1, "scores": SCORES} for name in ("simcse", "sscl")], ["S7"]),
        ([{"method": "simcse", "seed": 1, "scores": SCORES}], []),
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
    entries = [{"method": name, "seed": 1, "scores": SCORES} for name in names]
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
