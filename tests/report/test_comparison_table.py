"""Comparisons with a baseline: lines, order, captions, and files."""

from pathlib import Path

import pandas as pd
import pytest

from bench.datasets.tasks import STS_TASKS
from bench.judge.stage import compared, read_suite
from bench.report.comparison_table import (
    caption,
    claims_frame,
    line_of,
    pairs_frame,
    render_versus,
    shown,
)
from bench.report.page import page_content
from tests.support.judged_rows import BASE, WITH_BASELINE, board, claim, heading, pair
from tests.support.synthetic_suite import seeds, write_suite
from tests.support.table_suite import ENTRIES

RENDERED = Path(__file__).with_name("rendered")
SUITE = heading(**WITH_BASELINE)


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    folder = tmp_path_factory.mktemp("suite")
    suite = read_suite(write_suite(folder, ENTRIES))
    chosen = compared(suite, "simcse", ["gs-infonce"])
    texts = {
        "compare.txt": render_versus(suite.suite, compared(suite, "simcse"), folder),
        "compare_gs-infonce.txt": render_versus(suite.suite, chosen, filtered=True),
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


@pytest.mark.parametrize("name", ["compare.md", "compare.txt", "compare_gs-infonce.txt"])
def test_a_table_is_what_was_read(tables, name):
    expected = (RENDERED / name).read_text(encoding="utf-8")
    assert (tables / name).read_text(encoding="utf-8") == expected, f"written to {tables / name}"


# --- Lines ---


@pytest.mark.parametrize(
    ("more", "texts"),
    [
        ({}, {"n": "3", "A": "75.10 ± 0.50", "B": "75.00 ± 0.40", "A - B": "+0.10 ± 0.50",
              "p, Holm": "0.400", "Verdict": "? undecided: about 8 seeds would decide"}),
        ({"verdict": "better", "p_adjusted": 0.0002}, {"p, Holm": "< 0.001",
                                                       "Verdict": "↑ better"}),
        ({"kind": "items", "items": 12345, "sd_a": None}, {"n": "12,345 items", "A": "75.10"}),
        ({"difference": None, "mean_a": None, "p_adjusted": None},
         {"A": "–", "A - B": "–", "p, Holm": "–"}),
    ],
)  # fmt: skip
def test_a_comparison_as_texts(more, texts):
    assert line_of(pair("sscl", [0.1] * 3, **more)).items() >= texts.items()


def test_papers_that_agree_share_a_line_and_others_have_their_own():
    part = {"part": 0.5, "part_low": 0.25, "part_high": 0.75}
    claims = [claim(77.9, 76.25, **part, seeds_claimed=5), claim(78.5, None),
              claim(77.9, 76.25, source="is-cse", table="Table 1")]  # fmt: skip
    table = shown([pair("sscl", [1.0], claims=claims), pair("is-cse", [1.0])])
    assert list(table.columns)[-5:] == ["A, print", "B, print", "A - B, print", "Part", "Source"]
    assert [line[:2] + line[-5:] for line in table.texts] == [
        [BASE, "sscl, official", "77.90", "76.25", "+1.65 (5 needed)", "0.50 [0.25, 0.75]",
         "sscl, Table 2; is-cse, Table 1"],
        ["", "", "78.50", "–", "–", "–", "sscl, Table 2"],
        [BASE, "is-cse, official", "", "", "", "", ""],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("pairs", "columns", "words"),
    [
        ([pair("sscl", [1.0]), pair("is-cse", [1.0])], ["Method"],
         "Avg of every method on its backbones (A)"),
        ([pair("sscl", [1.0]), pair("sscl", [1.0], task="STS12")], ["Task"],
         "s: sscl, official (A)"),
        ([pair("sscl", [1.0])], ["Task"], "s: sscl, official (A)"),
        ([pair("sscl", [1.0], task="STS12"), pair("is-cse", [1.0])], ["Method", "Task"],
         "s: every method on its backbones (A)"),
    ],
)  # fmt: skip
def test_columns_and_caption_name_methods_and_tasks_that_differ(pairs, columns, words):
    assert [name for name in shown(pairs).columns if name in ("Method", "Task")] == columns
    assert words in caption(SUITE, pairs)


# --- Order ---


def order(text):
    return [line.split()[1] for line in text.splitlines() if line.startswith(BASE)]


@pytest.mark.parametrize("task", ["Avg", "STS12"])
def test_comparisons_are_ordered_by_their_difference(task):
    """Of several methods averages are shown, if there are any; controls are last."""
    differences = {"a": 0.5, "b": 2.0, "c": -1.0, "d": 0.0}
    pairs = [pair(name, [value], task=task) for name, value in differences.items()]
    pairs.append(pair("none", [0.0], task=task, difference=None))
    pairs.append(pair("control", [9.0], task=task, labelled=True))
    if task == "Avg":
        pairs += [pair(name, [-value], task="STS12") for name, value in differences.items()]
    names = [name.rstrip(",") for name in order(render_versus(SUITE, pairs))]
    assert names == ["b", "a", "d", "c", "none", "control"]


def test_all_tasks_of_one_method_are_in_their_order():
    pairs = [pair("sscl", [place], task=task) for place, task in enumerate([*STS_TASKS, "Avg"])]
    assert order(render_versus(SUITE, pairs)) == [*STS_TASKS, "Avg"]


# --- Captions ---


def test_a_caption_shows_each_prior_of_the_spreads_once():
    prior = {"prior_sd": 0.345, "prior_df": 4.04}
    pairs = [pair("sscl", [1.0], **prior), pair("is-cse", [1.0], **prior), pair("dclr", [1.0]),
             pair("sscl", [1.0], backbone="roberta-base", **prior)]  # fmt: skip
    assert (
        "of the other methods, a prior of 0.34 points with 4.0 degrees of freedom "
        f"({BASE}, Avg), 0.34 points with 4.0 degrees of freedom (roberta-base, Avg). ↑ better"
    ) in caption(SUITE, pairs)
    assert "prior" not in caption(SUITE, pairs[2:3])


FAMILY = "The correction is for all methods of the suite against SimCSE, official, shown or not."


@pytest.mark.parametrize(
    ("filtered", "more", "words", "absent"),
    [
        (False, {}, "n seeds that both have; A - B: mean of their differences", FAMILY),
        (True, {}, f"? undecided. {FAMILY}", "test items"),
        (False, {"kind": "items"}, "A and B have no seeds, n is the number of test items;",
         "that both have"),
        (False, {"claims": [claim(77.9, 76.25)]}, "last columns are the printed numbers", FAMILY),
    ],
)  # fmt: skip
def test_a_caption_says_how_it_is_decided(filtered, more, words, absent):
    pairs = [pair("sscl", [1.0], **more), pair("is-cse", [1.0], **more)]
    text = caption(SUITE, pairs, filtered)
    assert words in text
    assert absent not in text


# --- Files ---


def test_files_have_every_task_and_printed_numbers_single_tasks_first(tmp_path):
    own = {"claims": [claim(77.9, 76.25)]}
    pairs = [pair("sscl", [1.0, 2.0], task="STS12", prior_sd=0.5, prior_df=4.5),
             pair("sscl", [1.0], **own), pair("is-cse", [0.5], task="STS12", **own),
             pair("is-cse", [0.5], outside=True),
             pair("sscl", [3.0], board="transfer", seeds=None)]  # fmt: skip
    suite = heading(board(), board("transfer"), **WITH_BASELINE)
    render_versus(suite, pairs, tmp_path / "tables", tmp_path / "figures")
    stems = ["compare", "compare_printed", "compare_transfer"]
    assert sorted(path.stem for path in (tmp_path / "tables").glob("*.csv")) == stems
    assert sorted(path.stem for path in (tmp_path / "figures").glob("*.csv")) == stems[::2]
    read = pd.read_csv(tmp_path / "tables" / "compare.csv")
    assert read["task"].tolist() == ["STS12", "Avg", "STS12", "Avg"]
    assert read.loc[0, ["differences", "prior_df"]].tolist() == ["1.0 2.0", 4.5]
    assert read["label"].tolist()[3] == "is-cse (outside encoder)"
    assert not {"runs", "claims", "baseline_name", "outside"} & {*read}
    printed = pd.read_csv(tmp_path / "tables" / "compare_printed.csv")
    assert printed[["method", "task"]].to_numpy().tolist() == [["is-cse", "STS12"], ["sscl", "Avg"]]


def test_frames_have_whole_numbers_and_columns_without_rows():
    pairs = [pair("sscl", [1.0]), pair("is-cse", [1.0], seeds=None)]
    assert pairs_frame(pairs)["seeds"].tolist() == [8, pd.NA]
    assert pairs_frame(pairs)["prior_df"].dtype == int  # nothing has a prior
    assert claims_frame(pairs).columns.tolist() == [
        "board", "backbone", "method", "setting", "task", "source", "table", "printed_on",
        "printed_a", "printed_b", "claimed", "part", "part_low", "part_high", "seeds_claimed",
    ]  # fmt: skip


# --- Tasks of a user ---


def test_tasks_of_ones_own_have_tables_comparisons_and_a_place_on_the_page(tmp_path):
    own = {"task": "probing:negation", "metric": "accuracy", "aggregation": "all"}
    tasks = ["sts:weather", "sts:law", "probing:negation"]
    runs = []
    for method, low, probed in (("simcse", 50.0, 80.0), ("sscl", 60.0, 81.0)):
        scores = ((low, low + 4), (low + 2, low))
        rows = [dict(zip(tasks, values, strict=False)) for values in scores]
        runs += seeds(method, rows, tasks=tasks, records=[own | {"value": probed}])
    mine = read_suite(write_suite(tmp_path, runs, data="mine"))
    rows = mine.board_systems("own_sts")
    assert [row.method for row in rows] == ["sscl", "simcse"]
    means = [rows[0].score(task).mean for task in ("sts:weather", "sts:law", "Avg")]
    assert means == [61.0, 62.0, 61.5]
    probing = mine.board_systems("own_probing")
    assert [row.score("probing:negation").mean for row in probing] == [81.0, 80.0]
    assert mine.suite.board("own_probing").columns == ["probing:negation"]
    found = {(pair.board, pair.task): pair.difference for pair in compared(mine, "simcse")}
    assert found["own_sts", "sts:weather"] == found["own_sts", "Avg"] == 10.0
    assert found["own_probing", "probing:negation"] == 1.0
    shown_boards = page_content(mine, "scores")["boards"]
    assert [entry["stem"] for entry in shown_boards] == ["own_sts", "own_probing"]  # STS: no row
