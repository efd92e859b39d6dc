"""What `render` makes of a suite at once, also before it is complete."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from bench.judge.stage import read_suite
from bench.report.figures.compared import figure_stems
from bench.report.figures.papers import table_of
from bench.report.figures.style import save
from bench.report.render import render
from bench.utils.files import read_json, write_json, write_text
from tests.support.refusals import refused
from tests.support.synthetic_suite import write_suite

PARTIAL = "Partial: 6 of 7 runs have been made."


def names(folder):
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_what_is_rendered_early_says_so(compared_suite, tmp_path):
    partial = compared_suite.suite.changed(partial=PARTIAL)
    rows = compared_suite.model_copy(update={"suite": partial})
    render(rows, tmp_path, tmp_path / "figures", tmp_path / "scores")
    written = {"compare.csv", "compare_printed.csv", "coverage.md", "cells.csv"}
    assert written <= names(tmp_path / "tables")
    for name in ("tables/sts.md", "tables/gs-infonce-v2_table-2.md", "tables/compare.md"):
        assert PARTIAL in (tmp_path / name).read_text(), name
    page = (tmp_path / "report" / "index.html").read_text()
    assert f'<p class="remark">{PARTIAL}</p>' in page
    assert 'href="../tables/cells.csv"' in page
    assert PARTIAL in (tmp_path / "report" / "summary.txt").read_text()


def test_before_the_first_score_only_the_comparison_is_left_out(tmp_path, said):
    planned = [{"method": name, "seed": 0} for name in ("simcse", "sscl")]
    folder = write_suite(tmp_path / "s", planned, baseline="simcse")
    out = tmp_path / "out"
    told = said("render", folder, "--out", out)
    assert told.out == f"{out}/report/index.html\n"
    assert "no comparison: " in told.err
    assert {"tables/sts.md", "tables/coverage.md", "report/index.html"} <= names(out)
    assert not [name for name in names(out) if "compare" in name]
    assert {path.name for path in out.iterdir()} == {"tables", "figures", "report"}


@pytest.mark.parametrize("exists", [False, True])
def test_a_name_that_leads_out_of_the_folder_renders_nothing(compared_suite, tmp_path, exists):
    """Nothing is written, of other tables neither."""
    out = tmp_path / "out"
    number = next(row for row in compared_suite.numbers if row.table == "Table 2" and row.ours.n)
    rows = compared_suite.model_copy(
        update={"numbers": (number.model_copy(update={"source": "a/../../x"}),)}
    )
    if exists:
        write_text(out / "tables" / "sts.md", "of an earlier call")
    before = names(tmp_path)
    refused(
        lambda: render(rows, out, out / "figures", tmp_path / "s"), "x_table-2.csv' leads out of"
    )
    refused(lambda: save(Figure(), out, "../x", None), "'../x.csv' leads out of")
    assert names(tmp_path) == before


@pytest.mark.slow
def test_the_data_of_a_figure_are_in_its_csv(folder, tmp_path):
    """Of a suite with every figure."""
    write_json(folder / "plan.json", read_json(folder / "plan.json") | {"baseline": "simcse"})
    suite, figures = read_suite(folder), tmp_path / "figures"
    render(suite, tmp_path, figures, folder / "scores")
    stems = {path.stem for path in figures.glob("*.png")}
    assert stems >= figure_stems(suite.numbers).keys() | {"leaderboard", "compare"}
    for figure in suite.series:
        assert (figures / f"{figure.stem}.pdf").is_file()
        data = pd.read_csv(figures / f"{figure.stem}.csv")
        table = table_of(figure)
        for column in table.select_dtypes("number"):
            read, drawn = data[column].astype(float), table[column].astype(float)
            np.testing.assert_allclose(read, drawn, rtol=1e-14, err_msg=figure.stem)
