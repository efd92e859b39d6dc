"""The data of figures: the suite's numbers in the right rows, and remarks on what is missing."""

import random
from pathlib import Path
from statistics import fmean

import pandas as pd
import pytest

from bench.datasets.tasks import STS_TASKS
from bench.report.figures.measured import (
    LOG,
    OURS,
    PRINT,
    common_mean,
    figure_data,
    load_figures,
)
from bench.report.figures.papers import paper_figures
from bench.reported import curves
from bench.results.suite_results import SuiteResults, read_suite
from bench.utils.files import read_json, write_json
from tests.support.printed_numbers import printed
from tests.support.synthetic_figures import write_everything
from tests.support.synthetic_suite import write_suite

FIGURES = {figure.id: figure for figure in load_figures()}


def table(figure: str, suite: SuiteResults) -> pd.DataFrame:
    measured = figure_data(FIGURES[figure], suite)
    assert measured is not None
    return measured.table


def run(folder: Path, method: str, backbone: str = "bert-base-uncased", seed: int = 42):
    """Scores and analyses of one run with official settings, read from the suite's files."""
    own = {"method": method, "setting": "official", "backbone": backbone, "seed": seed}
    plan = read_json(folder / "plan.json")["runs"]
    (name,) = [run["id"] for run in plan if own.items() <= run.items()]
    path = folder / "analyses" / f"{name}.json"
    return read_json(folder / "scores" / f"{name}.json"), read_json(path)["analyses"], path


def test_everything_is_there_without_a_remark(suite):
    found = {figure.id: measured for figure, measured in paper_figures(suite)}
    assert list(found) == list(FIGURES)
    remarks = {name: measured.remarks for name, measured in found.items() if measured.remarks}
    # Its logs go on for longer than the suite's trainings.
    beyond = "Printed steps and released logs beyond our last step, 3125, are not drawn."
    assert remarks == {"L1": (beyond,)}


SCORES = dict.fromkeys(STS_TASKS, 70.0)


