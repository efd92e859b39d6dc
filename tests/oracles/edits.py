"""Mistakes that a programmer might make, as edits of the source. A test's oracle must notice each.

A mutation is applied to a built method, for the time of a test.
"""

import importlib
import inspect
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import Any

import pytest

Patch = pytest.MonkeyPatch
Mutation = Callable[[Any, Patch], None]


def edits(name: str) -> Callable[[str, str], Mutation]:
    """Return edit(old, new), a mutation of the module of that name at the one place of `old`.

    Its functions and methods run the new code. Constants, defaults and what runs at import stay.
    """
    module = importlib.import_module(name)
    source = inspect.getsource(module)

    def edit(old: str, new: str) -> Mutation:
        assert source.count(old) == 1, f"{old!r} stands {source.count(old)} times in {name}"
        compiled = compile(source.replace(old, new), str(module.__file__), "exec")
        codes = {code.co_qualname: code for code in _codes(compiled)}

        def mutate(method: Any, patch: Patch) -> None:
            for function in _functions(module, name):
                code = codes.get(function.__code__.co_qualname, function.__code__)
                patch.setattr(function, "__code__", code)

        return mutate

    return edit


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)


def _functions(owner: Any, module: str) -> Iterator[FunctionType]:
    """The functions that a module defines, those of its classes among them."""
    for value in vars(owner).values():
        value = getattr(value, "fget", None) or getattr(value, "__func__", value)
        value = inspect.unwrap(value) if callable(value) else value
        if getattr(value, "__module__", None) != module:
            continue
        if isinstance(value, FunctionType):
            yield value
        elif isinstance(value, type):
            yield from _functions(value, module)


def hyper(**changes: Any) -> Mutation:
    """Other hyper-parameters; a function is given the method's own."""

    def mutate(method: Any, patch: Patch) -> None:
        values = {
            name: change(method.hyper) if callable(change) else change
            for name, change in changes.items()
        }
        method.hyper = method.hyper.model_copy(update=values)

    return mutate
