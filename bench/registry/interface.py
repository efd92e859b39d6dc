"""What a method class must have for the suite to use it (methods/contract.py)."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any

from bench.registry.values import TYPE_NAMES, convert, type_name
from bench.utils.errors import UserError, did_you_mean
from methods.base import HyperParameters, Method, holds, is_true

NAME = r"[a-z0-9-]+"  # characters allowed in the text of a run
# What a condition of `needs` or `used_if` may consist of.
CONDITION: tuple[type[ast.AST], ...] = (
    ast.Expression, ast.BoolOp, ast.boolop, ast.UnaryOp, ast.unaryop, ast.Compare, ast.cmpop,
    ast.BinOp, ast.operator, ast.Name, ast.expr_context, ast.Constant,
)  # fmt: skip


def interface_errors(cls: type[Method]) -> Iterator[str]:
    """Yield what prevents the suite from using a method class, as messages with the remedy."""
    if not isinstance(cls.name, str) or not re.fullmatch(NAME, cls.name):
        told = f"the name of {cls.__name__} is {cls.name!r}"
        yield f"{told}; use lower-case letters, digits and dashes"
    for attribute in ("title", "reference"):
        value = getattr(cls, attribute, "")
        if attribute == "title" and not (isinstance(value, str) and value.strip()):
            yield f"{cls.__name__} has no title; write title = '...' beside its name"
        elif not isinstance(value, str):
            yield f"the {attribute} of {cls.__name__} is {value!r}; write a text, or leave it out"
        elif len(value.splitlines()) > 1:
            yield f"the {attribute} of {cls.__name__} has several lines; use one"
    if type(cls.version) is not int:
        yield f"the version of {cls.__name__} is {cls.version!r}; use an int, or leave it out"
    faults = [*_hyper_errors(cls.__name__, cls.Hyper)]
    yield from faults or [*_choices_errors(cls), *_condition_errors(cls)]
    for attribute in ("paper", "official"):
        table: Any = getattr(cls, attribute)
        if table is None and attribute == "official":
            continue
        rows = (table, *table.values()) if isinstance(table, Mapping) else (table,)
        if not all(isinstance(row, Mapping) for row in rows):
            told = f"the table '{attribute}' of {cls.__name__} is invalid"
            yield f"{told}; write {{backbone or '*': {{key: value}}}}"


def _hyper_errors(owner: str, hyper: Any) -> Iterator[str]:
    if not (inspect.isclass(hyper) and issubclass(hyper, HyperParameters) and is_dataclass(hyper)):
        told = f"Hyper of {owner} is not a dataclass that extends methods.base.HyperParameters"
        yield f"{told}; make it one"
        return
    names = {item.name for item in fields(hyper)}
    if forgotten := vars(hyper).get("__annotations__", {}).keys() - names:
        told = f"'{min(forgotten)}' of {hyper.__name__} is not a field"
        yield f"{told}; write @dataclass(frozen=True) above the class"
    for item in fields(hyper):
        yield from _field_errors(hyper.__name__, item)


def _field_errors(owner: str, item: Field[Any]) -> Iterator[str]:
    told, written = f"'{item.name}' of {owner}", type_name(item.type)
    kinds = {kind.strip() for kind in written.split("|")}
    if kinds == {"None"} or not kinds <= TYPE_NAMES.keys():
        yield (
            f"{told} is of type {written}; use bool, int, float or str, with or without '| None'"
        )
        return
    if item.default is MISSING and item.default_factory is MISSING:
        yield f"{told} has no default; give it one"
        return
    default = item.default if item.default_factory is MISSING else item.default_factory()
    try:
        if not (isinstance(default, str) and "str" in kinds):  # "none" is a text
            convert(default, written, item.name)
    except UserError as error:
        yield f"the default in {owner} is invalid: {error}"
    try:
        marks = dict(item.metadata)
    except (AttributeError, TypeError, ValueError):
        yield f"the metadata of {told} are no dict; combine HOST, LABEL, LATER and MODEL with '|'"
        return
    if marks.get("model") and "str" not in kinds:
        yield f"{told} is of type {written}, but MODEL marks the name of an encoder; use str"


def _choices_errors(cls: type[Method]) -> Iterator[str]:
    known, names = cls.choices, {item.name for item in fields(cls.Hyper)}
    lists = known.values() if isinstance(known, Mapping) else [None]
    if not all(isinstance(values, tuple | list) for values in lists):
        yield f"'choices' of {cls.__name__} is invalid; write choices = {{'key': ('one', 'other')}}"
        return
    if unknown := known.keys() - names:
        key = min(map(str, unknown))
        yield f"'choices' of {cls.__name__} names '{key}'{did_you_mean(key, names)}"


def _condition_errors(cls: type[Method]) -> Iterator[str]:
    if not isinstance(cls.needs, tuple | list):
        yield f"'needs' of {cls.__name__} is no tuple; write needs = ('key > 0',)"
        return
    if not isinstance(cls.used_if, Mapping):
        yield f"'used_if' of {cls.__name__} is no dict; write used_if = {{'key': 'other > 0'}}"
        return
    defaults = vars(cls.Hyper())
    if unknown := cls.used_if.keys() - defaults.keys():
        key = min(map(str, unknown))
        yield f"'used_if' of {cls.__name__} names '{key}'{did_you_mean(key, defaults)}"
    for attribute, conditions, value in (
        ("needs", cls.needs, holds),
        ("used_if", cls.used_if.values(), is_true),
    ):
        for condition in conditions:
            told = f"the condition {condition!r} in '{attribute}' of {cls.__name__}"
            if fault := _condition_error(condition, defaults, value):
                yield f"{told} {fault}"


def _condition_error(
    condition: Any, defaults: Mapping[str, Any], value: Callable[[str, Mapping[str, Any]], bool]
) -> str | None:
    """Return why a condition cannot be used, as a predicate with the remedy."""
    try:
        nodes = [*ast.walk(ast.parse(condition, mode="eval"))]
    except (SyntaxError, TypeError, ValueError) as error:
        words = error.msg if isinstance(error, SyntaxError) else error
        return f"cannot be read ({words}); write it as 'key > 0'"
    if not all(isinstance(node, CONDITION) for node in nodes):
        return "is more than comparisons of hyper-parameters; check it in check()"
    used = {node.id for node in nodes if isinstance(node, ast.Name)}
    if unknown := used - defaults.keys():
        return f"names '{min(unknown)}'{did_you_mean(min(unknown), defaults)}"
    try:
        value(condition, defaults)
    except (ArithmeticError, TypeError) as error:
        return f"fails with the defaults ({error}); compare numbers with numbers"
    return None
