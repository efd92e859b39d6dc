"""Every method, switch and composition equals its oracle in loss and gradient, step after step."""

from __future__ import annotations

import pytest
import torch
from cases import CASES, HARD, STEPS, Case, batch, disagreement

EXACT = {torch.float64: 1e-6, torch.float32: 1e-4}


def cases(names: str = "") -> pytest.MarkDecorator:
    chosen = [case for case in CASES if names in case.name]
    return pytest.mark.parametrize("case", chosen, ids=[case.name for case in chosen])


@pytest.mark.parametrize("dtype", EXACT, ids=["float64", "float32"])
@pytest.mark.parametrize("kind", ["random", "close"])
@cases()
def test_equals_oracle(case: Case, kind: str, dtype: torch.dtype) -> None:
    assert disagreement(case, [batch(kind, number) for number in STEPS], dtype=dtype) < EXACT[dtype]


@pytest.mark.parametrize("dtype", EXACT, ids=["float64", "float32"])
@pytest.mark.parametrize("kind", HARD)
@cases()
def test_equals_oracle_on_hard_tensors(case: Case, kind: str, dtype: torch.dtype) -> None:
    assert disagreement(case, [batch(kind, number) for number in STEPS], dtype=dtype) < EXACT[dtype]
