"""The hyper-parameters that papers print, which coverage counts."""

from bench.judged.rows import SettingRow
from bench.reported import paper_name
from bench.reported.address import row_name
from bench.reported.number import numbers


def settings() -> list[SettingRow]:
    """Every printed hyper-parameter, in the order of print."""
    rows = []
    for place, number in enumerate(numbers()):
        if number.is_measurement:
            continue
        rows.append(SettingRow(
            place=place,
            paper=paper_name(number.source),
            source=number.source,
            table=number.table,
            label=row_name(number.method, number.variant),
            backbone=number.backbone,
            reason=number.reason,
        ))  # fmt: skip
    return rows
