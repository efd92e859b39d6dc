"""The hyper-parameters that papers print, which coverage counts."""

from bench.judged.rows import SettingRow
from bench.reported import paper_name
from bench.reported.address import row_name
from bench.reported.number import numbers


def settings() -> list[SettingRow]:
    """Every printed hyper-parameter, in the order of print."""
    rows = []
    for place, number in enumerate(numbers()):
        if not number.is_measurement:
            label = row_name(number.method, number.variant)
            paper = paper_name(number.source)
            rows.append(SettingRow.of(number, place=place, paper=paper, label=label))
    return rows
