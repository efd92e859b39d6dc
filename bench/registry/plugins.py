"""Methods from outside the project: files that `BENCH_METHODS` names, and entry points of installed packages."""

from __future__ import annotations

import hashlib
import importlib.metadata
import inspect
import os
import re
import sys
import sysconfig
import traceback
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any

from bench.utils.errors import UserError
from bench.utils.files import sha256_file
from methods.base import HyperParameters, Method

# Installed packages name a module with methods, or one method, in this group of entry points.
ENTRY_POINTS = "sentbench.methods"
NAME = r"[a-z0-9-]+"  # what a run's text can hold
FIELD_TYPES = ("bool", "int", "float", "str", "None")  # what a text can be turned into
LONGEST = 200  # characters of an error's words
FAILURES = (Exception, SystemExit)  # what a user's code may raise; a stop or an interrupt is none of it
# Where code lies that a user has not written: this project's, and Python's.
_OTHERS = tuple(
    f"{folder}{os.sep}"
    for folder in (Path(__file__).parents[1], Path(inspect.getfile(Method)).parent, sysconfig.get_path("stdlib"))
)


@dataclass(frozen=True)
class Origin:
    """Where a method from outside comes from.

    Attributes:
        place: its file, or its package and module.
        sha256: sum of the bytes that were imported; of a package, of all its Python files.
    """

    place: str
    sha256: str


Found = tuple[Origin, list[type[Method]]]


def method_paths() -> tuple[Path, ...]:
    """Files and folders that `BENCH_METHODS` names, absolute, each once."""
    words = os.environ.get("BENCH_METHODS", "").split(os.pathsep)
    return tuple(dict.fromkeys(Path(word).resolve() for word in words if word))


def add_method_paths(more: Iterable[str | Path]) -> None:
    """Let this process, and those that it starts, see further files or folders beside those of `BENCH_METHODS`."""
    paths = dict.fromkeys((*method_paths(), *(Path(path).resolve() for path in more)))
    if paths:
        os.environ["BENCH_METHODS"] = os.pathsep.join(map(str, paths))


def external_methods(paths: Iterable[Path]) -> list[Found]:
    """The methods of files and folders, and those of installed packages.

    Raises:
        UserError: one cannot be imported, holds no method, or one that is not whole.
    """
    files = dict.fromkeys(file for path in paths for file in python_files(path))
    return [*map(load_file, files), *map(_read_package, _entry_points())]


def python_files(path: Path) -> list[Path]:
    """A Python file, or those of a folder; in a folder names that start with an underscore are left alone.

    Raises:
        UserError: it is neither.
    """
    if path.is_file():
        if path.suffix != ".py":
            raise UserError(f"{path} is no Python file; name one that ends in .py, or a folder of such files")
        return [path]
    if not path.is_dir():
        raise UserError(f"{path} is no file or folder with methods; mend BENCH_METHODS or 'method_paths'")
    found = sorted(file for file in path.glob("*.py") if not file.name.startswith("_"))
    if not found:
        raise UserError(f"{path} holds no Python file with a method; mend BENCH_METHODS or 'method_paths'")
    return found


@cache
def load_file(path: Path) -> Found:
    """The methods of a file. It is imported under a name of its own, and nothing is left in its folder.

    Raises:
        UserError: it cannot be imported, or holds no method; the message names file and line.
    """
    source = path.read_bytes()
    name = f"_method_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}_{path.stem}"
    module = types.ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module  # where dataclasses look for their own
    try:
        # Not by way of importlib, whose bytecode may be of an older file with the same time and size.
        code = compile(source, str(path), "exec", dont_inherit=True)
        exec(code, vars(module))  # noqa: S102 (a file that the user names to be run)
    except FAILURES as error:
        del sys.modules[name]
        raise UserError(f"{path} cannot be imported ({describe_error(error)}); mend it") from error
    classes = methods_in(module, name)
    if not classes:
        raise UserError(
            f"{path} holds no method; write a class that extends one of methods.base and has a name, "
            "or begin the file's name with an underscore"
        )
    return Origin(str(path), hashlib.sha256(source).hexdigest()), [_whole(cls, str(path)) for cls in classes]


def methods_in(module: types.ModuleType, within: str) -> list[type[Method]]:
    """The methods with a name that a module holds, as far as they are made in `within`, a module or package."""
    return [
        cls
        for _, cls in inspect.getmembers(module, inspect.isclass)
        if issubclass(cls, Method) and hasattr(cls, "name") and f"{cls.__module__}.".startswith(f"{within}.")
    ]


def describe_error(error: BaseException, function: Callable[..., Any] | None = None) -> str:
    """An error of a user's code on one line: its kind, where it is in that code, and its words.

    Args:
        function: the user's, which was called; its first line is named where the error came before it, as of a wrong
            number of arguments.
    """
    words = error.msg if isinstance(error, SyntaxError) else " ".join(str(error).split())[:LONGEST]
    place = _place(error) or _first_line(function)
    kind = type(error).__name__ + (f" in {place}" if place else "")
    return f"{kind}: {words}" if words else kind


