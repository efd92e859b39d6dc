"""Methods by name: the files of `methods/`, and those from outside (`bench.registry.plugins`)."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from pathlib import Path

import methods
from bench.registry.plugins import Origin, external_methods, method_paths, methods_in
from bench.utils.errors import UserError, did_you_mean
from methods.base import Method


def method_classes() -> dict[str, type[Method]]:
    """Every method by the name it gives itself: those of `methods/`, and those from outside.

    Raises:
        UserError: one from outside cannot be had, or has the name of another.
    """
    return _methods(method_paths())[0]


def method_class(name: str) -> type[Method]:
    """The method called `name`.

    Raises:
        UserError: there is none; the nearest name is suggested.
    """
    known = method_classes()
    if name not in known:
        hint = "" if method_paths() else "; your own are found where BENCH_METHODS names their files or folders"
        raise UserError(f"unknown method '{name}'{did_you_mean(name, known)}{hint}")
    return known[name]


def method_origin(name: str) -> Origin | None:
    """Where a method from outside comes from; None for one of `methods/`."""
    return _methods(method_paths())[1].get(name)


@cache
def _methods(paths: tuple[Path, ...]) -> tuple[dict[str, type[Method]], dict[str, Origin]]:
    """Methods by name, and where those from outside come from."""
    found: dict[str, type[Method]] = {}
    for module_info in pkgutil.iter_modules(methods.__path__):
        module = importlib.import_module(f"methods.{module_info.name}")
        found |= {cls.name: cls for cls in methods_in(module, module.__name__)}
    origins: dict[str, Origin] = {}
    for origin, classes in external_methods(paths):
        for cls in classes:
            if cls.name in found:
                other = origins[cls.name].place if cls.name in origins else found[cls.name].__module__
                raise UserError(
                    f"two methods are called '{cls.name}', one of {other} and one of {origin.place}; rename yours"
                )
            found[cls.name], origins[cls.name] = cls, origin
    return found, origins
