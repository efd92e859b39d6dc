"""Methods by name: those in `methods/` and external ones (`bench.registry.plugins`)."""

import importlib
import pkgutil
from functools import cache
from pathlib import Path
from typing import Any

import methods
from bench.registry.plugins import Origin, external_methods, method_paths, methods_in
from bench.utils.errors import UserError, did_you_mean
from methods.base import Method


def format_value(value: Any) -> str:
    """Format a field's value as text that is read back as the same value."""
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and float(f"{value:g}") == value:
        return f"{value:g}"
    return str(value)


def method_classes() -> dict[str, type[Method]]:
    """Return all methods by name, built-in and external."""
    return _methods(method_paths())[0]


def method_class(name: str) -> type[Method]:
    """Return the method `name`, or raise `UserError` with the closest match."""
    classes = method_classes()
    if name not in classes:
        hint = did_you_mean(name, classes)
        if not method_paths():
            hint += "; for your own methods, set BENCH_METHODS to their files or folders"
        raise UserError(f"unknown method '{name}'{hint}")
    return classes[name]


def method_origin(name: str) -> Origin | None:
    """Return the origin of an external method, or None for a built-in one."""
    return _methods(method_paths())[1].get(name)


@cache
def _methods(paths: tuple[Path, ...]) -> tuple[dict[str, type[Method]], dict[str, Origin]]:
    """Return all methods by name, and the origins of the external ones."""
    classes: dict[str, type[Method]] = {}
    for module_info in pkgutil.iter_modules(methods.__path__):
        module = importlib.import_module(f"methods.{module_info.name}")
        classes |= {cls.name: cls for cls in methods_in(module, module.__name__)}
    origins: dict[str, Origin] = {}
    built_in = {cls.title: name for name, cls in classes.items()}
    for origin, external in external_methods(paths):
        for cls in external:
            if cls.name in classes:
                earlier = origins.get(cls.name)
                first = earlier.place if earlier else classes[cls.name].__module__
                raise UserError(
                    f"two methods have the name '{cls.name}', in {first} and in {origin.place}; "
                    "rename yours"
                )
            if cls.title in built_in:
                raise UserError(
                    f"'{cls.name}' in {origin.place} has the title of '{built_in[cls.title]}', "
                    f"'{cls.title}'; give it another, so that tables tell them apart"
                )
            classes[cls.name], origins[cls.name] = cls, origin
    return classes, origins
