"""External methods: files in `BENCH_METHODS` and entry points of installed packages."""

import hashlib
import importlib.metadata
import inspect
import os
import sys
import sysconfig
import traceback
import types
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bench.utils.errors import UserError, did_you_mean
from bench.utils.files import sha256_file, sha256_text
from bench.utils.validation import explain
from methods.base import HyperParameters, Method

Table = dict[str, dict[str, Any]]  # by backbone or "*", then by key


class Interface(BaseModel):
    """The class attributes of a method that the suite writes or reads."""

    model_config = ConfigDict(strict=True)

    name: str = Field(pattern="^[a-z0-9-]+$")
    title: str = Field(pattern=r"^\S.*$")
    reference: str
    version: int
    paper: Table
    official: Table | None


def interface_errors(cls: type[Method]) -> Iterator[str]:
    """Yield what prevents the suite from using a method class."""
    given = {name: getattr(cls, name) for name in Interface.model_fields if hasattr(cls, name)}
    try:
        Interface(**given)
    except ValidationError as error:
        yield explain(error)
    hyper: Any = cls.Hyper
    if not (inspect.isclass(hyper) and issubclass(hyper, HyperParameters)):
        yield "Hyper is no class that extends methods.base.HyperParameters; make it one"
        return
    for name, field in hyper.model_fields.items():
        if not _is_plain(field.annotation):
            yield (
                f"'{name}' of {hyper.__name__} is of type {field.annotation}; use bool, int, "
                "float, str or Literal, with or without '| None'"
            )
    try:
        hyper()
    except ValidationError as error:
        yield f"the defaults of {hyper.__name__} are invalid: {explain(error)}"
    for name in cls.used_if:
        if name not in hyper.model_fields:
            yield f"'used_if' names '{name}'{did_you_mean(name, hyper.model_fields)}"


def _is_plain(kind: Any) -> bool:
    if get_origin(kind) in (Union, UnionType):
        return all(map(_is_plain, get_args(kind)))
    return kind in (bool, int, float, str, NoneType) or get_origin(kind) is Literal


# Entry points of this group are a module with methods or one method class.
ENTRY_POINTS = "sentbench.methods"
LONGEST = 200  # characters of an error message that are shown
FAILURES = (Exception, SystemExit)  # exceptions of user code; not `Stopped` or KeyboardInterrupt
# Folders of code that is not the user's: this project and the standard library.
_NOT_USER_CODE = (
    f"{Path(__file__).parents[1]}{os.sep}",
    f"{Path(inspect.getfile(Method)).parent}{os.sep}",
    f"{sysconfig.get_path('stdlib')}{os.sep}",
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
    """Return the distinct files and folders in `BENCH_METHODS` as absolute paths."""
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
    files = sorted(path.glob("[!_]*.py")) if path.is_dir() else [path]
    if not files or not all(file.is_file() and file.suffix == ".py" for file in files):
        raise UserError(f"there is no Python file at {path}; fix BENCH_METHODS or 'method_paths'")
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
    """Describe an error of user code on one line: type, place and message; the place is that of the
    called `function` if it did not run, e.g. for a wrong number of arguments."""
    # Of a callable object, its class has the code; compiled functions have none.
    called = function if inspect.isfunction(function) else vars(type(function)).get("__call__")
    code = getattr(called, "__code__", None)
    lines = [(code.co_filename, code.co_firstlineno)] if code else []
    traced = traceback.walk_tb(error.__traceback__)
    lines += [(frame.f_code.co_filename, line) for frame, line in traced]
    words = " ".join(str(error).split())[:LONGEST]
    if isinstance(error, SyntaxError):
        lines.append((error.filename or "<", error.lineno or 1))
        words = error.msg
    kind = type(error).__name__
    # The innermost line of the user's code.
    for file, line in reversed(lines):
        if not _is_library(file):
            kind += f" in {file}, line {line}"
            break
    return f"{kind}: {words}" if words else kind


def _is_library(file: str) -> bool:
    packages = {"site-packages", "dist-packages"} & set(Path(file).parts)
    return file.startswith("<") or bool(packages) or file.startswith(_NOT_USER_CODE)


@cache
def _entry_points() -> tuple[importlib.metadata.EntryPoint, ...]:
    return tuple(importlib.metadata.entry_points(group=ENTRY_POINTS))


@cache
def _read_package(entry: importlib.metadata.EntryPoint) -> Found:
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
    if not hasattr(module, "__path__"):
        return sha256_file(Path(module.__file__ or ""))
    files: dict[str, Path] = {}
    for folder in map(Path, module.__path__):
        files |= {file.relative_to(folder).as_posix(): file for file in folder.rglob("*.py")}
    return sha256_text("\n".join(f"{sha256_file(files[name])}  {name}" for name in sorted(files)))


def _checked(classes: list[type[Method]], place: str) -> list[type[Method]]:
    for cls in classes:
        for fault in interface_errors(cls):
            raise UserError(f"{place}: class {cls.__name__}: {fault}")
    return classes
