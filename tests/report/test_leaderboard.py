"""Leaderboards: the difference from the baseline, the best of a column, names, controls, and what
`show` prints of a suite."""

import re
from io import StringIO

import pandas as pd
import pytest

from bench.judge.stage import read_suite
from bench.judge.systems import system_rows
from bench.report.formats import Bold
from bench.report.leaderboard import (
    caption,
    frame,
    in_format,
    legend,
    show_leaderboards,
    shown_leaderboard,
    shown_leaderboards,
    write_leaderboards,
)
from bench.reported.address import address, find_rows
from tests.support.compared_runs import scored, suite
from tests.support.judged_rows import (
    BASE,
    WHY,
    WITH_BASELINE,
    heading,
    judged,
    leaderboard,
    measured,
    number,
    pair,
    system,
)
from tests.support.refusals import refused
from tests.support.rendered import assert_as_read
from tests.support.synthetic_suite import claims, seeds, write_suite
from tests.support.table_suite import TOY, TOY_ENTRIES
from tools.documents import wiki_mini

COMPARED, STS = heading(**WITH_BASELINE), leaderboard()
BASELINE = [75.0, 76.0, 77.0]

SIMCSE = system("simcse", BASELINE, label="SimCSE", is_baseline=True)
ISCSE = system("is-cse", [77.0, 78.1, 79.0], label="IS-CSE", difference=2.0333, half_width=0.143,
               verdict="better", reason=WHY)  # fmt: skip
SSCL = system("sscl", [73.0, 74.1, 75.0], label="SSCL", difference=-1.9667, half_width=0.143,
              verdict="worse")  # fmt: skip
CONTROL = system("sup-simcse", [80.0, 81.0, 82.0], label="With labels", labelled=True)


@pytest.fixture(scope="module")
def tables(compared_suite, tmp_path_factory):
    """Leaderboards of the suite and of the toy suite whose files are in `rendered/`."""
    folder = tmp_path_factory.mktemp("suite")
    write_leaderboards(compared_suite, folder)
    text = show_leaderboards(compared_suite, "text", compared_suite.systems)
    (folder / "sts.txt").write_text(text, encoding="utf-8")
    toy = read_suite(write_suite(folder / "smoke", TOY_ENTRIES, **TOY))
    write_leaderboards(toy, folder / "toy")
    return folder


@pytest.mark.parametrize("name", ["sts.md", "sts.tex", "sts.txt", "toy/sts.md"])
def test_a_table_is_what_was_read(tables, name):
    assert_as_read(tables / name, name)


# --- Cells ---


@pytest.mark.parametrize(
    ("verdict", "sign", "is_bold"),
    [("better", "⇑", True), ("better, gain below the margin", "⇑<", True),
     ("gain below the margin", "<", False)],
)  # fmt: skip
def test_a_claim_that_is_better_alone_is_bold(verdict, sign, is_bold):
    rows = [ISCSE.changed(verdict=verdict), SIMCSE, ISCSE.changed(name="SSCL", verdict=None)]
    table = shown_leaderboard(COMPARED, STS, rows)
    lines = [line["Minus baseline"] for line in table.rows]
    assert lines == [f"+2.03 ± 0.14 {sign} {verdict}", "baseline", "+2.03 ± 0.14"]
    bold = [text for line in table.texts for text in line if isinstance(text, Bold)]
    assert bold == [lines[0]] * is_bold


# --- Names ---


@pytest.mark.parametrize(
    ("second", "names"),
    [
        ({"method": "sscl", "setting": "paper"}, ["simcse", "sscl, paper"]),
        ({"setting": "paper"}, ["simcse", "simcse, paper"]),
        ({"backbone": "b"}, ["simcse", "simcse"]),
        ({"corpus": "c"}, ["simcse, wiki1m", "simcse, c"]),
        ({"outside": True, "name": "simcse (outside encoder)"},
         ["simcse", "simcse (outside encoder)"]),
    ],
)  # fmt: skip
def test_names_have_no_more_than_tells_them_apart(second, names):
    rows = [system("simcse", BASELINE), system(**{"method": "simcse", "points": BASELINE} | second)]
    lines = shown_leaderboard(heading(), STS, rows).rows
    assert [line["Method"] for line in lines] == names


