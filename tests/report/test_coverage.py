"""Coverage: counts of printed numbers by table, and lists of those without a recipe or a run."""

import pytest

from bench.judged.words import VERDICT_SYMBOLS
from bench.report.coverage import coverage, report
from bench.utils.errors import UserError
from tests.support.judged_rows import heading, judged, measured, number, setting

NO_TEXT = "training data not available"


SKIP = {"reason": NO_TEXT, "run": "", "planned": False, "label": "Skip-thought"}
FAR = {"planned": False, "label": "SimCSE (a)", "backbone": "roberta-large"}
ROWS = judged(
    suite=heading(suite="s"),
    numbers=[
        number(76.0, measured([76.0], "reproduced"), place=0, task="STS12"),
        number(76.0, place=1),
        number(76.0, place=2, task="STS12", **FAR),
        number(76.0, place=3, minus="sscl@official", **FAR),
        number(76.0, place=4, task="STS12", **FAR),
        number(60.0, place=6, table="Table 3", task="MR", **SKIP),
        number(60.0, place=7, table="Table 3", **SKIP),
    ],
    settings=[setting(5), setting(8)],
)


def test_stages_and_verdicts_of_each_table_in_the_order_of_print():
    """A number without a recipe has no verdict."""
    keys = ["table", "printed", "measures", "recipe", "planned", "run", "reproduced", "not run"]
    counts = coverage(ROWS)
    assert [[count[key] for key in keys] for count in counts] == [
        ["Table 2", 5, 5, 5, 2, 1, 1, 4],
        ["Table 1", 2, 0, 0, 0, 0, 0, 0],
        ["Table 3", 2, 2, 0, 0, 0, 0, 0],
    ]
    assert sum(count[kind] for count in counts for kind in VERDICT_SYMBOLS) == 5


BELOW = """\
Verdicts on those with a recipe: = reproduced; – not run.

2 of the 7 printed numbers that measure something have no recipe: 28.6 %.

Without a recipe:
hyper-parameter, not a score: 2
  sscl, Table 1: 2 (SSCL)
training data not available: 2
  sscl, Table 3: 2 (Skip-thought)

With a recipe but not planned:
  sscl, Table 2, SimCSE (a), roberta-large, STS12, STS12: simcse@official
  sscl, Table 2, SimCSE (a), roberta-large, Avg: simcse@official minus sscl@official
"""


def test_the_report_in_the_terminal():
    text = report(ROWS)
    lines = text.splitlines()
    assert lines[0] == "Printed numbers of 1 papers and versions of papers in suite s."
    assert lines[2].split() == [
        "source",
        "table",
        *["printed", "measures", "recipe", "planned", "run", "=", "–"],
    ]
    assert lines[3].split() == ["sscl", "Table", "2", *"5552114"]
    assert lines[6].split() == ["all", *"9752114"]
    assert len({len(line) for line in lines[2:7]}) == 1
    assert text.endswith(BELOW.rstrip())


def test_the_report_in_markdown_is_a_table_and_a_list(tmp_path):
    assert report(ROWS, tmp_path / "out.md") == report(ROWS)
    written = (tmp_path / "out.md").read_text()
    assert "\n| sscl | Table 2 | 5 | 5 | 5 | 2 | 1 | 1 | 4 |\n" in written
    items = [line for line in written.splitlines() if line.lstrip().startswith("* ")]
    assert [line.replace("* ", "", 1) for line in items] == [
        line for line in BELOW.splitlines() if line
    ]
    with pytest.raises(UserError, match=r"must be \.md"):
        report(ROWS, tmp_path / "out.txt")


def test_where_all_is_planned_it_says_so():
    assert report(judged(numbers=[number(76.0)])).endswith("With a recipe but not planned:\n  none")
