"""Tables: as they were when somebody last read them (`rendered/`), as in print, in four formats.

Numbers in `rendered/` are held by tests of `bench.judge`; they hold words, marks, order and
escaping. After a change that is meant, copy what the failure names.
"""

import csv
import re
from collections import Counter, defaultdict
from math import isnan
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bench.datasets.tasks import STS_TASKS
from bench.judge.against_baseline import against
from bench.judge.reproduction import judge, leaderboard
from bench.report.comparison_table import render_versus, shown
from bench.report.figures.compared import board_figure
from bench.report.formats import Bold
from bench.report.leaderboard import (
    caption,
    columns,
    leaderboards,
    shown_leaderboard,
    write_leaderboards,
)
from bench.report.page import page_content
from bench.report.printed_table import NOTHING_RUN, captioned, in_lines, legend, printed_tables
from bench.report.tables import summaries, write_tables
from bench.reported import FOLDER, SOURCES
from bench.reported.address import printed_names
from bench.reported.number import numbers
from bench.results.suite_results import read_suite
from tests.support.compared_runs import each, scored, suite
from tests.support.synthetic_suite import seeds, with_plan, write_suite

RENDERED = Path(__file__).with_name("rendered")
BASE = "bert-base-uncased"
NASTY = "<script>alert(1)</script> & 50% of_it | {\\x}"
# SimCSE on bert-base as printed (Gao et al. 2021, Table 5).
PRINTED = dict(zip(STS_TASKS, (68.40, 82.41, 74.38, 80.91, 78.56, 76.85, 72.23), strict=True))


