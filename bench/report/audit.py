"""Findings of the audit of printed numbers, as text and as files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from bench.report.formats import csv, markdown
from bench.reported.audit import FINDING_KINDS, Finding
from bench.utils.errors import UserError
from bench.utils.files import write_text


def frame(findings: Sequence[Finding]) -> pd.DataFrame:
    """Findings as texts: `kind`, `source`, `table`, `rows` (separated by semicolons), `text`."""
    fields = ["kind", "source", "table", "rows", "text"]
    lines = [[one.kind, one.source, one.table, "; ".join(one.rows), one.text] for one in findings]
    return pd.DataFrame(lines, columns=fields, dtype=str)


def report(findings: Sequence[Finding]) -> str:
    """Findings as text, grouped by kind."""
    parts = []
    for kind, title in FINDING_KINDS.items():
        lines = [f"  {one.source}, {one.table}: {one.text}" for one in findings if one.kind == kind]
        if lines:
            parts.append("\n".join([f"{title} ({len(lines)})", *lines]))
    return "\n\n".join([*parts, f"{len(findings)} findings about printed numbers."])


def write(findings: Sequence[Finding], out: Path) -> None:
    """Write findings as CSV or Markdown, depending on the file extension of `out`.

    Raises:
        UserError: the extension is neither .csv nor .md.
    """
    table = frame(findings)
    if out.suffix == ".csv":
        write_text(out, csv(table))
    elif out.suffix == ".md":
        write_text(out, markdown(table, "Findings about the printed numbers."))
    else:
        raise UserError(f"--out is '{out}'; its extension must be .csv or .md")
