"""Limits and known answers: what a method becomes when a part is switched off, bit for bit."""

import math
from operator import attrgetter
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from methods.base import Shape, Step, Views, cosine, info_nce
from methods.focal_infonce import FocalInfoNCE
from methods.gs_infonce import GSInfoNCE
from methods.is_cse import ISCSE
from methods.mixcse import MixCSE
from methods.simcse import SimCSE
from methods.simcse_plus_plus import SimCSEPlusPlus
from methods.sscl import SSCL
from tests.methods import test_dclr, test_esimcse, test_is_cse
from tests.methods.cases import (
    BATCH_SIZE,
    BY_NAME,
    CASES,
    DEPTH,
    HARD,
    STEPS,
    TOTAL,
    WIDTH,
    Case,
    Part,
    batch,
    build,
    method_step,
    step,
)

DTYPES = pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float32], ids=["float64", "float32"]
)
SHAPE = Shape(WIDTH, DEPTH)
Parts = list[Part]


def assert_same_bits(left: Parts, right: Parts, dtype: torch.dtype) -> None:
    one, other = build(*left), build(*right)
    for kind in ("random", "close", *HARD):
        for index in STEPS:
            content = batch(kind, index)
            loss, gradients = method_step(one, content.leaves(dtype), index)
            expected, expected_gradients = method_step(other, content.leaves(dtype), index)
            assert torch.equal(loss, expected), (kind, index)
            assert all(
                torch.equal(a, b) for a, b in zip(gradients, expected_gradients, strict=True)
            ), (kind, index)


@DTYPES
@pytest.mark.parametrize(
    "parts",
    [
        [(GSInfoNCE, {"multiple": 0.0})],
        [(GSInfoNCE, {"weight": 0.0})],
        [(ISCSE, {"alpha": 0.0, "buffer": 10, "neighbours": 3})],
        [(ISCSE, {"alpha": 0.0, "alpha_start": 0.0, "buffer": 10, "neighbours": 3})],
        [(ISCSE, {"alpha": 0.3, "buffer": 1024})],  # never full in these few steps
        # Never k rows.
        [(ISCSE, {"alpha": 0.3, "buffer": 1024, "neighbours": 500, "current_first": False})],
        [(SSCL, {"stack": 0})],
        [(SSCL, {"stack": 0, "average": True})],
        [(FocalInfoNCE, {"focal_positive": False, "focal_negative": False})],
        [(MixCSE, {"mixtures": "none"})],
        [(SimCSEPlusPlus, {"off_dropout": False, "weight": 0.0})],
        [
            (SimCSE, {}),
            (GSInfoNCE, {"multiple": 0.0}),
            (ISCSE, {"alpha": 0.0}),
            (SSCL, {"stack": 0, "average": True}),
        ],
    ],
    ids=lambda parts: "+".join(f"{cls.name}{hyper}" for cls, hyper in parts),
)
def test_switched_off_it_is_simcse_bit_for_bit(parts: Parts, dtype: torch.dtype) -> None:
    assert_same_bits(parts, [(SimCSE, {})], dtype)


@DTYPES
def test_a_switched_off_ingredient_leaves_its_host_bit_for_bit(dtype: torch.dtype) -> None:
    host: Parts = [(GSInfoNCE, {"multiple": 1.6})]
    assert_same_bits([*host, (SSCL, {"stack": 0, "average": True})], host, dtype)
    assert_same_bits([*host, (ISCSE, {"alpha": 0.0})], host, dtype)
    host = [(SSCL, {"average": True})]
    assert_same_bits([*host, (GSInfoNCE, {"multiple": 0.0})], host, dtype)


@DTYPES
def test_order_of_gs_and_is_cse_is_no_matter(dtype: torch.dtype) -> None:
    """Both leave pairs, recipe and temperature alone, so either may be written first."""
    gs, smoothing = (GSInfoNCE, {"multiple": 1.6}), (ISCSE, {"buffer": 10, "neighbours": 3})
    assert_same_bits([gs, smoothing], [smoothing, gs], dtype)


@DTYPES
@pytest.mark.parametrize("std", [0.125, 0.5, 2.0, 1024.0])
def test_noise_of_another_power_of_two_has_the_same_bits(std: float, dtype: torch.dtype) -> None:
    """A power of two shifts no bit of a direction (docs/methods.md#gs-infonce)."""
    assert_same_bits(
        [(GSInfoNCE, {"multiple": 1.6, "std": std})], [(GSInfoNCE, {"multiple": 1.6})], dtype
    )


