"""Forward pass of BERT-like transformers with few launches, for trainings on a GPU.

At batch size 64 a GPU computes faster than a host launches operations one by one, so their number
decides. Compared with `bench.models.packed_forward`:

* states stay packed in attention, too, whose kernel takes sequences of different lengths;
* queries, keys and values are one product;
* a layer is one function of autograd, whose backward pass is written here;
* weights are copied to the type of the products in one launch, and their gradients back in one.

The copies are what autocast would cast: the weights and biases of products. Layer norms, sums and
states are float32. Without dropout, states and gradients equal those of the packed forward pass up
to rounding; with dropout, the distributions do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from bench.models.packed_forward import BERT_LIKE, Batch, Layer, Rows, States, Work, is_packed

HEAD = 8  # the kernel of attention takes heads whose width is a multiple of this
PRODUCTS = 8  # copied tensors of a layer: weight and bias of four products
NORMS = 4  # other weights of a layer: weight and bias of two layer norms
# Trainings fill packed states up to a multiple of so many rows (`Batch.of`), so that few numbers of
# rows occur, of which a CUDA graph pays off. Two views of 64 sentences of wiki1m have 3,000 tokens.
BLOCK = 128
# Operations of torch that have no function of their own; named with their overload, they are found
# faster.
_attend = torch.ops.aten._efficient_attention_forward.default
_attend_backward = torch.ops.aten._efficient_attention_backward.default
_dropout_backward = torch.ops.aten.native_dropout_backward.default
_gelu_backward = torch.ops.aten.gelu_backward.default
_norm_backward = torch.ops.aten.native_layer_norm_backward.default


def is_fused(model: Any, device: str) -> bool:
    """Whether a model can run here: on a GPU, of a type of `BERT_LIKE`, with GELU, and with heads
    of a width that the kernel takes."""
    if not device.startswith("cuda") or not is_packed(model):
        return False
    if model.config.model_type not in BERT_LIKE or model.config.hidden_act != "gelu":
        return False
    return model.config.hidden_size // model.config.num_attention_heads % HEAD == 0


@dataclass(frozen=True)
class Layout:
    """What layers need of a batch beside its packed states.

    Attributes:
        ends, firsts, spread: as in `Batch`.
        longest: most rows of a sequence, or more.
    """

    ends: Tensor
    firsts: Tensor
    spread: Rows
    longest: int

    @classmethod
    def of(cls, batch: Batch) -> Layout:
        return cls(batch.ends, batch.firsts, batch.spread, batch.longest)


class FusedLayers:
    """The layers of a transformer of `BERT_LIKE`, with its own weights."""

    def __init__(self, model: Any, kind: torch.dtype) -> None:
        """Take a model for which `is_fused` holds, and the type of its products."""
        self.model, self.kind = model, kind
        self._groups: list[int] = []  # sizes of the groups of weights that are one product
        weights: list[Tensor] = []
        norms: list[Tensor] = []
        for layer in model.encoder.layer:
            own, output = layer.attention.self, layer.attention.output
            joined = (own.query, own.key, own.value)
            for modules in (
                joined, (output.dense,), (layer.intermediate.dense,), (layer.output.dense,)
            ):  # fmt: skip
                for name in ("weight", "bias"):
                    self._groups.append(len(modules))
                    weights += [getattr(module, name) for module in modules]
            for norm in (output.LayerNorm, layer.output.LayerNorm):
                norms += [norm.weight, norm.bias]
        self.weights = [*weights, *norms]  # of products, then of layer norms

    def forward(
        self, batch: Batch, *, first_only: bool = False, work: Work | None = None, **inputs: Any
    ) -> States:
        """Hidden states, as `packed_forward.forward` returns them.

        Args:
            batch: without `positions`.
            first_only: compute only the first tokens of the last layer.
            work: counts the pass.
            inputs: more inputs of the embedding layer, such as `position_ids`.
        """
        if work is not None:
            work.count(self.model.config, batch.lengths, first_only)
        # The embedding layer runs padded, because methods hook into it.
        states = batch.pack(self.model.embeddings(input_ids=batch.ids, **inputs))
        layers = self.run(states, Layout.of(batch), first_only)
        return States([states, *layers], batch, first_only)

    def run(self, states: Tensor, layout: Layout, first_only: bool) -> Sequence[Layer]:
        """Packed states of each layer after the embeddings, which are (rows, d)."""
        return self.compute(states, layout, first_only, self.weights)

    def compute(
        self, states: Tensor, layout: Layout, first_only: bool, weights: Sequence[Tensor]
    ) -> list[Tensor]:
        """`run` with other tensors as `weights`. It reads nothing on the device from the host, and
        has no other input on the device."""
        count = sum(self._groups)
        norms, layers = weights[count:], self.model.encoder.layer
        copies = cast(Any, _Copies.apply(self.kind, self._groups, *weights[:count]))
        found: list[Tensor] = []
        for index, layer in enumerate(layers):
            last = first_only and index == len(layers) - 1
            call = _Call.of(layer, layout, self.kind, last, self.model.training)
            own = copies[PRODUCTS * index : PRODUCTS * (index + 1)]
            own += tuple(norms[NORMS * index : NORMS * (index + 1)])
            states = cast(Tensor, _Layer.apply(call, states, *own))
            found.append(states)
        return found


class _Copies(torch.autograd.Function):
    """Copies of weights in another type, those of a group joined along their first dimension. Both
    passes are one launch."""

    @staticmethod
    def forward(ctx: Any, kind: torch.dtype, groups: Sequence[int], *weights: Tensor) -> Any:
        ctx.groups, ctx.weights, copies, start = groups, weights, [], 0
        for size in groups:
            first = weights[start]
            joined = (size * len(first), *first.shape[1:]) if size > 1 else first.shape
            copies.append(first.new_empty(joined, dtype=kind))
            start += size
        torch._foreach_copy_(_parts(copies, groups), weights)
        return tuple(copies)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        found = [torch.empty_like(weight) for weight in ctx.weights]
        torch._foreach_copy_(found, _parts(gradients, ctx.groups))
        return None, None, *found


def _parts(joined: Sequence[Tensor], groups: Sequence[int]) -> list[Tensor]:
    pairs = zip(joined, groups, strict=True)
    return [part for one, size in pairs for part in (one.chunk(size) if size > 1 else (one,))]


@dataclass(frozen=True)
class _Call:
    """What a layer's passes need beside tensors with gradients."""

    kind: torch.dtype  # of products
    layout: Layout
    first_only: bool
    asked: Tensor  # ends of the queries of each sequence, as `Layout.ends` of keys and values
    heads: int
    rate: float  # of dropout of the products' outputs
    rate_inside: float  # of dropout in attention
    epsilon: float  # of layer norms
    learns: bool  # whether a backward pass follows

    @classmethod
    def of(
        cls, layer: Any, layout: Layout, kind: torch.dtype, first_only: bool, training: bool
    ) -> _Call:
        attention, ends = layer.attention.self, layout.ends
        if first_only:
            ends = torch.arange(len(ends), dtype=ends.dtype, device=ends.device)
        return cls(
            kind,
            layout,
            first_only,
            asked=ends,
            heads=attention.num_attention_heads,
            rate=layer.output.dropout.p if training else 0.0,
            rate_inside=attention.dropout.p if training else 0.0,
            epsilon=layer.output.LayerNorm.eps,
            learns=torch.is_grad_enabled(),
        )

    @property
    def lengths(self) -> tuple[Tensor, Tensor, int, int]:
        """Ends of queries, ends of keys, and the largest lengths of both."""
        longest = self.layout.longest
        return self.asked, self.layout.ends, 1 if self.first_only else longest, longest

    def split(self, joined: Tensor, count: int) -> tuple[Tensor, ...]:
        """(rows, count * d) -> `count` tensors (1, rows, heads, d / heads)."""
        return joined.view(1, len(joined), count, self.heads, -1).unbind(2)

    def drop(self, rows: Tensor) -> tuple[Tensor, Tensor | None]:
        """Rows after dropout, and which elements were kept."""
        return torch.native_dropout(rows, self.rate, True) if self.rate else (rows, None)

    def undrop(self, gradient: Tensor, kept: Tensor | None) -> Tensor:
        gradient = gradient.to(self.kind)
        if kept is None:
            return gradient
        return cast(Tensor, _dropout_backward(gradient, kept, 1 / (1 - self.rate)))


