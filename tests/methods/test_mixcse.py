"""MixCSE: its loss against an oracle, and mistakes that it must catch."""

from methods.gs_infonce import GSInfoNCE
from methods.mixcse import MixCSE
from methods.simcse import SimCSE
from tests.oracles.edits import Mutation, edits
from tests.oracles.hard_negatives import MixCSEOracle
from tests.support.method_cases import (
    HARD,
    Case,
    assert_equals_oracle,
    caught,
    on_inputs,
)
from tests.support.method_runs import BERT

PAPER = {"mixtures": "own", "mixed_anchors": False, "larger_share": "removed", "normalised": True}


def case(name, t=0.05, **hyper):
    part = (MixCSE, {"temperature": t, **hyper})
    return Case(name, (part,), lambda: MixCSEOracle(t, **hyper), t)


CASES = [
    case("official"),
    case("paper", **PAPER),
    case("cold", t=0.001),
    case("larger-share", share=0.45),
    case("removed", larger_share="removed"),
    case("own", mixtures="own"),
    case("normalised", normalised=True),
    case("anchors-not-mixed", mixed_anchors=False),
    Case("simcse+mixcse", ((SimCSE, {}), (MixCSE, {})), MixCSEOracle),
    Case("gs+mixcse", ((GSInfoNCE, {"multiple": 1.6}), (MixCSE, {})),
         lambda: MixCSEOracle(noise=(8, 1.0, 1.0))),
]  # fmt: skip


@on_inputs((CASES, ["random", *HARD]))
def test_equals_oracle(case, kinds):
    assert_equals_oracle(case, kinds)


MUTATIONS: dict[str, Mutation] = {
    **edits("methods.mixcse:MixCSE._mixed", {
        "mixed_at_length_1": ("self.hyper.normalised", "True"),
        "mixtures_with_gradient": ("vectors = vectors.detach()", "pass"),
    }, case="official"),
    **edits("methods.mixcse:MixCSE._group", {
        "removed_in_place_of_zeroed": (
            "official", "self.hyper.larger_share == 'zeroed'", "False"),
        "the_other_cell_zeroed": (
            "official", "on_diagonal(cosines).roll(shift, 1)",
            "on_diagonal(cosines).roll(-shift, 1)"),
    }),
    **edits("methods.mixcse:MixCSE.negatives", {
        "anchors_face_mixtures_of_anchors": (
            "official", "self._group(cosine(self._mixed(first), second), 1)",
            "self._group(cosine(second, self._mixed(first)), -1)"),
    }),
}  # fmt: skip


test_a_mutation_is_caught = caught(MUTATIONS, CASES)


# What the tests of all methods need to know of this one (`method_runs.of_methods`).

PUBLISHED = {"batch_size": 64, "learning_rate": 3e-5, "select_every": 125}
VALUES = [
    ("mixcse@official", BERT, {**PUBLISHED, "precision": "float32"}),
    ("mixcse@paper", BERT, {**PUBLISHED, "precision": "mixed"}),
]
OUT_OF_LIMITS = {
    "mixcse": "share=0 share=0.5 mixtures=some larger_share=kept",
}
WITHOUT_EFFECT = {
    "share": ("mixtures=none", 0.2, 0.4),
    "mixed_anchors": ("mixtures=none", True, False),
    "normalised": ("mixtures=none", False, True),
    "larger_share": ("mixtures=none", "zeroed", "removed"),
}
