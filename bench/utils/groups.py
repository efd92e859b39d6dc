"""Rows in groups."""

from collections.abc import Iterable
from operator import attrgetter
from typing import Any, TypeVar

AnyRow = TypeVar("AnyRow")


def grouped(rows: Iterable[AnyRow], *fields: str) -> list[list[AnyRow]]:
    """Rows with equal fields, such as `run.id`, together, in the order in which they come first."""
    # itertools.groupby joins neighbours alone, and rows that are equal in a field may stand apart.
    key_of = attrgetter(*fields)
    groups: dict[Any, list[AnyRow]] = {}
    for row in rows:
        groups.setdefault(key_of(row), []).append(row)
    return [*groups.values()]
