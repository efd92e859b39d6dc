"""Focal-InfoNCE: cases for the oracle (test_conformance), and mistakes that it must catch."""

from typing import Any

from methods.focal_infonce import FocalInfoNCE
from methods.gs_infonce import GSInfoNCE
from tests.oracles.edits import Mutation, edits
from tests.oracles.hard_negatives import FocalOracle
from tests.support.method_cases import (
    HARD,
    Case,
    assert_equals_oracle,
    caught,
    on_inputs,
)
from tests.support.method_runs import BERT, ROBERTA

NAMES = {"m": "hardness", "positive": "focal_positive", "negative": "focal_negative"}


def case(name, *parts, t=0.05, noise=None, **options):
    changes = {NAMES[key]: value for key, value in options.items()}
    first = (FocalInfoNCE, {"temperature": t, **changes})
    return Case(name, (first, *parts), lambda: FocalOracle(t, noise, **options), t)


CASES = [
    case("focal"),
    case("focal-cold", t=0.001),
    case("focal-warm", t=1.0, m=0.7),
    case("focal-without-m", m=0.0),
    case("focal-positive-alone", negative=False),
    case("focal-negatives-alone", positive=False),
    # 8 vectors are 1.6 x 5.
    case("focal+gs", (GSInfoNCE, {"multiple": 1.6}), noise=(8, 1.0, 1.0)),
]


@on_inputs((CASES, ["random", *HARD]))
def test_equals_oracle(case, kinds):
    assert_equals_oracle(case, kinds)


MUTATIONS: dict[str, Mutation] = {
    **edits("methods.focal_infonce:FocalInfoNCE._modulated", {
        "m_added_to_the_product": (
            "cosines * (cosines + self.hyper.hardness)", "cosines * cosines + self.hyper.hardness"),
        "factor_without_gradient": (
            "cosines + self.hyper.hardness", "(cosines + self.hyper.hardness).detach()"),
    }, case="focal+gs"),
    **edits("methods.focal_infonce:FocalInfoNCE.contrast", {
        "positive_as_a_negative": (
            "torch.where(on_diagonal(cosines), pair, self._modulated(cosines))",
            "self._modulated(cosines)"),
        "noise_not_modulated": (
            "beside(logits, negatives, anchors, hyper.temperature, self._modulated)",
            "beside(logits, negatives, anchors, hyper.temperature)"),
    }, case="focal+gs"),
}  # fmt: skip


test_a_mutation_is_caught = caught(MUTATIONS, CASES)


# What the tests of all methods need to know of this one (`method_runs.of_methods`).

VALUES: list[tuple[str, str, dict[str, Any]]] = []
for text in ("focal-infonce@official", "focal-infonce@paper"):
    VALUES.append((text, BERT, {"batch_size": 64, "learning_rate": 3e-5, "select_every": 125}))
    VALUES.append((text, ROBERTA, {"batch_size": 512, "learning_rate": 1e-5}))
OUT_OF_LIMITS = {"focal-infonce": "hardness=-0.1"}
WITHOUT_EFFECT = {"hardness": ("focal_negative=false", 0.3, 1.0)}
