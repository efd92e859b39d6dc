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
1  transfer        0.70        0.36  undecided
"""

import importlib
from collections.abc import Sequence
from typing import Any

from bench import __version__, score

# Loaded at first use, because some load torch, which takes seconds.
_MODULES = {
    "UserError": "bench.utils.errors",
    "load_encoder": "bench.models.load",
    "read_suite": "bench.judge.stage",
}

__all__ = ["__version__", "against", "leaderboard", "printed", "score", "verdicts", *_MODULES]


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
    from bench.report.tables import number_frame

    return number_frame(suite.numbers)


def leaderboard(suite: Any, board: str = "sts") -> Any:
    """Return a leaderboard of a suite as a DataFrame: the columns of <board>.csv.

    Args:
        suite: as `read_suite` returns it.
        board: such as "sts", "transfer", "probing".
    """
    from bench.report.leaderboard import frame

    return frame(suite, board)


def against(
    suite: Any, baseline: str = "", methods: Sequence[str] = (), backbones: Sequence[str] = ()
) -> tuple[Any, Any]:
    """Return the comparisons of a suite with a baseline, by default its own, as two DataFrames: the
    columns of compare.csv, and of compare_printed.csv, the printed gains.

    Args:
        suite: as `read_suite` returns it.
        methods, backbones: those to return, by default all. The family of Holm's correction is
            all methods of the suite in any case.
    """
    from bench.judge.stage import compared
    from bench.report.comparison_table import claims_frame, pairs_frame

    pairs = compared(suite, baseline, methods, backbones)
    return pairs_frame(pairs), claims_frame(pairs)
