"""gs-infonce: what the tests of all methods need to know of it."""

from typing import Any

# What the tests of all methods need to know of this one (`outside.of_methods`).

OUT_OF_LIMITS = {
    "gs-infonce": "multiple=-1 std=0 weight=-1 multiple=many weight=nan weight=true",
}
WITHOUT_EFFECT: dict[str, tuple[str, Any, Any]] = {
    "std": ("multiple=0", 1.0, 2.0),
    "weight": ("multiple=0", 1.0, 2.0),
}