class _Layer(torch.autograd.Function):
    """One layer of BERT or RoBERTa: (rows, d) -> (rows, d), or (sequences, d) if
    `first_only`."""

    @staticmethod
    def forward(ctx: Any, call: _Call, states: Tensor, *weights: Tensor) -> Tensor:
        joined, biases, mix, mix_bias, up, up_bias, down, down_bias, *norms = weights
        rows, width, computed, asking = states.to(call.kind), states.shape[1], states, states
        if call.first_only:
            computed = states.index_select(0, call.layout.firsts)
            asking = computed.to(call.kind)
            (queries,) = call.split(F.linear(asking, joined[:width], biases[:width]), 1)
            keys, values = call.split(F.linear(rows, joined[width:], biases[width:]), 2)
        else:
            queries, keys, values = call.split(F.linear(rows, joined, biases), 3)
        mixed, sums, seed, offset, *_ = _attend(
            queries, keys, values, None, *call.lengths, call.rate_inside, 0, call.learns
        )
        dropped, kept = call.drop(F.linear(mixed.view(-1, width), mix, mix_bias))
        total = dropped + computed
        between, *stats = torch.native_layer_norm(total, [width], norms[0], norms[1], call.epsilon)
        narrow = between.to(call.kind)
        wide = F.linear(narrow, up, up_bias)
        active = F.gelu(wide)
        dropped, kept_2 = call.drop(F.linear(active, down, down_bias))
        total_2 = dropped + between
        norm_2 = norms[2], norms[3], call.epsilon
        result, *stats_2 = torch.native_layer_norm(total_2, [width], *norm_2)
        ctx.call = call
        ctx.save_for_backward(
            rows, asking, queries, keys, values, mixed, sums, seed, offset, kept, total, *stats,
            narrow, wide, active, kept_2, total_2, *stats_2, joined, mix, up, down, *norms,
        )  # fmt: skip
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        (
            rows, asking, queries, keys, values, mixed, sums, seed, offset, kept, total, mean,
            deviation, narrow, wide, active, kept_2, total_2, mean_2, deviation_2, joined, mix, up,
            down, *norms,
        ) = ctx.saved_tensors  # fmt: skip
        call, size, all_three = ctx.call, [rows.shape[1]], [True] * 3
        gradient, *d_norm_2 = _norm_backward(
            gradient, total_2, size, mean_2, deviation_2, *norms[2:], all_three
        )
        branch = call.undrop(gradient, kept_2)
        d_down = _products(branch, active)
        branch = _gelu_backward(branch @ down, wide)
        d_up = _products(branch, narrow)
        gradient, *d_norm = _norm_backward(
            gradient + branch @ up, total, size, mean, deviation, *norms[:2], all_three
        )
        branch = call.undrop(gradient, kept)
        d_mix = _products(branch, mixed.view(-1, *size))
        attended = _attend_backward(
            (branch @ mix).view(mixed.shape), queries, keys, values, None, mixed, *call.lengths,
            sums, call.rate_inside, seed, offset, 0, False,
        )  # fmt: skip
        d_joined, d_states = _unjoin(call, attended[:3], rows, asking, joined, gradient)
        return None, d_states, *d_joined, *d_mix, *d_up, *d_down, *d_norm, *d_norm_2