@pytest.mark.parametrize(
    ("entries", "figures"),
    [
        ([{"method": "word-overlap", "setting": "paper", "scores": SCORES}], []),
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


def test_sweep_holds_scores_of_the_suite_and_of_print(folder, suite):
    rows = table("G5", suite)
    ours = rows[(rows["origin"] == OURS) & (rows["x"] == 16)]
    for seed in (42, 43):
        scores, _, _ = run(folder, "gs-infonce[multiple=16]", seed=seed)
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
    scores, _, _ = run(folder, "dclr", backbone="roberta-large", seed=43)
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
        assert rows.loc[rows["series"] == label, "value"].tolist() == expected
        assert expected


def test_curves_hold_the_training_and_the_log(folder, suite):
    rows = table("L1", suite)
    scores, _, _ = run(folder, "esimcse", backbone="roberta-base", seed=43)
    own = rows.query("series == 'ESimCSE' and backbone == 'roberta-base' and seed == 43")
    outcome = scores["provenance"]["outcome"]
    points = [[point["step"], point["dev"]] for point in outcome["curve"]]
    assert own[["step", "dev"]].to_numpy().tolist() == points
    assert own.loc[own["best"].eq(True), "step"].tolist() == [outcome["best_step"]]
    log = rows[rows["origin"] == LOG]
    log = log.query("series == 'ESimCSE' and backbone == 'roberta-base'")
    logs = curves().query("method == 'ESimCSE' and backbone == 'roberta-base' and task == 'STS-B'")
    logs = logs[logs["step"] <= points[-1][0]]
    assert len(log) == 25
    assert log[["step", "dev"]].to_numpy().tolist() == logs[["step", "value"]].to_numpy().tolist()
    best = table("S12", suite).query("origin == @PRINT")[["series", "step"]].to_numpy().tolist()
    assert best == [["SSCL-SimCSE", 1500]]


def test_what_print_has_beyond_our_last_step_is_left_out(tmp_path):
    """A log of a single point would be no line, and would stretch the axis."""
    write_everything(tmp_path / "a", only=["S12", "L1"], seeds=(1,), steps=4)
    short = read_suite(tmp_path / "a")
    assert set(table("S12", short)["origin"]) == {OURS}
    assert table("L1", short).query("origin == @LOG")["step"].max() == 500
    write_everything(tmp_path / "b", only=["L1"], seeds=(1,), steps=1)
    measured = figure_data(FIGURES["L1"], read_suite(tmp_path / "b"))
    assert measured.table["step"].max() == 125
    assert set(measured.table["origin"]) == {OURS}
    assert measured.remarks == (
        "Printed steps and released logs beyond our last step, 125, are not drawn, "
        "nor are logs with a single point up to it.",
    )


def test_analyses_as_they_were_written(folder, suite):
    scores, found, _ = run(folder, "is-cse", backbone="roberta-large")
    large = "series == 'IS-CSE' and backbone == 'roberta-large' and seed == 42"
    own = table("I8", suite).query(large).iloc[0]
    whole = found["alignment"]["STS-B"]["all"]
    whole["average"] = next(r["value"] for r in scores["records"] if r["task"] == "Avg")
    for name in ("alignment", "uniformity", "average"):
        assert own[name] == whole[name]

    own = table("I9", suite).query("series == 'IS-CSE' and seed == 42")
    assert own["gold"].tolist() == found["cosines"]["gold"]
    assert own["cosine"].tolist() == found["cosines"]["cosine"]

    _, found, _ = run(folder, "simcse", backbone="roberta-large")
    own = table("G1", suite).query("seed == 42")
    for place, size in enumerate(found["in-batch"]["sizes"]):
        at = own[own["batch"] == size]
        assert at["rank"].tolist() == [1, 2, 3, 4]
        assert at["sentences"].tolist() == found["in-batch"]["mean"][place]
        assert at["noise"].tolist() == found["in-batch"]["noise"][place]

    _, found, _ = run(folder, "sscl[layer=11]", seed=43)
    for figure, measure_, layers in (("S1", "setsim", range(1, 12)), ("S10", "toksim", range(13))):
        own = table(figure, suite).query("series == 'SSCL-SimCSE' and seed == 43")
        for reading, values in found["layers"][measure_].items():
            at = own[own["reading"] == reading]
            assert at["layer"].tolist() == list(layers)
            assert at["value"].tolist() == values
    _, found, _ = run(folder, "sscl[layer=11]")
    own = table("S11", suite).query("series == 'SSCL-SimCSE'")
    assert own["seed"].unique().tolist() == [42]  # one matrix
    matrix = own.pivot(index="row", columns="column", values="cosine")
    assert matrix.to_numpy().tolist() == found["tokens"]["cosines"]
    tokens = own.query("column == 3").sort_values("row")["token"]
    assert tokens.tolist() == found["tokens"]["tokens"]


def test_gold_scores_end_their_group(tmp_path):
    write_everything(tmp_path, only=["I9"], seeds=(1,))
    gold = [0.0, 0.999, 1.0, 1.001, 2.0, 2.5, 3.0, 3.2, 4.0, 4.2, 5.0]
    for path in (tmp_path / "analyses").iterdir():
        content = read_json(path)
        content["analyses"]["cosines"] |= {"gold": gold, "cosine": [score / 5 for score in gold]}
        write_json(path, content)
    groups = table("I9", read_suite(tmp_path)).query("series == 'SimCSE'")["group"].tolist()
    assert groups == [0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4]


def test_stand_ins_are_named_and_what_is_missing_is_said(tmp_path):
    stand_ins = {"bert-base-uncased": "toy-bert"}
    write_everything(tmp_path, depth=4, seeds=(1,), stand_ins=stand_ins, data="world")
    suite = read_suite(tmp_path)
    found = {figure.id: measured for figure, measured in paper_figures(suite)}
    assert list(found) == ["G5", "L1", "I8", "S1", "S6", "S7", "S10", "S11", "S12", "Z1"]
    for measured in found.values():
        ours = measured.table[measured.table["origin"] == OURS]
        assert set(ours["measured_on"]) == {"toy-bert"}
        assert set(ours["backbone"]) == {"bert-base-uncased"}
        # Nor are printed numbers of other backbones.
        assert set(measured.table["backbone"]) == {"bert-base-uncased"}
    assert found["S6"].remarks == ("Not in this suite: SSCL-SimCSE at 4, 5, 6, 7, 8, 9, 10, 11.",)
    assert found["S1"].remarks == ("SSCL-SimCSE is sscl[layer=3], official here.",)
    others = "bert-large-uncased, roberta-base, roberta-large"
    assert found["I8"].remarks == (f"Not in this suite: SimCSE on {others}; IS-CSE on {others}.",)


def test_the_first_run_of_several_is_taken(tmp_path):
    rows = dict.fromkeys(STS_TASKS, 70.0)
    three, one, last = (f"sscl[{key}]" for key in ("stack=3", "stack=1", "layer=11"))
    entries = [{"method": name, "seed": 1, "scores": rows} for name in (three, one, last)]
    write_suite(tmp_path / "a", entries)
    measured = figure_data(FIGURES["S7"], read_suite(tmp_path / "a"))
    runs = measured.table.query("origin == @OURS")["run"].tolist()
    assert runs == [f"{last}@official", f"{three}@official"]
    assert measured.remarks == (
        "Not in this suite: SimCSE at 0; SSCL-SimCSE at 2, 4, 5, 6, 7, 8, 9, 10, 11.",
    )
    write_suite(tmp_path / "b", entries[:2])
    measured = figure_data(FIGURES["S7"], read_suite(tmp_path / "b"))
    runs = measured.table.query("origin == @OURS")["run"].tolist()
    assert runs == [f"{one}@official", f"{three}@official"]
    assert measured.remarks[0] == "SSCL-SimCSE at 1 is sscl[stack=1], official here."


def test_diverged_trainings_are_told(tmp_path):
    rows = dict.fromkeys(STS_TASKS, 70.0)
    entries = [{"method": "simcse", "seed": seed, "scores": rows} for seed in (1, 2)]
    entries += [{"method": "simcse", "seed": 3, "status": "diverged", "reason": "NaN"}]
    entries = [entry | {"label": "SimCSE"} for entry in entries]
    entries += [{"method": "sscl[layer=11]", "seed": 1, "scores": rows}]
    write_suite(tmp_path, entries)
    measured = figure_data(FIGURES["S6"], read_suite(tmp_path))
    assert measured.remarks[0] == "1 of 3 trainings of SimCSE, official diverged."
    assert measured.table.query("origin == @OURS")["seed"].tolist() == [1, 2, 1]


def test_an_analysis_that_could_not_be_made_is_no_data(tmp_path):
    write_everything(tmp_path, only=["S1", "I8"], seeds=(1,))
    for path in (tmp_path / "analyses").iterdir():
        content = read_json(path)
        content["analyses"]["layers"] = {"reason": "no transformer"}
        # There is no positive pair.
        content["analyses"]["alignment"]["STS-B"]["all"]["alignment"] = None
        write_json(path, content)
    suite = read_suite(tmp_path)
    assert figure_data(FIGURES["S1"], suite) is None
    assert figure_data(FIGURES["I8"], suite) is None
    assert figure_data(FIGURES["S11"], suite) is not None


def test_mean_over_seeds_ends_where_the_first_seed_ends():
    draw = random.Random(1)
    values = {seed: [draw.random() for _ in range(last)] for seed, last in ((1, 5), (2, 3))}
    rows = [(seed, *row) for seed in values for row in enumerate(values[seed])]
    frame = pd.DataFrame(rows, columns=["seed", "step", "dev"])
    found = common_mean(frame, "step", ["dev"])["dev"]
    assert found.index.tolist() == [0, 1, 2]
    assert found.tolist() == pytest.approx([fmean(both) for both in zip(*values.values())])  # noqa: B905
