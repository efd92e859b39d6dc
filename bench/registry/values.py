"""The text of a value of a hyper-parameter or recipe field."""

from typing import Any


def format_value(value: Any) -> str:
    """Format a field's value as text that is read back as the same value."""
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and float(f"{value:g}") == value:
        return f"{value:g}"
    return str(value)