def _place(error: BaseException) -> str:
    """The last line that an error came through outside of this project, of installed packages and of Python itself."""
    places = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    if isinstance(error, SyntaxError) and error.filename:
        places.append((error.filename, error.lineno or 1))
    return next((f"{file}, line {line}" for file, line in reversed(places) if _is_users(file)), "")


def _is_users(file: str) -> bool:
    return not (
        file.startswith("<") or {"site-packages", "dist-packages"} & set(Path(file).parts) or file.startswith(_OTHERS)
    )


def _first_line(function: Callable[..., Any] | None) -> str:
    """Where a function, a method or what an object does when it is called is written; nothing of compiled code."""
    for called in (function, vars(type(function)).get("__call__")):
        code = getattr(called, "__code__", None)
        if code and _is_users(code.co_filename):
            return f"{code.co_filename}, line {code.co_firstlineno}"
    return ""


@cache
def _entry_points() -> tuple[importlib.metadata.EntryPoint, ...]:
    return tuple(importlib.metadata.entry_points(group=ENTRY_POINTS))


@cache
def _read_package(entry: importlib.metadata.EntryPoint) -> Found:
    """The methods of an installed package's entry point: a module that holds some, or one of them."""
    where = f"the package {entry.dist.name if entry.dist else entry.module} ({entry.value})"
    try:
        loaded = entry.load()
    except FAILURES as error:
        raise UserError(f"{where} cannot be imported ({describe_error(error)}); mend or uninstall it") from error
    top = entry.module.partition(".")[0]
    if isinstance(loaded, types.ModuleType):
        classes = methods_in(loaded, top)
    else:
        classes = [loaded] if inspect.isclass(loaded) and issubclass(loaded, Method) else []
    if not classes:
        raise UserError(f"{where} holds no method; mend its entry point or uninstall it")
    return Origin(where, _package_sum(sys.modules[top])), [_whole(cls, where) for cls in classes]


def _package_sum(module: types.ModuleType) -> str:
    """Sum of a module's file, or of the names and sums of all Python files of a package."""
    folders = [Path(folder) for folder in getattr(module, "__path__", [])]
    if not folders:
        return sha256_file(Path(module.__file__ or ""))
    files = sorted((file.relative_to(folder).as_posix(), file) for folder in folders for file in folder.rglob("*.py"))
    return hashlib.sha256("\n".join(f"{sha256_file(file)}  {name}" for name, file in files).encode()).hexdigest()


def _whole(cls: type[Method], place: str) -> type[Method]:
    for fault in interface_errors(cls):
        raise UserError(f"{place}: {fault}")
    return cls


def interface_errors(cls: type[Method]) -> Iterator[str]:
    """What a class lacks to be a method that the suite can name, write and run, each as a sentence with the remedy."""
    if not isinstance(cls.name, str) or not re.fullmatch(NAME, cls.name):
        yield f"the name of {cls.__name__} is {cls.name!r}; write it in small letters, digits and dashes"
    for attribute in ("title", "reference"):
        value = getattr(cls, attribute, "")
        if not isinstance(value, str) or not value.strip():
            yield f"{cls.__name__} has no {attribute}; write {attribute} = '...' beside its name"
        elif len(value.splitlines()) > 1:
            yield f"the {attribute} of {cls.__name__} has several lines; write it in one"
    if type(cls.version) is not int:
        yield f"the version of {cls.__name__} is {cls.version!r}; write a whole number, or leave it out"
    yield from _hyper_errors(cls.__name__, cls.Hyper)
    for attribute in ("paper", "official"):
        table: Any = getattr(cls, attribute)
        if table is None and attribute == "official":
            continue
        if not isinstance(table, Mapping) or not all(isinstance(row, Mapping) for row in table.values()):
            yield f"the table '{attribute}' of {cls.__name__} is none; write {{backbone or '*': {{key: value}}}}"


def _hyper_errors(owner: str, hyper: Any) -> Iterator[str]:
    if not inspect.isclass(hyper) or not issubclass(hyper, HyperParameters) or not is_dataclass(hyper):
        yield f"Hyper of {owner} is not a dataclass that extends methods.base.HyperParameters; name one"
        return
    if forgotten := vars(hyper).get("__annotations__", {}).keys() - {item.name for item in fields(hyper)}:
        yield f"'{min(forgotten)}' of {hyper.__name__} is no field; write @dataclass(frozen=True) above the class"
    for item in fields(hyper):
        if item.default is MISSING and item.default_factory is MISSING:
            yield f"'{item.name}' of {hyper.__name__} has no default; give it one"
        kinds = {kind.strip() for kind in type_name(item.type).split("|")}
        if kinds == {"None"} or not kinds <= set(FIELD_TYPES):
            yield (
                f"'{item.name}' of {hyper.__name__} is of type {type_name(item.type)}; "
                "make it bool, int, float or str, or one of them with '| None'"
            )


def type_name(annotation: Any) -> str:
    """A field's annotation as it is written, be it text or not."""
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)
