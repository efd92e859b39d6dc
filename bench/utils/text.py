"""Enumerations in sentences."""

from __future__ import annotations

from collections.abc import Iterable


def listed(parts: Iterable[str]) -> str:
    """An enumeration without repetitions: `a`, `a and b`, `a, b and c`."""
    *most, last = dict.fromkeys(parts)
    return f"{', '.join(most)} and {last}" if most else last
