"""figures.yaml: it has every figure of the papers, its runs exist, and errors in it are
reported."""

from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from bench.report.figures.measured import Kind, PaperFigure, load_figures
from bench.report.figures.papers import DRAW
from bench.reported import FOLDER, SOURCES, curves
from bench.utils.errors import UserError
from tests.support.printed_numbers import mapped

IDS = ["G1", "G5", "L1", "I8", "I9", "I10", "S1", "S6", "S7", "S10", "S11", "S12", "Z1"]


def test_every_figure_of_the_papers_is_described_once():
    figures = load_figures()
    assert [figure.id for figure in figures] == IDS
    assert len({figure.stem for figure in figures}) == len(IDS)
    for figure in figures:
        assert figure.source in SOURCES
        labels = {(series.label, series.backbone) for series in figure.series}
        assert len(labels) == len(figure.series)
        sweep = figure.kind == "sweep"
        assert bool(figure.x) == sweep
        assert bool(figure.scores) == (figure.kind in ("sweep", "seeds"))
        assert {(bool(series.runs), bool(series.run)) for series in figure.series} == {
            (sweep, not sweep)
        }
    assert set(get_args(Kind)) == set(DRAW) == {figure.kind for figure in figures}


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
        assert (found.text, found.skip) == (text, None)


def test_printed_tables_are_ones_that_are_printed():
    tables = set(mapped()[["source", "table"]].itertuples(index=False, name=None))
    for figure in load_figures():
        for table in figure.printed:
            assert table == "released logs" or (figure.source, table) in tables, (figure.id, table)


def test_released_logs():
    logs = curves()
    counts = logs.groupby(["method", "backbone"], sort=False).size()
    assert counts.tolist() == [250, 250, 250, 124, 250, 250, 250, 250]
    first = logs.iloc[0]
    assert (first["step"], first["task"], first["value"]) == (125, "STS-B", 71.851)
    own = logs.query("method == 'GS-InfoNCE' and backbone == 'roberta-large' and task == 'STS-B'")
    assert own["value"].max() == 85.611
    assert logs["value"].between(50, 90).all()


def read(folder: Path, number: int, **changes: Any) -> PaperFigure:
    """An entry of figures.yaml, changed."""
    figures = yaml.safe_load((FOLDER / "figures.yaml").read_text(encoding="utf-8"))["figures"]
    path = folder / "figures.yaml"
    path.write_text(yaml.safe_dump({"figures": [figures[number] | changes]}), encoding="utf-8")
    return load_figures(path)[0]


def test_an_entry_is_read(tmp_path):
    series = [{"label": "one", "backbone": "bert-base-uncased", "runs": {1: "simcse@official"}}]
    figure = read(tmp_path, IDS.index("S6"), series=series, title="a title")
    assert (figure.stem, figure.heading) == ("sscl_figure-3a", "SSCL, Figure 3a: a title")
    assert figure.series[0].points == [(1.0, ["simcse@official"])]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"titel": "x"}, "unknown key 'titel'; did you mean 'title'?"),
        ({"kind": "sweeep"}, "kind' should be 'sweep', .* not 'sweeep'"),
    ],
)
def test_mistakes_are_named(tmp_path, changes, message):
    with pytest.raises(UserError, match=message):
        read(tmp_path, 0, **changes)
