"""MixCSE: its loss against an oracle, mistakes that it must catch, and the cells by hand."""

import math
from dataclasses import replace
from operator import attrgetter
from typing import Any

import pytest
import torch

from methods.base import Views, cosine
from methods.gs_infonce import GSInfoNCE
from methods.mixcse import MixCSE
from methods.simcse import SimCSE
from tests.methods.cases import (
    DTYPES,
    HARD,
    Case,
    batch,
    build,
    disagreement,
    is_caught,
    method_step,
    step,
    tolerance,
)
from tests.methods.outside import BERT, Patch
from tests.oracles.hard_negatives import MixCSEOracle
from tests.oracles.mutations import Mutation, around, hyper, other

PAPER = {"mixtures": "own", "mixed_anchors": False, "larger_share": "removed", "normalised": True}


def case(name: str, t: float = 0.05, **hyper: Any) -> Case:
    own = {
        "share": hyper.get("share", 0.2),
        "own": hyper.get("mixtures") == "own",
        "anchors": hyper.get("mixed_anchors", True),
        "removed": hyper.get("larger_share") == "removed",
        "normalised": hyper.get("normalised", False),
    }
    first = (MixCSE, {"temperature": t, **hyper})
    return Case(name, (first,), lambda: MixCSEOracle(t, **own), t)


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
BY_NAME = {one.name: one for one in CASES}


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
@pytest.mark.parametrize("kind", ["random", *HARD])
def test_equals_oracle(case: Case, kind: str) -> None:
    for dtype, difference in disagreement(case, kind, dtypes=DTYPES).items():
        assert difference < tolerance(kind, dtype), dtype


def not_detached(self: Any, vectors: torch.Tensor) -> torch.Tensor:
    return torch.lerp(vectors.roll(-1, 0), vectors, self.hyper.share)


def with_the_one_before(self: Any, vectors: torch.Tensor) -> torch.Tensor:
    return torch.lerp(vectors.roll(1, 0), vectors, self.hyper.share).detach()


def the_other_cell(plain: Any, self: Any, cosines: torch.Tensor, shift: int) -> Any:
    return plain(self, cosines, -shift)


def transposed(plain: Any, self: Any, *given: Any) -> Any:
    first, second = plain(self, *given)
    return [first, replace(second, cosines=second.cosines.T)]


