"""Findings of the audit of printed numbers, as text and as files."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from bench.report.formats import csv, markdown, templates
from bench.reported.audit import FINDING_KINDS, Finding
from bench.utils.errors import UserError
from bench.utils.files import write_text


def frame(findings: Sequence[Finding]) -> pd.DataFrame:
    """Findings as texts: `kind`, `source`, `table`, `rows` (separated by semicolons), `text`."""
    table = pd.DataFrame(findings, columns=["kind", "source", "table", "rows", "text"])
    return table.assign(rows=table["rows"].map("; ".join))


def report(findings: Sequence[Finding]) -> str:
    """Findings as text, grouped by kind."""
    return templates().get_template("audit.txt").render(findings=findings, kinds=FINDING_KINDS)


def write(findings: Sequence[Finding], out: Path) -> None:
    """Write findings as CSV or Markdown, depending on the file extension of `out`."""
    if out.suffix not in (".csv", ".md"):
        raise UserError(f"--out is '{out}'; its extension must be .csv or .md")
    table, caption = frame(findings), "Findings about the printed numbers."
    write_text(out, csv(table) if out.suffix == ".csv" else markdown(table, caption))
