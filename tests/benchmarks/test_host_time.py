"""What a training step costs the host, which launches a GPU's operations: both passes of BERT with
12 layers, in few launches and one by one.

On a processor, with tensors so small that calling an operation is all it takes. Dropout is the
operation of a GPU on both sides. Attention on packed states, which the processor has not in one
operation, is a stub. Times are the thread's own.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from bench.models import fused_forward, packed_forward
from bench.models.fused_forward import FusedLayers
from bench.models.packed_forward import Batch, forward

LAYERS, ROUNDS = 12, 100
TOKENS = [[2, 5, 3], [2, 6, 7, 3]]
MOST = 0.75  # of the time one by one; measured: 0.57 to 0.66


def attend(query: Tensor, *_: Any) -> tuple[Tensor, ...]:
    none = query.new_empty(0)
    return torch.zeros_like(query.contiguous()), none, none, none, 0, 0


def attend_back(gradient: Tensor, query: Tensor, key: Tensor, value: Tensor, *_: Any) -> Any:
    return *(torch.zeros_like(one.contiguous()) for one in (query, key, value)), None


def drop(_: packed_forward.Dropout, values: Tensor, rate: float) -> Tensor:
    return torch.native_dropout(values, rate, True)[0]


def test_both_passes(benchmark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers import BertConfig, BertModel

    monkeypatch.setattr(fused_forward, "_attend", attend)
    monkeypatch.setattr(fused_forward, "_attend_backward", attend_back)
    monkeypatch.setattr(packed_forward.Dropout, "__call__", drop)
    monkeypatch.setattr(packed_forward.Dropout, "own", False, raising=False)
    shape = {"hidden_size": 8, "num_attention_heads": 1, "intermediate_size": 32}
    rates = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.0}
    config = BertConfig(num_hidden_layers=LAYERS, vocab_size=20, **shape, **rates)
    model = BertModel(config, add_pooling_layer=False).train()
    fused, batch = FusedLayers(model, torch.bfloat16), Batch.of(TOKENS, 0)

    def few() -> Tensor:
        return fused.forward(batch, first_only=True).first(-1)

    def one_by_one() -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return forward(model, batch, first_only=True).first(-1)

    def seconds(states: Callable[[], Tensor]) -> float:
        started = time.thread_time()
        states().sum().backward()
        taken = time.thread_time() - started
        model.zero_grad(set_to_none=True)
        return taken

    def in_turn() -> None:
        times.append((seconds(few), seconds(one_by_one)))

    times: list[tuple[float, float]] = []
    benchmark.pedantic(in_turn, rounds=ROUNDS, warmup_rounds=3)
    own, other = map(min, zip(*times, strict=True))  # other programs only add to them
    benchmark.extra_info |= {"few": own, "one by one": other}
    print(
        f"\nhost, both passes: {1e3 * own:.1f} ms, one by one {1e3 * other:.1f}: {own / other:.2f}"
    )
    assert own < MOST * other
