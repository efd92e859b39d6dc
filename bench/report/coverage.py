"""Coverage: which printed numbers have a recipe, a place in a plan, a score of ours, and a
verdict."""

from collections.abc import Iterable
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from bench.judged.rows import Judged, NumberRow, SettingRow, grouped
from bench.judged.words import VERDICT_SYMBOLS
from bench.report.formats import markdown, templates, text_table
from bench.utils.errors import UserError
from bench.utils.files import write_text

STAGES = ["printed", "measures", "recipe", "planned", "run"]


def _printed(judged: Judged) -> list[NumberRow | SettingRow]:
    """All that is printed, in the order of print."""
    return sorted([*judged.numbers, *judged.settings], key=attrgetter("place"))


def coverage(judged: Judged) -> list[dict[str, Any]]:
    """How many numbers of each printed table reach each of `STAGES`, and how many of those with a
    recipe have each verdict; with its `source`, `paper` and `table`, in the order of print."""
    counts: dict[tuple[str, str], dict[str, Any]] = {}
    for row in _printed(judged):
        place = {"source": row.source, "paper": row.paper, "table": row.table}
        zeros = dict.fromkeys([*STAGES, *VERDICT_SYMBOLS], 0)
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


class LeftOut(NamedTuple):
    """A printed row without a recipe."""

    paper: str
    source: str
    table: str
    label: str
    backbone: str
    reason: str
    numbers: int  # how many it prints


def without_recipe(judged: Judged) -> list[LeftOut]:
    """The printed rows without a recipe, in the order of print."""
    rows = [row for row in _printed(judged) if row.reason]
    left_out = []
    for group in grouped(rows, attrgetter("source", "table", "label", "backbone", "reason")):
        row, count = group[0], len(group)
        place = row.paper, row.source, row.table, row.label, row.backbone
        left_out.append(LeftOut(*place, row.reason, count))
    return left_out


def report(judged: Judged, out: Path | None = None) -> str:
    """The coverage of all printed numbers as text; in Markdown it is also written to `out`."""
    import pandas as pd

    if out and out.suffix != ".md":
        raise UserError(f"--out is '{out}'; its extension must be .md")
    counts = coverage(judged)
    total: dict[str, Any] = {"source": "all", "table": ""}
    for name in (*STAGES, *VERDICT_SYMBOLS):
        total[name] = sum(count[name] for count in counts)
    kinds = [kind for kind in VERDICT_SYMBOLS if total[kind]]
    names = ["source", "table", *STAGES, *kinds]
    headings = ["source", "table", *STAGES, *(VERDICT_SYMBOLS[kind] for kind in kinds)]
    rows = []
    for count in (*counts, total):
        texts = [str(count[name]) for name in names]
        rows.append(dict(zip(headings, texts, strict=True)))
    table = text_table(rows, headings[2:])
    papers = len({count["source"] for count in counts})
    caption = (
        f"Printed numbers of {papers} papers and versions of papers in suite {judged.suite.suite}."
    )
    below = {
        "kinds": kinds, "total": total, "by": _by,
        "left_out": without_recipe(judged),
        "unplanned": [number for number in judged.numbers if number.run and not number.planned],
    }  # fmt: skip
    template = templates().get_template("coverage.txt")
    if out:
        write_text(out, f"{markdown(table, caption)}\n{template.render(below, bullet='* ')}")
    lines = pd.DataFrame(table.texts, columns=headings).to_string(index=False)
    return "\n".join([caption, "", lines, "", template.render(below).rstrip()])


def _by(rows: Iterable[Any], *names: str) -> list[list[Any]]:
    """Rows in groups of equal fields."""
    return grouped(rows, attrgetter(*names))
