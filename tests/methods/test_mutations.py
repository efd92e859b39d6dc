"""The oracles are tested themselves: every mistake in `mutations` must make the comparison fail."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch

from tests.methods.cases import BY_NAME, disagreement
from tests.oracles import mutations_is_cse  # noqa: F401 (registers its own)
from tests.oracles.mutations import MUTATIONS

KINDS, TOLERANCE = ("random", "near-duplicates"), 1e-6  # as the conformance tests have them


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mutation_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case_name, mutate = MUTATIONS[name]
    case = BY_NAME[case_name]

    def build() -> Any:
        method = case.build()
        monkeypatch.undo()
        mutate(method, monkeypatch)
        return method

    assert any(disagreement(case, kind, build=build)[torch.float64] > TOLERANCE for kind in KINDS)


def test_unspoilt_methods_pass_where_mutations_are_caught() -> None:
    for case_name, kind in itertools.product({case for case, _ in MUTATIONS.values()}, KINDS):
        assert disagreement(BY_NAME[case_name], kind)[torch.float64] < TOLERANCE
    assert len(MUTATIONS) >= 20
