"""sentbench in Python: score an encoder, and read the results of a suite.

>>> import sentbench
>>> suite = sentbench.read_suite("results/wiki-mini")
>>> sentbench.leaderboard(suite)[["label", "n", "Avg", "Avg sd"]].head(2).round(2)
     label  n    Avg  Avg sd
0  ESimCSE  5  70.15    0.32
1   MixCSE  5  70.12    0.21
>>> rows, claims = sentbench.against(suite, "simcse")
>>> rows = rows.query("method == 'mixcse' and task == 'Avg'").reset_index()
>>> rows[["board", "difference", "half_width", "verdict"]].round(2)
      board  difference  half_width    verdict
0       sts        0.06        0.36  undecided
1  transfer        0.70        0.36     better
"""

import importlib
from typing import Any

from bench import __version__, score

# Loaded at first use, because some load torch, which takes seconds.
_MODULES = {
    "UserError": "bench.utils.errors",
    "against": "bench.judge.against_baseline",
    "leaderboard": "bench.judge.reproduction",
    "load_encoder": "bench.models.load",
    "read_suite": "bench.results.suite_results",
}

__all__ = ["__version__", "printed", "score", "verdicts", *_MODULES]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'sentbench' has no attribute '{name}'")
    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return __all__


def printed() -> Any:
    """Return every printed number of the papers with its place in print and the run that it is
    compared with, as a DataFrame: the fields of `bench.reported.number.Number`."""
    import pandas as pd

    from bench.reported.number import numbers

    return pd.DataFrame([vars(number) for number in numbers()])


def verdicts(suite: Any) -> Any:
    """Return a suite's verdicts on the printed numbers, as a DataFrame: the columns of cells.csv.

    Args:
        suite: as `read_suite` returns it.
    """
    from bench.judge.reproduction import frame, judge

    return frame(judge(suite))
