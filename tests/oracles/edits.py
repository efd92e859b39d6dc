"""Mistakes that a programmer might make, as edits of syntax trees. Oracles must notice them.

A mutation is applied for the time of a test. Before, no source is read.
"""

import ast
import builtins
import importlib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from types import CodeType, FunctionType
from typing import Any, NamedTuple

import pytest


class Mutation(NamedTuple):
    """A mistake, and the name of the case that shows it, where a method has several."""

    case: str
    apply: Callable[[pytest.MonkeyPatch], None]


def each(table: Mapping[str, Mutation]) -> Callable[[Any], Any]:
    """Make a test one test per mutation of a table, for `make test-nightly`."""
    every = pytest.mark.parametrize("mutation", table.values(), ids=table)
    return lambda test: pytest.mark.nightly(every(test))


def edits(place: str, mistakes: dict[str, tuple[str, ...]], case: str = "") -> dict[str, Mutation]:
    """Return mutations of a function, "module:qualified name".

    A mistake is what stands there once, and what is put in its place, after the name of a case if
    it has its own: expressions or statements. A name that the module does not define is any one
    local variable of the function. After its qualified name the function may have its first
    parameters in parentheses, for mistakes that replace by one of them.
    """

    def mutation(old: str, new: str, own_case: str = case) -> Mutation:
        return Mutation(own_case, lambda patch: _apply(place, old, new, patch))

    return {name: mutation(old, new, *own) for name, (*own, old, new) in mistakes.items()}


def _apply(place: str, old: str, new: str, patch: pytest.MonkeyPatch) -> None:
    name, _, function = place.partition(":")
    path, _, parameters = function.rstrip(")").partition("(")
    module = importlib.import_module(name)
    tree = ast.parse(inspect.getsource(module))
    known = {*vars(module), *vars(builtins), "self"}
    _replace(_defined(tree, path), old, new, known, [p for p in parameters.split(", ") if p])
    compiled = compile(ast.fix_missing_locations(tree), str(module.__file__), "exec")
    (code,) = (code for code in _codes(compiled) if code.co_qualname == path)
    patch.setattr(_at_work(module, path), "__code__", code)


def _replace(
    function: ast.FunctionDef, old: str, new: str, known: set[str], parameters: Sequence[str]
) -> None:
    pattern, replacement = _parsed(old, new)
    local = _bound([function]) - known
    free = (_names(pattern) | _bound(pattern) | {*parameters}) - known
    own_parameters = [arg.arg for arg in function.args.args[: len(parameters)]]
    wanted, names = _numbered(pattern, free, parameters)
    found = []
    for node, field, part, nodes in _places(function, len(pattern)):
        text, own_names = _numbered(nodes, local, own_parameters)
        if text == wanted:
            found.append((node, field, part, dict(zip(names, own_names, strict=True))))
    assert len(found) == 1, f"{old!r} stands {len(found)} times in {function.name}"
    node, field, part, renamed = found[0]
    unknown = _names(replacement) - known - (_bound(replacement) - local) - renamed.keys()
    assert not unknown, f"{old!r} does not say what {unknown} is"
    for name in ast.walk(ast.Module(replacement, [])):
        if isinstance(name, ast.Name):
            name.id = renamed.get(name.id, name.id)
    if part is None:
        setattr(node, field, *replacement)
    else:
        getattr(node, field)[part] = replacement


def _parsed(*texts: str) -> list[list[Any]]:
    """Texts as one expression each, or all as statements."""
    try:
        return [[ast.parse(text, mode="eval").body] for text in texts]
    except SyntaxError:
        return [ast.parse(text).body for text in texts]


def _places(function: ast.AST, count: int) -> Iterator[tuple[ast.AST, str, slice | None, list]]:
    """Where a number of nodes stand: the field of a node, the part of it if it is a list, nodes."""
    for node in ast.walk(function):
        for field, value in ast.iter_fields(node):
            if isinstance(value, list):
                for start in range(len(value)):
                    part = slice(start, start + count)
                    yield node, field, part, value[part]
            elif isinstance(value, ast.expr):
                yield node, field, None, [value]


def _numbered(nodes: list[Any], local: set[str], first: Sequence[str]) -> tuple[str, list[str]]:
    """Trees as a text with numbers for local names, and these names in the order of the numbers."""
    tree, names = ast.Module(deepcopy(nodes), []), [*first]
    for node in ast.walk(tree):
        field = {ast.Name: "id", ast.arg: "arg"}.get(type(node))
        if field and getattr(node, field) in local:
            name = getattr(node, field)
            if name not in names:
                names.append(name)
            setattr(node, field, str(names.index(name)))
    return ast.dump(tree), names


def _names(nodes: list[Any]) -> set[str]:
    return {node.id for node in ast.walk(ast.Module(nodes, [])) if isinstance(node, ast.Name)}


def _bound(nodes: list[Any]) -> set[str]:
    """The names that assignments, parameters and functions within some nodes give values to."""
    found = set()
    for node in ast.walk(ast.Module(nodes, [])):
        if isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    return found


def _defined(tree: ast.AST, path: str) -> Any:
    for name in path.split("."):
        (tree,) = (node for node in tree.body if getattr(node, "name", None) == name)
    return tree


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)


def _at_work(module: Any, path: str) -> FunctionType:
    """A function of a module, below decorators."""
    value = module
    for name in path.split("."):
        value = inspect.getattr_static(value, name)
    return inspect.unwrap(getattr(value, "fget", None) or getattr(value, "__func__", value))
