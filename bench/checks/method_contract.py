"""Checks of a method against the contract (methods/contract.py), from the command line and from
pytest."""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from bench.checks.method_checks import CHECKS, Check
from bench.checks.method_trial import Fault, Trial
from bench.checks.verify import computing
from bench.registry import plugins
from bench.registry.methods import method_class, method_classes
from bench.registry.plugins import FAILURES, describe_error
from bench.utils.errors import UserError

if TYPE_CHECKING:
    import pytest


@dataclass(frozen=True)
class Clause:
    """The result of one check."""

    claim: str
    fault: str = ""  # why it does not hold; empty if it holds

    def __str__(self) -> str:
        return f"FAIL   {self.claim}: {self.fault}" if self.fault else f"ok     {self.claim}"


def parametrize_with_checks(methods: Sequence[str]) -> pytest.MarkDecorator:
    """Return a pytest decorator that runs every check of the contract on every method, one test
    each.

    >>> @parametrize_with_checks(["my-method"])
    ... def test_method(method, check):
    ...     check(method)

    Args:
        methods: names of registered methods: installed ones, and those of `BENCH_METHODS`.

    Raises:
        UserError: a name is unknown, or a file of `BENCH_METHODS` cannot be imported.
    """
    import pytest

    parameters = [
        pytest.param(name, partial(_require, check), id=f"{name}-{check.name}")
        for name in methods
        for check in CHECKS
        if check.applies(method_class(name))
    ]
    return pytest.mark.parametrize(("method", "check"), parameters)


def _require(check: Check, method: str) -> None:
    """Check a registered method; the AssertionError says why the claim does not hold."""
    with computing(1, deterministic=True):
        fault = _fault(check, Trial(method_class(method), Path(_shared_inputs().name)))
    if fault:
        raise AssertionError(f"{method}: {check.claim}: {fault}")


def _fault(check: Check, trial: Trial) -> str:
    """Return why a claim does not hold for a method, or an empty string."""
    try:
        with contextlib.redirect_stderr(io.StringIO()), _exits_raised():
            check.function(trial)
    except (Fault, UserError) as error:
        return str(error)
    except FAILURES as error:
        return f"it fails ({describe_error(error)}); fix it"
    return ""


@contextlib.contextmanager
def _exits_raised() -> Iterator[None]:
    """Let `os._exit` of user code raise SystemExit, which is reported; it would end the check
    without a word. Processes that the code forks still end."""
    plain, own = os._exit, os.getpid()

    def ended(status: int) -> NoReturn:
        if os.getpid() != own:
            plain(status)
        raise SystemExit(f"os._exit({status}) ends the program")

    os._exit = ended
    try:
        yield
    finally:
        os._exit = plain


@cache
def _shared_inputs() -> tempfile.TemporaryDirectory[str]:
    """The suite of all trials of this process; deleted when it exits."""
    return tempfile.TemporaryDirectory(prefix="sentbench-check-")


def check(path: Path) -> Iterator[Clause]:
    """Check every method of a file, which is added to `BENCH_METHODS`, and yield the results.

    If a required check fails, the checks after it are left out.

    Args:
        path: a Python file.

    Raises:
        UserError: it is not a Python file.
    """
    path = path.resolve()
    if not path.is_file():
        raise UserError(f"{path} is not a file; name a Python file with a method")
    if path.suffix != ".py":
        raise UserError(f"{path} is not a Python file; give a .py file with a method")
    claim = f"{path.name} can be imported and holds methods"
    try:
        with _exits_raised():
            _, classes = plugins.load_file(path)
        yield Clause(claim)
        claim = "no other method has its name"
        plugins.add_method_paths([path])
        method_classes()
        yield Clause(claim)
    except UserError as error:
        yield Clause(claim, str(error))
        return
    with computing(1, deterministic=True):
        for cls in classes:
            yield from clauses(Trial(cls, Path(_shared_inputs().name)))


def clauses(trial: Trial) -> Iterator[Clause]:
    """Check one method and yield the results, up to the first required check that fails."""
    for check in CHECKS:
        if check.applies(trial.cls):
            fault = _fault(check, trial)
            yield Clause(f"{trial.cls.name}: {check.claim}", fault)
            if fault and check.required:
                return
