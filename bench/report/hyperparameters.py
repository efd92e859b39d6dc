"""The hyper-parameters that papers print, beside ours."""

from collections.abc import Sequence

from bench.judged.rows import Heading, Judged, SettingRow, grouped
from bench.report.formats import TextTable, text_table
from bench.utils.files import stem

CAPTION = (
    'hyper-parameters as printed, and of our methods in the settings "paper" and "official" on the '
    "printed backbones"
)
_COLUMNS = {
    "Backbone": "backbone", "Method": "method", "Hyper-parameter": "name", "Printed": "printed",
    "Ours, paper": "ours_paper", "Ours, official": "ours_official", "Remark": "remark",
}  # fmt: skip


def shown_hyperparameters(settings: Sequence[SettingRow]) -> TextTable:
    """The hyper-parameters of one printed table; without remarks if all are empty."""
    rows = []
    for setting in settings:
        rows.append({heading: getattr(setting, name) for heading, name in _COLUMNS.items()})
    table = text_table(rows)
    return table if any(setting.remark for setting in settings) else table.without("Remark")


def note(table: TextTable, heading: Heading) -> str:
    """The note below a table of hyper-parameters."""
    parts = [heading.recipe, "docs/methods.md has the evidence."]
    if any("–" in row for row in table.texts):
        parts.insert(0, "–: ours has no such setting, or no code was released.")
    return " ".join(filter(None, parts))


def hyperparameter_sections(judged: Judged) -> list[tuple[str, str, TextTable]]:
    """The printed tables with hyper-parameters: stem of their file names, title, and texts."""
    sections = []
    for rows in grouped(judged.settings, lambda setting: (setting.source, setting.table)):
        first = rows[0]
        name, title = f"{first.source}_{stem(first.table)}", f"{first.paper_title}, {first.table}"
        sections.append((name, title, shown_hyperparameters(rows)))
    return sections
