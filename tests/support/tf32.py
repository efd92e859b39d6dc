"""TF32 on a processor: a product rounds its factors to 10 bits of mantissa and sums in float32."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.nn import functional as F

TF32, FLOAT32 = 10, 23  # bits of mantissa
_linear = F.linear


def rounded(values: Tensor, bits: int) -> Tensor:
    """float32 to the nearest with `bits` of mantissa, ties to even."""
    drop = FLOAT32 - bits
    raw = values.contiguous().view(torch.int32)
    raw = raw + ((1 << (drop - 1)) - 1 + ((raw >> drop) & 1))
    return (raw & ~((1 << drop) - 1)).view(torch.float32)


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor, bias: Tensor | None, bits: int) -> Tensor:
        ctx.bits = bits
        rows, weight = rounded(rows, bits), rounded(weight, bits)
        ctx.save_for_backward(rows, weight)
        return _linear(rows, weight, bias)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        rows, weight = ctx.saved_tensors
        flat = gradient.flatten(0, -2)
        short = rounded(flat, ctx.bits)
        d_rows = (short @ weight).view(rows.shape)
        return d_rows, short.T @ rows.flatten(0, -2), flat.sum(0), None


@contextmanager
def products_with(bits: int) -> Iterator[None]:
    """Dense layers of float32 in the block have factors with `bits` of mantissa."""

    def linear(rows: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        if rows.dtype != torch.float32:
            return _linear(rows, weight, bias)
        return _Linear.apply(rows, weight, bias, bits)

    with patch.object(F, "linear", linear):
        yield
