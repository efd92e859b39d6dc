"""External methods: files in `BENCH_METHODS` and entry points of installed packages."""

import hashlib
import importlib.metadata
import inspect
import os
import sys
import sysconfig
import traceback
import types
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from bench.registry.interface import interface_errors
from bench.utils.errors import UserError
from bench.utils.files import sha256_file, sha256_text
from methods.base import Method

# Entry points of this group are a module with methods or one method class.
ENTRY_POINTS = "sentbench.methods"
LONGEST = 200  # characters of an error message that are shown
FAILURES = (Exception, SystemExit)  # exceptions of user code; not `Stopped` or KeyboardInterrupt
# Folders of code that is not the user's: this project and the standard library.
_NOT_USER_CODE = tuple(
    f"{folder}{os.sep}"
    for folder in (
        Path(__file__).parents[1],
        Path(inspect.getfile(Method)).parent,
        sysconfig.get_path("stdlib"),
    )
)


class BrokenMethod(UserError):
    """An error in the code of an external method."""


@dataclass(frozen=True)
class Origin:
    """Origin of an external method."""

    place: str  # file, or package and module
    sha256: str  # of the imported file, or of all Python files of the package


Found = tuple[Origin, list[type[Method]]]


def method_paths() -> tuple[Path, ...]:
    """Return the files and folders in `BENCH_METHODS` as absolute paths, without duplicates."""
    words = os.environ.get("BENCH_METHODS", "").split(os.pathsep)
    return tuple(dict.fromkeys(Path(word).resolve() for word in words if word))


def add_method_paths(more: Iterable[str | Path]) -> None:
    """Add files or folders to `BENCH_METHODS`, for this process and its children."""
    paths = dict.fromkeys((*method_paths(), *(Path(path).resolve() for path in more)))
    if paths:
        os.environ["BENCH_METHODS"] = os.pathsep.join(map(str, paths))


def external_methods(paths: Iterable[Path]) -> list[Found]:
    """Return the methods of files and folders and of installed packages."""
    files = dict.fromkeys(file for path in paths for file in python_files(path))
    return [*map(load_file, files), *map(_read_package, _entry_points())]


def python_files(path: Path) -> list[Path]:
    """Return a Python file, or those of a folder except names that start with an underscore."""
    if path.is_file():
        if path.suffix == ".py":
            return [path]
        raise UserError(f"{path} is not a Python file; give a .py file or a folder of such files")
    if not path.is_dir():
        raise UserError(f"{path} does not exist; fix BENCH_METHODS or 'method_paths'")
    files = sorted(file for file in path.glob("*.py") if not file.name.startswith("_"))
    if not files:
        raise UserError(f"{path} contains no Python file; fix BENCH_METHODS or 'method_paths'")
    return files


@cache
def load_file(path: Path) -> Found:
    """Import a file under a unique module name, without bytecode, and return its methods."""
    source = path.read_bytes()
    name = f"_method_{sha256_text(str(path))[:12]}_{path.stem}"
    module = types.ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module  # dataclasses looks the module up
    try:
        # Not by importlib: its cached bytecode may be of an older file of equal mtime and size.
        code = compile(source, str(path), "exec", dont_inherit=True)
        exec(code, vars(module))  # noqa: S102 (the user asked to run this file)
    except FAILURES as error:
        del sys.modules[name]
        raise UserError(f"{path} cannot be imported ({describe_error(error)}); fix it") from error
    classes = methods_in(module, name)
    if not classes:
        raise UserError(
            f"{path} has no method; write a class with a name that extends one of methods.base, "
            "or start the file's name with an underscore"
        )
    return Origin(str(path), hashlib.sha256(source).hexdigest()), _checked(classes, str(path))


def methods_in(module: types.ModuleType, within: str) -> list[type[Method]]:
    """Return the named methods of a module that are defined in `within`, a module or package."""
    return [
        cls
        for _, cls in inspect.getmembers(module, inspect.isclass)
        if issubclass(cls, Method)
        and hasattr(cls, "name")
        and f"{cls.__module__}.".startswith(f"{within}.")
    ]


def describe_error(error: BaseException, function: Callable[..., Any] | None = None) -> str:
    """Describe an error of user code on one line: type, place and message; the place is the first
    line of the called `function` if it did not run, e.g. for a wrong number of arguments."""
    words = error.msg if isinstance(error, SyntaxError) else " ".join(str(error).split())[:LONGEST]
    place = _place(error) or _first_line(function)
    kind = type(error).__name__ + (f" in {place}" if place else "")
    return f"{kind}: {words}" if words else kind


def _place(error: BaseException) -> str:
    """Return the innermost line of user code in the traceback."""
    frames = traceback.walk_tb(error.__traceback__)
    places = [(frame.f_code.co_filename, line) for frame, line in frames]
    if isinstance(error, SyntaxError) and error.filename:
        places.append((error.filename, error.lineno or 1))
    return next((f"{file}, line {line}" for file, line in reversed(places) if _is_users(file)), "")


def _is_users(file: str) -> bool:
    return not (
        file.startswith("<")
        or {"site-packages", "dist-packages"} & set(Path(file).parts)
        or file.startswith(_NOT_USER_CODE)
    )


def _first_line(function: Callable[..., Any] | None) -> str:
    """Return the first line of a Python callable; "" for compiled code."""
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
    """Return the methods of an entry point, which is a module with methods or one method class."""
    where = f"the package {entry.dist.name if entry.dist else entry.module} ({entry.value})"
    try:
        loaded = entry.load()
    except FAILURES as error:
        raise UserError(
            f"{where} cannot be imported ({describe_error(error)}); fix or uninstall it"
        ) from error
    top = entry.module.partition(".")[0]
    if isinstance(loaded, types.ModuleType):
        classes = methods_in(loaded, top)
    else:
        classes = [loaded] if inspect.isclass(loaded) and issubclass(loaded, Method) else []
    if not classes:
        raise UserError(f"{where} has no method; fix its entry point or uninstall it")
    return Origin(where, _package_sha256(sys.modules[top])), _checked(classes, where)


def _package_sha256(module: types.ModuleType) -> str:
    """Return the SHA-256 of a module, or of the names and digests of all files of a package."""
    folders = [Path(folder) for folder in getattr(module, "__path__", [])]
    if not folders:
        return sha256_file(Path(module.__file__ or ""))
    files = sorted(
        (file.relative_to(folder).as_posix(), file)
        for folder in folders
        for file in folder.rglob("*.py")
    )
    return sha256_text("\n".join(f"{sha256_file(file)}  {name}" for name, file in files))


def _checked(classes: list[type[Method]], place: str) -> list[type[Method]]:
    for cls in classes:
        for fault in interface_errors(cls):
            raise UserError(f"{place}: class {cls.__name__}: {fault}")
    return classes
