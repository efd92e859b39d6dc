"""Tables of printed hyper-parameters beside ours."""

import pytest

from bench.report.hyperparameters import hyperparameter_sections, note, shown_hyperparameters
from bench.report.printed_table import printed_table
from tests.support.judged_rows import heading, judged, setting


def test_remarks_have_a_column_where_there_are_any():
    without = shown_hyperparameters([setting()])
    assert without.texts == [["all", "SSCL", "batch size", "64", "64", "64"]]
    remarked = shown_hyperparameters([setting(), setting(ours_official="128", remark="its log")])
    assert list(remarked.columns)[-1] == "Remark"
    assert [texts[-1] for texts in remarked.texts] == ["", "its log"]
    assert remarked.texts[1][5] == "128"


@pytest.mark.parametrize(
    ("ours", "recipe", "expected"),
    [
        ("64", "", "docs/methods.md has the evidence."),
        ("64", "Suite s sets its own.", "Suite s sets its own. docs/methods.md has the evidence."),
        ("–", "", "–: ours has no such setting, or no code was released. docs/methods.md has the "
         "evidence."),
    ],
)  # fmt: skip
def test_the_note_explains_a_dash_and_what_the_suite_sets(ours, recipe, expected):
    table = shown_hyperparameters([setting(ours_official=ours)])
    assert note(table, heading(recipe=recipe)) == expected


def test_a_section_for_each_table():
    suite = judged(settings=[setting(), setting(1, table="Training details"), setting(2)])
    found = [
        (stem, title, len(table.rows)) for stem, title, table in hyperparameter_sections(suite)
    ]
    assert found == [
        ("sscl_table-1", "SSCL (arXiv), Table 1", 2),
        ("sscl_training-details", "SSCL (arXiv), Training details", 1),
    ]


def test_a_printed_table_of_nothing_else_in_the_terminal():
    shown = printed_table(judged(settings=[setting()]), "sscl", "Table 1", print_alone=True)
    assert shown.startswith("SSCL (arXiv), Table 1: hyper-parameters as printed, and of our")
    assert "batch size" in shown