def test_a_name_lacks_the_usual_setting_alone():
    names = {
        "a, official": "a",
        "a, official (has seen test sentences)": "a (has seen test sentences)",
        "b, officially, paper": "b, officially, paper",
    }
    assert {name: heading().short(name) for name in names} == names
    assert heading(setting="").short("f[template=a, b]") == "f[template=a, b]"


def test_only_planned_tasks_are_columns():
    part = leaderboard(planned=["STS-B", "SICK-R"])
    row = system(
        "simcse", {"STS-B": [70.0, 72.0], "SICK-R": [60.0, 62.0]}, run_averages=[65.0, 67.0]
    )
    table = shown_leaderboard(heading(part), part, [row])
    assert list(table.columns) == ["Backbone", "Method", "n", "STS-B", "SICK-R"]
    assert table.rows[0]["SICK-R"] == "61.00 ± 1.41"
    text = caption(heading(part), part, [row])
    assert text == f"Suite s on {BASE}: Spearman x 100 on STS-B and SICK-R, n = 2"


# --- Captions and legend ---


OF_TRANSFER = {"leaderboard": "transfer", "tasks": ("MR",)}
GLOVE = system("glove", [70.0, 71.0], corpus="", runs=["glove"], **OF_TRANSFER)
TWO = heading(leaderboard(), leaderboard("transfer"), **WITH_BASELINE)


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ([SIMCSE], "Scores: mean ± standard deviation over n seeds."),
        ([GLOVE], "Scores: mean ± standard deviation over n seeds of the classifiers."),
        ([GLOVE, SIMCSE], "Scores: mean ± standard deviation over n seeds; of systems without "
         "seeds, over n seeds of the classifiers."),
        ([system("untrained", [70.0])],
         "Each score is of one run, and has no standard deviation."),
    ],
)  # fmt: skip
def test_a_legend_says_over_what_scores_vary(rows, text):
    assert legend(TWO, rows)[0] == text


def test_the_mode_of_classifiers_is_said_where_there_are_any():
    suite = heading(mode="dev")
    assert "mode" not in caption(suite, STS, [SIMCSE])
    assert "tasks, classifiers of mode dev, n = 3" in caption(
        suite, leaderboard("transfer"), [SSCL]
    )


def test_a_legend_says_no_more_than_occurs_in_its_rows():
    later = ISCSE.changed(leaderboard="transfer", verdict="open", in_dev=0.34, on_rest=70.0)
    first = SIMCSE.changed(in_dev=6.09), ISCSE.changed(in_dev=6.18, margin=1.0), CONTROL
    text = "\n".join(legend(TWO, [*first, later]))
    for words in (
        "⇑ better: the claimed gain is above 0; ? open: not decided. They answer claims with a "
        "margin of 1.00, at 2 % a look, after Holm's correction over all claims",
        "#contamination): 6.1 to 6.2 % of STS, 0.3 % of Transfer; Markdown and CSV",
        "Controls, which are trained with labels: With labels.",
    ):
        assert words in text
    assert legend(TWO, [SIMCSE])[1:] == [
        "Settings are official unless a name says otherwise. Corpus: wiki1m.",
        "Minus baseline: Avg, or the task that the heading names, minus that of SimCSE, official: "
        "mean over the seeds that both have, with its 98 % interval.",
    ]


def test_a_legend_names_rows_without_a_backbone():
    rows = [ISCSE, SIMCSE, SSCL.changed(backbone="none")]
    lines = in_format(judged(rows, COMPARED), STS, rows, "text").splitlines()
    shared = "Corpus: wiki1m. Without a backbone: SSCL."
    assert f"{heading().about_names} {shared}" in lines


# --- Formats ---


def test_groups_of_latex_are_backbones_and_controls():
    rows = [SIMCSE, system("word-overlap", [40.0], backbone="none", corpus=""), CONTROL]
    rows.append(system("sscl", BASELINE, backbone="roberta-base"))
    result = re.findall(r"\\textit\{([^}]*)\}", in_format(judged(rows), STS, rows, "latex"))
    assert result == [BASE, "no backbone", f"{BASE}, trained with labels", "roberta-base"]