@DTYPES
@pytest.mark.parametrize("std", [0.1, 3.0])
def test_noise_of_any_std_gives_the_same_loss(std: float, dtype: torch.dtype) -> None:
    content = batch("random", 0)
    one, other = (
        method_step(build((GSInfoNCE, {"std": value})), content.leaves(dtype), 0)[0]
        for value in (std, 1.0)
    )
    torch.testing.assert_close(one, other, rtol=1e-6, atol=0)  # noise is drawn in float32


@pytest.mark.parametrize("name", ["simcse", "simcse-cold", "is-cse-official", "is-cse-paper"])
def test_a_batch_of_one_without_further_negatives_costs_nothing(name: str) -> None:
    """One candidate, the positive: -log 1 (docs/methods.md#batches: the last of 1,000,001 rows)."""
    method = BY_NAME[name].build()
    for index in STEPS:
        loss, gradients = method_step(method, batch("one", index).leaves(torch.float64), index)
        assert loss.item() == 0
        assert all((gradient == 0).all() for gradient in gradients)


@DTYPES
@pytest.mark.parametrize("case", [*CASES, *test_dclr.CASES.values()], ids=attrgetter("name"))
def test_a_zero_vector_gives_finite_numbers(case: Case, dtype: torch.dtype) -> None:
    method = case.build()
    for index in STEPS:
        leaves = batch("random", index).leaves(dtype)
        with torch.no_grad():
            for leaf in leaves:
                leaf[1] = 0
        loss, gradients = method_step(method, leaves, index)
        assert torch.isfinite(loss)
        assert all(torch.isfinite(gradient).all() for gradient in gradients)


REMEMBERING = [BY_NAME["is-cse-official"], test_esimcse.CASES["esimcse"]]
REMEMBERING += [test_esimcse.CASES["simcse+esimcse"]]
REMEMBERING += [test_is_cse.BY_NAME[name] for name in ("kmeans-official", "both-official")]


@pytest.mark.parametrize("case", REMEMBERING, ids=attrgetter("name"))
def test_it_goes_on_from_a_stored_state(case: Case) -> None:
    """What it remembers is in its state, so a loaded copy takes the next steps alike."""

    def take(method: Any, index: int, kind: int) -> list[torch.Tensor]:
        loss, found = method_step(method, batch("random", kind).leaves(torch.float32), index)
        return [loss, *found]

    method, copy = case.build(), case.build()
    for index in range(4):
        take(method, index, index)
    take(copy, 0, 9)  # its second encoder is made
    copy.load_state_dict(method.state_dict())
    for index in (4, 5):
        assert all(map(torch.equal, take(method, index, index), take(copy, index, index)))


def test_simcse_by_hand() -> None:
    """Orthonormal sentences, views alike: each loss is log(e^{1/t} + n - 1) - 1/t."""
    vectors = torch.eye(WIDTH, dtype=torch.float64)
    expected = math.log(math.exp(2.0) + WIDTH - 1) - 2.0
    assert info_nce(vectors, 3 * vectors, 0.5).item() == pytest.approx(expected, rel=1e-14)


def test_gs_infonce_in_high_dimension_adds_a_constant() -> None:
    """With d = 768 the mean of e^{cos/t} over Gaussian directions is e^{1 / (2 d t^2)} = 1.297.

    Source: docs/methods.md#gs-infonce.
    """
    shape = Shape(768, 12)
    method = build((GSInfoNCE, {"multiple": 20.0}), shape=shape)
    anchors = torch.randn(4, 768, generator=torch.Generator().manual_seed(0))
    (group,) = method.negatives(anchors, None, Step(0, 1, 256, 1))
    assert group.vectors.shape == (5120, 768)
    # 20,480 draws of standard deviation 1.
    assert (cosine(anchors, group.vectors) / 0.05).exp().mean().item() == pytest.approx(
        1.297, abs=0.03
    )


def test_noise_is_fresh_each_step_and_owes_nothing_to_the_batch() -> None:
    method = build((GSInfoNCE, {"multiple": 2.0}))

    def draw(index: int, seed: int, n: int) -> torch.Tensor:
        (group,) = method.negatives(
            torch.randn(n, WIDTH), None, Step(index, TOTAL, BATCH_SIZE, seed)
        )
        return group.vectors

    torch.manual_seed(0)
    first = draw(0, 1, 5)
    torch.manual_seed(99)
    # Neither the global generator nor a short batch changes it.
    assert torch.equal(first, draw(0, 1, 2))
    assert not torch.equal(first, draw(1, 1, 5))
    assert not torch.equal(first, draw(0, 2, 5))


