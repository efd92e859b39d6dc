"""Methods by name: of the folder `methods/`, and of files in `BENCH_METHODS`."""

import importlib
import inspect
import os
import pkgutil
import sys
import traceback
import types
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from textwrap import shorten
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

import methods
from bench.registry.user_modules import code_sum, is_library
from bench.utils.errors import UserError, did_you_mean, errors_of
from bench.utils.files import sha256_text
from bench.utils.validation import validated
from methods.base import HyperParameters, Method

_LONGEST = 200  # characters of a user's error message, which may hold a whole array
FAILURES = (Exception, SystemExit)  # exceptions of user code; not `Stopped` or KeyboardInterrupt


class BrokenMethod(UserError):
    """An error in the code of an external method."""


@dataclass(frozen=True)
class Origin:
    """Origin of an external method."""

    place: str  # file
    sha256: str  # of the file and of the user's modules that it imports


def method_classes() -> dict[str, type[Method]]:
    """Return all methods by name, built-in and external."""
    return _methods(method_paths())[0]


def method_class(name: str) -> type[Method]:
    """Return the method `name`, or raise `UserError` with the closest match."""
    classes = method_classes()
    if name not in classes:
        hint = f"{did_you_mean(name, classes)}; list all with: sentbench methods"
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
        classes |= {cls.name: cls for cls in methods_in(module)}
    origins: dict[str, Origin] = {}
    built_in = {cls.title: name for name, cls in classes.items()}
    files = dict.fromkeys(file for path in paths for file in python_files(path))
    for origin, external in map(load_file, files):
        for cls in external:
            # Plans find a method by its name, and tables show its title, so both must be unique.
            if cls.name in classes:
                earlier = origins.get(cls.name)
                place = earlier.place if earlier else classes[cls.name].__module__
                raise UserError(
                    f"two methods have the name '{cls.name}', in {place} and in {origin.place}; "
                    "rename yours"
                )
            if cls.title in built_in:
                raise UserError(
                    f"'{cls.name}' in {origin.place} has the title of '{built_in[cls.title]}', "
                    f"'{cls.title}'; give it another, so that tables tell them apart"
                )
            classes[cls.name], origins[cls.name] = cls, origin
    return classes, origins


def method_paths() -> tuple[Path, ...]:
    """Return the distinct files and folders in `BENCH_METHODS` as absolute paths."""
    words = os.environ.get("BENCH_METHODS", "").split(os.pathsep)
    return tuple(dict.fromkeys(Path(word).resolve() for word in words if word))


def add_method_paths(more: Iterable[str | Path]) -> None:
    """Add files or folders to `BENCH_METHODS`, for this process and its children."""
    paths = dict.fromkeys((*method_paths(), *(Path(path).resolve() for path in more)))
    if paths:
        os.environ["BENCH_METHODS"] = os.pathsep.join(map(str, paths))


def python_files(path: Path) -> list[Path]:
    """Return a Python file, or the files of a folder without an underscore before their name."""
    files = [path]
    if path.is_dir():
        files = sorted(path.glob("[!_]*.py"))
    if not files or not all(file.is_file() and file.suffix == ".py" for file in files):
        raise UserError(f"there is no Python file at {path}; fix BENCH_METHODS or 'method_paths'")
    return files


@cache
def load_file(path: Path) -> tuple[Origin, list[type[Method]]]:
    """Import a file under a unique module name, without bytecode, and return its methods."""
    source = path.read_bytes()
    name = f"_method_{sha256_text(str(path))[:12]}_{path.stem}"
    module = types.ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module  # dataclasses looks the module up
    sys.path.append(str(path.parent))  # so that it can import modules beside it, also in jobs
    try:
        # Not by importlib: its cached bytecode may be of an older file of equal mtime and size.
        code = compile(source, str(path), "exec", dont_inherit=True)
        exec(code, vars(module))  # noqa: S102 (the user asked to run this file)
        digest = code_sum(path)
    except FAILURES as error:
        del sys.modules[name]
        raise UserError(f"{path} cannot be imported ({describe_error(error)}); fix it") from error
    classes = methods_in(module)
    if not classes:
        raise UserError(
            f"{path} has no method; write a class with a name that extends one of methods.base, or "
            "start the file's name with an underscore"
        )
    for cls in classes:
        with errors_of(f"{path}: class {cls.__name__}"):
            _check_interface(cls)
    return Origin(str(path), digest), classes


def methods_in(module: types.ModuleType) -> list[type[Method]]:
    """Return the named methods that a module defines."""
    return [
        cls
        for _, cls in inspect.getmembers(module, inspect.isclass)
        if issubclass(cls, Method) and hasattr(cls, "name") and cls.__module__ == module.__name__
    ]


_Table = dict[str, dict[str, Any]]  # by backbone or "*", then by key


class Interface(BaseModel):
    """The class attributes of a method that the suite writes or reads."""

    model_config = ConfigDict(strict=True)

    name: str = Field(pattern="^[a-z0-9-]+$")
    title: str = Field(pattern=r"^\S.*$")
    reference: str
    version: int
    paper: _Table
    official: _Table | None


def _check_interface(cls: type[Method]) -> None:
    """Raise `UserError` for what prevents the suite from using a method class."""
    attributes = {name: getattr(cls, name) for name in Interface.model_fields if hasattr(cls, name)}
    validated(Interface, attributes)
    hyper: Any = cls.Hyper
    if not (inspect.isclass(hyper) and issubclass(hyper, HyperParameters)):
        raise UserError("Hyper is no class that extends methods.base.HyperParameters; make it one")
    with errors_of(f"the defaults of {hyper.__name__} are invalid"):
        validated(hyper, {})
    for name in cls.used_if:
        if name not in hyper.model_fields:
            raise UserError(f"'used_if' names '{name}'{did_you_mean(name, hyper.model_fields)}")


def describe_error(error: BaseException) -> str:
    """Describe an error of user code on one line: type, innermost place in the user's code, and
    message."""
    lines = [
        (frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)
    ]
    words = shorten(str(error), _LONGEST, placeholder=" ...")
    if isinstance(error, SyntaxError):
        lines.append((error.filename or "<", error.lineno or 1))
        words = error.msg
    places = [f" in {file}, line {line}" for file, line in lines if not is_library(file)]
    description = type(error).__name__ + "".join(places[-1:])
    if words:
        description += f": {words}"
    return description


def format_value(value: Any) -> str:
    """Format a field's value as text that is read back as the same value."""
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and float(f"{value:g}") == value:
        return f"{value:g}"
    return str(value)
