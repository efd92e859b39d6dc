"""Tables: as they were when somebody last read them (`rendered/`), as in print, in four formats.

Numbers in `rendered/` are held by tests of `bench.judge`; they hold words, marks, order and
escaping. After a change that is meant, copy what the failure names.
"""

import re
from pathlib import Path

import numpy as np
import pytest

from bench.datasets.tasks import STS_TASKS
from bench.judge.against_baseline import against
from bench.judge.reproduction import judge, leaderboard
from bench.report.comparison_table import render_versus, shown
from bench.report.figures.compared import board_figure
from bench.report.leaderboard import (
    caption,
    columns,
    leaderboards,
    shown_leaderboard,
    write_leaderboards,
)
from bench.report.page import page_content
from bench.results.suite_results import read_suite
from tests.support.compared_runs import each, scored, suite
from tests.support.synthetic_suite import seeds, with_plan, write_suite
from tests.support.table_suite import BASE, ENTRIES, TOY, TOY_ENTRIES

RENDERED = Path(__file__).with_name("rendered")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A suite and its tables."""
    folder = write_suite(tmp_path_factory.mktemp("suite"), ENTRIES)
    own = read_suite(folder)
    compared = against(own, "simcse")
    own = with_plan(own, baseline="simcse")
    write_leaderboards(own, leaderboards(own, compared[0]), folder / "tables")
    render_versus(own, *compared, folder / "tables")
    smoke = read_suite(write_suite(folder / "smoke", TOY_ENTRIES, **TOY))
    write_leaderboards(smoke, leaderboards(smoke, None), folder / "tables" / "toy")
    texts = {
        "compare": render_versus(own, *compared),
        "compare_gs-infonce": render_versus(own, *against(own, "simcse", ["gs-infonce"])),
    }
    for name, text in texts.items():
        (folder / "tables" / f"{name}.txt").write_text(text, encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    "name",
    sorted(
        path.relative_to(RENDERED).as_posix()
        for path in RENDERED.rglob("*.*")
        if path.stem.startswith(("compare", "sts"))
    ),
)
def test_a_table_is_what_was_read(folder, name):
    written = folder / "tables" / name
    expected = (RENDERED / name).read_text(encoding="utf-8")
    assert written.read_text(encoding="utf-8") == expected, f"written to {written}"


# --- Files ---


def test_only_planned_tasks_are_columns(tmp_path):
    rows = [{"STS-B": value, "SICK-R": value - 10} for value in (70.0, 72.0)]
    own = read_suite(write_suite(tmp_path, seeds("simcse", rows, tasks=["STS-B", "SICK-R"])))
    board = leaderboard(own)
    table = shown_leaderboard(own, "sts", board)
    assert list(table.columns) == ["Backbone", "Method", "n", "STS-B", "SICK-R"]
    assert table["SICK-R"].tolist() == ["61.00 ± 1.41"]
    text = caption(own, "sts", board)
    assert text.startswith(f"Suite paper on {BASE}: Spearman x 100 on STS-B and SICK-R, mean ±")
    (panel,) = board_figure(own, board).axes
    assert [65.0, 67.0] in [list(line.get_xdata()) for line in panel.get_lines()]
    quick = with_plan(own, mode="dev")
    assert caption(quick, "sts", board) == text
    assert "over n seeds, classifiers of mode dev." in caption(quick, "transfer", board)


def test_tasks_of_ones_own_have_tables_comparisons_and_a_place_on_the_page(tmp_path):
    own = {"task": "probing:negation", "metric": "accuracy", "aggregation": "all"}
    tasks = ["sts:weather", "sts:law", "probing:negation"]
    runs = []
    for method, low, probed in (("simcse", 50.0, 80.0), ("sscl", 60.0, 81.0)):
        scores = ((low, low + 4), (low + 2, low))
        rows = [dict(zip(tasks, values, strict=False)) for values in scores]
        runs += seeds(method, rows, tasks=tasks, records=[own | {"value": probed}])
    mine = read_suite(write_suite(tmp_path, runs, data="mine"))
    board = leaderboard(mine, "own_sts").set_index("method")
    assert list(board.index) == ["sscl", "simcse"]
    assert board.loc["sscl", ["sts:weather", "sts:law", "Avg"]].to_list() == [61.0, 62.0, 61.5]
    assert leaderboard(mine, "own_probing")["probing:negation"].to_list() == [81.0, 80.0]
    assert columns(mine, "own_probing") == ["probing:negation"]
    frame, _ = against(mine, "simcse")
    found = frame.set_index(["board", "task"])["difference"]
    assert found["own_sts"][["sts:weather", "Avg"]].tolist() == [10.0, 10.0]
    assert found["own_probing", "probing:negation"] == 1.0
    shown = page_content(mine, judge(mine), [], leaderboards(mine, None), "scores")["boards"]
    assert [board["stem"] for board in shown] == ["own_sts", "own_probing"]  # STS has no row


# --- Beside a baseline ---


@pytest.fixture(scope="module", params=[("MR", "CR"), STS_TASKS], ids=["tasks", "averages"])
def many(request):
    """Sixteen methods beside SimCSE: the first frame of `against`, and the table. Without all tasks
    of its board there is no average."""
    rng = np.random.default_rng(3)
    metric = "accuracy" if "MR" in request.param else "spearman"
    runs = []
    for method in ("simcse", *(f"simcse[batch_size={size}]" for size in range(1, 17))):
        for seed, row in enumerate(rng.normal(70, 1, (3, len(request.param)))):
            scores = dict(zip(request.param, row, strict=True))
            runs.append(scored(method, seed, scores, metric=metric))
    own = suite(*runs)
    frame, claims = against(own, "simcse")
    return frame, render_versus(own, frame, claims)


def test_comparisons_are_ordered_by_their_difference(many):
    frame, text = many
    tasks = ["Avg"] if "Avg" in set(frame["task"]) else [*dict.fromkeys(frame["task"])]
    lines = [line for line in text.splitlines() if line.startswith(BASE)]
    found = [float(re.search(r"([+-][\d.]+) ±", line)[1]) for line in lines]
    ordered = [sorted(frame.loc[frame["task"] == task, "difference"])[::-1] for task in tasks]
    assert found == pytest.approx(np.ravel(ordered), abs=0.006)


def test_the_caption_shows_the_prior_of_the_spreads(many):
    frame, text = many
    shown = frame[frame["task"] == "Avg"] if "Avg" in set(frame["task"]) else frame
    for task, rows in shown.groupby("task"):
        sd, df = rows.iloc[0][["prior_sd", "prior_df"]]
        words = f"{sd:.2f} points with {df:.1f} degrees of freedom ({BASE}, {task})"
        assert "".join(words.split()) in "".join(text.split())  # lines break at hyphens, too


def test_papers_that_agree_share_a_line_and_others_have_their_own():
    large = "bert-large-uncased"  # two versions of a paper print 79.13 and 78.96
    frame, claims = against(suite(*each("gs-infonce simcse", backbone=large)), "simcse")
    own = claims[claims["task"] == "Avg"]
    lines = shown(frame[frame["task"] == "Avg"], own)
    assert len(lines) == len(own[["printed_a", "printed_b"]].drop_duplicates()) > 1
    assert list(lines["Backbone"]) == [large] + [""] * (len(lines) - 1)
    assert sum(text.count(",") for text in lines["Source"]) == len(own)
