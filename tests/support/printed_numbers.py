"""The printed numbers as frames, which tests filter and change."""

import pandas as pd

from bench.reported import COLUMNS
from bench.reported.number import numbers


def mapped() -> pd.DataFrame:
    """Every printed number with the run that it is compared with, one per row."""
    return pd.DataFrame([vars(number) for number in numbers()])


def printed() -> pd.DataFrame:
    """Every printed number without its recipe, one per row."""
    return mapped()[COLUMNS]
