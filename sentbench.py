"""sentbench in Python: score an encoder, and read the results of a suite.

>>> import sentbench
>>> suite = sentbench.read_suite("results/wiki-mini")
>>> sentbench.leaderboard(suite)[["label", "n", "Avg", "Avg sd"]].head(2).round(2)
     label  n    Avg  Avg sd
0      PCL  5  70.23    0.41
1  ESimCSE  5  70.15    0.32
>>> rows, printed = sentbench.against(suite, "simcse")
>>> rows = rows.query("leaderboard == 'sts' and method == 'mixcse' and task == 'Avg'")
>>> rows[["difference", "half_width", "verdict"]].round(2).reset_index(drop=True)
   difference  half_width                verdict
0        0.06        0.53  gain below the margin
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

    from bench.judged.rows import Judged

# Modules of these names are common, and Python may find another one first.
_HERE = Path(__file__).parent
if Path(sys.argv[0]).name == "sentbench":  # the command, a process of its own
    sys.path.insert(0, str(_HERE))
for _name in ("bench", "methods"):
    _spec = find_spec(_name)
    if _spec and _spec.origin != str(_HERE / _name / "__init__.py"):
        raise ImportError(
            f"{_spec.origin or 'a folder'} hides the package '{_name}' of sentbench; rename it, "
            "or take its folder off Python's path (the working folder and PYTHONPATH are on it)"
        )
    importlib.import_module(_name)  # before the path changes

from bench import __version__, score  # noqa: E402

# Loaded at first use, because some load torch, which takes seconds.
_MODULES = {
    "UserError": "bench.utils.errors",
    "judge": "bench.judge.verdict",
    "load_encoder": "bench.models.load",
    "read_suite": "bench.judge.stage",
}

__all__ = [
    "__version__", "against", "compare", "leaderboard", "printed", "score", "verdicts", *_MODULES,
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'sentbench' has no attribute '{name}'")
    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return __all__


def command() -> int:
    """Run the command line `sentbench`; its exit status."""
    from bench.cli import main

    return main()


def compare(
    a: Any,
    b: Any,
    tasks: str | Sequence[str] = "sts",
    data: str = "senteval",
    *,
    mode: str = "test",
    out: Path | None = None,
) -> pd.DataFrame:
    """Score two encoders and compare them over test items, as `sentbench compare` does.

    >>> import sentbench
    >>> rows = sentbench.compare("toy-bert[pooler=avg]", "toy-bert[pooler=last]", "STS-B", "world")
    >>> rows[["task", "a", "b", "difference", "half_width", "n", "verdict"]].round(1)
        task     a     b  difference  half_width    n verdict
    0  STS-B  47.2  29.3        17.9         5.4  300  higher

    Args:
        a: a function, or an object with a method `encode`, as `score` takes it; or a hub id or a
            folder, which may have options in brackets (docs/how-to/encoders.md).
        b: the other encoder.
        tasks: as in `score`.
        data: as in `score`.
        mode: as in `score`.
        out: a folder for records and test items; with one, an interrupted comparison can go on.

    Returns:
        A DataFrame, a row for the `Avg` of each leaderboard, or for each of its tasks if not all
        are there: `leaderboard`, `task`, the scores `a` and `b` and their `difference` in points,
        the `half_width` of its 95 % interval over the `n` test items, `p` after Holm's correction
        over the tasks of a leaderboard, and `verdict` ("higher", "lower" or "open"). They say
        nothing of other trainings (docs/reference/rule.md#encoders-without-seeds).

    Raises:
        UserError: as `score`, or no task has a test split.
    """
    from bench.judge.stage import judge_encoders
    from bench.report.comparison_table import encoders_frame
    from bench.stages.encoders import score_pair

    scored = score_pair([a, b], tasks, data, mode, out)
    return encoders_frame(judge_encoders(scored, data, mode).pairs)


def _judged(suite: Judged) -> Any:
    """A suite as `read_suite` returns it; refuse anything else, such as its folder."""
    from bench.judged.rows import Judged
    from bench.utils.errors import UserError

    if not isinstance(suite, Judged):
        raise UserError(f"{suite!r} is not a suite; pass what read_suite returns for its folder")
    return suite


def printed() -> pd.DataFrame:
    """Return every printed number of the papers with its place and the run that it is compared
    with.

    >>> sentbench.printed().query("task == 'Avg'")  # doctest: +SKIP

    Returns:
        A DataFrame, a row a number: `source` (the paper), `table`, `method`, `variant`, `backbone`,
        `task`, `split`, `metric`, `value` (as printed; scores in points), and the other fields of
        `bench.reported.number.Number`.
    """
    import pandas as pd

    from bench.reported.number import numbers

    return pd.DataFrame([vars(number) for number in numbers()])


def verdicts(suite: Judged) -> pd.DataFrame:
    """Return a suite's verdicts on the printed numbers.

    >>> sentbench.verdicts(suite)[["method", "printed", "mean", "verdict"]]  # doctest: +SKIP

    Args:
        suite: as `read_suite` returns it.

    Returns:
        A DataFrame, the columns of cells.csv: `printed`, our `mean` and `sd` (points) over `n`
        seeds, `verdict` and its `reason`, and where the number is printed.
    """
    from bench.report.tables import number_frame

    return number_frame(_judged(suite).numbers)


def leaderboard(suite: Judged, leaderboard: str = "sts") -> pd.DataFrame:
    """Return a leaderboard of a suite.

    >>> sentbench.leaderboard(suite, "transfer")[["label", "Avg", "Avg sd"]]  # doctest: +SKIP

    Args:
        suite: as `read_suite` returns it.
        leaderboard: such as "sts", "transfer", "probing".

    Returns:
        A DataFrame, a row a system: `label`, `n` (seeds), for each planned task `<task>` (the mean
        in points), `<task> sd`, `<task> n`, and `Avg` if all tasks are planned; `difference` from
        the baseline with the `half_width` of its interval, `verdict` and its `reason`, empty as
        long as it has no scores, if the suite names one. The columns of <leaderboard>.csv.

    Raises:
        UserError: the suite has no such leaderboard.
    """
    from bench.report.leaderboard import frame

    return frame(_judged(suite), leaderboard)


def against(
    suite: Judged, baseline: str = "", methods: str | Sequence[str] = ()
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the comparisons of a suite with a baseline, and the printed gains.

    >>> rows, printed = sentbench.against(suite, "simcse", "mixcse")  # doctest: +SKIP

    Args:
        suite: as `read_suite` returns it.
        baseline: a method of the suite or its label; by default the suite's own.
        methods: a name, or names, of those to return, by default all. Holm's correction is over
            all claims in any case.

    Returns:
        Two DataFrames. A row of the first is a method on a task: `difference` in points, `n` (pairs
        of seeds), the `half_width` of its interval, and of a claim `margin`, `p_adjusted`,
        `p_below`, `verdict` and its `reason`; the columns of compare.csv. The second has the
        printed gains, the columns of compare_printed.csv.

    Raises:
        UserError: a method is not of the suite or has no scores, or no baseline is known.
    """
    from bench.judge.stage import compared
    from bench.report.comparison_table import pairs_frame, printed_frame
    from bench.runs.naming import planned_text

    judged = _judged(suite)
    names = [methods] if isinstance(methods, str) else methods
    methods = [planned_text(judged.folder, name) for name in names]
    baseline = baseline and planned_text(judged.folder, baseline)
    pairs = compared(judged, baseline, methods)
    return pairs_frame(pairs), printed_frame(pairs)
