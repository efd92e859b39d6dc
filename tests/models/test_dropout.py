"""Dropout from 16 random bits per element: rate, mean, independence and gradient."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from bench.models.packed_forward import Dropout


def dropped(
    rate: float, size: tuple[int, ...], seed: int = 5, kind: torch.dtype = torch.float32
) -> Tensor:
    torch.manual_seed(seed)
    return Dropout(True, torch.device("cpu"))(torch.ones(size, dtype=kind), rate)


@pytest.mark.parametrize("rate", [0.1, 0.15, 0.5, 0.9, 1 / 4096, 1 / 65536, 1.4 / 65536])
def test_dropout_keeps_the_expected_share_and_the_mean(global_state: None, rate: float) -> None:
    """Kept elements are binomial at the rate in 65536ths; their value makes the mean 1."""
    size = 1_000_003
    exact = round(rate * 65536) / 65536
    assert abs(exact - rate) <= 0.5 / 65536
    values = dropped(rate, (size,))
    kept = values[values != 0]
    np.testing.assert_array_equal(kept.numpy(), np.float32(1 / (1 - exact)))
    z = (len(kept) - size * (1 - exact)) / math.sqrt(size * exact * (1 - exact))
    assert abs(z) < 4
    bias = (float(values.double().mean()) - 1) / math.sqrt(exact / (1 - exact) / size)
    assert abs(bias) < 4


def test_dropout_draws_elements_independently(global_state: None) -> None:
    """Neighbours, which share a draw of 64 bits, and successive calls, correlate by chance only."""
    torch.manual_seed(5)
    drop, ones = Dropout(True, torch.device("cpu")), torch.ones(400_000)
    first, second = ((drop(ones, 0.1) > 0).double() for _ in range(2))
    others = {0: second, **{lag: first.roll(lag) for lag in (1, 2, 3, 4, 5, 8)}}
    for lag, other in others.items():
        z = float(torch.corrcoef(torch.stack([first, other]))[0, 1]) * math.sqrt(len(ones))
        assert abs(z) < 4, lag


def test_dropout_follows_the_global_seed(global_state: None) -> None:
    size = (50, 40)
    assert torch.equal(dropped(0.5, size, seed=1), dropped(0.5, size, seed=1))
    assert not torch.equal(dropped(0.5, size, seed=1), dropped(0.5, size, seed=2))
    torch.manual_seed(1)
    one, two = (Dropout(True, torch.device("cpu"))(torch.ones(size), 0.5) for _ in range(2))
    assert not torch.equal(one, two)  # the second pass of a step is another draw


def test_inactive_dropout_is_the_identity(global_state: None) -> None:
    values = torch.randn(3, 5)
    assert Dropout(True, values.device)(values, 0.0) is values
    state = torch.get_rng_state()
    assert Dropout(False, values.device)(values, 0.5) is values
    # An evaluation between two steps moves no generator.
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("kind", [torch.float64, torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("size", [(1,), (3,), (5, 7), (2, 3, 5, 7), (0, 4), (64,)], ids=str)
def test_dropout_takes_any_size_and_type_and_its_gradient_has_its_mask(
    global_state: None, size: tuple[int, ...], kind: torch.dtype
) -> None:
    torch.manual_seed(11)
    values = torch.randn(size, dtype=kind).mT if len(size) > 1 else torch.randn(size, dtype=kind)
    values.requires_grad_()
    found = Dropout(True, values.device)(values, 0.25)
    assert (found.dtype, found.shape) == (kind, values.shape)
    direction = torch.randn_like(found)
    (gradient,) = torch.autograd.grad(found, values, direction)
    assert torch.equal(gradient == 0, found == 0)
    scale = torch.where(found == 0, 0.0, torch.tensor(4 / 3, dtype=torch.float64))
    # Of the scale and of the product, half a unit each; element by element, so on every processor
    # the same.
    rounding = {"rtol": torch.finfo(kind).eps, "atol": 0.0}
    torch.testing.assert_close(found, (values * scale).to(kind), **rounding)
    torch.testing.assert_close(gradient, (direction * scale).to(kind), **rounding)
