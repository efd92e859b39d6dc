"""Counts and enumerations in sentences."""

from collections.abc import Iterable


def listed(parts: Iterable[str]) -> str:
    """An enumeration without repetitions: `a`, `a and b`, `a, b and c`."""
    *most, last = dict.fromkeys(parts)
    return f"{', '.join(most)} and {last}" if most else last


def counted(count: int, what: str) -> str:
    """`1 run`, `2 runs`."""
    return f"{count} {what}{'' if count == 1 else 's'}"
