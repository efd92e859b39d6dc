"""Mistakes that a programmer might make, as edits of syntax trees. Oracles must notice them.

A mutation is applied for the time of a test. Before, no source is read.
"""

import ast
import importlib
import inspect
from collections.abc import Callable, Iterator, Mapping
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
    it has its own: expressions or statements.
    """

    def mutation(old: str, new: str, own_case: str = case) -> Mutation:
        return Mutation(own_case, lambda patch: _apply(place, old, new, patch))

    return {name: mutation(old, new, *own) for name, (*own, old, new) in mistakes.items()}


def _apply(place: str, old: str, new: str, patch: pytest.MonkeyPatch) -> None:
    name, _, path = place.partition(":")
    module = importlib.import_module(name)
    tree = ast.parse(inspect.getsource(module))
    _replace(_defined(tree, path, place), old, new)
    compiled = compile(ast.fix_missing_locations(tree), str(module.__file__), "exec")
    (code,) = (code for code in _codes(compiled) if code.co_qualname == path)
    patch.setattr(_at_work(module, path), "__code__", code)


def _replace(function: ast.FunctionDef, old: str, new: str) -> None:
    pattern, replacement = _parsed(old, new)
    wanted = list(map(ast.dump, pattern))
    targets = [
        (node, field, part)
        for node, field, part, nodes in _places(function, len(pattern))
        if list(map(ast.dump, nodes)) == wanted
    ]
    text = f"{old!r} stands {len(targets)} times in {function.name}"
    assert len(targets) == 1, f"{text}, not once: correct the mutation after a change of the source"
    ((node, field, part),) = targets
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


def _defined(tree: ast.AST, path: str, place: str) -> Any:
    for name in path.split("."):
        nodes = [node for node in tree.body if getattr(node, "name", None) == name]
        assert nodes, f"{place} does not exist: correct the mutation after a change of the source"
        (tree,) = nodes
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
