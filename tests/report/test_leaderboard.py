"""Leaderboards: the difference from the baseline, the best of a column, names, controls, and what
`show` prints of a suite."""

import pandas as pd
import pytest

from bench.cli import main
from bench.judge.against_baseline import against, with_baseline
from bench.judge.reproduction import leaderboard
from bench.report.formats import Bold
from bench.report.leaderboard import caption, leaderboards, shown_leaderboard
from bench.report.summary import summary
from bench.results.suite_results import read_suite
from bench.runs.resolve import resolve
from bench.utils.files import read_json, write_json
from tests.support.synthetic_suite import seeds, write_suite

BASE = "bert-base-uncased"
BASELINE = (75.0, 76.0, 77.0)
# Differences from the baseline: clearly above, clearly below, and either.
RUNS = [
    *seeds("simcse", BASELINE, label="SimCSE"),
    *seeds("is-cse", [77.0, 78.1, 79.0], label="IS-CSE"),
    *seeds("sscl", [73.0, 74.1, 75.0], label="SSCL"),
    *seeds("esimcse", [75.5, 75.7, 77.0], label="ESimCSE"),
    *seeds("dclr", [76.0], label="DCLR"),
]
CONTROL = seeds("sup-simcse", [80.0, 81.0, 82.0], label="With labels")
FILE = {"parts": [["mine", 1, {}, "sum of its file"]]}  # of a user's own method
OWN = seeds("mine", BASELINE, setting="paper", label="Mine", identity=FILE)

DIFFERENCE = "Minus baseline"


@pytest.fixture
def suite(tmp_path):
    """A suite with a baseline, a control that is trained with labels, and a user's own method."""
    return with_plan_of(tmp_path, [*RUNS, *CONTROL, *OWN])


def with_plan_of(folder, runs):
    write_suite(folder, runs, name="s")
    plan = read_json(folder / "plan.json") | {"baseline": "simcse"}
    for run in plan["runs"]:
        run["labelled"] = run["method"] == "sup-simcse"
    write_json(folder / "plan.json", plan)
    return folder


def shown(folder, **more):
    own = read_suite(folder)
    board = leaderboards(own, with_baseline(own)[0])["sts"]
    return shown_leaderboard(own, "sts", board, **more).set_index("Method")


def test_differences_are_those_of_the_comparison_with_its_words(suite):
    frame, _ = against(read_suite(suite), "simcse")
    rows = frame[frame["task"] == "Avg"].set_index("label")
    cells = shown(suite, short=True)[DIFFERENCE]
    assert cells.pop("SimCSE") == "baseline"
    for label, text in cells.items():
        number, word = rows.loc[label, ["difference", "verdict"]]
        assert text.startswith(f"{number:+.2f}")
        assert text.endswith(word)
    assert cells["IS-CSE"] == "+2.03 ± 0.14 ↑ better"
    assert cells["SSCL"].endswith("↓ worse")
    assert cells["ESimCSE"].endswith("? undecided")
    assert cells["DCLR"] == "+1.00 ? undecided"  # one seed has no interval


def test_without_a_baseline_there_is_no_such_column(tmp_path):
    own = read_suite(write_suite(tmp_path, RUNS))
    assert with_baseline(own) is None
    board = leaderboards(own, None)["sts"]
    assert DIFFERENCE not in shown_leaderboard(own, "sts", board)
    assert DIFFERENCE not in caption(own, "sts", board)


def test_a_method_without_a_backbone_has_a_difference_beside_one_backbone_only(tmp_path):
    words = {"method": "word-overlap", "setting": "paper", "backbone": "none", "scores": 40.0}
    one = with_plan_of(tmp_path / "one", [*RUNS, words])
    assert shown(one).loc["word-overlap, paper", DIFFERENCE].startswith("-36.00 ± ")
    more = seeds("simcse", BASELINE, backbone="roberta-base")
    two = with_plan_of(tmp_path / "two", [*RUNS, *more, words])
    assert shown(two).loc["word-overlap, paper", DIFFERENCE] == "–"


def test_only_runs_that_are_compared_have_a_difference(tmp_path):
    """Mutation caught: the difference of one corpus beside the scores of another."""
    other = seeds("is-cse", [60.0] * 3, label="IS-CSE", corpus="wiki-mini")
    cells = shown(with_plan_of(tmp_path, [*RUNS, *other]))[DIFFERENCE]
    assert cells["IS-CSE, official, wiki1m"].endswith("better")
    assert cells["IS-CSE, official, wiki-mini"] == "–"


