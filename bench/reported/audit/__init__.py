"""The printed numbers themselves, checked: do they agree with their rows, with each other, and with what was measured?

Read are values, labels, sizes of test sets, and who quotes whom. docs/audit.md reasons each rule.
"""

from __future__ import annotations

import pandas as pd

from bench.reported import printed as all_printed
from bench.reported.audit.arithmetic import accuracies, averages, scales
from bench.reported.audit.claims import differences, quoted_figures, splits, sweeps
from bench.reported.audit.copies import copies, labels
from bench.reported.audit.rows import Finding, read_rows

KINDS = {
    "average": "Averages that are not the mean of their row, however either was rounded",
    "rounding": "Averages that only rounding or truncation elsewhere explains",
    "unattainable": "Accuracies that neither one run on the test set nor the mean of 3 or 5 runs gives",
    "runs": "Accuracies that one run on the test set cannot give, the mean of several can",
    "range": "Scores outside their scale",
    "chance": "Accuracies that naming one class throughout reaches",
    "copy": "Rows of different models with the same figures",
    "partial": "Rows of different models that share most figures, not all",
    "shift": "Rows that differ by one constant in all figures",
    "swap": "Two figures of a row that have changed places between two prints",
    "cells": "One label and the same figures, another average",
    "label": "One label, different figures",
    "untrained": "Models that are not trained and change with a hyper-parameter of training",
    "sweep": "Tables of settings that meet the paper's other tables at different settings",
    "split": "Figures that one paper prints for two splits",
    "text": "Figures in the text that the tables do not have",
    "difference": "Differences in the text that are not those of the tables",
    "resting": "Differences in the text that rest on a row found above",
}


def findings(printed: pd.DataFrame | None = None) -> list[Finding]:
    """All that the printed numbers say against themselves, in the order of `KINDS` and of print.

    Args:
        printed: rows with the columns `bench.reported.COLUMNS`; by default those of the papers.
    """
    rows = read_rows(all_printed() if printed is None else printed)
    found = [
        *averages(rows), *accuracies(rows), *scales(rows), *copies(rows), *labels(rows),
        *sweeps(rows), *splits(rows), *quoted_figures(rows),
    ]  # fmt: skip
    found += differences(rows, found)
    order = list(KINDS)
    return sorted(found, key=lambda finding: order.index(finding.kind))