TWO_TASKS = {"STS-B": 70.0, "SICK-R": 60.0}
# Two seeds of `sscl` are above five of SimCSE; one score of `is-cse` has fewer seeds than its row.
ENTRIES = [
    *seeds("simcse", [75.0, 75.4, 75.8, 76.2, 76.6], label="SimCSE"),
    *seeds("simcse", [75.0, 75.4], setting="paper", label="SimCSE"),
    *seeds("gs-infonce", [75.4 + step for step in (-2, -1, 0, 1, 2) * 2]),
    *seeds("gs-infonce[multiple=8]", [79.0, 79.0]),
    {"method": "gs-infonce", "seed": 0, "backbone": "bert-large-uncased", "status": "diverged",
     "reason": "loss is nan"},
    *[run | {"outcome": {"best_step": 1250 + 250 * run["seed"]}}
      for run in seeds("sscl", [79.0, 80.0])],
    *seeds("is-cse", [{"STS-B": 84.0, "SICK-R": 78.0, "STS12": 70.0}, TWO_TASKS]),
    *seeds("is-cse", [77.0, 78.0, 79.0], backbone="roberta-base"),
    *seeds("simcse", [76.0, 77.0, 77.5], backbone="roberta-base", label="SimCSE"),
    *seeds("simcse", [TWO_TASKS] * 2, backbone="roberta-large", label="SimCSE"),
    {"method": "untrained", "setting": "paper", "scores": 56.7},
    {"method": "published", "setting": "paper", "backbone": "none",
     "scores": {task: value + 0.05 for task, value in PRINTED.items()}},
    {"method": "word-overlap", "setting": "paper", "backbone": "none", "label": NASTY,
     "scores": 40.0},
]  # fmt: skip
TOY = {"name": "smoke", "data": "world", "stand_ins": {BASE: "toy-bert"}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A suite and its tables."""
    folder = write_suite(tmp_path_factory.mktemp("suite"), ENTRIES)
    own = read_suite(folder)
    compared = against(own, "simcse")
    own = with_plan(own, baseline="simcse")
    write_tables(own, judge(own), [], folder / "tables")
    write_leaderboards(own, leaderboards(own, compared[0]), folder / "tables")
    render_versus(own, *compared, folder / "tables")
    toy = {"backbone": "toy-bert", "corpus": "world"}
    runs = [*seeds("simcse", [60.0, 61.0], **toy), *seeds("is-cse", [62.0, 63.0], **toy)]
    runs += seeds("sscl", [61.0, 62.0], **toy)
    smoke = read_suite(write_suite(folder / "smoke", runs, **TOY))
    write_tables(smoke, judge(smoke), [], folder / "tables" / "toy")
    write_leaderboards(smoke, leaderboards(smoke, None), folder / "tables" / "toy")
    texts = {
        "compare": render_versus(own, *compared),
        "compare_gs-infonce": render_versus(own, *against(own, "simcse", ["gs-infonce"])),
        "captions": "\n\n".join(
            f"{captioned(NOTHING_RUN, table)}\n{legend(table)}"
            for table in printed_tables(judge(NOTHING_RUN)).values()
        ),
    }
    for name, text in texts.items():
        (folder / "tables" / f"{name}.txt").write_text(text, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def all_cells(folder):
    return judge(read_suite(folder))


@pytest.fixture(scope="module")
def tables(all_cells):
    return printed_tables(all_cells)


@pytest.mark.parametrize(
    "name", sorted(path.relative_to(RENDERED).as_posix() for path in RENDERED.rglob("*.*"))
)
def test_a_table_is_what_was_read(folder, name):
    written = folder / "tables" / name
    expected = (RENDERED / name).read_text(encoding="utf-8")
    assert written.read_text(encoding="utf-8") == expected, f"written to {written}"


# --- As in print ---


def test_numbers_have_the_decimals_of_print(tables):
    files = defaultdict(Counter)
    for path in FOLDER.glob("*.csv"):
        if path.stem.partition("_")[0] in SOURCES:
            with path.open(encoding="utf-8", newline="") as file:
                for row in csv.DictReader(file):
                    files[row["source"], row["table"]][row["value"]] += 1
    for table in tables.values():
        metrics = {cell.number.metric for cell in table.cells}
        found = [cell.printed for row in table.rows for cell in row.cells.values()]
        place = table.source, table.name
        found += [n.text for n in numbers() if (n.source, n.table) == place
                  and n.metric not in metrics]  # fmt: skip
        assert Counter(found) == files[place]


def test_names_of_rows_are_those_of_print():
    """A name contains the method of its row, and the size of its backbone if it has one."""
    for (_, _, method, backbone, _), name in printed_names().items():
        plain = re.sub(r"_(base|large)", "", name).lower()
        assert method.rpartition("+")[2].lower().split("-")[-1] in plain, (method, name)
        for size in ("base", "large"):
            assert f"_{size}" not in name or size in backbone
    assert len(printed_names()) == 2 * 8 + 25 + 11 + 17 + 12 + 12


def test_tables_have_the_columns_of_print_and_sweeps_are_grids(tables):
    assert tables["sscl_table-4"].columns == ["Depth", "Length", "CoordinationInversion"]
    assert tables["gs-infonce-v2_main-results"].columns == ["STS-B", "Avg"]
    assert tables["is-cse_table-1"].columns == [*STS_TASKS, "Avg"]
    sweeps = {stem for stem, table in tables.items() if table.is_sweep}
    of_iscse = {f"is-cse_table-{number}" for number in (3, 4, 5, 6, 7)}
    others = {"gs-infonce-v1_table-3", "gs-infonce-v2_table-3", "sscl_table-5", "sscl_table-6"}
    assert sweeps == of_iscse | others
    lengths = [f"L={length}" for length in (256, 512, 1024, 1536, 2048, 3072)]
    assert tables["is-cse_table-4"].columns == lengths
    # Each line of a sweep has a best value of its own.
    rows = tables["sscl_table-6"].rows
    texts = [shown.printed for row in rows for shown in row.cells.values()]
    assert [text for text in texts if isinstance(text, Bold)] == ["76.25", "77.90"]
    names = in_lines(tables["is-cse_figure-3-text"])["Method"]
    assert {name.rpartition(", ")[2] for name in names if name} == {"rise", "fall"}


def test_the_best_of_each_column_and_backbone_is_bold(tables):
    for table in tables.values():
        columns = defaultdict(list)
        for row in table.rows * (not table.is_sweep):
            for cell in row.cells.values():
                number = cell.cell.number
                columns[number.backbone, number.task, number.split, number.metric].append(cell)
        for (*_, metric), column in columns.items():
            ours = [cell.cell.ours for cell in column]
            printed = [(cell.cell.number.value, cell.printed, True) for cell in column]
            # Which mean of fewer seeds is best would be chance.
            measured = [
                (round(line.mean, 2), cell.ours, line.n >= 3 or line.deterministic)
                for line, cell in zip(ours, column, strict=True)
            ]
            for shown_values in (printed, measured):
                known = {value for value, *_ in shown_values if not isnan(value)}
                has_best = len(known) > 1 and metric in ("spearman", "accuracy")
                for value, text, certain in shown_values:
                    is_best = has_best and certain and value == max(known)
                    assert isinstance(text, Bold) == is_best


def test_a_diverged_row_is_never_the_best(tmp_path):
    diverged = {"method": "gs-infonce", "seed": 9, "status": "diverged", "reason": "loss is nan"}
    runs = [*seeds("simcse", [76.0] * 3), *seeds("gs-infonce", [99.0] * 3), diverged]
    own = read_suite(write_suite(tmp_path, runs))
    rows = printed_tables(judge(own))["gs-infonce-v2_table-2"].rows
    texts = [cell.ours for row in rows for cell in row.cells.values()]
    assert {*texts} == {"", "76.00 ± 0.00", "99.00 ± 0.00"}
    assert not any(isinstance(text, Bold) for text in texts)


# --- Files ---


def test_every_comparable_table_in_three_formats_with_unrounded_numbers(folder, all_cells, tables):
    """Of a small suite most printed tables would hold print alone."""
    out = folder / "tables"
    stems = {path.stem for path in out.glob("*.csv")} - {"cells", "compare_printed"}
    comparable = set(printed_tables([cell for cell in all_cells if cell.is_comparable]))
    assert {"gs-infonce-v1_table-2", "is-cse_table-1"} <= comparable
    assert "is-cse_table-7" in tables.keys() - comparable
    assert stems & tables.keys() == comparable
    for suffix in ("md", "tex"):
        assert {path.stem for path in out.glob(f"*.{suffix}")} == stems
    read = pd.read_csv(out / "cells.csv")
    assert len(read) == len(all_cells)
    assert read["mean"].dropna().tolist() == [cell.ours.mean for cell in all_cells if cell.ours.n]


def test_where_nothing_is_comparable_every_number_is_in_one_file_without_a_difference(folder):
    """Mutations caught: tables of papers in a toy suite; a difference from print, a rank or CV* of
    what cannot be compared."""
    out = folder / "tables" / "toy"
    assert {path.name for path in out.iterdir()} == {"cells.csv", "sts.csv", "sts.md", "sts.tex"}
    read = pd.read_csv(out / "cells.csv")
    assert set(read["verdict"]) == {"not comparable", "not run"}
    measured = read[read["verdict"] == "not comparable"]
    assert measured["mean"].notna().all()
    assert measured[["difference", "rank", "best_of_five", "cv"]].isna().all(axis=None)


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


# --- Beside other papers and a baseline ---


def test_our_line_follows_the_quoted_one_of_the_same_run(tmp_path):
    own = read_suite(write_suite(tmp_path / "own", seeds("mixcse", [74.0, 76.0])))
    table = next(table for table in summaries(own, judge(own)) if table.stem == "quoted_sts")
    lines = table.shown[["Backbone", "Method", "Line", "STS12", "Avg"]].to_numpy().tolist()
    (at,) = [place for place, line in enumerate(lines) if line[2].startswith("ours")]
    mean = "75.00 ± 1.41"
    assert lines[at - 1] == [BASE, "MixCSE", "quoted", "71.71 ± 4.04", "77.66 ± 0.61"]
    assert lines[at] == [BASE, "MixCSE", "ours, official, n = 2", mean, mean]
    toys = seeds("mixcse", [74.0, 76.0], backbone="toy-bert")
    toy = read_suite(write_suite(tmp_path / "toy", toys, stand_ins={BASE: "toy-bert"}))
    assert summaries(toy, judge(toy)) == []


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
