"""How the test of a score ends, by its verdict."""

from typing import Any

import pytest


def end(verdict: Any, scores: str, *, strict: bool = False) -> None:
    """End a test as its verdict says, with the expected score and ours."""
    if verdict.kind in ("open", "not comparable", "not run"):
        pytest.skip(f"{verdict.kind}: {verdict.reason}")
    sentence = f"{verdict.kind}: {scores} ({verdict.reason})"
    expected = {"better, gain below the margin", *(() if strict else ("consistent",))}
    if verdict.kind in expected:
        pytest.xfail(sentence)
    if verdict.kind not in ("reproduced", "better"):
        pytest.fail(sentence, pytrace=False)
