"""Tables of sscl for the tests of all methods (`method_runs.of_methods`), and its public forms."""

import pytest

from tests.support.method_runs import run_of

OUT_OF_LIMITS = {"sscl": "layer=-1 stack=-1 positive=other negatives=some sides=two"}
WITHOUT_EFFECT = {"stack": ("layer=1", 2, 1), "average_self": ("positive=dropout", True, False)}


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("sscl@official", 0.5),  # November 2023
        ("sscl[positive=self]@official", 0),  # development files
        ("sscl[average_self=true,positive=self]@official", 0.5),  # May 2023
        ("sscl[positive=self]@paper", 0),
    ],
)
def test_the_public_forms(text, share):
    """docs/reference/methods.md#sscl: which of them average two losses."""
    assert run_of(text).build().plain_share == share