def test_the_frame_has_points_by_task():
    outside = system("a", outside=True, run_averages=[None])
    table = frame(judged([ISCSE, SIMCSE, outside], COMPARED))
    expected = {
        "label": ["IS-CSE", "SimCSE", "a (outside encoder)"],
        "verdict": ["better", "baseline", ""],
        "reason": [WHY, "", ""],
        "averages": [(77.0, 78.1, 79.0), (75.0, 76.0, 77.0), ()],
        "STS12 n": [3, 3, 0],
        "Avg n": [3, 3, 0],
    }
    assert table[[*expected]].to_dict("list") == expected
    assert table.loc[1, ["STS12", "STS12 sd", "Avg"]].tolist() == [76.0, 1.0, 76.0]
    # Columns without values have the type of numbers.
    empty = ["on_unseen", "seen", "in_dev", "on_rest", "difference", "Avg sd"]
    assert table[empty].dtypes.tolist() == [float] * 6
    refused(lambda: frame(judged([SIMCSE]), "st"), "did you mean 'sts'")


def test_the_share_in_the_dev_set_stands_beside_rows_that_have_any():
    shares = ((6.09, 68.904), (6.09, None), (0.0, 70.0), (None, None))
    rows = [system(f"m{n}", BASELINE, in_dev=x, on_rest=y) for n, (x, y) in enumerate(shares)]
    text = shown_leaderboard(heading(), STS, rows)
    texts = [line["In dev set (rest)"] for line in text.rows]
    assert texts == ["6.1 % (68.90)", "6.1 %", "", ""]
    assert ["In dev set (rest)" in shown_leaderboard(heading(), STS, part).columns
            for part in (rows, rows[2:])] == [True, False]  # fmt: skip


def test_leaderboards_without_scores_are_left_out_but_for_sts():
    suite = heading(leaderboard(), leaderboard("transfer"), leaderboard("probing"))
    rows = [system("simcse", leaderboard="transfer", tasks=("MR",)),
            system("simcse", [80.0], leaderboard="probing", tasks=("Tense",))]  # fmt: skip
    assert [text.name for text in shown_leaderboards(judged(rows, suite))] == ["sts", "probing"]


# --- What belongs to a row ---


def test_a_system_has_the_difference_of_its_runs_on_what_sums_up_its_leaderboard():
    """Mutations caught: the difference of one corpus beside the scores of another; that of a single
    task, or of another leaderboard."""
    runs = [scored("simcse", 0, 75.0), scored("sscl", 0, 74.0),
            scored("sscl", 0, 73.0, corpus="other", id="x")]  # fmt: skip
    pairs = [pair("sscl", [1.0] * 3, verdict="better"), pair("sscl", [7.0] * 3, task="STS12"),
             pair("sscl", [8.0] * 3, leaderboard="transfer")]  # fmt: skip
    results = suite(*runs)
    result = system_rows(results, STS, pairs, [results.system("simcse@official", BASE)])
    assert [row.difference for row in result] == [None, 1.0, None]
    assert [row.verdict for row in result] == [None, "better", None]
    assert [row.is_baseline for row in result] == [True, False, False]


def test_a_system_without_a_backbone_has_a_difference_beside_one_backbone_only():
    results = suite(scored("word-overlap", 0, 40.0, backbone="none"))
    pairs = [pair("word-overlap", [-36.0]), pair("word-overlap", [-36.0], backbone="roberta-base")]
    for count, difference in ((1, -36.0), (2, None)):
        (row,) = system_rows(results, STS, pairs[:count])
        assert row.difference == difference


def test_controls_with_labels_come_last():
    points = {"sup-simcse": 80.0, "simcse": 75.0, "sscl": 76.0}
    runs = [scored(name, 1, x, labelled=name == "sup-simcse") for name, x in points.items()]
    methods = [row.method for row in system_rows(suite(*runs), STS)]
    assert methods == ["sscl", "simcse", "sup-simcse"]


