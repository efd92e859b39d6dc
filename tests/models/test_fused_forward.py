"""The pass with few launches against the packed one, on a processor: equal numbers, fewer
operations."""

import copy
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from bench.models import fused_forward
from bench.models.fused_forward import FusedLayers, attend_padded, is_fused
from bench.models.packed_forward import Batch, States, Work, forward
from bench.models.transformer import load_backbone
from methods.base import seed_torch

TOKENS = [[2, *range(5, 5 + length), 3] for length in (1, 6, 3, 9, 2)]
# Of states (up to 3) and gradients (up to 20), relative to the largest: measured 1.1e-6 and 2e-3.
CLOSE = {torch.float32: 5e-6, torch.bfloat16: 5e-2}


def states(
    model: Any, fused: bool, kind: torch.dtype, first_only: bool, work: Work | None = None
) -> tuple[States, Batch]:
    batch = Batch.of(TOKENS, model.config.pad_token_id)
    layers = FusedLayers(model, kind) if fused else None
    with torch.autocast("cpu", dtype=kind, enabled=kind != torch.float32 and not fused):
        return forward(model, batch, first_only=first_only, work=work, fused=layers), batch


def objective(states: States, batch: Batch, first_only: bool) -> Tensor:
    """A number that depends on a lower layer and on the last one."""
    last = states.first(-1) if first_only else batch.pack(states[-1])
    return last.float().square().mean() + batch.pack(states[2]).float().sin().mean()


def numbers(model: Any, fused: bool, kind: torch.dtype, first_only: bool) -> dict[str, Tensor]:
    """Objective, first tokens of the last layer and gradients, by name."""
    model.zero_grad()
    made, batch = states(model, fused, kind, first_only)
    loss = objective(made, batch, first_only)
    loss.backward()
    tensors = {name: weight.grad for name, weight in model.named_parameters()}
    tensors |= {"loss": loss, "first": made.first(-1).float()}
    return {name: value.detach() for name, value in tensors.items() if value is not None}


@pytest.mark.parametrize("first_only", [False, True])
@pytest.mark.parametrize("kind", CLOSE)
def test_equals_the_packed_pass(tiny_backbone: Path, kind: torch.dtype, first_only: bool) -> None:
    model = load_backbone(tiny_backbone, dropout=0.0)[0].train()
    fused, packed = (numbers(model, each, kind, first_only) for each in (True, False))
    assert fused.keys() == packed.keys()
    largest = max(value.abs().max() for value in packed.values())
    for name, value in packed.items():
        size = CLOSE[kind] * (largest if value.dim() else value.abs())
        assert (fused[name] - value).abs().max() <= size, name


def inside(layer: Any) -> Any:
    return layer.attention.self.dropout


def after_attention(layer: Any) -> Any:
    return layer.attention.output.dropout


def after_feed_forward(layer: Any) -> Any:
    return layer.output.dropout


@pytest.mark.parametrize("place", [inside, after_attention, after_feed_forward])
def test_every_dropout_is_there(place: Callable[[Any], Any], tiny_bert: Path) -> None:
    """Drawn anew for each seed, in training alone."""
    model = load_backbone(tiny_bert, dropout=0.0)[0].train()

    def first(seed: int) -> Tensor:
        seed_torch(seed, "cpu")
        return states(model, True, torch.float32, True)[0].first(-1)

    plain = first(1)
    for layer in model.encoder.layer:
        place(layer).p = 0.3
    assert not torch.equal(first(1), plain)
    assert torch.equal(first(1), first(1))
    assert not torch.equal(first(1), first(2))
    model.eval()
    assert torch.equal(first(1), plain)


def test_counts_the_work_and_refuses_what_it_cannot_run(tiny_bert: Path) -> None:
    model = load_backbone(tiny_bert)[0]
    assert is_fused(model, "cuda:0")
    assert not is_fused(model, "cpu")
    wrong = {"hidden_act": "relu", "num_attention_heads": 8, "is_decoder": True}
    for field, value in wrong.items():
        changed = copy.deepcopy(model)
        setattr(changed.config, field, value)
        assert not is_fused(changed, "cuda:0"), field
    works = Work(), Work()
    for fused, work in enumerate(works):
        states(model, bool(fused), torch.float32, True, work)
    assert works[0] == works[1]


FREE = ("empty", "_unsafe_view")


class Operations(TorchDispatchMode):
    """Counts the operations of a block, forwards and backwards, that are launches on a GPU: without
    views and allocations."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(
        self, operation: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        self.count += not (operation.is_view or any(word in str(operation) for word in FREE))
        return operation(*args, **(kwargs or {}))


def operations(model: Any, fused: bool, depth: int) -> int:
    """Of a training step in bfloat16 up to the gradients, with some layers."""
    model = copy.deepcopy(model).train()
    del model.encoder.layer[depth:]
    model.config.num_hidden_layers = depth
    with Operations() as seen:
        made, _ = states(model, fused, torch.bfloat16, True)
        made.first(-1).float().square().mean().backward()
    return seen.count


def test_a_layer_has_few_operations(tiny_bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The attention of a GPU is one operation, so it is counted as one here. The bound is what was
    counted; a change that needs fewer lowers it."""
    model = load_backbone(tiny_bert, dropout=0.1)[0]

    def values_alone(queries: Tensor, keys: Tensor, values: Tensor, *_: Any) -> Tensor:
        return values.neg() if len(values) == len(queries) else queries.neg()

    packed = operations(model, False, 3) - operations(model, False, 2)
    monkeypatch.setattr(fused_forward, "attend", values_alone)
    fused = operations(model, True, 3) - operations(model, True, 2)
    print(f"\noperations of a layer: {fused}, packed {packed}")
    assert fused <= 45
    assert 2 * fused < packed


def test_attention_sees_its_own_sequence_alone() -> None:
    """Each packed sequence as if it were alone, for all tokens and for the first ones."""
    draw = torch.Generator().manual_seed(0)
    lengths = torch.tensor([3, 1, 5])
    ends = torch.cat([torch.zeros(1, dtype=torch.int32), lengths.cumsum(0).int()])
    rows = [torch.randn(9, 2, 8, generator=draw) for _ in range(3)]
    mixed = attend_padded(*rows, ends, ends, 0.0)
    firsts = ends[:-1].long()
    single = attend_padded(rows[0][firsts], *rows[1:], torch.arange(4).int(), ends, 0.0)
    torch.testing.assert_close(single, mixed[firsts])
    for start, end in pairwise(ends):
        queries, keys, values = (part[start:end].transpose(0, 1) for part in rows)
        weights = (queries @ keys.transpose(1, 2) / 8**0.5).softmax(-1)
        torch.testing.assert_close(mixed[start:end], (weights @ values).transpose(0, 1))
