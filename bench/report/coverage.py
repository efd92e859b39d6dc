"""Coverage: which printed numbers have a recipe, a place in a plan, a score of ours, and a
verdict."""

import re
from operator import attrgetter
from pathlib import Path
from typing import Any

from bench.judged.rows import Judged, NumberRow, SettingRow
from bench.judged.verdicts import VERDICT_SYMBOLS
from bench.report.formats import markdown, markdown_text, plain, rendered, text_table
from bench.utils.errors import UserError
from bench.utils.files import write_text

COVERAGE_STAGES = ["printed", "measures", "recipe", "planned", "run"]


def _printed(judged: Judged) -> list[NumberRow | SettingRow]:
    """All that is printed, in the order of print."""
    return sorted([*judged.numbers, *judged.settings], key=attrgetter("place"))


def coverage(judged: Judged) -> list[dict[str, Any]]:
    """A row for each printed table, in the order of print: its `source`, `paper` and `table`, how
    many of its numbers reach each of `COVERAGE_STAGES`, and how many numbers with a recipe have
    each verdict."""
    counts: dict[tuple[str, str], dict[str, Any]] = {}
    zeros = dict.fromkeys([*COVERAGE_STAGES, *VERDICT_SYMBOLS], 0)
    for row in _printed(judged):
        place = {"source": row.source, "paper": row.paper, "table": row.table}
        count = counts.setdefault((row.source, row.table), place | zeros)
        count["printed"] += 1
        if isinstance(row, NumberRow):
            count["measures"] += 1
            count["planned"] += row.planned
            count["run"] += row.ours.n > 0
            if row.run:
                count["recipe"] += 1
                count[row.ours.verdict.kind] += 1
    return list(counts.values())


def without_recipe(judged: Judged) -> list[NumberRow | SettingRow]:
    """The printed numbers without a recipe, in the order of print."""
    return [row for row in _printed(judged) if row.reason]


def report(judged: Judged, out: Path | None = None) -> str:
    """The coverage of all printed numbers as text; in Markdown it is also written to `out`."""
    if out and out.suffix != ".md":
        raise UserError(f"coverage is written as Markdown: the extension of '{out}' must be .md")
    numbers, rows = [*COVERAGE_STAGES, *VERDICT_SYMBOLS], coverage(judged)
    total = {name: sum(row[name] for row in rows) for name in numbers}
    rows.append({"source": "all", "table": ""} | total)
    lines = [{name: str(value) for name, value in row.items()} for row in rows]
    empty = [kind for kind in VERDICT_SYMBOLS if not total[kind]]
    table = text_table(lines, numbers).without("paper", *empty)
    caption = f"Coverage of the printed numbers, suite {judged.suite.suite}"
    text = rendered("coverage.txt", judged=judged, total=total, left_out=without_recipe(judged))
    if out:
        # Only the names behind the bullets are foreign text. The bullets have to stay Markdown.
        listed = re.sub(r"(?<=\* ).+", lambda line: markdown_text(line[0]), text)
        write_text(out, f"{markdown(table, caption)}\n{listed}")
    return "\n\n".join([plain(table, caption), text.rstrip()])
