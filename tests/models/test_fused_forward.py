"""The pass with few launches against the packed one, on a processor: equal numbers, fewer
operations."""

import copy

import pytest
import torch

from bench.models import fused_forward
from bench.models.fused_forward import FusedLayers, is_fused
from bench.models.packed_forward import Batch, forward
from bench.models.transformer import load_backbone
from methods.base import seed_torch
from tests.oracles.padded_attention import attend_padded

TOKENS = [[2, *range(5, 5 + length), 3] for length in (1, 6, 3, 9, 2)]
# Of states (up to 3) and gradients (up to 20), relative to the largest: measured 1.1e-6 and 2e-3.
CLOSE = {torch.float32: 5e-6, torch.bfloat16: 5e-2}


@pytest.fixture(autouse=True)
def padded(monkeypatch):
    """A processor lacks the kernel."""
    monkeypatch.setattr(fused_forward, "attend_fused", attend_padded)


def states(model, fused, kind, first_only=True):
    batch = Batch.of(TOKENS, model.config.pad_token_id)
    layers = FusedLayers(model, kind) if fused else None
    with torch.autocast("cpu", dtype=kind, enabled=kind != torch.float32 and not fused):
        return forward(model, batch, first_only=first_only, fused=layers), batch


def numbers(model, fused, kind, first_only):
    """First tokens of the last layer, a function of it and of a lower one, and its gradients."""
    model.zero_grad()
    made, batch = states(model, fused, kind, first_only)
    last = made.first() if first_only else batch.pack(made[-1])
    loss = last.float().square().mean() + batch.pack(made[2]).float().sin().mean()
    loss.backward()
    tensors = {name: weight.grad for name, weight in model.named_parameters()}
    tensors |= {"loss": loss, "first": made.first().float()}
    return {name: value.detach() for name, value in tensors.items() if value is not None}


@pytest.mark.parametrize("first_only", [False, True])
@pytest.mark.parametrize("kind", CLOSE)
def test_equals_the_packed_pass(tiny_backbone, kind, first_only):
    model = load_backbone(tiny_backbone, dropout=0.0)[0].train()
    fused, packed = (numbers(model, is_fused, kind, first_only) for is_fused in (True, False))
    assert fused.keys() == packed.keys()
    largest = max(value.abs().max() for value in packed.values())
    for name, value in packed.items():
        size = CLOSE[kind] * (largest if value.dim() else value.abs())
        assert (fused[name] - value).abs().max() <= size, name


@pytest.mark.parametrize("place", ["attention.self", "attention.output", "output"])
def test_every_dropout_is_there(place, tiny_bert):
    """Drawn anew for each seed, in training alone."""
    model = load_backbone(tiny_bert, dropout=0.0)[0].train()

    def first(seed):
        seed_torch(seed, "cpu")
        return states(model, True, torch.float32)[0].first()

    plain = first(1)
    for layer in model.encoder.layer:
        layer.get_submodule(place).dropout.p = 0.3
    assert not torch.equal(first(1), plain)
    assert torch.equal(first(1), first(1))
    assert not torch.equal(first(1), first(2))
    model.eval()
    assert torch.equal(first(1), plain)


def test_runs_only_what_it_computes(tiny_bert):
    model = load_backbone(tiny_bert)[0]
    assert is_fused(model, "cuda:0")
    assert not is_fused(model, "cpu")
    wrong = {"hidden_act": "relu", "num_attention_heads": 8, "is_decoder": True}
    for field, value in wrong.items():
        changed = copy.deepcopy(model)
        setattr(changed.config, field, value)
        assert not is_fused(changed, "cuda:0"), field
