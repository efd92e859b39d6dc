"""Comparisons with a baseline: lines, order, captions, and files."""

import re

import pandas as pd
import pytest

from bench.judge.stage import compared, read_suite
from bench.report.comparison_table import (
    comparison_legend,
    line_of,
    pairs_frame,
    printed_frame,
    two_compared,
    write_comparisons,
)
from bench.report.page import page_content
from tests.support.judged_rows import (
    BASE,
    WHY,
    WITH_BASELINE,
    claim,
    heading,
    leaderboard,
    pair,
    printed_gain,
)
from tests.support.rendered import assert_as_read
from tests.support.synthetic_suite import seeds, write_suite

SUITE = heading(**WITH_BASELINE)


@pytest.fixture(scope="module")
def tables(table_suite, tmp_path_factory):
    folder = tmp_path_factory.mktemp("suite")
    chosen = compared(table_suite, "simcse@official", ["gs-infonce@official"])
    write_comparisons(table_suite.suite, compared(table_suite, "simcse@official"), folder)
    text = two_compared(table_suite.suite, chosen, "A - B is not a claim of this suite")
    (folder / "compare_gs-infonce.txt").write_text(text, encoding="utf-8")
    return folder


@pytest.mark.parametrize("name", ["compare.md", "compare_gs-infonce.txt"])
def test_a_table_is_what_was_read(tables, name):
    assert_as_read(tables / name, name)


def written(suite, pairs, folder):
    """The headings and rows of compare.md, by heading."""
    write_comparisons(suite, pairs, folder)
    text = (folder / "compare.md").read_text(encoding="utf-8")
    lines = [re.split(r" *\| *", line.strip("| ")) for line in re.findall(r"^\|.*$", text, re.M)]
    return [dict(zip(lines[0], line, strict=False)) for line in (lines[0], *lines[2:])]


# --- Lines ---


def test_encoders_without_seeds_are_compared_over_items():
    pairs = [pair("sscl", [0.1], kind="items", items=12345, sd_a=None, difference=None)]
    texts = {"pairs": "12,345 items", "A": "75.10", "B": "75.00 ± 0.40", "A - B": "–"}
    assert line_of(pairs[0]).items() >= texts.items()
    assert comparison_legend(SUITE, pairs)[0].startswith(
        "Where A and B have no seeds, pairs is the number of test items"
    )


def test_what_is_not_claimed_has_no_word():
    claimed = claim("sscl", [1.0], verdict="gain below the margin", p_adjusted=0.2, p_below=0.0004)
    texts = {"p": "0.200", "p, margin": "< 0.001"}
    assert line_of(claimed).items() >= (texts | {"Verdict": "< gain below the margin"}).items()
    texts = dict.fromkeys(texts, "–") | {"Verdict": ""}
    assert line_of(pair("sscl", [1.0])).items() >= texts.items()


@pytest.mark.parametrize("row", [claim("sscl", [1.0]), pair("sscl", [1.0])])
def test_a_table_without_words_has_no_column_for_them(row, tmp_path):
    words = ["p", "p, margin", "Verdict"] if row.verdict else []
    assert [*written(SUITE, [row], tmp_path)[0].values()][4:] == ["A - B", *words]


# --- Order ---


@pytest.mark.parametrize("task", ["Avg", "STS12"])
def test_comparisons_are_ordered_by_their_difference(task, tmp_path):
    """Of several methods averages are shown, if there are any; controls are last."""
    differences = {"a": 0.5, "b": 2.0, "c": -1.0, "d": 0.0}
    pairs = [pair(name, [value], task=task) for name, value in differences.items()]
    pairs.append(pair("none", [0.0], task=task, difference=None))
    pairs.append(pair("control", [9.0], task=task, labelled=True))
    if task == "Avg":
        pairs += [pair(name, [-value], task="STS12") for name, value in differences.items()]
    names = [row["Method"].partition(",")[0] for row in written(SUITE, pairs, tmp_path)[1:]]
    assert names == ["b", "a", "d", "c", "none", "control"]


def test_words_over_items_say_nothing_of_other_trainings():
    row = pair("sscl", [1.0], verdict="lower")
    caption = "\n".join(comparison_legend(SUITE.changed(families=0), [row]))
    assert "▽ lower: on other test items, at 5 %; nothing is said of" in caption


# --- Files ---


def test_files_have_every_task_and_printed_numbers_single_tasks_first(tmp_path):
    own = {"printed": [printed_gain(77.9, 76.25)]}
    pairs = [pair("sscl", [1.0, 2.0], task="STS12"), claim("sscl", [1.0], **own),
             pair("is-cse", [0.5], task="STS12", **own), pair("is-cse", [0.5], outside=True),
             pair("sscl", [3.0], leaderboard="transfer")]  # fmt: skip
    suite = heading(leaderboard(), leaderboard("transfer"), **WITH_BASELINE)
    write_comparisons(suite, pairs, tmp_path / "tables")
    read = pd.read_csv(tmp_path / "tables" / "compare.csv")
    assert read["task"].tolist() == ["STS12", "Avg", "STS12", "Avg"]
    assert read.loc[0, "differences"] == "1.0 2.0"
    assert read["reason"].dropna().tolist() == [WHY]
    source = (tmp_path / "tables" / "compare.tex").read_text()
    assert f"sscl, official, {BASE}, Avg: open; {WHY}" in source
    assert read["label"].tolist()[3] == "is-cse (outside encoder)"
    assert (tmp_path / "tables" / "compare_transfer.csv").is_file()
    printed = pd.read_csv(tmp_path / "tables" / "compare_printed.csv")
    assert printed[["method", "task"]].to_numpy().tolist() == [["is-cse", "STS12"], ["sscl", "Avg"]]


def test_frames_have_whole_numbers_and_columns_without_rows():
    pairs = [claim("sscl", [1.0]), pair("is-cse", [1.0])]
    assert pairs_frame(pairs)["next_look"].tolist() == [2, pd.NA]
    assert printed_frame(pairs).columns.tolist()[5:8] == ["source", "table", "printed_on"]


# --- Tasks of a user ---


def test_tasks_of_ones_own_have_a_place_on_the_page(tmp_path):
    tasks = ["sts:weather", "sts:law"]
    runs = seeds("sscl", [dict.fromkeys(tasks, 60.0)], tasks=tasks)
    mine = read_suite(write_suite(tmp_path, runs, data="mine"))
    (section,) = page_content(mine, "scores")["leaderboards"]
    assert section.leaderboard.name == "own_sts"  # STS: no row
