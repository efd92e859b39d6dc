"""Printed tables and tables over all of them: as they were when somebody last read them
(`rendered/`), as in print, in three formats and in the terminal.

Numbers in `rendered/` are held by tests of `bench.judge`; they hold words, marks, order and
escaping. After a change that is meant, copy what the failure names.
"""

from collections import Counter

import pandas as pd
import pytest

from bench.datasets.metrics import PRINTED
from bench.datasets.tasks import STS_TASKS
from bench.judge.stage import judge_plans, read_suite
from bench.judged.rows import QuotedRow, Score
from bench.report.formats import Bold
from bench.report.printed_table import (
    captioned,
    in_lines,
    legend,
    printed_table,
    printed_tables,
    shown_table,
)
from bench.report.tables import (
    number_frame,
    summaries,
    world_table,
    write_tables,
)
from bench.reported import FOLDER, SOURCES
from tests.support.judged_rows import BASE, judged, measured, number, of_world
from tests.support.refusals import refused
from tests.support.rendered import RENDERED, assert_as_read
from tests.support.synthetic_suite import write_suite
from tests.support.table_suite import TOY, TOY_ENTRIES


@pytest.fixture(scope="module")
def print_alone():
    return judge_plans([])


@pytest.fixture(scope="module")
def out(table_suite, print_alone, tmp_path_factory):
    """The tables of a suite, the captions of all printed tables, and three in the terminal."""
    out = tmp_path_factory.mktemp("tables")
    write_tables(table_suite, out)
    captions = [
        "\n".join([*captioned(print_alone.suite, table), legend(table)])
        for table in printed_tables(print_alone.numbers).values()
    ]
    terminal = [
        printed_table(print_alone, "sscl", "Table 6", print_alone=True),
        printed_table(table_suite, "is-cse", "Table 4"),
        printed_table(table_suite, "is-cse", "Figure 3 text"),
    ]
    (out / "captions.txt").write_text("\n\n".join(captions), encoding="utf-8")
    (out / "terminal.txt").write_text("\n\n".join(terminal), encoding="utf-8")
    return out


@pytest.mark.parametrize(
    "name",
    sorted(
        path.name
        for path in RENDERED.glob("*.*")
        if not path.stem.startswith(("compare", "sts", "transfer"))
    ),
)
def test_a_table_is_what_was_read(out, name):
    assert_as_read(out / name, name)


# --- As in print ---


def test_numbers_have_the_decimals_of_print(print_alone):
    files, result = Counter(), Counter()
    for source in SOURCES:
        for path in FOLDER.glob(f"{source}_*.csv"):
            rows = pd.read_csv(path, dtype=str, keep_default_na=False)
            rows = rows[rows["metric"].isin(list(PRINTED))]  # others are hyper-parameters
            files.update(zip(rows["source"], rows["table"], rows["value"], strict=True))
    for table in printed_tables(print_alone.numbers).values():
        first = table.numbers[0]
        for line in table.rows:
            for cell in line.cells.values():
                result[first.source, first.table, cell.printed] += 1
    assert result == files


def test_each_line_of_a_sweep_has_a_best_value_of_its_own(print_alone):
    tables = printed_tables(print_alone.numbers)
    assert tables["sscl_table-6"].is_sweep
    rows = tables["sscl_table-6"].rows
    assert bold(text.printed for row in rows for text in row.cells.values()) == ["76.25", "77.90"]


# --- Rows and columns ---


def table_of(*numbers):
    """Numbers of one printed table, in the order of print."""
    return [row.model_copy(update={"place": place}) for place, row in enumerate(numbers)]


def bold(texts):
    return [str(text) for text in texts if isinstance(text, Bold)]


SEEDS = [79.0, 79.0, 79.0]


@pytest.mark.parametrize(
    ("scores", "more", "best"),
    [
        ([SEEDS, [78.0] * 3], {}, ["79.00 ± 0.00"]),
        ([SEEDS, [78.0] * 3, [90.0] * 2], {}, []),  # which mean of two seeds is best is chance
        ([SEEDS, [90.0]], {"deterministic": True}, ["90.00"]),
        ([SEEDS, [90.0] * 3], {"kind": "diverged"}, []),  # the others are compared with nothing
        ([SEEDS, [79.001] * 3], {}, []),  # as they are shown, both are equal
        ([SEEDS, [78.0] * 3, SEEDS], {}, ["79.00 ± 0.00", "79.00 ± 0.00"]),
    ],
)
def test_our_best_of_a_column_is_bold(scores, more, best):
    """`more` is of the last row."""
    sides = [measured(values) for values in scores[:-1]] + [measured(scores[-1], **more)]
    rows = [number(70.0 + place, side, variant=str(place)) for place, side in enumerate(sides)]
    table = shown_table(table_of(*rows))
    assert bold(row.cells["Avg"].ours for row in table.rows) == best
    assert bold(row.cells["Avg"].printed for row in table.rows) == [f"{69 + len(rows)}.00"]


@pytest.mark.parametrize(
    ("more", "best"),
    [
        ({}, ["80.00"]),
        ({"backbone": "roberta-base"}, []),
        ({"split": "dev"}, []),
        ({"task": "STS-B"}, []),
        ({"value": 70.0}, []),
        ({"metric": "best_step"}, []),
    ],
)
def test_printed_numbers_compete_within_column_and_backbone(more, best):
    rows = table_of(number(70.0), number(80.0, variant="b"))
    rows[1] = rows[1].model_copy(update=more)
    if "metric" in more:
        rows[0] = rows[0].model_copy(update=more)
    cells = [cell for row in shown_table(rows).rows for cell in row.cells.values()]
    assert bold(cell.printed for cell in cells) == best