def _products(gradient: Tensor, inputs: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients of the weight and the bias of a product, from those of its outputs."""
    return gradient.T @ inputs, gradient.sum(0)


def _unjoin(
    call: _Call,
    gradients: Sequence[Tensor],
    rows: Tensor,
    asking: Tensor,
    joined: Tensor,
    residual: Tensor,
) -> tuple[tuple[Tensor, Tensor], Tensor]:
    """Gradients of the weight and the bias of queries, keys and values, and of the states.

    Args:
        gradients: of queries, keys and values, each (1, rows, heads, d / heads).
        rows, asking: inputs of keys and values, and of queries.
        joined: the weight.
        residual: gradient of the states, or of the first ones, from the rest of the layer.
    """
    width = rows.shape[1]
    if not call.first_only:
        joint = torch.stack(tuple(gradients), dim=2).view(-1, 3 * width)
        return _products(joint, rows), residual + joint @ joined
    own = gradients[0].reshape(-1, width)
    joint = torch.stack(tuple(gradients[1:]), dim=2).view(-1, 2 * width)
    weights, biases = zip(_products(own, asking), _products(joint, rows), strict=True)
    spread = call.layout.spread.of(residual + own @ joined[:width])
    return (torch.cat(weights), torch.cat(biases)), spread + joint @ joined[width:]
