"""Limits and known answers: what a method becomes when a part is switched off, bit for bit."""

import math

import pytest
import torch

from methods.base import Shape, Step
from methods.focal_infonce import FocalInfoNCE
from methods.gs_infonce import GSInfoNCE
from methods.is_cse import ISCSE
from methods.mixcse import MixCSE
from methods.simcse import SimCSE
from methods.simcse_plus_plus import SimCSEPlusPlus
from methods.sscl import SSCL
from tests.support import method_cases
from tests.support.method_cases import (
    CASES,
    HARD,
    STEPS,
    assert_finite_with_a_zero_vector,
    batch,
    build,
    method_step,
)

DTYPES = pytest.mark.parametrize("dtype", method_cases.DTYPES, ids=["float64", "float32"])


def assert_same_bits(left, right, dtype):
    method, reference = build(*left), build(*right)
    for kind in ("random", "close", *HARD):
        for index in STEPS:
            content = batch(kind, index)
            loss, gradients = method_step(method, content.leaves(dtype), index)
            expected, expected_gradients = method_step(reference, content.leaves(dtype), index)
            assert torch.equal(loss, expected), (kind, index)
            assert all(map(torch.equal, gradients, expected_gradients)), (kind, index)


@DTYPES
@pytest.mark.parametrize(
    "parts",
    [
        [(GSInfoNCE, {"weight": 0.0})],
        [(ISCSE, {"alpha": 0.3, "buffer": 1024})],  # never full in these few steps
        # Never k rows.
        [(ISCSE, {"alpha": 0.3, "buffer": 1024, "neighbours": 500, "current_first": False})],
        [(ISCSE, {"alpha": 0.0, "buffer": 10, "group": "kmeans", "clusters": 3})],
        [(ISCSE, {"alpha": 0.3, "group": "both"})],
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
def test_switched_off_it_is_simcse_bit_for_bit(parts, dtype):
    assert_same_bits(parts, [(SimCSE, {})], dtype)


@DTYPES
def test_noise_of_another_power_of_two_has_the_same_bits(dtype):
    """A power of two shifts no bit of a direction (docs/reference/methods.md#gs-infonce)."""
    for std in (0.5, 1024.0):
        assert_same_bits([(GSInfoNCE, {"std": std})], [(GSInfoNCE, {})], dtype)
    losses = [
        method_step(build((GSInfoNCE, {"std": std})), batch("random", 0).leaves(dtype), 0)[0]
        for std in (0.1, 1.0)
    ]
    torch.testing.assert_close(*losses, rtol=1e-6, atol=0)  # noise is drawn in float32


@DTYPES
def test_a_zero_vector_gives_finite_numbers(dtype):
    for case in CASES:
        assert_finite_with_a_zero_vector(case, dtype)


def test_gs_infonce_in_high_dimension_adds_a_constant():
    """With d = 768 the mean of e^{cos/t} over Gaussian directions is e^{1 / (2 d t^2)} = 1.297."""
    method = build((GSInfoNCE, {"multiple": 20.0}), shape=Shape(768, 12))
    anchors = torch.randn(4, 768, generator=torch.Generator().manual_seed(0))
    (noise,) = method.negatives(anchors, None, Step(0, 1, 256, 1))
    # 20,480 draws of standard deviation 1.
    assert noise.logits(anchors, 0.05).exp().mean().item() == pytest.approx(1.297, abs=0.03)


@pytest.mark.parametrize(("n", "fills_at"), [(64, 16), (512, 2)])
def test_official_is_cse_starts_when_its_memory_of_1024_is_full(n, fills_at):
    """docs/reference/methods.md#is-cse: from step 16 on with batches of 64, from step 2 on with
    512."""
    method = build((ISCSE, {}), shape=Shape(8, 4))
    for index in range(fills_at + 1):
        vectors = torch.randn(n, 8, generator=torch.Generator().manual_seed(index))
        terms = method.terms(vectors, vectors, 0.05, Step(index, 100, n, 1))
        assert bool(terms) == (index >= fills_at - 1)


def test_attention_of_beta_2_is_nearly_uniform():
    """docs/reference/methods.md#is-cse: of 16 neighbours of cosine 0.5 and itself, itself has 7.4
    %."""
    axes, height = torch.eye(32), math.sqrt(0.75)
    method = build((ISCSE, {"buffer": 17, "current_first": False}), shape=Shape(32, 4))
    method.append(0.5 * axes[0] + height * axes[1:17])
    (smoothed,) = method._smooth(axes[:1])
    # smoothed = a e_1 + (1 - a) mean of neighbours; its parts orthogonal to e_1 are (1 - a)
    # height / 16
    assert 1 - smoothed[1].item() * 16 / height == pytest.approx(0.074, abs=5e-4)
