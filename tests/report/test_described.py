"""figures.yaml: it has every figure of the papers, its runs exist, and errors in it are
reported."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from bench.report.figures.described import Kind, load_figures
from bench.report.figures.measured import ROWS
from bench.report.figures.papers import DRAW
from bench.reported import curves, mapped
from bench.utils.errors import UserError

IDS = ["G1", "G5", "L1", "I8", "I9", "I10", "S1", "S6", "S7", "S10", "S11", "S12", "Z1"]


def test_every_figure_of_the_papers_is_described():
    figures = load_figures()
    assert [figure.id for figure in figures] == IDS
    assert len({figure.stem for figure in figures}) == len(IDS)
    assert set(get_args(Kind)) == set(ROWS) == set(DRAW) == {figure.kind for figure in figures}


def test_stems_are_no_other_figure_s():
    tables = mapped()
    printed = set(tables["source"] + "_" + tables["table"].str.lower().str.replace(" ", "-"))
    assert not printed & {figure.stem for figure in load_figures()}


def test_every_run_is_one_that_the_suite_knows_by_that_name():
    from bench.runs.resolve import resolve

    every = [series for figure in load_figures() for series in figure.series]
    pairs = [(texts, series.backbone) for series in every for _, texts in series.points]
    runs = {(text, backbone) for texts, backbone in pairs for text in texts}
    assert len(runs) > 50
    for text, backbone in runs:
        found = resolve(text, backbone_name=backbone, corpus="wiki1m", data="senteval", seed=1)
        assert (f"{found.text}@{found.setting}", found.skip) == (text, None)


def test_printed_tables_are_ones_that_are_printed():
    tables = set(mapped()[["source", "table"]].itertuples(index=False, name=None))
    for figure in load_figures():
        for table in figure.printed:
            assert table == "released logs" or (figure.source, table) in tables, (figure.id, table)


def test_sweeps_hold_the_numbers_that_print_has():
    sweeps = [figure for figure in load_figures() if figure.kind == "sweep"]
    xs = {one.id: [x for series in one.series for x, _ in series.points] for one in sweeps}
    layers = list(range(12))
    assert xs == {"G5": [0, 0, 0.5, 1, 2, 3, 4, 8, 16], "S6": layers, "S7": layers}


def test_a_list_of_backbones_is_a_series_each():
    (figure,) = [figure for figure in load_figures() if figure.id == "I8"]
    assert len(figure.series) == 8
    assert {series.label for series in figure.series} == {"SimCSE", "IS-CSE"}


def test_released_logs():
    logs = curves()
    counts = logs.groupby(["method", "backbone"], sort=False).size()
    assert counts.tolist() == [250, 250, 250, 124, 250, 250, 250, 250]
    first = logs.iloc[0]
    assert (first["step"], first["task"], first["value"]) == (125, "STS-B", 71.851)
    own = logs.query("method == 'GS-InfoNCE' and backbone == 'roberta-large' and task == 'STS-B'")
    assert own["value"].max() == 85.611
    assert logs["value"].between(50, 90).all()


ENTRY: dict[str, Any] = {
    "id": "A",
    "source": "sscl",
    "figure": "Figure 9",
    "title": "a title",
    "kind": "sweep",
    "x": "number",
    "scores": [["Avg", "test"]],
    "series": [{"label": "one", "backbone": "bert-base-uncased", "runs": {1: "simcse@official"}}],
}


def write(folder: Path, *entries: Any) -> Path:
    path = folder / "figures.yaml"
    path.write_text(yaml.safe_dump({"figures": list(entries)}))
    return path


def changed(**fields: Any) -> dict[str, Any]:
    entry = copy.deepcopy(ENTRY) | fields
    return {name: value for name, value in entry.items() if value is not None}


def series(**fields: Any) -> dict[str, Any]:
    part = copy.deepcopy(ENTRY["series"][0]) | fields
    return changed(series=[{name: value for name, value in part.items() if value is not None}])


def test_a_good_entry_is_read(tmp_path):
    (figure,) = load_figures(write(tmp_path, ENTRY))
    assert figure.stem == "sscl_figure-9"
    assert figure.heading == "SSCL, Figure 9: a title"
    assert figure.scores == [("Avg", "test")]
    assert figure.series[0].points == [(1.0, ["simcse@official"])]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (changed(titel="x"), "unknown key 'titel'; did you mean 'title'?"),
        (changed(title=None), r"'figures\.0\.title' is missing"),
        (changed(kind="sweeep"), "kind' should be 'sweep', .* not 'sweeep'"),
        (changed(source="sccl"), "unknown paper 'sccl'; did you mean 'sscl'?"),
        (changed(kind="curves"), "a sweep, and no other kind of figure, has 'x'"),
        (changed(x=None), "a sweep, and no other kind of figure, has 'x'"),
        (changed(scores=None), "sweeps and seeds, and no other kinds of figures, have 'scores'"),
        (changed(scores=["Avg"]), r"scores\.0' should be a valid tuple"),
        (changed(printed="Table 1"), "printed' should be a valid list"),
        (changed(series=[]), "series' should have at least 1 item"),
        (changed(series=["simcse"]), r"series\.0' should be a valid dictionary"),
        (series(label=None), "label' is missing"),
        (series(runs={}, run="simcse@official"), "the series of a sweep have 'runs'"),
        (series(runs={"a": "simcse@official"}), "should be a valid number, not 'a'"),
        (series(runs={1: "simcse"}), "should match pattern .* not 'simcse'"),
        (series(runs={1: []}), "should have at least 1 item"),
        (series(backbone=["bert-base-uncased"] * 2), "two series have the same label and backbone"),
    ],
)
def test_mistakes_are_named(tmp_path, entry, message):
    with pytest.raises(UserError, match=f"figures.yaml: .*{message}"):
        load_figures(write(tmp_path, entry))


def test_names_are_given_once(tmp_path):
    with pytest.raises(UserError, match="two figures have the id 'A'"):
        load_figures(write(tmp_path, ENTRY, changed(figure="Figure 8")))
    with pytest.raises(UserError, match="two figures have the stem 'sscl_figure-9'"):
        load_figures(write(tmp_path, ENTRY, changed(id="B", figure="figure 9")))
