"""Findings of the audit of printed numbers (`bench.reported.audit`) as text."""

from collections.abc import Mapping, Sequence
from typing import Any

from bench.report.formats import templates


def report(findings: Sequence[Any], kinds: Mapping[str, str]) -> str:
    """Findings, which have a kind, the source and table of their rows, and a text, grouped by kind.

    Args:
        kinds: the titles of the kinds, in the order of the report.
    """
    return templates().get_template("audit.txt").render(findings=findings, kinds=kinds)
