"""Modules of the user that a method's file imports, whose code decides its numbers, too."""

import ast
import inspect
import os
import sysconfig
from collections.abc import Iterator
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path

from bench.utils.files import sha256_file, sha256_listed
from methods.base import Method

# Folders of code that is not the user's: this project and the standard library.
_NOT_USER_CODE = (
    f"{Path(__file__).parents[1]}{os.sep}",
    f"{Path(inspect.getfile(Method)).parent}{os.sep}",
    f"{sysconfig.get_path('stdlib')}{os.sep}",
)
# Calls that run code which no import statement names.
_HIDING = (
    "__import__", "exec", "import_module", "run_module", "run_path", "spec_from_file_location",
)  # fmt: skip


def is_library(file: str) -> bool:
    """Whether a file is installed, or of the standard library or this project."""
    packages = {"site-packages", "dist-packages"} & set(Path(file).parts)
    return bool(packages) or file.startswith(("<", "built-in", "frozen", *_NOT_USER_CODE))


def code_sum(file: Path) -> str:
    """Return the SHA-256 of a file, and with it of the user's modules that its code imports, also
    within functions and by way of others; a package counts as a whole.

    Raises:
        ImportError: it loads code that no import statement names.
    """
    sums, left = {"": sha256_file(file)}, [file]
    for importing in left:  # which grows
        for name in _imported(importing):
            # A function may add the folder of its file to Python's path first.
            spec = find_spec(name) or PathFinder.find_spec(name, [str(importing.parent)])
            if spec is None:  # it may be optional
                continue
            places = spec.submodule_search_locations or [str(spec.origin)]
            if is_library(spec.origin or places[0]):
                continue
            for place in map(Path, places):
                for found in [place, *sorted(place.rglob("*.py"))]:
                    key = str(found.relative_to(place.parent))
                    if found.is_file() and key not in sums:
                        sums[key] = sha256_file(found)
                        left += [found] if found.suffix == ".py" else []
    return sha256_listed(sums) if len(sums) > 1 else sums[""]


def _imported(file: Path) -> Iterator[str]:
    """Yield the first part of the names of the modules that a file imports."""
    for node in ast.walk(ast.parse(file.read_bytes())):
        match node:
            case ast.Import():
                for alias in node.names:
                    yield alias.name.partition(".")[0]
            case ast.ImportFrom(level=0, module=str(name)):
                yield name.partition(".")[0]
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in _HIDING:
                raise ImportError(
                    f"{file}, line {node.lineno} calls {name}, by which it may load code whose "
                    "changes would go unnoticed: use import statements"
                )