def test_controls_with_labels_come_last_and_are_not_the_best(suite):
    table = shown(suite, short=True)
    assert table.index[-1] == "With labels"
    best = [label for label, text in table["Avg"].items() if isinstance(text, Bold)]
    assert best == ["IS-CSE"]
    own = read_suite(suite)
    assert "that are trained with labels are controls." in caption(own, "sts", leaderboard(own))


def test_only_a_method_that_reads_labelled_triples_is_marked():
    of = {"backbone_name": "toy-bert", "corpus": "world", "data": "world", "seed": 1}
    assert resolve("sup-simcse[corpus=world-nli]", **of).labelled
    assert not resolve("simcse", **of).labelled


@pytest.mark.parametrize(
    ("best", "is_bold"),
    [
        (seeds("sscl", [80.0] * 3), True),
        (seeds("sscl", [80.0] * 2), False),  # chance
        ([{"method": "untrained", "setting": "paper", "scores": 80.0}], True),  # it has no seeds
        ([*seeds("sscl", [80.0] * 3), {"method": "sscl", "seed": 9, "status": "diverged",
          "reason": "loss is nan"}], False),
    ],
)  # fmt: skip
def test_the_best_of_a_column_is_bold_unless_chance_made_it(tmp_path, best, is_bold):
    own = read_suite(write_suite(tmp_path, [*seeds("simcse", BASELINE), *best]))
    cells = shown_leaderboard(own, "sts", leaderboard(own))["STS12"]
    assert [isinstance(cell, Bold) for cell in cells] == [is_bold, False]


def test_names_have_no_more_than_tells_them_apart(suite, tmp_path):
    assert "SimCSE, official" in shown(suite).index
    assert "Mine" in shown(suite).index  # not "paper"
    both = [*seeds("simcse", BASELINE, label="SimCSE", setting="paper"), *RUNS]
    names = shown(with_plan_of(tmp_path / "both", both), short=True).index
    assert {"SimCSE, paper", "SimCSE, official", "IS-CSE"} <= set(names)


# --- The command ---


def said(capsys, *words):
    assert main(["show", *map(str, words)]) == 0
    return capsys.readouterr().out


def test_a_suite_alone_shows_its_leaderboards(suite, capsys):
    text = said(capsys, "--suite", suite)
    assert text.startswith(f"Suite s on {BASE}: Spearman x 100 on seven STS tasks, mean ±")
    row = next(line for line in text.splitlines() if line.startswith("IS-CSE"))
    assert row.split()[1:] == [
        "3",
        *["78.03"] * 8,
        "±",
        "1.00",
        "+2.03",
        "±",
        "0.14",
        "↑",
        "better",
    ]


def test_chosen_rows_are_in_the_order_in_which_they_are_named(suite, capsys):
    words = ["--suite", suite, "--format", "csv", "--rows", "sscl", "SimCSE", "mine"]
    (suite / "table.csv").write_text(said(capsys, *words))
    table = pd.read_csv(suite / "table.csv")
    assert table["label"].tolist() == ["SSCL", "SimCSE", "Mine"]
    assert table["verdict"].tolist()[:2] == ["worse", "baseline"]
    assert main(["show", "--suite", str(suite), "--rows", "simcs"]) == 2
    assert "did you mean 'simcse'?" in capsys.readouterr().err


def test_the_best_is_that_of_the_chosen_rows(suite, capsys):
    text = said(capsys, "--suite", suite, "--format", "markdown", "--rows", "sscl", "simcse")
    assert "| SimCSE, official | 3 | **76.00 ± 1.00** |" in text


@pytest.mark.parametrize("words", [[], ["sscl"], ["sscl", "--suite", "s"]])
def test_nothing_to_show_says_what_to_name(words, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["show", *words]) == 2
    assert "name a suite's folder" in capsys.readouterr().err


def test_a_difference_of_one_task_is_named(tmp_path):
    """No average is planned."""
    rows = [{"STS-B": 70.0 + n, "SICK-R": 60.0} for n in range(3)]
    tasks = {"tasks": ["STS-B", "SICK-R"]}
    entries = [*seeds("simcse", rows, **tasks), *seeds("sscl", rows, **tasks)]
    folder = with_plan_of(tmp_path, entries)
    assert "STS-B minus baseline" in shown(folder)
    suite = read_suite(folder)
    compared = with_baseline(suite)
    text = summary(suite, [], [], compared, tmp_path, tmp_path)
    assert "against simcse, official, Spearman x 100 on STS-B, paired by seed" in text
