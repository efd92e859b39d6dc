"""A step of the optimiser that unscales and clips by itself, against one after the other."""

from __future__ import annotations

import math

import pytest
import torch

from bench.runs.recipe import Recipe
from bench.training.optimiser import apply_gradients, make_optimiser
from tests.support.pretended_device import PretendedDevice


def steps(device: str, scaled: bool, gradients: list[float]) -> tuple[list[float], float, float]:
    """Weights after steps with these gradients, the last norm, and the scale at the end."""
    weights = [torch.tensor([1.0, -2.0]).to(device), torch.tensor([[0.5]]).to(device)]
    optimiser = make_optimiser([one.requires_grad_() for one in weights], Recipe(learning_rate=0.1))
    scaler = torch.amp.GradScaler(device, init_scale=8.0, growth_interval=2, enabled=scaled)
    norm = torch.zeros(())
    for size in gradients:
        optimiser.zero_grad()
        loss = size * (weights[0].square().sum() + weights[1].sum())
        scaler.scale(loss).backward()
        norm = apply_gradients(weights, optimiser, scaler, clip=1.0)
    flat = torch.cat([one.detach().cpu().flatten() for one in weights])
    return flat.tolist(), norm.item(), scaler.get_scale()


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("gradients", [[0.01, 0.02, 0.01], [3.0, 0.1, 7.0]])
def test_equals_one_after_the_other(
    scaled: bool, gradients: list[float], device: PretendedDevice
) -> None:
    """With and without clipping; the scale grows after two steps."""
    own, norm, scale = steps("cuda", scaled, gradients)
    weights, host_norm, host_scale = steps("cpu", scaled, gradients)
    assert own == pytest.approx(weights, rel=1e-5)
    assert norm == pytest.approx(host_norm, rel=1e-6)
    assert scale == host_scale == (16.0 if scaled else 1.0)


@pytest.mark.parametrize("wrong", [math.inf, math.nan])
def test_an_overflow_is_skipped_and_halves_the_scale(wrong: float, device: PretendedDevice) -> None:
    found, _, scale = steps("cuda", True, [0.01, wrong])
    assert found == steps("cuda", True, [0.01])[0]
    assert scale == 4.0


def test_without_a_scale_a_norm_that_is_not_finite_is_reported(device: PretendedDevice) -> None:
    assert not math.isfinite(steps("cuda", False, [math.inf])[1])
