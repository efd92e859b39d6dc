"""Coverage: counts of printed numbers by table, and lists of those without a recipe or a run."""

from bench.report.coverage import report
from tests.support.judged_rows import heading, judged, measured, number, setting
from tests.support.refusals import refused
from tests.support.rendered import assert_as_read

NO_TEXT = "printed model not in the suite"


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


def test_the_report_is_what_was_read(tmp_path):
    """In Markdown and in the terminal; a number without a recipe has no verdict."""
    terminal, written = tmp_path / "coverage.txt", tmp_path / "coverage.md"
    terminal.write_text(report(ROWS, written) + "\n", encoding="utf-8")
    for path in (terminal, written):
        assert_as_read(path, f"suite/{path.name}")


def test_another_format_is_refused(tmp_path):
    refused(lambda: report(ROWS, tmp_path / "out.txt"), "must be .md")


def test_where_all_is_planned_it_says_so():
    assert report(judged(numbers=[number(76.0)])).endswith(
        "With a recipe but not planned:\n  * none"
    )
