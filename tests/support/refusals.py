"""What is refused in one sentence."""

from collections.abc import Callable
from typing import Any

import pytest

from bench.utils.errors import UserError


def refused(action: Callable[[], Any], *words: str) -> None:
    """Check that the action fails with a one-line error that contains these words."""
    with pytest.raises(UserError) as caught:
        action()
    message = str(caught.value)
    assert "\n" not in message
    assert [word for word in words if word not in message] == [], message
