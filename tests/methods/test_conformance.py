"""Every method, switch and composition equals its oracle in loss and gradient, step after step."""

from itertools import product

import pytest

from tests.methods import test_dclr, test_esimcse, test_focal_infonce, test_is_cse
from tests.methods.cases import CASES, DTYPES, HARD, disagreement, tolerance

# Of the 32 combinations of SSCL's switches, the hard tensors see those with at most one switch set.
SWITCHES = {"self", "own", "one", "detach", "average"}
FEW = [one for one in CASES if len(SWITCHES & {*one.name.split("-")}) <= 1]
SOFT = ("random", "close")
DCLR, ESIMCSE, GROUPS = test_dclr.CASES, test_esimcse.CASES, test_is_cse.BY_NAME
PAIRS = [
    *product(CASES, SOFT),
    *product(FEW, HARD),
    *product([*DCLR.values(), *ESIMCSE.values()], SOFT),
    *product([DCLR[name] for name in ("paper", "paper-cold", "released", "released-cold")], HARD),
    *product(
        [DCLR[name] for name in ("all-false", "far", "released-far", "dclr+is-cse")],
        ["near-duplicates", "one"],
    ),
    *product([ESIMCSE[name] for name in ("esimcse", "cold", "short")], HARD),
    *product(test_focal_infonce.CASES, ["random", *HARD]),
    *product(GROUPS.values(), ["random"]),
    *product([GROUPS["kmeans-official"]], ["close", *HARD]),
    *product([GROUPS["both-paper"]], ["close", "near-duplicates"]),
    (GROUPS["kmeans-cold"], "near-duplicates"),
]

# Views that are alike, as in training, are for the slow tests: random ones see the same formula.
SLOW = {"close": pytest.mark.slow}
PARAMETERS = [
    pytest.param(case, kind, id=f"{case.name}-{kind}", marks=SLOW.get(kind, ()))
    for case, kind in PAIRS
]


@pytest.mark.parametrize(("case", "kind"), PARAMETERS)
def test_equals_oracle(case, kind):
    for dtype, difference in disagreement(case, kind, dtypes=DTYPES).items():
        assert difference < tolerance(kind, dtype), dtype
