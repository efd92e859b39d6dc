"""Findings about the printed numbers, as text to read and as files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from bench.reported.audit import KINDS
from bench.reported.audit.rows import Finding
from bench.utils.errors import UserError
from bench.utils.files import write_text


def frame(found: Sequence[Finding]) -> pd.DataFrame:
    """Findings as a table of texts: `kind`, `source`, `table`, `rows` (between semicolons), `text`."""
    fields = ["kind", "source", "table", "rows", "text"]
    lines = [[one.kind, one.source, one.table, "; ".join(one.rows), one.text] for one in found]
    return pd.DataFrame(lines, columns=fields, dtype=str)


def report(found: Sequence[Finding]) -> str:
    """Findings as text to read, by kind."""
    parts = []
    for kind, title in KINDS.items():
        lines = [f"  {one.source}, {one.table}: {one.text}" for one in found if one.kind == kind]
        if lines:
            parts.append("\n".join([f"{title} ({len(lines)})", *lines]))
    parts.append(f"{len(found)} findings about printed numbers.")
    return "\n\n".join(parts)


def write(found: Sequence[Finding], out: Path) -> None:
    """Write findings as CSV or Markdown, by the ending of the file's name.

    Raises:
        UserError: another ending.
    """
    from bench.report.formats import csv, markdown

    out = Path(out)
    if out.suffix not in (".csv", ".md"):
        raise UserError(f"--out is '{out}'; end the file's name in .csv or .md")
    table = frame(found)
    write_text(out, csv(table) if out.suffix == ".csv" else markdown(table, "Findings about the printed numbers."))
