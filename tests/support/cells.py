"""The judged cells of a suite as a frame, for tests that query them."""

from copy import copy
from dataclasses import replace

import pandas as pd

from bench.comparison.reproduction import Cell, frame, judge
from bench.comparison.verdict import Kind, Verdict
from bench.results.suite_results import SuiteResults


def cells(suite: SuiteResults) -> pd.DataFrame:
    return frame(judge(suite))


def with_ours(cell: Cell, scores: tuple[float, ...], kind: Kind) -> Cell:
    """A cell with other scores of ours, and a verdict of this kind."""
    line = copy(cell.ours)
    vars(line).update(scores=scores, verdict=Verdict(kind))
    return replace(cell, ours=line)