# --- The command ---


def test_columns_are_of_planned_tasks_and_of_a_named_baseline():
    part = leaderboard(planned=["STS12", "STS-B"])
    of_two = heading(part, baseline="simcse", uncompared="no scores")
    columns = [*frame(judged([SIMCSE], of_two)).columns]
    assert [name for name in columns if name.endswith(" sd")] == ["STS12 sd", "STS-B sd"]
    assert columns[-4:] == ["difference", "half_width", "verdict", "reason"]


def test_leaderboards_are_one_table_of_csv():
    mini = wiki_mini()
    table = pd.read_csv(StringIO(show_leaderboards(mini, "csv", mini.systems)))
    assert table["leaderboard"].unique().tolist() == ["sts", "transfer", "xprobe"]
    assert len(table) == len(mini.systems)


# A user's own method has no setting.
MINE = seeds("mine", BASELINE, setting="paper", label="Mine",
             identity={"parts": [["mine", 1, {}, "sum of its file"]]})  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    runs = [*seeds("simcse", BASELINE, label="SimCSE"), *MINE]
    runs += seeds("sscl", [73.0, 74.1, 75.0], label="SSCL")
    return write_suite(tmp_path, runs, baseline="simcse", claims=claims("sscl"))


def test_chosen_rows_are_in_the_order_in_which_they_are_named(folder, said):
    rows = ["sscl", "simcse[batch_size=64]", "mine"]
    words = ["show", "--suite", folder, "--rows"]
    table = pd.read_csv(StringIO(said(*words, *rows, "--format", "csv").out))
    assert table["label"].tolist() == ["SSCL", "SimCSE", "Mine"]
    assert table["verdict"].tolist()[:2] == ["worse", "baseline"]
    assert "did you mean 'simcse'?" in said(*words, "simcs", status=2).err


def test_why_says_the_sentence_of_a_row_on_each_leaderboard(folder, said, monkeypatch):
    rows = [SSCL.changed(reason=WHY), SIMCSE, SSCL.changed(leaderboard="transfer", reason="other")]
    suite = heading(leaderboard(), leaderboard("transfer"))
    monkeypatch.setattr("bench.judge.stage.read_suite", lambda folder: judged(rows, suite))
    words = ["show", "--suite", folder, "--why"]
    assert said(*words, "SSCL").out.splitlines() == [
        f"SSCL, official, sts, {BASE}: worse; {WHY}", "",
        f"SSCL, official, transfer, {BASE}: worse; other",
    ]  # fmt: skip
    assert said(*words, "simcse").out == "sts: no claim of this row\n"


def test_why_says_the_sentences_of_a_printed_row(folder, said, monkeypatch):
    printed = find_rows("sscl", "Table 2", "SSCL-SimCSE")
    addresses = {number.task: address(number) for number in printed}
    sides = {"ours": measured([77.0], reason=WHY), "other": measured([70.0], "lower", reason="far")}
    rows = [number(77.9, address=addresses["Avg"], **sides), number(68.4),
            number(70.0, task="STS12", address=addresses["STS12"])]  # fmt: skip
    monkeypatch.setattr("bench.judge.stage.read_suite", lambda folder: judged(numbers=rows))
    words = ["show", "sscl", "2", "--suite", folder, "--why", "SSCL-SimCSE"]
    lines = said(*words).out.split("\n\n")
    place = f"SimCSE, {BASE}, Avg, test, simcse@official"
    assert lines[-2:] == [f"{place}: open; {WHY}", f"{place}: lower; far\n"]
    assert not re.search("68.4|reproduce", "".join(lines))  # another row, and how to run one


@pytest.mark.parametrize("words", [[], ["sscl", "Table 2", "--format", "csv"]])
def test_nothing_to_show_says_what_to_name(words, tmp_path, said, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "name a suite, as in" in said("show", *words, status=2).err


def test_a_paper_alone_lists_its_tables(said):
    lines = said("show", "sscl").out.splitlines()
    assert lines[2:4] == ["Table 3: accuracy", "Table 4: accuracy"]
    assert lines[-1] == "Implementation details: hyper-parameters"
