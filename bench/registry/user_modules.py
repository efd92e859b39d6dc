"""The user's modules that a method's file imports. Their code decides its numbers, too."""

import ast
import os
import sysconfig
from collections.abc import Iterator
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path

import methods
from bench.utils.files import sha256_file, sha256_text

# Folders of code that is not the user's: this project and the standard library.
_NOT_USER_CODE = (
    f"{Path(__file__).parents[1]}{os.sep}",
    str(Path(__file__).parents[2] / "sentbench.py"),
    f"{Path(methods.__file__).parent}{os.sep}",
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
    files = [file]
    for importing in files:  # which grows
        for name in _imported(importing):
            # A function may add the folder of its file to Python's path first.
            spec = find_spec(name) or PathFinder.find_spec(name, [str(importing.parent)])
            if spec is None:  # it may be optional
                continue
            places = spec.submodule_search_locations or [str(spec.origin)]
            if is_library(spec.origin or places[0]):
                continue
            for place in map(Path, places):
                modules = [place, *place.rglob("*.py")]
                files += [path for path in modules if path.is_file() and path not in files]
    sums = sorted(map(sha256_file, files))  # of contents alone: places may differ
    return sha256_text(" ".join(sums)) if len(sums) > 1 else sums[0]


def _imported(file: Path) -> Iterator[str]:
    """Yield the first part of the names of the modules that a file imports."""
    for node in ast.walk(ast.parse(file.read_bytes() if file.suffix == ".py" else "")):
        match node:
            case ast.Import(names=names):
                yield from (alias.name.partition(".")[0] for alias in names)
            case ast.ImportFrom(level=0, module=str(name)):
                yield name.partition(".")[0]
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in _HIDING:
                raise ImportError(
                    f"{file}, line {node.lineno} calls {name}, by which it may load code whose "
                    "changes would go unnoticed: use import statements"
                )
