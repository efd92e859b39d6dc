"""Tables in four formats: the numbers in them, their captions, escaping."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.comparison.against_baseline import against
from bench.comparison.order import orders
from bench.comparison.reproduction import Cell, judge, leaderboard
from bench.datasets.tasks import STS_TASKS
from bench.report.figures.compared import board_figure
from bench.report.formats import Bold, html, latex
from bench.report.printed_table import (
    ShownCell,
    ShownRow,
    ShownTable,
    captioned,
    in_lines,
    legend,
    notes,
    printed_tables,
    shown_table,
)
from bench.report.render import render_figures
from bench.report.tables import (
    columns,
    leaderboard_caption,
    render_tables,
    shown_leaderboard,
    summaries,
)
from bench.reported.address import row_name, slug
from bench.results import suite_results
from bench.results.records import read_scores
from bench.results.suite_results import read_suite
from tests.support.cells import with_ours
from tests.support.page_project import write_page
from tests.support.printed_numbers import mapped
from tests.support.synthetic_suite import seeds, with_plan, write_suite

NASTY = "<script>alert(1)</script> & 50% of_it | {\\x}"


class Reader(HTMLParser):
    """The texts of a table's cells, row by row."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.tags: set[str] = set()
        self.open = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.add(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.open = True
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        self.open = self.open and tag not in ("td", "th")

    def handle_data(self, data: str) -> None:
        if self.open:
            self.rows[-1][-1] += data


@pytest.fixture(scope="module")
def rendered(tmp_path_factory) -> tuple[Path, Path]:
    """A suite with SimCSE in both settings and one row with a nasty label, and its rendered
    tables."""
    folder = tmp_path_factory.mktemp("suite")
    rows = [dict.fromkeys(STS_TASKS, value) for value in (75.0, 75.4, 75.8, 76.2, 76.6)]
    nasty = {"method": "word-overlap", "setting": "paper", "backbone": "none", "label": NASTY}
    runs = seeds("simcse", rows, label="SimCSE")
    runs += seeds("simcse", rows[:2], setting="paper", label="SimCSE")
    write_suite(folder, [*runs, nasty | {"scores": dict.fromkeys(STS_TASKS, 40.0)}])
    rendered_in(folder, folder / "tables")
    return folder, folder / "tables"


def rendered_in(folder: Path, out: Path) -> None:
    suite = read_suite(folder)
    render_tables(suite, judge(suite), out)


@pytest.fixture(scope="module")
def all_cells(rendered) -> list[Cell]:
    return judge(read_suite(rendered[0]))


def table_of(cells: list[Cell], source: str, name: str) -> ShownTable:
    return shown_table([cell for cell in cells if cell.number.label[:2] == (source, name)])


def only(monkeypatch: pytest.MonkeyPatch, *stems: str) -> None:
    """Render only these printed tables; rendering all takes seconds."""

    def some(all_cells: list[Cell]) -> dict[str, ShownTable]:
        tables = printed_tables(all_cells)
        return {stem: tables[stem] for stem in stems}

    monkeypatch.setattr("bench.report.tables.printed_tables", some)


def test_every_measured_table_in_four_formats(rendered, all_cells):
    """Of a small suite most printed tables would hold print alone."""
    _, out = rendered
    stems = {path.stem for path in out.glob("*.csv")} - {"cells"}
    printed = printed_tables(all_cells)
    measured = set(printed_tables([cell for cell in all_cells if cell.ours.n or cell.other]))
    assert {"gs-infonce-v1_table-2", "is-cse_table-1"} <= measured
    assert "is-cse_table-8" in printed.keys() - measured
    assert stems & printed.keys() == measured
    assert "sts" in stems
    for suffix in ("md", "tex", "html"):
        assert {path.stem for path in out.glob(f"*.{suffix}")} == stems


def test_rendering_reads_a_suite_once(rendered, tmp_path, monkeypatch):
    folder, _ = rendered
    read = []
    spy = lambda path: read.append(path) or read_scores(path)  # noqa: E731
    monkeypatch.setattr(suite_results, "read_scores", spy)
    only(monkeypatch)
    rendered_in(folder, tmp_path)
    assert sorted(read) == sorted((folder / "scores").iterdir())


def test_lines_of_a_printed_row(all_cells):
    table = table_of(all_cells, "gs-infonce-v2", "Table 2")
    lines = in_lines(table).to_numpy().tolist()
    values = ["68.40", "82.41", "74.38", "80.91", "78.56", "76.85", "72.23", "76.25"]
    assert lines[0] == [
        "bert-base-uncased", "SimCSE-BERT_base", "printed, quoted", *values, ""
    ]  # fmt: skip
    # 0.8 is the mean square deviation's root over the five seeds: sqrt((2 * 0.64 + 2 * 0.16) / 4) =
    # 0.6325
    assert lines[1][:3] == ["", "", "ours, official, n = 5"]
    # 0.45 + t(0.95, 9) * 0.75 / sqrt(5) is 1.07
    assert lines[1][-2] == "75.80 ± 0.63 ? 7"
    assert lines[1][-1].startswith("? inconclusive: our mean ±0.77, tolerance 1.00; 7 seeds ")
    assert lines[1][3] == "75.80 ± 0.63 ↑"  # 68.40 is printed for STS12
    assert lines[1][5] == "75.80 ± 0.63 ? 9"  # a single task says how many seeds decide, too
    assert lines[2][2:4] == ["ours, paper, n = 2", "75.20 ± 0.28 ? 3"]
    assert lines[2][-2:] == ["75.20 ± 0.28 ? 156", "? inconclusive"]
    assert (
        "(? 8: 8 seeds decide if mean and spread stay as they are, but at least 3; more"
        in legend(table)
    )
    assert lines[3][2] == "printed"
    assert lines[3][-1] == "– not run: no scores in this suite"


def test_csv_keeps_unrounded_numbers_that_read_back(rendered, all_cells):
    _, out = rendered
    read = pd.read_csv(out / "cells.csv")
    assert len(read) == len(all_cells)
    assert read["mean"].dropna().tolist() == [cell.ours.mean for cell in all_cells if cell.ours.n]
    own = read.query("source == 'sscl' and table == 'Table 2' and method == 'SimCSE'")
    ours = own.loc[own["task"] == "Avg", "ours"].iloc[0]
    values = [float(value) for value in ours.split()]
    assert values == pytest.approx([75.0, 75.4, 75.8, 76.2, 76.6])


def test_all_formats_show_the_same_cells(rendered):
    _, out = rendered
    html_rows = Reader((out / "is-cse_table-1.html").read_text()).rows
    markdown_rows = [
        [text.strip().strip("*") for text in line.strip("|").split("|")]
        for line in (out / "is-cse_table-1.md").read_text().splitlines()
        if line.startswith("| ")
    ]
    assert html_rows == markdown_rows
    tex = (out / "is-cse_table-1.tex").read_text()
    assert tex.count(" \\\\\n") == len(html_rows)
    for rule in ("\\toprule", "\\midrule", "\\bottomrule"):
        assert tex.count(rule) == 1
    assert "75.80 $\\pm$ 0.63 $\\uparrow$" in tex
    assert tex.isascii()


def test_foreign_text_is_escaped_everywhere(rendered):
    _, out = rendered
    page = (out / "sts.html").read_text()
    assert "<script>" not in page
    assert NASTY in [text for row in Reader(page).rows for text in row]
    written = r"&lt;script>alert(1)&lt;/script> &amp; 50% of_it \| {\\x}"
    assert written in (out / "sts.md").read_text()
    tex = (out / "sts.tex").read_text()
    assert "\\& 50\\% of\\_it" in tex


@given(st.lists(st.lists(st.text(max_size=12), min_size=2, max_size=2), min_size=1, max_size=3))
def test_html_returns_any_text(rows):
    rows = [["".join(c for c in text if c.isprintable()) for text in row] for row in rows]
    page = Reader(html(pd.DataFrame(rows, columns=["a<b", "c&d"]), "caption"))
    assert page.rows == [["a<b", "c&d"], *rows]
    tags = {"figure", "figcaption", "div", "table", "thead", "tbody", "tr", "th", "td"}
    assert page.tags == tags | {"html", "meta", "title", "style"}


def test_a_number_of_fewer_seeds_than_its_row_says_so(tmp_path):
    runs = seeds("simcse", [{"STS-B": 70.0}, {"STS-B": 71.0}, {"STS-B": 72.0, "SICK-R": 60.0}])
    board = leaderboard(read_suite(write_suite(tmp_path, runs)))
    assert board[["n", "STS-B n", "SICK-R n", "Avg n"]].to_numpy().tolist() == [[3, 3, 1, 0]]
    shown = shown_leaderboard(board)
    texts = shown[["n", "STS-B", "SICK-R", "Avg"]].to_numpy().tolist()
    assert texts == [["3", "71.00 ± 1.00", "60.00 (n = 1)", "–"]]


def test_a_row_without_an_average_counts_the_seeds_of_its_tasks(tmp_path):
    rows = [{"STS-B": value, "SICK-R": value} for value in (70.0, 71.0, 72.0)]
    runs = [*seeds("simcse", rows), *seeds("simcse", rows[:2], setting="paper")]
    runs = [run | {"id": f"run{number}"} for number, run in enumerate(runs)]
    every = judge(read_suite(write_suite(tmp_path, runs)))
    shown = in_lines(table_of(every, "gs-infonce-v2", "Table 2")).set_index("").iloc[:3]
    assert list(shown.index) == ["printed, quoted", "ours, official, n = 3", "ours, paper, n = 2"]
    assert shown.loc["ours, official, n = 3", "STS-B"].startswith("71.00 ± 1.00")
    assert shown.loc["ours, paper, n = 2", "SICK-R"].startswith("70.50 ± 0.71")


def test_only_planned_tasks_are_columns(tmp_path):
    rows = [{"STS-B": value, "SICK-R": value - 10} for value in (70.0, 72.0)]
    runs = seeds("simcse", rows, tasks=["STS-B", "SICK-R"])
    suite = read_suite(write_suite(tmp_path, runs))
    board = leaderboard(suite)
    shown = shown_leaderboard(board, columns(suite, "sts"))
    assert list(shown.columns) == ["Backbone", "Method", "Setting", "n", "STS-B", "SICK-R"]
    assert shown["SICK-R"].tolist() == ["61.00 ± 1.41"]
    caption = leaderboard_caption(suite, "sts", board)
    assert caption.startswith("Suite paper: Spearman x 100 on STS-B and SICK-R, mean ±")
    (panel,) = board_figure(suite, board).axes
    assert [65.0, 67.0] in [list(line.get_xdata()) for line in panel.get_lines()]
    assert panel.get_xlabel() == "average Spearman x 100 on STS-B and SICK-R"
    assert suite.planned("transfer") == suite.boards["transfer"]
    quick = with_plan(suite, mode="dev")
    assert leaderboard_caption(quick, "sts", board) == caption
    assert "over n seeds, classifiers of mode dev." in leaderboard_caption(quick, "transfer", board)
    assert suite.boards["sts"].tasks == STS_TASKS


def test_differences_and_steps_in_print(tmp_path):
    rows = [dict.fromkeys(STS_TASKS, value) for value in (76.0, 77.0)]
    steps = seeds("sscl", rows)
    for entry in steps:
        entry["outcome"] = {"best_step": 1250 + 250 * entry["seed"]}
    suite = read_suite(write_suite(tmp_path, [*seeds("simcse", [rows[0], rows[0]]), *steps]))
    tables = printed_tables(judge(suite))
    gains = tables["sscl_introduction"]
    lines = in_lines(gains).to_numpy().tolist()
    place = next(i for i, line in enumerate(lines) if line[1] == "SSCL-SimCSE minus SimCSE test")
    assert lines[place][2:4] == ["printed", "1.65"]
    assert lines[place + 1][2] == "ours, official, n = 2"
    assert re.fullmatch(r"0\.50 ± 0\.71 \? \d+", lines[place + 1][3])
    caption = captioned(suite, gains)
    assert "differences of Spearman x 100 and Spearman x 100, printed and measured (mean" in caption
    assert "Our differences are between runs with the same seed." in caption
    step = tables["sscl_figure-6-text"]
    printed, ours = (line[3] for line in in_lines(step).to_numpy().tolist())
    assert (printed, ours.split(" ?")[0]) == ("1500", "1375 ± 177")
    assert "the training step with the best dev score" in captioned(suite, step)
    assert all(captioned(suite, table) for table in tables.values())  # every metric has a name


def test_captions_tell_of_dev_sets_and_of_another_split_than_is_printed(rendered, all_cells):
    suite, tables = read_suite(rendered[0]), printed_tables(all_cells)
    for stem, text in {
        # It has an average of the two dev sets under the name of that of seven test sets.
        "is-cse_table-4": "All scores are of dev sets; Avg is of two, STS-B and SICK-R.",
        "is-cse_table-5": "All scores are of dev sets.",
        "sscl_table-5": "). Printed as of the dev sets; ours are of the test sets.",
        "sscl_introduction": "Some are printed without the name of a set; ours are of the test",
    }.items():
        assert text in captioned(suite, tables[stem])
    assert " sets" not in captioned(suite, tables["is-cse_table-1"]).replace("data sets", "")


def test_captions_have_the_notes_of_their_rows_once(rendered, all_cells):
    suite, tables = read_suite(rendered[0]), printed_tables(all_cells)
    noted = mapped().query("note != ''").groupby(["source", "table"])["note"].unique()
    assert len(noted) == 8
    for (source, name), texts in noted.items():
        caption = captioned(suite, tables[f"{source}_{slug(name)}"])
        assert [caption.count(text) for text in texts] == [1] * len(texts)
    assert notes(tables["is-cse_table-1"].cells) == []
    weighted = (
        "STS12 to STS16 of BERT-flow and BERT-whitening are means over their subsets, weighted"
    )
    assert notes(tables["sscl_table-2"].cells)[-1].startswith(f"On bert-large-uncased, {weighted}")
    written = (rendered[1] / "sscl_table-2.md").read_text(encoding="utf-8")
    assert f"On bert-large-uncased, {weighted}" in written


def test_the_verdict_is_of_the_cell_that_the_heading_names(all_cells):
    """GS-InfoNCE's text prints the gain on the average before that on STS-B."""
    found = printed_tables(all_cells)["gs-infonce-v2_main-results"].cells
    found = [cell for cell in found if cell.number.backbone == "bert-base-uncased"]
    assert [cell.number.task for cell in found] == ["Avg", "STS-B"]
    kinds = ("reproduced", "lower")
    cells = [with_ours(cell, (1.0, 1.2), kind) for cell, kind in zip(found, kinds, strict=True)]
    shown = in_lines(shown_table(cells))
    assert shown.columns[-1] == "Verdict (Avg)"
    assert shown.iloc[1, -1] == "= reproduced"


def test_a_consistent_number_says_how_many_runs_reach_print_everywhere(tmp_path):
    """Print is 2.25 above our mean."""
    rows = [dict.fromkeys(STS_TASKS, 74.0 + step) for step in (-2, -1, 0, 1, 2) * 2]
    runs = [*seeds("simcse", rows), *seeds("simcse", rows, setting="paper")]
    suite = read_suite(write_suite(tmp_path, runs))
    all_cells = judge(suite)
    table = table_of(all_cells, "is-cse", "Table 1")
    (cell,) = (
        cell
        for cell in table.cells
        if (cell.number.run, cell.number.task) == ("simcse@official", "Avg") and cell.ours.n
    )
    verdict = cell.ours.verdict
    k = round(2 / verdict.p)
    assert (verdict.kind, verdict.mark) == ("consistent", f"≈ 1/{k}")
    assert cell.other.verdict.mark == verdict.mark
    assert f"one run of ours in {k} scores" in verdict.reason
    text = f"74.00 ± 1.49 ≈ 1/{k}"
    shown = in_lines(table)
    assert list(shown["Avg"]).count(text) == 2  # both settings
    assert "(≈ 1/12: one in 12 reaches it)" in legend(table)
    assert f"74.00 $\\pm$ 1.49 $\\approx$ 1/{k}" in latex(shown, "", "x")
    averages = summaries(suite, orders(suite, all_cells), all_cells)[-1]
    assert f"≈ 1/{k} consistent" in set(averages.shown["Verdict"])
    assert "≈ 1/12: one in 12 reaches it" in averages.caption


def test_our_best_is_bold_from_three_seeds_on(tmp_path):
    """Two seeds of SimCSE are above three of IS-CSE."""
    runs = seeds("simcse", [dict.fromkeys(STS_TASKS, value) for value in (76.0, 77.0)])
    runs += seeds("is-cse", [dict.fromkeys(STS_TASKS, value) for value in (74.0, 75.0, 76.0)])
    for number, best in ((2, 0), (3, 1)):
        if number == 3:
            runs += [{"method": "simcse", "seed": 2, "scores": dict.fromkeys(STS_TASKS, 76.0)}]
        all_cells = judge(read_suite(write_suite(tmp_path / str(number), runs)))
        table = table_of(all_cells, "is-cse", "Table 1")
        averages = [row.cells["Avg"] for row in table.rows if "Avg" in row.cells]
        bold = [shown.cell.number.run for shown in averages if isinstance(shown.ours, Bold)]
        assert bold == ["simcse@official"] * best
    assert "our best, unless it has fewer than 3 seeds" in legend(table)


@pytest.mark.parametrize(
    ("variant", "name"),
    [("", ""), ("cls", " (cls)"), ("(cls)", " (cls)"), ("K (64 groups)", " (K (64 groups))")],
)
def test_row_names(variant, name):
    assert row_name("M", variant) == "M" + name


@pytest.mark.parametrize(
    ("quoted", "told"),
    [("", ""), ("A", "quoted"), ("unknown", "origin unknown")],
)
def test_origins(all_cells, quoted, told):
    first, second = (
        ShownCell(replace(cell, number=replace(cell.number, quoted_from=quoted)), "", "")
        for cell in all_cells[:2]
    )
    own = ShownCell(replace(first.cell, number=replace(first.cell.number, quoted_from="")), "", "")
    for texts, expected in (([first, second], told), ([first, own], "")):
        row = ShownRow("", "", "", dict(enumerate(texts)), first.cell)
        assert row.origin == expected


def test_a_rise_and_a_fall_are_told_apart(all_cells):
    shown = in_lines(printed_tables(all_cells)["is-cse_figure-3-text"])
    assert {name.rpartition(", ")[2] for name in shown["Method"] if name} == {"rise", "fall"}


def test_a_toy_suite_says_that_it_proves_nothing(tmp_path, monkeypatch):
    only(monkeypatch, "sscl_table-2")
    rows = [dict.fromkeys(STS_TASKS, 60.0)] * 2
    write_suite(
        tmp_path, seeds("simcse", rows, backbone="toy-bert", corpus="world"),
        name="smoke", data="world", stand_ins={"bert-base-uncased": "toy-bert"},
    )  # fmt: skip
    rendered_in(tmp_path, tmp_path / "tables")
    for name in ("sts.md", "sts.html", "sts.tex", "sscl_table-2.md"):
        text = (tmp_path / "tables" / name).read_text()
        assert "Do not compare these numbers with any paper" in text
    verdicts = pd.read_csv(tmp_path / "tables" / "cells.csv")["verdict"]
    assert set(verdicts) == {"not run", "not comparable"}


@pytest.mark.slow
def test_tasks_of_ones_own_have_tables_figures_and_comparisons(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = {"task": "probing:negation", "split": "test", "metric": "accuracy", "aggregation": "all"}
    tasks = ["sts:weather", "sts:law", "probing:negation"]
    runs = []
    for method, low, probed in (("simcse", 50.0, 80.0), ("sscl", 60.0, 81.0)):
        rows = [
            dict(zip(tasks[:2], low + np.array(more), strict=True)) for more in ((0, 4), (2, 0))
        ]
        runs += seeds(method, rows, tasks=tasks, records=[own | {"value": probed}])
    folder = write_suite(tmp_path / "suite", runs, data="mine")
    only(monkeypatch)  # no printed table or figure shows tasks of one's own
    tables = tmp_path / "tables"
    suite = read_suite(folder)
    cells = judge(suite)
    render_tables(suite, cells, tables)
    board = pd.read_csv(tables / "own_sts.csv").set_index("method")
    assert list(board.index) == ["sscl", "simcse"]
    assert board.loc["sscl", ["sts:weather", "sts:law", "Avg"]].to_list() == [61.0, 62.0, 61.5]
    probing = pd.read_csv(tables / "own_probing.csv")
    assert probing["probing:negation"].to_list() == [81.0, 80.0]
    lines = (tables / "own_probing.md").read_text(encoding="utf-8").splitlines()
    assert lines[2] == "| Backbone | Method | Setting | n | probing:negation |"
    assert not (tables / "own_probing_mlp.csv").exists()
    own_sts = (tables / "own_sts.md").read_text(encoding="utf-8")
    assert "Spearman x 100 on STS sets of its own" in own_sts
    assert "{lllrrrr}" in (tables / "own_sts.tex").read_text(encoding="utf-8")
    frame, _ = against(suite, "simcse")
    found = frame.set_index(["board", "task"])["difference"]
    assert found["own_sts"][["sts:weather", "Avg"]].tolist() == [10.0, 10.0]
    assert found["own_probing", "probing:negation"] == 1.0
    monkeypatch.setattr("bench.report.render.paper_figures", lambda _: [])
    render_figures(suite, [], tmp_path / "figures")
    assert (tmp_path / "figures" / "leaderboard_own_sts.png").is_file()
    write_page(folder, tmp_path / "figures", tmp_path / "report")
    assert "Own STS" in (tmp_path / "report" / "index.html").read_text(encoding="utf-8")
