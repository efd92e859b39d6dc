"""Findings of the audit of printed numbers (`bench.reported.audit`), as text and as files.

A finding has a kind, the source and the table of its rows, their names, and a text.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from bench.report.formats import TextTable, csv, markdown, templates
from bench.utils.errors import UserError
from bench.utils.files import write_text


def frame(findings: Sequence[Any]) -> pd.DataFrame:
    """Findings as texts: `kind`, `source`, `table`, `rows` (separated by semicolons), `text`."""
    table = pd.DataFrame(findings, columns=["kind", "source", "table", "rows", "text"])
    return table.assign(rows=table["rows"].map("; ".join))


def report(findings: Sequence[Any], kinds: Mapping[str, str]) -> str:
    """Findings as text, grouped by kind; `kinds` are their titles."""
    return templates().get_template("audit.txt").render(findings=findings, kinds=kinds)


def write(findings: Sequence[Any], out: Path) -> None:
    """Write findings as CSV or Markdown, depending on the file extension of `out`."""
    if out.suffix not in (".csv", ".md"):
        raise UserError(f"--out is '{out}'; its extension must be .csv or .md")
    table = frame(findings)
    if out.suffix == ".csv":
        write_text(out, csv(table))
        return
    texts = TextTable(dict.fromkeys(table, False), table.to_dict("records"))
    write_text(out, markdown(texts, "Findings about the printed numbers."))
