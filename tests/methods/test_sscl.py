"""sscl: what the tests of all methods need to know of it."""

from typing import Any

# What the tests of all methods need to know of this one (`outside.of_methods`).

OUT_OF_LIMITS = {
    "sscl": "layer=-1 stack=-1 positive=other negatives=some sides=two",
}
WITHOUT_EFFECT: dict[str, tuple[str, Any, Any]] = {
    "stack": ("layer=1", 2, 1),
}
