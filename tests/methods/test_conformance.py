"""SimCSE, GS-InfoNCE, IS-CSE by neighbours, SSCL and their compositions equal their oracles in loss
and gradient, step after step; each mistake in the source must make the comparison fail."""

from tests.support.method_cases import (
    CASES,
    HARD,
    SOFT,
    assert_equals_oracle,
    caught,
    on_inputs,
)
from tests.support.mutations import MUTATIONS

# Of the 32 combinations of SSCL's switches, the hard tensors see those with at most one switch set.
SWITCHES = {"self", "own", "one", "detach", "average"}
FEW = [case for case in CASES if len(SWITCHES & {*case.name.split("-")}) <= 1]


@on_inputs((CASES, SOFT), (FEW, HARD))
def test_equals_oracle(case, kinds):
    assert_equals_oracle(case, kinds)


test_a_mutation_is_caught = caught(MUTATIONS, CASES)
