"""Printed tables as in print: order, names, decimals, bold type, sweeps as grids."""

import csv
import re
from collections import Counter, defaultdict

import pandas as pd
import pytest

from bench.comparison.reproduction import frame, judge
from bench.datasets.tasks import STS_TASKS
from bench.report.formats import Bold, html, latex, markdown
from bench.report.printed_table import (
    ShownTable,
    in_lines,
    legend,
    printed_tables,
    shown_table,
)
from bench.reported import FOLDER, SOURCES
from bench.reported.address import printed_names
from bench.reported.number import numbers
from bench.results.suite_results import read_suite
from tests.support.cells import with_ours
from tests.support.synthetic_suite import seeds, write_suite


@pytest.fixture(scope="module")
def tables(tmp_path_factory) -> dict[str, ShownTable]:
    """The cells of all printed tables, for a suite with SimCSE and two runs of Table 3."""
    rows = [dict.fromkeys(STS_TASKS, value) for value in (75.0, 75.4, 75.8, 76.2, 76.6)]
    runs = seeds("simcse", rows, label="SimCSE") + seeds("gs-infonce", rows[:3])
    runs += seeds("gs-infonce[multiple=8]", [dict.fromkeys(STS_TASKS, 79.0)] * 2)
    folder = write_suite(tmp_path_factory.mktemp("suite"), [*runs])
    return printed_tables(judge(read_suite(folder)))


def texts_in_files() -> dict[str, list[str]]:
    """The values in the CSV files by paper and table."""
    found = defaultdict(list)
    for path in sorted(FOLDER.glob("*.csv")):
        if path.stem.partition("_")[0] in SOURCES:
            with path.open(encoding="utf-8", newline="") as file:
                for row in csv.DictReader(file):
                    found[row["source"], row["table"]].append(row["value"])
    return found


def test_numbers_have_the_decimals_of_print(tables):
    files = texts_in_files()
    for table in tables.values():
        shown = in_lines(table)
        lines = shown[shown[""].str.startswith("printed")]
        skipped = {"Backbone", "Method", "Task", ""}
        columns = [name for name in shown if name not in skipped and "Verdict" not in name]
        texts = [text for text in lines[columns].to_numpy().ravel() if text]
        source, name = table.source, table.name
        metrics = {cell.number.metric for cell in table.cells}
        hyper = [number.text for number in numbers() if number.source == source
                 and number.table == name and number.metric not in metrics]  # fmt: skip
        assert Counter(texts) + Counter(hyper) == Counter(files[source, name])


def test_a_printed_text_is_its_number():
    assert all(float(number.text) == number.value for number in numbers())
    texts = {number.text for number in numbers() if number.label[:2] == ("sscl", "Table 5")}
    assert "46.7" in texts


def test_names_of_rows_are_those_of_print():
    """A name contains the method of its row, and the size of its backbone if it has one."""
    for (_, _, method, backbone, _), name in printed_names().items():
        plain = re.sub(r"_(base|large)", "", name).lower()
        assert method.rpartition("+")[2].lower().split("-")[-1] in plain, (method, name)
        for size in ("base", "large"):
            assert f"_{size}" not in name or size in backbone
    assert len(printed_names()) == 2 * 8 + 25 + 11 + 17 + 12 + 12


def test_tasks_stand_in_the_order_of_print(tables):
    assert tables["sscl_table-4"].columns == ["Depth", "Length", "CoordinationInversion"]
    assert tables["gs-infonce-v2_main-results"].columns == ["STS-B", "Avg"]
    assert tables["is-cse_table-1"].columns == [*STS_TASKS, "Avg"]


def test_the_best_of_each_column_and_backbone_is_bold(tables):
    for table in tables.values():
        if table.is_sweep:
            continue
        columns = defaultdict(list)
        for row in table.rows:
            for shown in row.cells.values():
                number = shown.cell.number
                columns[number.backbone, number.task, number.split, number.metric].append(shown)
        for (*_, metric), column in columns.items():
            for name, texts in (
                ("printed", [shown.printed for shown in column]),
                ("mean", [shown.ours for shown in column]),
            ):
                values = frame(shown.cell for shown in column)[name].round(2)
                several = values.nunique() > 1 and metric in ("spearman", "accuracy")
                top = (values == values.max()).tolist() if several else [False] * len(values)
                assert [isinstance(text, Bold) for text in texts] == top


def test_a_diverged_row_is_never_the_best(tables):
    found = [
        cell
        for cell in tables["gs-infonce-v2_table-2"].cells
        if cell.number.backbone == "bert-base-uncased"
    ]
    changed = [
        with_ours(cell, (99.0,) * 3, "diverged") if cell.number.method == "GS-InfoNCE" else cell
        for cell in found
    ]
    rows = shown_table(changed).rows
    assert not any(isinstance(shown.ours, Bold) for row in rows for shown in row.cells.values())


