"""Printed tables as in print: order, names, decimals, bold type, sweeps as grids."""

import csv
import re
from collections import Counter, defaultdict

import pytest

from bench.comparison.reproduction import frame, judge
from bench.datasets.tasks import STS_TASKS
from bench.report.formats import Bold
from bench.report.printed_table import (
    ShownTable,
    in_lines,
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


def test_bold_averages_are_those_of_print(tables):
    shown = in_lines(tables["is-cse_table-1"])
    pairs = zip(shown["Backbone"], shown["Avg"], strict=True)
    bold = [(backbone, text) for backbone, text in pairs if isinstance(text, Bold)]
    assert bold == [
        ("bert-base-uncased", "78.30"), ("bert-large-uncased", "79.47"),
        ("roberta-base", "77.87"), ("roberta-large", "80.77"),
    ]  # fmt: skip


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
    # Each line of a sweep has a best value of its own.
    rows = tables["sscl_table-6"].rows
    texts = [shown.printed for row in rows for shown in row.cells.values()]
    assert [text for text in texts if isinstance(text, Bold)] == ["76.25", "77.90"]
