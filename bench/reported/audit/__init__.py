"""Consistency checks of the printed numbers: within their rows, with each other, and with the size
of the test sets.

The checks use values, labels, sizes of test sets, and which paper quotes which. docs/audit.md gives
the reasons.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from bench.reported import printed as all_printed
from bench.reported.audit.arithmetic import accuracies, averages, scales
from bench.reported.audit.claims import (
    Claim,
    differences,
    load_claims,
    mixed,
    quoted_figures,
    splits,
    statements,
    sweeps,
)
from bench.reported.audit.copies import copies, labels
from bench.reported.audit.rows import Finding, read_rows

FINDING_KINDS = {
    "average": "Averages that are not the mean of their row, whatever the rounding",
    "rounding": "Averages that only rounding or truncation of other numbers explains",
    "unattainable": "Accuracies that neither one run on the test set nor the mean of 3 or 5 runs "
    "can give",
    "runs": "Accuracies that one run on the test set cannot give, but the mean of several can",
    "range": "Scores outside their scale",
    "chance": "Accuracies that a constant prediction reaches",
    "copy": "Rows of different models with the same numbers",
    "partial": "Rows of different models that share most of their numbers",
    "shift": "Rows that differ by one constant in all numbers",
    "cells": "One label with the same numbers but another average",
    "label": "One label with different numbers",
    "untrained": "Untrained models whose numbers change with a hyper-parameter of training",
    "sweep": "Sweeps that agree with the paper's other tables at different settings",
    "mixed": "Sweeps that continue a quoted number with the paper's own runs",
    "split": "Numbers that one paper prints for two splits",
    "text": "Numbers in the text that are not in the tables",
    "difference": "Differences in the text that are not those of the tables",
    "resting": "Differences in the text that use a row with another finding",
    "statement": "Statements in words that figures of their table contradict",
}


def findings(
    printed: pd.DataFrame | None = None, claims: Sequence[Claim] | None = None
) -> list[Finding]:
    """All inconsistencies of the printed numbers, in the order of `FINDING_KINDS`, then of print.

    Args:
        printed: rows with the columns `bench.reported.COLUMNS`; those of the papers by default.
        claims: statements about their tables; those of the papers by default.
    """
    rows = read_rows(all_printed() if printed is None else printed)
    all_findings = [
        *averages(rows), *accuracies(rows), *scales(rows), *copies(rows), *labels(rows),
        *sweeps(rows), *mixed(rows), *splits(rows), *quoted_figures(rows),
        *statements(rows, load_claims() if claims is None else claims),
    ]  # fmt: skip
    all_findings += differences(rows, all_findings)
    order = list(FINDING_KINDS)
    return sorted(all_findings, key=lambda finding: order.index(finding.kind))
