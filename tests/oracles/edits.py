"""Mistakes that a programmer might make, as edits of syntax trees. Oracles must notice them.

A mutation is applied for the time of a test. Before, no source is read.
"""

import ast
import builtins
import importlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from types import CodeType, FunctionType
from typing import Any, NamedTuple

import pytest

VARIABLES = (ast.Name, ast.arg)
Place = tuple[ast.AST, str, slice | None]  # of a node: a field, or a part of a list there


class Mutation(NamedTuple):
    """A mistake, and the name of the case that shows it, where a method has several."""

    case: str
    apply: Callable[[pytest.MonkeyPatch], None]


def each(table: Mapping[str, Mutation]) -> Callable[[Any], Any]:
    """Make a test one test per mutation of a table, for `make test-nightly`."""
    every = pytest.mark.parametrize("mutation", table.values(), ids=[*table])
    return lambda test: pytest.mark.nightly(every(test))


def edits(place: str, mistakes: dict[str, tuple[str, ...]]) -> dict[str, Mutation]:
    """Return mutations of a function, "module:qualified name".

    A mistake is what stands there once, and what is put in its place, after the name of its case if
    it has one: expressions or statements. A name that the module does not define is any one local
    variable of the function. After its qualified name the function may have its first parameters in
    parentheses, for mistakes that replace by one of them.
    """
    module, _, function = place.partition(":")

    def mutation(old: str, new: str, case: str = "") -> Mutation:
        return Mutation(case, lambda patch: _apply(module, function, old, new, patch))

    return {name: mutation(old, new, *case) for name, (*case, old, new) in mistakes.items()}


def _apply(name: str, function: str, old: str, new: str, patch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module(name)
    path, _, parameters = function.rstrip(")").partition("(")
    tree = ast.parse(inspect.getsource(module))
    replace(_defined(tree, path), old, new, vars(module), parameters)
    compiled = compile(ast.fix_missing_locations(tree), str(module.__file__), "exec")
    (code,) = (code for code in _codes(compiled) if code.co_qualname == path)
    patch.setattr(_at_work(module, path), "__code__", code)


def replace(
    function: ast.FunctionDef, old: str, new: str, defined: Any, parameters: str = ""
) -> None:
    """Replace `old` by `new` in the tree of a function of a module where names are defined."""
    pattern, replacement = _parsed(old, new)
    known = defined.keys() | vars(builtins).keys() | {"self"}
    given = [word.strip() for word in parameters.split(",") if word]
    named = dict(zip(given, (arg.arg for arg in function.args.args), strict=False))
    free, bound = (_names(pattern) - known) | _bound(pattern) | named.keys(), _bound([function])
    found = []
    for place in _places(function, len(pattern)):
        names = dict(named)
        if _same(pattern, _at(place), free, bound, names):
            found.append((place, names))
    assert len(found) == 1, f"{old!r} stands {len(found)} times in {function.name}"
    ((node, field, part), names) = found[0]
    new_names = _bound(replacement) - bound
    unknown = _names(replacement) - known - new_names - names.keys()
    assert not unknown, f"{old!r} does not say what {unknown} is"
    for name in ast.walk(ast.Module(replacement, [])):
        if isinstance(name, ast.Name):
            name.id = names.get(name.id, name.id)
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


def _places(function: ast.AST, count: int) -> Iterator[Place]:
    for node in ast.walk(function):
        for field, value in ast.iter_fields(node):
            if isinstance(value, list):
                for start in range(len(value)):
                    yield node, field, slice(start, start + count)
            else:
                yield node, field, None


def _at(place: Place) -> list[Any]:
    node, field, part = place
    value = getattr(node, field)
    return [value] if part is None else value[part]


def _same(old: Any, node: Any, free: set[str], bound: set[str], names: dict[str, str]) -> bool:
    """Whether a tree is a pattern's with its `free` names renamed to `bound` ones, by `names`."""
    if type(old) is not type(node):
        return False
    if isinstance(old, list):
        same = zip(old, node, strict=False)
        return len(old) == len(node) and all(_same(*pair, free, bound, names) for pair in same)
    if not isinstance(old, ast.AST):
        return old == node
    for field in old._fields:
        own, other = getattr(old, field), getattr(node, field)
        if isinstance(old, VARIABLES) and own in free:
            if other not in bound or names.setdefault(own, other) != other:
                return False
        elif not _same(own, other, free, bound, names):
            return False
    return len({*names.values()}) == len(names)


def _names(nodes: list[Any]) -> set[str]:
    return {node.id for node in ast.walk(ast.Module(nodes, [])) if isinstance(node, ast.Name)}


def _bound(nodes: list[Any]) -> set[str]:
    """The names that assignments and parameters within some nodes give values to."""
    found = set()
    for node in ast.walk(ast.Module(nodes, [])):
        if isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    return found


def _defined(tree: ast.AST, path: str) -> ast.FunctionDef:
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