def test_drawing_noise_leaves_the_global_generator_alone() -> None:
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    method_step(BY_NAME["gs+is-cse+sscl"].build(), batch("random", 0).leaves(torch.float32), 0)
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize(("n", "fills_at"), [(64, 16), (512, 2)])
def test_official_is_cse_starts_when_its_memory_of_1024_is_full(n: int, fills_at: int) -> None:
    """docs/methods.md#is-cse: from step 16 on with batches of 64, from step 2 on with 512."""
    method = build((ISCSE, {}), shape=Shape(8, 4))
    terms = []
    for index in range(fills_at + 1):
        vectors = torch.randn(n, 8, generator=torch.Generator().manual_seed(index))
        terms.append(bool(method.terms(vectors, vectors, 0.05, Step(index, 100, n, 1))))
    assert terms == [False] * (fills_at - 1) + [True, True]


@DTYPES
def test_is_cse_remembers_the_last_rows_normalised_without_gradient(dtype: torch.dtype) -> None:
    method = build((ISCSE, {"buffer": 7, "neighbours": 2}))
    entered = []
    for index in range(4):
        leaves = batch("random", index).leaves(dtype)
        method_step(method, leaves, index)
        entered.append(F.normalize(leaves[1].detach(), dim=1))
    torch.testing.assert_close(method.rows.to(dtype), torch.cat(entered)[-7:], rtol=1e-6, atol=1e-7)
    assert not method.rows.requires_grad
    assert int(method.filled) == 7


def test_is_cse_memory_smaller_than_a_batch_keeps_its_last_rows() -> None:
    method = build((ISCSE, {"buffer": 3, "neighbours": 2}))
    leaves = batch("random", 0).leaves(torch.float32)
    method_step(method, leaves, 0)
    torch.testing.assert_close(method.rows, F.normalize(leaves[1].detach(), dim=1)[-3:])


def test_eq8_by_hand() -> None:
    """From 0.005 at the first step to 0.05 at half of the training, then constant."""
    method = build((ISCSE, {"alpha": 0.05, "alpha_start": 0.005}))
    alphas = [method.alpha(Step(index, 12, 64, 1)) for index in range(12)]
    assert alphas[0] == pytest.approx(0.005)
    assert alphas[4] == pytest.approx(0.05 - 0.045 / 2)
    assert alphas[6:] == pytest.approx([0.05] * 6)
    assert sorted(alphas[:7]) == alphas[:7]
    assert build((ISCSE, {"alpha": 0.1})).alpha(Step(0, 12, 64, 1)) == 0.1


def test_attention_of_beta_2_is_nearly_uniform() -> None:
    """docs/methods.md#is-cse: of 16 neighbours of cosine 0.5 and itself, itself has 7.4 %."""
    unit = F.normalize(torch.eye(32)[:1])
    neighbours = torch.stack(
        [0.5 * torch.eye(32)[0] + math.sqrt(0.75) * torch.eye(32)[i] for i in range(1, 17)]
    )
    method = build((ISCSE, {"buffer": 17, "current_first": False}), shape=Shape(32, 4))
    method._remember(neighbours)
    (smoothed,) = method._smooth(unit)
    # smoothed = a e_1 + (1 - a) mean of neighbours; its parts orthogonal to e_1 are (1 - a)
    # sqrt(0.75) / 16
    own = 1 - smoothed[1].item() * 16 / math.sqrt(0.75)
    assert own == pytest.approx(0.074, abs=5e-4)


@pytest.mark.parametrize(
    ("depth", "stack", "layers"),
    [(12, 2, [11, 10]), (24, 3, [23, 22, 21]), (4, 9, [3, 2, 1]), (12, 0, [])],
)
def test_sscl_stacks_from_the_last_but_one_layer_down(
    depth: int, stack: int, layers: list[int]
) -> None:
    """docs/methods.md#sscl: of 12 layers, 11 and 10; a stack ends at layer 1."""
    shape = Shape(WIDTH, depth)
    hyper = SSCL.clamp_to_backbone(SSCL.Hyper(stack=stack), shape)
    method = SSCL(hyper, shape)
    assert method.layers == layers


@pytest.mark.parametrize(
    ("hyper", "count"),
    [
        ({}, (16, False)),
        ({"sides": "one"}, (8, False)),
        ({"negatives": "own"}, (2, True)),
        ({"negatives": "own", "sides": "one"}, (1, True)),
    ],
)
def test_sscl_negatives_per_anchor_and_layer(
    hyper: dict[str, str], count: tuple[int, bool]
) -> None:
    """docs/methods.md#sscl: 2N in the released code, one in the paper."""
    vectors = torch.randn(2, 8, WIDTH)
    groups = build((SSCL, hyper)).negatives(
        vectors[0], Views(tuple(vectors), lambda layer: tuple(vectors)), step(0)
    )
    assert len(groups) == 2
    for group in groups:
        assert (group.vectors.dim() == 3) == count[1]
        assert group.vectors.shape[-2] == count[0]
