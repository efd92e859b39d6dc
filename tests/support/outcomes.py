"""How a training ended, as far as it is the same each time."""

from typing import Any


def timeless(outcome: dict[str, Any]) -> dict[str, Any]:
    """An outcome without what time decides."""
    if outcome["status"] != "finished":
        return outcome
    return {**outcome, "seconds": 0}
