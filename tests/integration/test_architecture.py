"""docs/architecture.md agrees with the code: its packages, functions, and the calls of its walk."""

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = "docs/architecture.md"
TEXT = (ROOT / PAGE).read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
CONTRACTS = PROJECT["tool"]["importlinter"]["contracts"]
REFERENCE = r"`([\w/]+\.py)::([\w.]+)`"
# A row of the walk: step, what happens, function, caller.
WALK = [
    (int(step), (path, name), (caller_path, caller))
    for step, path, name, caller_path, caller in re.findall(
        rf"^\| (\d+) \| [^|]* \| {REFERENCE} \| {REFERENCE} \|$", TEXT, re.MULTILINE
    )
]


@cache
def tree(path: str) -> ast.Module:
    return ast.parse((ROOT / path).read_text(encoding="utf-8"))


def defined(node: ast.AST, name: str) -> ast.AST | None:
    """The definition of a function, class or constant, directly in a module or class."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.ClassDef) and child.name == name:
            return child
        targets = getattr(child, "targets", [getattr(child, "target", None)])
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            return child
    return None


def found(path: str, name: str) -> ast.AST | None:
    """The definition of `Class.method` or `function` in a file."""
    node: ast.AST | None = tree(path) if (ROOT / path).is_file() else None
    for part in name.split("."):
        node = node and defined(node, part)
    return node


def definition(path: str, name: str) -> ast.AST:
    node = found(path, name)
    assert node, f"{PAGE} names {path}::{name}, which does not exist"
    return node


def imported(path: str) -> set[str]:
    """Modules that a file imports anywhere, for `from a import b` both `a` and `a.b`."""
    modules = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return modules


def called(node: ast.AST) -> set[str]:
    """Names that a function calls, for `a.b()` the name `b`."""
    functions = [call.func for call in ast.walk(node) if isinstance(call, ast.Call)]
    return {getattr(function, "attr", getattr(function, "id", "")) for function in functions}


def module_of(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


@pytest.mark.parametrize("reference", sorted(set(re.findall(REFERENCE, TEXT))), ids="::".join)
def test_functions_exist(reference):
    definition(*reference)


def test_the_walk_is_numbered_from_sentence_to_table():
    steps = [step for step, _, _ in WALK]
    assert steps == list(range(1, len(WALK) + 1)), f"{PAGE}: a row of the walk cannot be parsed"
    assert len(WALK) >= 15
    files = {path for _, *ends in WALK for path, _ in ends}
    assert len(files) <= 14, f"{PAGE}: whoever follows the walk opens {len(files)} files"


@pytest.mark.parametrize("row", WALK, ids=lambda row: f"step-{row[0]}")
def test_each_step_is_called_as_stated(row):
    step, (path, name), (caller_path, caller) = row
    told = f"{PAGE}, step {step}: {caller_path} does not {{}}; name what does"
    calls = name.rpartition(".")[2] in called(definition(caller_path, caller))
    assert calls, told.format(f"call {name} in {caller}")
    # A method receives the context as an argument and imports nothing of bench.
    if caller_path != path and not caller_path.startswith("methods/"):
        # methods.base re-exports what is in the others.
        module = "methods.base" if path.startswith("methods/") else module_of(path)
        assert module in imported(caller_path), told.format(f"import {module}")


def test_every_package_has_its_row_in_the_order_of_the_layers():
    (layers,) = [contract["layers"] for contract in CONTRACTS if contract["type"] == "layers"]
    expected = [package.strip() for layer in layers for package in layer.split("|")]
    packages = [path.parent.name for path in (ROOT / "bench").glob("*/__init__.py")]
    assert sorted(expected) == sorted(packages)
    described = re.findall(r"^\| `bench/(\w+)` \|", TEXT, re.MULTILINE)
    assert described == expected, f"{PAGE}: packages are not in the order of [tool.importlinter]"
