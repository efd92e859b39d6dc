"""How near the tests come to their tolerances: a pytest plugin that measures, and a command that
reads.

    python -m pytest -p tests.tolerances --tolerances FILE.jsonl ...    # a line for each comparison
    python tests/tolerances.py FILE.jsonl ...       # what uses more than a tenth of its tolerance

Measured are pytest.approx, what numpy and torch have for closeness, and in assertions `a < b` with
b at most 0.01, or `a > b` with such a number as b. The ratio is the difference over the tolerance,
or its inverse where values have to be apart: beyond 1 a test fails. Between files of several
arithmetics, rounding moves and other differences (a sample's mean, say) do not.
"""

import ast
import builtins
import contextlib
import functools
import json
import math
import operator
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).resolve().parent
SMALL = 1e-2  # an assertion's bound up to here is a tolerance
ENOUGH = 0.1  # of a tolerance
ORDERS = {ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge"}

# (test, place) -> of all comparisons there, the one that comes nearest to its tolerance.
nearest: dict[tuple[str, str], dict[str, Any]] = {}


def note(difference: Any, tolerance: Any, apart: bool = False) -> None:
    """One comparison of the running test: difference <= tolerance, or > for values `apart`."""
    test, frame = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0], sys._getframe(1)
    while frame.f_back and (
        frame.f_code.co_filename == __file__ or not frame.f_code.co_filename.startswith(str(TESTS))
    ):
        frame = frame.f_back
    difference, tolerance = float(difference), float(tolerance)
    if not (test and frame.f_back and tolerance > 0 and math.isfinite(difference)):
        return
    over, under = (tolerance, difference) if apart else (difference, tolerance)
    ratio = over / under if under else math.inf
    place = f"{Path(frame.f_code.co_filename).relative_to(TESTS.parent)}:{frame.f_lineno}"
    if ratio >= nearest.get((test, place), {"ratio": 0})["ratio"]:
        found = {"difference": difference, "tolerance": tolerance, "ratio": ratio, "apart": apart}
        nearest[test, place] = found


def note_arrays(actual: Any, expected: Any, rtol: float, atol: float, apart: bool = False) -> None:
    """Arrays, by the element whose difference is the largest part of atol + rtol * |expected|."""
    import numpy as np

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
        note(differences.flat[at], tolerances.flat[at], apart)


def compared(values: list[Any], orders: list[str], literal: list[bool]) -> Any:
    """The value of `a < b < c`; comparisons with a small bound are noted."""
    found: Any = True
    for place, order in enumerate(orders):
        left, right = values[place : place + 2]
        found = found and getattr(operator, order)(left, right)
        upwards = order in ("lt", "le")
        low, high = (left, right) if upwards else (right, left)
        if is_small(high):
            note(low.max() if hasattr(low, "max") else low, high)
        elif is_small(low) and literal[place if upwards else place + 1]:
            note(high.min() if hasattr(high, "min") else high, low, apart=True)
    return found


def is_small(value: Any) -> bool:
    return (isinstance(value, float) or getattr(value, "shape", None) == ()) and 0 < value <= SMALL


class Compared(ast.NodeTransformer):
    """Comparisons by order become calls of `compared`."""

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        if not all(type(order) in ORDERS for order in node.ops):
            return node  # with what is within: `(p < 0.05) == known` has no tolerance
        self.generic_visit(node)
        values = [node.left, *node.comparators]
        orders = [ast.Constant(ORDERS[type(order)]) for order in node.ops]
        literal = [ast.Constant(isinstance(value, ast.Constant)) for value in values]
        lists = [ast.List(list(each), ast.Load()) for each in (values, orders, literal)]
        call = ast.Call(ast.Name("__compared__", ast.Load()), lists, [])
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
    import numpy as np
    import torch

    def approx(self: Any, actual: Any) -> None:
        with contextlib.suppress(TypeError, ValueError):  # no number, or not a number
            note(abs(self.expected - actual), self.tolerance)

    def asserted(actual: Any, expected: Any, rtol: float = 1e-7, atol: float = 0.0, **_: Any):
        note_arrays(actual, expected, rtol, atol)

    def asked(actual: Any, expected: Any, rtol: float = 1e-5, atol: float = 1e-8, **_: Any):
        a, b = (torch.as_tensor(values, dtype=torch.float64) for values in (actual, expected))
        apart = ((a - b).abs() > atol + rtol * b.abs()).any()
        note_arrays(a, b, rtol, atol, bool(apart))

    wrap(type(pytest.approx(1.0)), "__eq__", approx)  # also each element of lists and mappings
    wrap(np.testing, "assert_allclose", asserted)
    wrap(torch, "isclose", asserted)  # torch.testing.assert_close asks it, with its tolerance
    wrap(torch, "allclose", asked)
    wrap(np, "allclose", asked)


def watch_assertions() -> None:
    from _pytest.assertion import rewrite

    def mark(module: ast.Module, *_: Any) -> None:
        for node in ast.walk(module):
            if isinstance(node, ast.Assert):
                node.test = Compared().visit(node.test)

    builtins.__compared__ = compared  # type: ignore[attr-defined]
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
    lines = [
        json.dumps({"test": test, "place": place, **found}) + "\n"
        for (test, place), found in nearest.items()
    ]
    nearest.clear()
    if lines:
        with open(item.config.getoption("--tolerances"), "a") as file:  # of all workers
            file.write("".join(lines))
    return result


def used(files: list[str]) -> list[dict[str, Any]]:
    """Places by their largest ratio, with how much the files differ there (`moved`)."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for name in files:
        for line in Path(name).read_text().splitlines():
            row = json.loads(line)
            found.setdefault((row["place"], row["test"]), []).append(row)
    places: dict[str, dict[str, Any]] = {}
    for (place, _), rows in found.items():
        worst = max(rows, key=lambda row: row["ratio"])
        if worst["ratio"] >= places.get(place, {"ratio": 0})["ratio"]:
            differences = [row["difference"] for row in rows]
            places[place] = {**worst, "moved": max(differences) - min(differences)}
    return sorted(places.values(), key=lambda row: -row["ratio"])


if __name__ == "__main__":
    print("| place | test | difference | tolerance | ratio | moved |\n|---|---|---|---|---|---|")
    for row in used(sys.argv[1:]):
        if row["ratio"] > ENOUGH:
            sign = ">" if row["apart"] else "<"
            row |= {"test": row["test"].rpartition("::")[2], "sign": sign}
            numbers = "{difference:.2g} | {sign} {tolerance:.2g} | {ratio:.2g} | {moved:.1g}"
            print(f"| {{place}} | {{test}} | {numbers} |".format(**row))
