"""Focal-InfoNCE: its loss against an oracle, mistakes that it must catch, and its gradients."""

import math
from operator import attrgetter
from typing import Any

import pytest
import torch
from torch import Tensor

import methods.focal_infonce as focal
from methods.focal_infonce import FocalInfoNCE
from methods.gs_infonce import GSInfoNCE
from tests.methods.cases import (
    DTYPES,
    HARD,
    Case,
    batch,
    build,
    disagreement,
    is_caught,
    method_step,
    tolerance,
)
from tests.methods.outside import BERT, ROBERTA, Patch
from tests.oracles.hard_negatives import FocalOracle
from tests.oracles.mutations import Mutation, hyper, other, patched

NOISE = (8, 1.0, 1.0)  # 1.6 x 5
GAUSS = (GSInfoNCE, {"multiple": 1.6})


def case(name: str, *parts: Any, t: float = 0.05, noise: Any = None, **own: Any) -> Case:
    names = {"m": "hardness", "positive": "focal_positive", "negative": "focal_negative"}
    changes = {names[key]: value for key, value in own.items()}
    first = (FocalInfoNCE, {"temperature": t, **changes})
    return Case(name, (first, *parts), lambda: FocalOracle(t, noise, **own), t)


CASES = [
    case("focal"),
    case("cold", t=0.001),
    case("warm", t=1.0, m=0.7),
    case("without-m", m=0.0),
    case("positive-alone", negative=False),
    case("negatives-alone", positive=False),
    case("focal+gs", GAUSS, noise=NOISE),
]


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
@pytest.mark.parametrize("kind", ["random", *HARD])
def test_equals_oracle(case: Case, kind: str) -> None:
    for dtype, difference in disagreement(case, kind, dtypes=DTYPES).items():
        assert difference < tolerance(kind, dtype), dtype


def modulated(change: Any) -> Mutation:
    return other("_modulated", lambda self, cosines: change(cosines, self.hyper.hardness))


MUTATIONS: dict[str, Mutation] = {
    "m_left_out": hyper(hardness=0.0),
    "m_subtracted": hyper(hardness=lambda own: -own.hardness),
    "m_added_to_the_product": modulated(lambda s, m: s * s + m),
    "factor_without_gradient": modulated(lambda s, m: s * (s + m).detach()),
    "negatives_clamped": modulated(lambda s, m: s * (s + m).clamp(min=0)),
    "positive_as_a_negative": patched(
        focal.torch, "where", lambda plain, own, pair, others: others),
    "negatives_as_a_positive": patched(
        focal.torch, "where", lambda plain, own, pair, others: pair),
    "positive_not_squared": hyper(focal_positive=False),
    "temperature_squared": hyper(temperature=lambda own: own.temperature**2),
    "views_swapped": other("pairs", lambda self, views: (views.vectors[1], views.vectors[0])),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mutation_is_caught(name: str, monkeypatch: Patch) -> None:
    assert is_caught(CASES[0], MUTATIONS[name], monkeypatch, ("random",))


def test_noise_of_another_method_is_modulated(monkeypatch: Patch) -> None:
    plain = patched(focal.Negatives, "logits", lambda plain, group, h, t, _: plain(group, h, t))
    assert is_caught(CASES[-1], plain, monkeypatch, ("random",))


def slope(own: float, others: float) -> tuple[float, float]:
    """d loss / d cosine of the own pair and of the others, of two orthogonal anchors."""
    cosines = torch.tensor([[own, others], [others, own]], dtype=torch.float64, requires_grad=True)
    positives = torch.cat([cosines, (1 - cosines.square().sum(1, True)).sqrt()], dim=1)
    anchors = torch.eye(2, 3, dtype=torch.float64)
    loss = build((FocalInfoNCE, {})).contrast(anchors, positives, [], None)
    (gradient,) = torch.autograd.grad(loss, cosines)
    return gradient[0, 0].item(), gradient[0, 1].item()


@pytest.mark.parametrize(
    ("own", "others", "signs"),
    [
        (0.5, 0.2, (-1, 1)),  # as InfoNCE
        (0.5, -0.15, (-1, 0)),  # at -m/2 a negative has no gradient
        (0.5, -0.4, (-1, -1)),  # below, it is pushed up
        (-0.5, 0.2, (1, 1)),  # a positive below 0 is pushed down
    ],
)
def test_signs_of_the_gradient(own: float, others: float, signs: tuple[int, int]) -> None:
    found = [0 if abs(value) < 1e-12 else (1 if value > 0 else -1) for value in slope(own, others)]
    assert tuple(found) == signs


def test_without_m_opposite_anchors_have_the_same_loss() -> None:
    method = build((FocalInfoNCE, {"hardness": 0.0}))
    first, second = batch("random", 0).views

    def loss(anchors: Tensor) -> Tensor:
        return method.contrast(anchors, second, [], None)

    torch.testing.assert_close(loss(-first), loss(first), rtol=1e-14, atol=0)


def test_a_batch_of_one_costs_nothing() -> None:
    loss, gradients = method_step(
        build((FocalInfoNCE, {})), batch("one", 0).leaves(torch.float64), 0
    )
    assert loss.item() == 0
    assert all((gradient == 0).all() for gradient in gradients)


def test_a_duplicate_outweighs_the_positive() -> None:
    """Equal sentences: the own logit is 1/t, each of the n - 1 others (1 + m)/t."""
    vectors = torch.ones(4, 3, dtype=torch.float64)
    loss = build((FocalInfoNCE, {})).contrast(vectors, vectors, [], None)
    others = 3 * math.exp((1 + 0.3) / 0.05 - 1 / 0.05)
    assert loss.item() == pytest.approx(math.log1p(others), rel=1e-12)


# What the tests of all methods need to know of this one (`outside.of_methods`).

VALUES: list[tuple[str, str, dict[str, Any]]] = [
    *((f"focal-infonce@{setting}", backbone,
       {"hardness": 0.3, "temperature": 0.05, "select_every": 125, "precision": "mixed", **values})
      for setting in ("official", "paper")
      for backbone, values in ((BERT, {"batch_size": 64, "learning_rate": 3e-5}),
                               (ROBERTA, {"batch_size": 512, "learning_rate": 1e-5}))),
]  # fmt: skip
OUT_OF_LIMITS = {
    "focal-infonce": "hardness=-0.1",
}
WITHOUT_EFFECT: dict[str, tuple[str, Any, Any]] = {
    "hardness": ("focal_negative=false", 0.3, 1.0),
}
TRAININGS: dict[str, tuple[dict[str, Any], int]] = {"focal-infonce": ({}, 6)}
