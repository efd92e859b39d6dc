"""What `render` makes of a suite at once, also before it is complete."""

import numpy as np
import pandas as pd
import pytest

from bench.cli import main
from bench.judge.reproduction import judge
from bench.report.figures.compared import figure_stems
from bench.report.figures.papers import paper_figures
from bench.report.render import render
from bench.results.suite_results import read_suite
from bench.utils.errors import UserError
from bench.utils.files import read_json, write_json, write_text
from tests.support.synthetic_suite import seeds, write_suite


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    """A suite with a baseline and a missing run."""
    rows = (76.1, 76.2, 76.35)
    entries = [*seeds("simcse", rows), *seeds("is-cse", rows[::-1]), {"method": "sscl", "seed": 0}]
    folder = write_suite(tmp_path_factory.mktemp("a") / "results" / "s", entries)
    write_json(folder / "plan.json", read_json(folder / "plan.json") | {"baseline": "simcse"})
    return folder


def names(folder):
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_what_is_rendered_early_says_so(suite, tmp_path, capsys):
    assert main(["render", str(suite), "--out", str(tmp_path)]) == 0
    assert capsys.readouterr().out == f"{tmp_path}/report/index.html\n"
    written = {"compare.csv", "compare_printed.csv", "coverage.md", "audit.md"}
    assert written <= names(tmp_path / "tables")
    remark = "Partial: 6 of 7 runs have been made."
    for name in ("tables/sts.md", "tables/sscl_table-2.md", "tables/compare.md"):
        assert remark in (tmp_path / name).read_text(), name
    page = (tmp_path / "report" / "index.html").read_text()
    assert f'<p class="remark">{remark}</p>' in page
    assert 'href="../tables/cells.csv"' in page


def test_before_the_first_score_only_the_comparison_is_left_out(tmp_path):
    planned = [{"method": name, "seed": 0} for name in ("simcse", "sscl")]
    folder = write_suite(tmp_path / "s", planned)
    write_json(folder / "plan.json", read_json(folder / "plan.json") | {"baseline": "simcse"})
    out = tmp_path / "out"
    assert main(["render", str(folder), "--out", str(out)]) == 0
    assert {"tables/sts.md", "tables/audit.md", "report/index.html"} <= names(out)
    assert not [name for name in names(out) if "compare" in name]
    assert {path.name for path in out.iterdir()} == {"tables", "figures", "report"}


@pytest.mark.parametrize("exists", [False, True])
def test_a_failure_renders_nothing(suite, tmp_path, monkeypatch, exists):
    def fail(*_):
        raise UserError("the figures fail")

    monkeypatch.setattr("bench.report.render.render_figures", fail)
    out = tmp_path / "out"
    if exists:
        write_text(out / "tables" / "sts.md", "of an earlier call")
    with pytest.raises(UserError, match="the figures fail"):
        render(suite, out, out / "figures")
    assert sorted(names(tmp_path)) == ["out/tables/sts.md"] * exists


@pytest.mark.slow
def test_rendering_twice_gives_the_same_bytes(folder, tmp_path):
    """Tables, figures and page of a suite with every figure; the figures' data are in their CSV."""
    write_json(folder / "plan.json", read_json(folder / "plan.json") | {"baseline": "simcse"})
    first, second = tmp_path / "first", tmp_path / "second"
    for out in (first, second):
        render(folder, out, out / "figures")
    assert names(first) == names(second)
    for name in names(first):
        text = (second / name).read_bytes().replace(bytes(second), bytes(first))
        assert (first / name).read_bytes() == text, name  # the summary names the folder
    suite = read_suite(folder)
    stems = {path.stem for path in (first / "figures").glob("*.png")}
    averages = figure_stems(judge(suite))
    assert stems >= averages.keys() | {"leaderboard", "compare"}
    for figure, measured in paper_figures(suite):
        assert (first / "figures" / f"{figure.stem}.pdf").is_file()
        data = pd.read_csv(first / "figures" / f"{figure.stem}.csv")
        for column in measured.table.select_dtypes("number"):
            both = data[column].astype(float), measured.table[column].astype(float)
            np.testing.assert_allclose(*both, rtol=1e-14, err_msg=figure.id)
