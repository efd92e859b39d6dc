"""The passes with few launches against the packed one, on the pretended device."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from bench.models.fused_forward import FusedLayers, is_fused
from bench.models.packed_forward import Batch, States, Work, forward
from bench.models.transformer import load_backbone
from methods.base import seed_torch
from tests.support.pretended_device import PretendedDevice

TOKENS = [[2, *range(5, 5 + length), 3] for length in (1, 6, 3, 9, 2)]
# Of states (up to 3) and gradients (up to 20), relative to the largest: measured 1.1e-6 and 2e-3.
CLOSE = {torch.float32: 5e-6, torch.float16: 1e-2}


def states(
    model: Any,
    fused: bool,
    kind: torch.dtype,
    first_only: bool,
    block: int = 0,
    work: Work | None = None,
) -> tuple[States, Batch]:
    device = next(model.parameters()).device
    batch = Batch.of(TOKENS, model.config.pad_token_id, device, block=block if fused else 0)
    if fused:
        layers = FusedLayers(model, kind)
        return layers.forward(batch, first_only=first_only, work=work), batch
    with torch.autocast(device.type, dtype=kind, enabled=kind != torch.float32):
        return forward(model, batch, first_only=first_only, work=work), batch


def objective(states: States, batch: Batch, first_only: bool) -> Tensor:
    """A number that depends on a lower layer and on the last one."""
    tokens = sum(map(len, TOKENS))
    last = states.first(-1) if first_only else batch.pack(states[-1])[:tokens]
    return last.float().square().mean() + batch.pack(states[2])[:tokens].sin().mean()


def found(
    model: Any, fused: bool, kind: torch.dtype, first_only: bool, block: int = 0
) -> dict[str, Tensor]:
    """Objective, first tokens of the last layer and gradients, by name."""
    made, batch = states(model, fused, kind, first_only, block)
    loss = objective(made, batch, first_only)
    loss.backward()
    named = {name: weight.grad for name, weight in model.named_parameters()}
    tensors = {"loss": loss, "first": made.first(-1), **named}
    return {name: value.detach() for name, value in tensors.items() if value is not None}


@pytest.mark.parametrize("block", [0, 16])
@pytest.mark.parametrize("first_only", [False, True])
@pytest.mark.parametrize("kind", CLOSE)
def test_equals_the_packed_pass(
    tiny_backbone: Path, device: PretendedDevice, kind: torch.dtype, first_only: bool, block: int
) -> None:
    model = load_backbone(tiny_backbone, dropout=0.0)[0].to("cuda").train()
    with device.recorded() as seen:
        own = found(model, True, kind, first_only, block)
    assert not seen.waits
    model.zero_grad()
    packed = found(model, False, kind, first_only)
    assert own.keys() == packed.keys()
    own, expected = ({name: value.cpu() for name, value in each.items()} for each in (own, packed))
    largest = max(value.abs().max() for value in expected.values())
    for name, value in expected.items():
        size = CLOSE[kind] * (largest if value.dim() else value.abs())
        assert (own[name] - value).abs().max() <= size, name


@pytest.mark.parametrize("block", [0, 16])
@pytest.mark.parametrize("first_only", [False, True])
def test_the_backward_pass_has_the_masks_of_the_forward_pass(
    tiny_bert: Path, device: PretendedDevice, first_only: bool, block: int
) -> None:
    """The gradient along a direction is the slope of the objective with the same draws."""
    model = load_backbone(tiny_bert, dropout=0.3)[0].to("cuda").train()

    def value(seed: int = 1) -> Tensor:
        seed_torch(seed, "cuda")
        return objective(*states(model, True, torch.float32, first_only, block), first_only)

    value().backward()
    weights = [weight for weight in model.parameters() if weight.grad is not None]
    length = sum(weight.grad.square().sum().item() for weight in weights)
    step, values = 1e-3 / length**0.5, []
    with torch.no_grad():
        for move in (step, -2 * step):
            for weight in weights:
                weight.add_(weight.grad, alpha=move)
            values.append(value().item())
        assert value(2).item() != values[1]  # there is dropout
    assert (values[0] - values[1]) / (2 * step) == pytest.approx(length, rel=2e-2)


def test_counts_the_work_and_refuses_what_it_cannot_run(
    tiny_bert: Path, device: PretendedDevice
) -> None:
    model = load_backbone(tiny_bert)[0]
    assert is_fused(model, "cuda:0")
    assert not is_fused(model, "cpu")
    for field, wrong in {
        "hidden_act": "relu",
        "num_attention_heads": 8,
        "is_decoder": True,
    }.items():
        other = copy.deepcopy(model)
        setattr(other.config, field, wrong)
        assert not is_fused(other, "cuda:0"), field
    model = model.to("cuda")
    works = {}
    for fused, block in ((False, 0), (True, 0), (True, 16)):
        works[fused, block] = Work()
        states(model, fused, torch.float32, True, block, works[fused, block])
    assert len({str(work) for work in works.values()}) == 1