def test_a_row_of_a_sweep_alone_has_its_verdict():
    row = number(70.0, measured([71.0]), variant="L=1", line="IS-CSE")
    text = in_lines(shown_table(table_of(row)))
    assert [*text.columns] == ["Backbone", "Method", "", "Avg", "Verdict"]


def test_some_rows_of_a_table_in_the_terminal():
    first = number(76.0, measured([75.0] * 3), address="a")
    rows = table_of(first, number(77.0, variant="b", row="Another", address="b"))
    text = printed_table(judged(numbers=rows), "sscl", "Table 2", {"a"})
    assert "75.00 ± 0.00 ?" in text
    assert "Another" not in text
    assert "reproduce" not in text
    assert "Another" in printed_table(judged(numbers=rows), "sscl", "Table 2")
    refused(
        lambda: printed_table(judged(numbers=rows), "sscl", "Table 3"),
        "sscl, Table 3 prints hyper-parameters alone",
    )


# --- Files ---


def test_every_comparable_table_in_three_formats_with_unrounded_numbers(table_suite, out):
    """Most printed tables of a small suite would hold print alone."""
    tables = printed_tables(table_suite.numbers)
    comparable = {stem for stem, table in tables.items() if table.is_comparable}
    assert {"gs-infonce-v1_table-2", "is-cse_table-1"} <= comparable
    assert "is-cse_table-7" in tables.keys() - comparable
    for suffix in ("csv", "md", "tex"):
        stems = {path.stem for path in out.glob(f"*.{suffix}")} - {"cells"}
        assert stems == comparable | {"quoted_sts"}
    read = pd.read_csv(out / "cells.csv")
    assert len(read) == len(table_suite.numbers)
    means = [row.ours.mean for row in table_suite.numbers if row.ours.n]
    assert read["mean"].dropna().tolist() == means


def test_where_nothing_is_comparable_every_number_is_in_one_file_without_a_difference(tmp_path):
    """Mutations caught: tables of papers in a toy suite; a difference from print of what cannot
    be compared."""
    toy = read_suite(write_suite(tmp_path / "toy", TOY_ENTRIES, **TOY))
    write_tables(toy.model_copy(update={"world": ()}), tmp_path / "tables")
    assert [path.name for path in (tmp_path / "tables").iterdir()] == ["cells.csv"]
    read = pd.read_csv(tmp_path / "tables" / "cells.csv")
    assert set(read["verdict"]) == {"not comparable", "not run"}
    of_ours = read[read["verdict"] == "not comparable"]
    assert of_ours["mean"].notna().all()
    assert of_ours["difference"].isna().all()
    assert summaries(toy) == []


def test_the_frame_of_numbers_keeps_what_is_missing():
    frame = number_frame([number(76.0), number(77.0, measured([75.0, 76.0]))])
    assert frame["ours"].tolist() == [(), (75.0, 76.0)]
    assert frame["n"].tolist() == [0, 2]
    assert frame[["mean", "sd", "tolerance", "other_mean"]].dtypes.tolist() == [float] * 4
    assert frame["mean"].isna().tolist() == [True, False]
    assert frame["difference"].iloc[1] == -1.5


# --- Over all tables ---


def quoted(name, **more):
    printed = dict.fromkeys((*STS_TASKS, "Avg"), "71.71 ± 4.04")
    place = {"leaderboard": "sts", "backbone": BASE, "quoted_from": "a file"}
    return QuotedRow(**place, name=name, printed=printed, **more)


def test_our_line_follows_the_quoted_one_of_the_same_run():
    ours = [Score(task=task, scores=[74.0, 76.0]) for task in (*STS_TASKS, "Avg")]
    rows = [quoted("DCLR"), quoted("MixCSE", setting="official", n=2, ours=ours), quoted("ArcCSE")]
    (summary,) = summaries(judged(quoted=rows))
    assert summary.title == "Quoted scores: STS"
    lines = [line[:4] for line in summary.table.texts]
    assert lines == [
        [BASE, "DCLR", "quoted", "71.71 ± 4.04"],
        [BASE, "MixCSE", "quoted", "71.71 ± 4.04"],
        [BASE, "MixCSE", "ours, official, n = 2", "75.00 ± 1.41"],
        [BASE, "ArcCSE", "quoted", "71.71 ± 4.04"],
    ]
    assert list(summary.table.columns) == list(summary.numbers)
    assert summaries(judged(quoted=rows[:1])) == []


def test_a_run_of_the_world_is_a_line_with_its_furthest_score():
    rows = [
        of_world("STS12", "reproduced", 60.1),
        of_world("STS13", "lower", 58.0),
        of_world("STS14", "reproduced", 60.2),
        of_world("STS12", "not run", None, seed=None),
    ]
    table = world_table(rows)
    counts = "2 as on the reference machine, 1 lower"
    assert table.table.texts == [
        ["simcse@official", "toy-bert", "1", "3", counts, "STS13 -2.000, tolerance 0.50"],
        ["simcse@official", "toy-bert", "–", "1", "1 not run", "–"],
    ]
    assert table.numbers["seed"].tolist() == [1, 1, 1, pd.NA]
    assert table.numbers["verdict"].tolist()[1:] == [
        "lower",
        "as on the reference machine",
        "not run",
    ]
