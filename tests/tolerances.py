"""How near the tests come to their tolerances: a pytest plugin that measures, and a command that
reads.

    python -m pytest -p tests.tolerances --tolerances FILE.jsonl ...    # a line for each comparison
    python tests/tolerances.py FILE.jsonl ...       # what uses more than a tenth of its tolerance

Measured are pytest.approx, the assertions of closeness of numpy and torch, and `assert a < b` with
b at most 0.01. The ratio is the difference over the tolerance: beyond 1 a test fails. Between files
of several arithmetics, rounding moves and other differences (a sample's mean, say) do not.
"""

import ast
import builtins
import contextlib
import functools
import json
import math
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

TESTS = Path(__file__).resolve().parent
SMALL = 1e-2  # an assertion's bound up to here is a tolerance
ENOUGH = 0.1  # of a tolerance

# (test, place) -> of all comparisons there, the one that comes nearest to its tolerance.
nearest: dict[tuple[str, str], dict[str, Any]] = {}


def note(difference: Any, tolerance: Any) -> None:
    """One comparison of the running test: difference <= tolerance."""
    test, frame = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0], sys._getframe(1)
    while frame.f_back and (
        frame.f_code.co_filename == __file__ or not frame.f_code.co_filename.startswith(str(TESTS))
    ):
        frame = frame.f_back
    difference, tolerance = float(difference), float(tolerance)
    if not (test and frame.f_back and tolerance > 0 and math.isfinite(difference)):
        return
    place = f"{Path(frame.f_code.co_filename).relative_to(TESTS.parent)}:{frame.f_lineno}"
    ratio = difference / tolerance
    if ratio >= nearest.get((test, place), {"ratio": 0})["ratio"]:
        nearest[test, place] = {"difference": difference, "tolerance": tolerance, "ratio": ratio}


def note_arrays(actual: Any, expected: Any, rtol: float, atol: float) -> None:
    """Arrays, by the element whose difference is the largest part of atol + rtol * |expected|."""
    actual, expected = (
        np.asarray(values.detach().double() if hasattr(values, "detach") else values, np.float64)
        for values in (actual, expected)
    )
    if actual.size and expected.size and (rtol or atol):
        differences, tolerances = np.broadcast_arrays(
            np.abs(actual - expected), atol + rtol * np.abs(expected)
        )
        tiny = np.finfo(np.float64).tiny
        at = np.argmax(np.nan_to_num(differences / np.maximum(tolerances, tiny)))
        note(differences.flat[at], tolerances.flat[at])


def below(value: Any, bound: Any, inclusive: bool) -> Any:
    """`value < bound` or `value <= bound`; noted where the bound is small."""
    if (isinstance(bound, float) or getattr(bound, "shape", None) == ()) and 0 < bound <= SMALL:
        note(value.max() if hasattr(value, "max") else value, bound)
    return value <= bound if inclusive else value < bound


class Below(ast.NodeTransformer):
    """Comparisons `a < b` and `a <= b` become calls of `below`."""

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        if len(node.ops) > 1 or not isinstance(node.ops[0], ast.Lt | ast.LtE):
            return node  # with what is within: `(p < 0.05) == known` has no tolerance
        self.generic_visit(node)
        inclusive = ast.Constant(isinstance(node.ops[0], ast.LtE))
        given = [node.left, *node.comparators, inclusive]
        call = ast.Call(ast.Name("__below__", ast.Load()), given, [])
        return ast.fix_missing_locations(ast.copy_location(call, node))


def wrap(owner: Any, name: str, look: Callable[..., None]) -> None:
    """From now on `look` sees the arguments of each call."""
    original = getattr(owner, name)

    @functools.wraps(original)
    def watched(*arguments: Any, **options: Any) -> Any:
        look(*arguments, **options)
        return original(*arguments, **options)

    setattr(owner, name, watched)


def watch_calls() -> None:
    import torch

    def approx(self: Any, actual: Any) -> None:
        with contextlib.suppress(TypeError, ValueError):  # no number, or not a number
            note(abs(self.expected - actual), self.tolerance)

    def asserted(actual: Any, expected: Any, rtol: float = 1e-7, atol: float = 0.0, **_: Any):
        note_arrays(actual, expected, rtol, atol)

    wrap(type(pytest.approx(1.0)), "__eq__", approx)  # also each element of lists and mappings
    wrap(np.testing, "assert_allclose", asserted)
    wrap(torch, "isclose", asserted)  # torch.testing.assert_close asks it, with its tolerance


def watch_assertions() -> None:
    from _pytest.assertion import rewrite

    def mark(module: ast.Module, *_: Any) -> None:
        for node in ast.walk(module):
            if isinstance(node, ast.Assert):
                node.test = Below().visit(node.test)

    builtins.__below__ = below  # type: ignore[attr-defined]
    wrap(rewrite, "rewrite_asserts", mark)
    # The rewritten modules that pytest keeps have no marks, and marked ones must not be kept.
    rewrite._read_pyc = lambda *_: None
    sys.dont_write_bytecode = True


def pytest_addoption(parser: pytest.Parser) -> None:
    described = "measured ones, appended as JSON lines"
    parser.addoption("--tolerances", metavar="FILE", type=os.path.abspath, help=described)


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--tolerances"):
        watch_assertions()
        watch_calls()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    result = yield
    found = [{"test": test, "place": place, **x} for (test, place), x in nearest.items()]
    nearest.clear()
    if found:
        with open(item.config.getoption("--tolerances"), "a") as file:  # of all workers
            file.write("".join(json.dumps(row) + "\n" for row in found))
    return result


def used(files: list[str]) -> pd.DataFrame:
    """Places by their largest ratio, with how much the files differ there (`moved`)."""
    rows = pd.concat(pd.read_json(file, lines=True) for file in files)
    differences = rows.groupby(["place", "test"])["difference"]
    rows["moved"] = differences.transform("max") - differences.transform("min")
    worst = rows.sort_values("ratio", ascending=False).drop_duplicates("place")
    return worst[["place", "test", "difference", "tolerance", "ratio", "moved"]]


if __name__ == "__main__":
    near = used(sys.argv[1:]).query("ratio > @ENOUGH")
    print(near.to_markdown(index=False, floatfmt=".2g"))
