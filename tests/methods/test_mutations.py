"""The oracles are tested themselves: every mistake in `mutations` must make the comparison fail."""

import pytest

from tests.methods.cases import BY_NAME, is_caught
from tests.methods.outside import Patch
from tests.oracles import mutations, mutations_is_cse

KINDS = ("random", "near-duplicates")  # where test_conformance finds nothing
MUTATIONS = mutations.MUTATIONS | mutations_is_cse.MUTATIONS


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mutation_is_caught(name: str, monkeypatch: Patch) -> None:
    case, mutate = MUTATIONS[name]
    assert is_caught(BY_NAME[case], mutate, monkeypatch, KINDS)
