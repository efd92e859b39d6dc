"""The judged cells of a suite as a frame, for tests that query them."""

import pandas as pd

from bench.judge.reproduction import frame, judge
from bench.results.suite_results import SuiteResults


def cells(suite: SuiteResults) -> pd.DataFrame:
    return frame(judge(suite))
