"""Checks of a method against the contract (methods/contract.py), from the command line and from
pytest."""

from __future__ import annotations

import contextlib
import io
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from bench.checks import method_checks as checks
from bench.checks.method_trial import Fault, Trial, make_inputs
from bench.registry.methods import method_class, method_classes
from bench.registry.plugins import (
    FAILURES,
    add_method_paths,
    describe_error,
    load_file,
    python_files,
)
from bench.utils.errors import UserError
from methods.base import Contrastive, Method

if TYPE_CHECKING:
    import pytest


@dataclass(frozen=True)
class Clause:
    """The result of one check.

    Attributes:
        claim: what was checked.
        fault: why it does not hold; empty if it holds.
    """

    claim: str
    fault: str = ""

    def __str__(self) -> str:
        return f"fault  {self.claim}: {self.fault}" if self.fault else f"ok     {self.claim}"


@dataclass(frozen=True)
class Check:
    """One check of the contract.

    Attributes:
        claim: what it checks, for a person.
        function: raises `Fault` or `UserError` if the claim does not hold for a trial.
        required: whether the checks after it make no sense when it fails.
    """

    claim: str
    function: Callable[[Trial], None]
    required: bool = False

    @property
    def name(self) -> str:
        """A short name, for test ids."""
        return self.function.__name__.removeprefix("check_")

    def fault(self, trial: Trial) -> str:
        """Return why the claim does not hold for a method, or an empty string."""
        try:
            with contextlib.redirect_stderr(io.StringIO()):
                self.function(trial)
        except (Fault, UserError) as error:
            return str(error)
        except FAILURES as error:
            return f"it fails ({describe_error(error)}); fix it"
        return ""

    def __call__(self, method: str) -> None:
        """Check a registered method.

        Raises:
            AssertionError: the claim does not hold; the message says why and what to do.
        """
        with _deterministic():
            fault = self.fault(Trial(method_class(method), Path(_shared_inputs().name)))
        if fault:
            raise AssertionError(f"{method}: {self.claim}: {fault}")


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
        pytest.param(name, check, id=f"{name}-{check.name}")
        for name in methods
        for check in checks_of(method_class(name))
    ]
    return pytest.mark.parametrize(("method", "check"), parameters)


@cache
def _shared_inputs() -> tempfile.TemporaryDirectory[str]:
    """The inputs of all trials of this process; deleted when it exits."""
    folder = tempfile.TemporaryDirectory(prefix="sentbench-check-")
    with contextlib.redirect_stderr(io.StringIO()):  # its progress bars are short
        make_inputs(Path(folder.name))
    return folder


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
    python_files(path)
    claim = f"{path.name} can be imported and holds methods"
    try:
        _, classes = load_file(path)
        yield Clause(claim)
        claim = "no other method has its name"
        add_method_paths([path])
        method_classes()
        yield Clause(claim)
    except UserError as error:
        yield Clause(claim, str(error))
        return
    with _deterministic():
        for cls in classes:
            yield from clauses(Trial(cls, Path(_shared_inputs().name)))


@contextlib.contextmanager
def _deterministic() -> Iterator[None]:
    """Compute on one thread with deterministic algorithms, then restore both settings."""
    threads, deterministic = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(deterministic)


def clauses(trial: Trial) -> Iterator[Clause]:
    """Run the checks of one method and yield the results, up to the first required check that
    fails."""
    for check in checks_of(trial.cls):
        fault = check.fault(trial)
        yield Clause(f"{trial.cls.name}: {check.claim}", fault)
        if fault and check.required:
            return


def checks_of(cls: type[Method]) -> list[Check]:
    """Return the checks that apply to a method, in order."""
    applicable = [
        Check("its tables name hyper-parameters and recipe fields", checks.check_table_keys),
        Check("its text resolves to the same run again", checks.check_text, required=True),
    ]
    if cls.trained:
        applicable += [
            Check(
                "the loss of a batch is a finite scalar with a gradient",
                checks.check_loss,
                required=True,
            ),
            Check("a batch of one item has a finite loss", checks.check_single_item_batch),
            Check("the gradient reaches what is trained", checks.check_gradient),
            Check("the same seed gives the same weights bit for bit", checks.check_same_seed),
            Check("another seed gives other weights", checks.check_other_seed),
            Check("random draws come from named streams only", checks.check_random_streams),
            Check("a resumed training gives the same weights", checks.check_resume),
            Check("the loss in float64 is the same to 1e-4", checks.check_float64),
        ]
    applicable += [
        Check("an invalid hyper-parameter is refused in one sentence", checks.check_refusals)
    ]
    if issubclass(cls, Contrastive) and cls.joins():
        applicable += [
            Check(
                "it joins another method with '+', or is refused in one sentence",
                checks.check_joins,
            )
        ]
    return [
        *applicable,
        Check(
            "its encoder, saved and loaded, gives equal vectors and finite scores",
            checks.check_encoder,
        ),
    ]