MUTATIONS: dict[str, tuple[str, Mutation]] = {
    "shares_exchanged": ("official", hyper(share=lambda own: 1 - own.share)),
    "mixed_with_the_sentence_before": ("official", other("_mixed", with_the_one_before)),
    "mixtures_with_gradient": ("official", other("_mixed", not_detached)),
    "the_other_cell_zeroed": ("official", around("_group", the_other_cell)),
    "removed_in_place_of_zeroed": ("official", hyper(larger_share="removed")),
    "zeroed_in_place_of_removed": ("removed", hyper(larger_share="zeroed")),
    "own_mixture_alone": ("official", hyper(mixtures="own")),
    "mixed_at_length_1": ("official", hyper(normalised=True)),
    "anchors_not_mixed": ("official", hyper(mixed_anchors=False)),
    "anchors_face_mixtures_of_anchors": ("official", around("negatives", transposed)),
    "all_mixtures_in_the_paper": ("paper", hyper(mixtures="all")),
    "not_normalised_in_the_paper": ("paper", hyper(normalised=False)),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mutation_is_caught(name: str, monkeypatch: Patch) -> None:
    case, mutate = MUTATIONS[name]
    assert is_caught(BY_NAME[case], mutate, monkeypatch, ("random",))


def test_cells_by_hand() -> None:
    """Orthonormal sentences, views alike: with lengths a and b, a mixture's cosine is a or b."""
    leaves = [torch.eye(3, dtype=torch.float64).requires_grad_() for _ in range(2)]
    views = Views(tuple(leaves), lambda layer: ())
    of_positives, of_anchors = build((MixCSE, {})).negatives(leaves[0], views, step(0))
    small, large = (share / math.hypot(0.2, 0.8) for share in (0.2, 0.8))
    # Row 1: mixture 0 holds 0.8 of positive 1 (zeroed), mixture 1 holds 0.2, mixture 2 none.
    assert of_positives.cosines[1].tolist() == pytest.approx([0, small, 0])
    # Mixed anchor 1 holds 0.2 of anchor 1 and 0.8 of anchor 2 (zeroed).
    assert of_anchors.cosines[1].tolist() == pytest.approx([0, small, 0])
    removed = build((MixCSE, {"larger_share": "removed"})).negatives(leaves[0], views, step(0))
    assert [group.weights[1].tolist() for group in removed] == [[0, 1, 1], [1, 1, 0]]
    assert removed[0].cosines[1].tolist() == pytest.approx([large, small, 0])
    for group, moved in ((of_positives, 0), (of_anchors, 1)):
        found = torch.autograd.grad(
            group.cosines.square().sum(), leaves, materialize_grads=True, retain_graph=True
        )
        assert [bool(gradient.any()) for gradient in found] == [moved == 0, moved == 1]


@pytest.mark.parametrize(
    ("hyper", "extra"), [({}, 2), ({"larger_share": "removed"}, 0), (PAPER, 0)]
)
def test_a_batch_of_one(hyper: dict[str, Any], extra: int) -> None:
    """Each zeroed cell is a candidate e^0; where cells are removed nothing is left."""
    leaves = batch("one", 0).leaves(torch.float64)
    loss, _ = method_step(build((MixCSE, hyper)), leaves, 0)
    own = torch.cosine_similarity(leaves[0], leaves[1]).item() / 0.05
    assert loss.item() == pytest.approx(math.log1p(extra * math.exp(-own)), abs=1e-12)


def test_mixtures_raise_the_loss() -> None:
    for number in range(3):
        leaves = batch("random", number).leaves(torch.float64)
        plain, mixed = (
            method_step(build((MixCSE, {"mixtures": which})), leaves, 0)[0]
            for which in ("none", "all")
        )
        assert mixed > plain


def test_with_a_whole_share_mixtures_are_the_sentences() -> None:
    """lambda = 1, which a run may not have: m_j = z'_j, so block B is the batch's own cosines."""
    method = build((MixCSE, {}))
    method.hyper = method.hyper.model_copy(update={"share": 1.0})
    first, second = batch("random", 0).views
    views = Views((first, second), lambda layer: ())
    for group, larger in zip(method.negatives(first, views, step(0)), (-1, 1), strict=True):
        zeroed = torch.eye(len(first), dtype=torch.bool).roll(larger, 1)
        expected = cosine(first, second).masked_fill(zeroed, 0)
        torch.testing.assert_close(group.cosines, expected, rtol=0, atol=1e-15)


# What the tests of all methods need to know of this one (`outside.of_methods`).

PUBLISHED = {"share": 0.2, "batch_size": 64, "learning_rate": 3e-5, "select_every": 125}
VALUES: list[tuple[str, str, dict[str, Any]]] = [
    ("mixcse@official", BERT,
     {**PUBLISHED, "mixtures": "all", "mixed_anchors": True, "larger_share": "zeroed",
      "normalised": False, "precision": "float32"}),
    ("mixcse@paper", BERT,
     {**PUBLISHED, "mixtures": "own", "mixed_anchors": False, "larger_share": "removed",
      "normalised": True, "precision": "mixed"}),
]  # fmt: skip
OUT_OF_LIMITS = {
    "mixcse": "share=0 share=0.5 mixtures=some larger_share=kept",
}
WITHOUT_EFFECT: dict[str, tuple[str, Any, Any]] = {
    "share": ("mixtures=none", 0.2, 0.4),
    "mixed_anchors": ("mixtures=none", True, False),
    "normalised": ("mixtures=none", False, True),
    "larger_share": ("mixtures=none", "zeroed", "removed"),
}
TRAININGS: dict[str, tuple[dict[str, Any], int]] = {
    "mixcse": ({}, 6),
    "mixcse@paper": ({}, 6),
}
