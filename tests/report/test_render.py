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
from bench.utils.errors import UserError
from bench.utils.files import read_json, write_json, write_text
from tests.support.judged_rows import (
    WITH_BASELINE,
    claim,
    heading,
    judged,
    measured,
    number,
    printed_gain,
    run,
    system,
)
from tests.support.synthetic_suite import write_suite

PARTIAL = "Partial: 6 of 7 runs have been made."
SEEDS = range(3)


def of_rows(**more):
    """A suite with a baseline and a missing run."""
    points = [76.1, 76.2, 76.35]
    systems = [
        system("simcse", points, is_baseline=True),
        system("is-cse", points[::-1], difference=0.0, half_width=0.5, verdict="open"),
        system("sscl", n=0, run_averages=[None], runs=["sscl-0"], remark="1 missing"),
    ]
    runs = [run(method, seed) for method in ("simcse", "is-cse") for seed in SEEDS]
    runs.append(run("sscl", status="missing"))
    pairs = [claim("is-cse", [0.25, 0.0, -0.25], printed=[printed_gain(78.0, 76.25)])]
    suite = heading(**WITH_BASELINE | {"partial": PARTIAL} | more)
    return judged(systems, suite, runs=runs, pairs=pairs, numbers=[number(76.25, measured(points))])


def names(folder):
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_what_is_rendered_early_says_so(tmp_path):
    render(of_rows(), tmp_path, tmp_path / "figures", tmp_path / "scores")
    written = {"compare.csv", "compare_printed.csv", "coverage.md", "cells.csv"}
    assert written <= names(tmp_path / "tables")
    for name in ("tables/sts.md", "tables/sscl_table-2.md", "tables/compare.md"):
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
def test_a_name_that_leads_out_of_the_folder_renders_nothing(tmp_path, exists):
    """Nothing is written, of other tables neither."""
    rows, out = of_rows(), tmp_path / "out"
    numbers = (rows.numbers[0].model_copy(update={"source": "a/../../x"}),)
    if exists:
        write_text(out / "tables" / "sts.md", "of an earlier call")
    before = names(tmp_path)
    with pytest.raises(UserError, match=r"x_table-2\.csv' leads out of"):
        render(rows.model_copy(update={"numbers": numbers}), out, out / "figures", tmp_path / "s")
    with pytest.raises(UserError, match=r"'\.\./x\.csv' leads out of"):
        save(Figure(), out, "../x", None)
    assert names(tmp_path) == before


@pytest.mark.slow
def test_the_data_of_a_figure_are_in_its_csv(folder, tmp_path):
    """Of a suite with every figure."""
    write_json(folder / "plan.json", read_json(folder / "plan.json") | {"baseline": "simcse"})
    suite, figures = read_suite(folder), tmp_path / "figures"
    render(suite, tmp_path, figures, folder / "scores")
    stems = {path.stem for path in figures.glob("*.png")}
    averages = figure_stems(suite.numbers)
    assert stems >= averages.keys() | {"leaderboard", "compare"}
    for figure in suite.series:
        assert (figures / f"{figure.stem}.pdf").is_file()
        data = pd.read_csv(figures / f"{figure.stem}.csv")
        table = table_of(figure)
        for column in table.select_dtypes("number"):
            read, drawn = data[column].astype(float), table[column].astype(float)
            np.testing.assert_allclose(read, drawn, rtol=1e-14, err_msg=figure.stem)
