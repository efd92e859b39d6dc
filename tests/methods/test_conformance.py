"""Every method, switch and composition equals its oracle in loss and gradient, step after step."""

from __future__ import annotations

import pytest

from tests.methods.cases import CASES, DTYPES, HARD, Case, disagreement, tolerance

# Of the 32 combinations of SSCL's switches, the hard tensors see those with at most one switch set.
SWITCHES = ("self", "own", "one", "detach", "average")
FEW = [
    case
    for case in CASES
    if not case.name.startswith("sscl-")
    or sum(word in case.name.split("-") for word in SWITCHES) <= 1
]


def _names(cases: list[Case]) -> list[str]:
    return [case.name for case in cases]


@pytest.mark.parametrize("kind", ["random", "close"])
@pytest.mark.parametrize("case", CASES, ids=_names(CASES))
def test_equals_oracle(case: Case, kind: str) -> None:
    for dtype, difference in disagreement(case, kind, dtypes=DTYPES).items():
        assert difference < tolerance(kind, dtype), dtype


@pytest.mark.parametrize("kind", HARD)
@pytest.mark.parametrize("case", FEW, ids=_names(FEW))
def test_equals_oracle_on_hard_tensors(case: Case, kind: str) -> None:
    for dtype, difference in disagreement(case, kind, dtypes=DTYPES).items():
        assert difference < tolerance(kind, dtype), dtype
