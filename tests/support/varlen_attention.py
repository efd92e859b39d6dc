"""CUDA's memory-efficient attention of packed sequences, for the pretended device: what
`_efficient_attention_forward` and its backward pass compute and refuse, with the values of the
processor."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def _padded(rows: Tensor, ends: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """(1, tokens, heads, d) to (n, heads, most, d) in float32, and which of its positions are real,
    (n, most)."""
    lengths = ends.diff()
    if ends.dtype != torch.int32 or ends[0] or ends[-1] != rows.shape[1] or lengths.max() > most:
        raise RuntimeError(f"invalid lengths {ends.tolist()} of {rows.shape[1]} rows, most {most}")
    real = torch.arange(most) < lengths[:, None]
    padded = rows.new_zeros(len(lengths), most, *rows.shape[2:], dtype=torch.float32)
    padded[real] = rows[0].float()
    return padded.transpose(1, 2), real


def _packed(padded: Tensor, real: Tensor, kind: torch.dtype) -> Tensor:
    return padded.transpose(1, 2)[real].to(kind).unsqueeze(0)


def _kept(weights: Tensor, rate: float, seed: Tensor) -> Tensor:
    """The mask of dropout, scaled."""
    draw = torch.Generator().manual_seed(int(seed))
    return (torch.rand(weights.shape, generator=draw) >= rate) / (1 - rate)


def forward(
    query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, ends_q: Tensor, ends_k: Tensor,
    most_q: int, most_k: int, rate: float, mask_type: int, compute_log_sumexp: bool = False,
    *, scale: float | None = None, **_: Any,
) -> tuple[Any, ...]:  # fmt: skip
    if not query.dtype == key.dtype == value.dtype or query.shape[-1] % 8 or mask_type or bias:
        raise RuntimeError("the kernel takes one type, heads of 8 values, and no mask")
    (q, real_q), (k, real_k) = _padded(query, ends_q, most_q), _padded(key, ends_k, most_k)
    v, seed = _padded(value, ends_k, most_k)[0], torch.randint(2**62, ())
    logits = q @ k.transpose(-1, -2) * (scale or q.shape[-1] ** -0.5)
    logits = logits.masked_fill(~real_k[:, None, None, :], -torch.inf)
    mixed = (logits.softmax(-1) * _kept(logits, rate, seed)) @ v
    sums = logits.logsumexp(-1) if compute_log_sumexp else logits.new_empty(0)
    return _packed(mixed, real_q, query.dtype), sums, seed, torch.zeros_like(seed), most_q, most_k


def backward(
    gradient: Tensor, query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, out: Tensor,
    ends_q: Tensor, ends_k: Tensor, most_q: int, most_k: int, sums: Tensor, rate: float,
    seed: Tensor, offset: Tensor, mask_type: int, bias_requires_grad: bool,
    *, scale: float | None = None, **_: Any,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    (q, real_q), (k, real_k) = _padded(query, ends_q, most_q), _padded(key, ends_k, most_k)
    v, g = _padded(value, ends_k, most_k)[0], _padded(gradient, ends_q, most_q)[0]
    scale = scale or q.shape[-1] ** -0.5
    weights = (q @ k.transpose(-1, -2) * scale - sums[..., None]).exp()
    weights = weights * real_k[:, None, None, :]
    kept = _kept(weights, rate, seed)
    slopes = g @ v.transpose(-1, -2) * kept
    logits = weights * (slopes - (slopes * weights).sum(-1, keepdim=True)) * scale
    grads = (logits @ k, real_q), (logits.transpose(-1, -2) @ q, real_k)
    grads = *grads, ((weights * kept).transpose(-1, -2) @ g, real_k)
    return *(_packed(one, real, query.dtype) for one, real in grads), torch.empty(0)