# Bold in IS-CSE's Table 1, by backbone: the printed averages.
@pytest.mark.parametrize(
    ("backbone", "average"),
    [("bert-base-uncased", "78.30"), ("bert-large-uncased", "79.47"), ("roberta-base", "77.87"),
     ("roberta-large", "80.77")],
)  # fmt: skip
def test_bold_averages_are_those_of_print(tables, backbone, average):
    shown = in_lines(tables["is-cse_table-1"]).query("Backbone == @backbone")
    assert [text for text in shown["Avg"] if isinstance(text, Bold)] == [average]


def test_sweeps_are_grids(tables):
    sweeps = {stem for stem, table in tables.items() if table.is_sweep}
    of_iscse = {f"is-cse_table-{number}" for number in (3, 4, 5, 6, 7)}
    others = {"gs-infonce-v1_table-3", "gs-infonce-v2_table-3", "sscl_table-5", "sscl_table-6"}
    assert sweeps == of_iscse | others
    buffer = in_lines(tables["is-cse_table-4"])
    lengths = [f"L={length}" for length in (256, 512, 1024, 1536, 2048, 3072)]
    assert list(buffer.columns) == ["Backbone", "Method", "Task", "", *lengths]
    assert buffer["L=1024"].tolist() == ["84.18", "79.91"]
    assert set(buffer[""]) == {"printed; – not run"}


def test_lines_of_a_sweep(tables):
    """In GS-InfoNCE's Table 3, M = 0 is SimCSE, in the same line."""
    lines = in_lines(tables["gs-infonce-v2_table-3"])
    assert set(lines["Method"]) == {"GS-InfoNCE (M=0x: SimCSE)", ""}
    assert lines[""].tolist() == ["printed", "ours, official, n = 5"]
    assert lines["M=3x"].tolist() == ["77.63", "75.40 ± 0.40 (n = 3) ≈ 1/56"]
    assert lines["M=8x"].tolist() == ["76.94", "79.00 ± 0.00 (n = 2) ? 3"]
    assert lines["M=1x"].tolist() == ["76.90", "–"]
    bold = [text for text in lines.to_numpy().ravel() if isinstance(text, Bold)]
    assert bold == ["77.63"]  # our best, 79.00, has two seeds
    # Each line of a sweep has a best value of its own.
    rows = tables["sscl_table-6"].rows
    texts = [shown.printed for row in rows for shown in row.cells.values()]
    assert [text for text in texts if isinstance(text, Bold)] == ["76.25", "77.90"]


def test_a_published_checkpoint_is_a_line_of_a_sweep(tmp_path):
    run = {"method": "published", "setting": "paper", "backbone": "none"}
    run |= {"scores": dict.fromkeys(STS_TASKS, 76.25)}
    tables = printed_tables(judge(read_suite(write_suite(tmp_path, [run]))))
    lines = in_lines(tables["gs-infonce-v2_table-3"])
    assert lines[""].tolist() == ["printed; – not run", "published checkpoint"]
    assert lines["M=0x"].tolist() == ["76.25", "76.25 ="]
    assert lines["M=3x"].tolist() == ["77.63", ""]
    assert "= reproduced: " in legend(tables["gs-infonce-v2_table-3"])


def test_a_table_in_every_format():
    row = ["a_b|c", Bold("1.0 ≠"), "50%"]
    shown = pd.DataFrame([row], columns=["x", "y", "z"], dtype=object)
    assert markdown(shown, "C.", "Below.") == (
        "C.\n\n| x | y | z |\n|--------|-----------|-----|\n"
        "| a_b\\|c | **1.0 ≠** | 50% |\n\nBelow.\n"
    )
    text = latex(shown, "All & 100 %", "some", "50 % below.")
    assert "a\\_b\\textbar{}c & \\textbf{1.0 $\\neq$} & 50\\% \\\\" in text
    assert "\\caption{All \\& 100 \\%}" in text
    assert "\\label{tab:some}" in text
    assert "{lrl}" in text
    assert text.index("\\end{tabular}") < text.index("50 \\% below.") < text.index("\\end{table}")
    page = html(shown, "C.", "<below>")
    assert '<td class="number"><b>1.0 ≠</b></td><td class="">50%</td>' in page
    assert '<p class="legend">&lt;below&gt;</p>' in page


def test_the_legend_explains_each_symbol_of_its_table(tables):
    text = legend(tables["gs-infonce-v2_table-3"])
    assert re.findall(r"(\S) ([a-z ]+):", text) == [
        ("≈", "consistent"), ("?", "inconclusive"), ("–", "not run")
    ]  # fmt: skip
    bold = "Bold: the best printed value of a column for each line, and our best, unless it has"
    assert text.endswith(f" {bold} fewer than 3 seeds.")
    assert "Bold" not in legend(tables["gs-infonce-v2_introduction"])
