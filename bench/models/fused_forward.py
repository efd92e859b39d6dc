"""Forward pass of BERT-like transformers with few launches, for trainings on a GPU.

At batch size 64 a GPU computes faster than a host launches operations one by one, so their number
decides. Compared with `bench.models.packed_forward`:

* states stay packed in attention, too, whose kernel takes sequences of different lengths;
* queries, keys and values are one product;
* weights are copied to the type of the products in one launch, and their gradients back in one.

The copies are what autocast would cast: the weights and biases of products. Layer norms, sums and
states are float32. Without dropout, states and gradients equal the packed forward pass up to
rounding; with dropout, their distributions do.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from bench.models.packed_forward import Batch, is_packed

HEAD = 8  # the kernel of attention takes heads whose width is a multiple of this
# How many weights and biases of modules are joined in each copy of a layer: of queries, keys and
# values, and of three more products.
_GROUPS = (3, 3, 1, 1, 1, 1, 1, 1)


def is_fused(model: Any, device: str) -> bool:
    """Whether a model can run here: on a GPU, of a type of `PACKED`, with GELU, and with heads of a
    width that the kernel takes."""
    config = model.config
    if not device.startswith("cuda") or not is_packed(model) or config.hidden_act != "gelu":
        return False
    return config.hidden_size // config.num_attention_heads % HEAD == 0


class FusedLayers:
    """The layers of a model for which `is_fused` holds: its weights, and products of a type."""

    def __init__(self, model: Any, dtype: torch.dtype) -> None:
        self.model, self.dtype = model, dtype
        self.weights: list[Tensor] = []  # of products; the members of a group follow one another
        for layer in model.encoder.layer:
            attention = layer.attention.self
            joined = (attention.query, attention.key, attention.value)
            self.weights += [module.weight for module in joined]
            self.weights += [module.bias for module in joined]
            for module in (layer.attention.output, layer.intermediate, layer.output):
                self.weights += [module.dense.weight, module.dense.bias]

    def on(self, batch: Batch) -> Callable[[Any, Tensor, bool], Tensor]:
        """A function that computes a layer of a batch without `positions`, as `bert_layer`."""
        layers, size = self.model.encoder.layer, len(_GROUPS)
        copies = _Copies.apply(self.dtype, _GROUPS * len(layers), *self.weights)
        of_layer = {layer: copies[size * i : size * (i + 1)] for i, layer in enumerate(layers)}
        return partial(self._layer, batch=batch, copies=of_layer)

    def _layer(
        self,
        layer: Any,
        states: Tensor,
        first_only: bool,
        batch: Batch,
        copies: Mapping[Any, Sequence[Tensor]],
    ) -> Tensor:
        """One layer: (rows, d) -> (rows, d), or (sequences, d) if `first_only`."""
        joined, joined_bias, mix, mix_bias, up, up_bias, down, down_bias = copies[layer]
        attention, training = layer.attention.self, self.model.training
        norms = layer.attention.output.LayerNorm, layer.output.LayerNorm
        heads, width = attention.num_attention_heads, states.shape[1]
        inputs, computed, ends = states.to(self.dtype), states, batch.ends
        if first_only:
            # Queries of the first tokens alone; keys and values of all tokens.
            computed = batch.first(states)
            ends = torch.arange(len(ends), dtype=ends.dtype, device=ends.device)
            parts = [width, 2 * width]
            (query, pair), (query_bias, pair_bias) = joined.split(parts), joined_bias.split(parts)
            queries = F.linear(computed.to(self.dtype), query, query_bias).unflatten(1, (heads, -1))
            keys, values = F.linear(inputs, pair, pair_bias).unflatten(1, (2, heads, -1)).unbind(1)
        else:
            triples = F.linear(inputs, joined, joined_bias)
            queries, keys, values = triples.unflatten(1, (3, heads, -1)).unbind(1)
        rate = attention.dropout.p if training else 0.0
        longest = 1 if first_only else batch.longest
        mixed = attend_fused(queries, keys, values, ends, batch.ends, longest, batch.longest, rate)
        mixed = F.linear(mixed.flatten(1), mix, mix_bias)
        mixed = F.dropout(mixed, layer.attention.output.dropout.p, training)
        between = norms[0](mixed + computed)
        widened = F.gelu(F.linear(between.to(self.dtype), up, up_bias))
        narrowed = F.dropout(F.linear(widened, down, down_bias), layer.output.dropout.p, training)
        return norms[1](narrowed + between)


class _Copies(torch.autograd.Function):
    """Copies of weights in another type; a group is joined along its first dimension. Both passes
    are one launch."""

    @staticmethod
    def forward(ctx: Any, dtype: torch.dtype, groups: Sequence[int], *weights: Tensor) -> Any:
        ctx.groups, ctx.weights = groups, weights
        copies, start = [], 0
        for size in groups:
            copy = torch.empty_like(weights[start], dtype=dtype)
            if size > 1:  # `new_empty` takes twice as long
                copy = copy.new_empty((size * len(copy), *copy.shape[1:]))
            copies.append(copy)
            start += size
        torch._foreach_copy_(_parts(copies, groups), weights)
        return tuple(copies)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        copied = [torch.empty_like(weight) for weight in ctx.weights]
        torch._foreach_copy_(copied, _parts(gradients, ctx.groups))
        return None, None, *copied


def _parts(joined: Sequence[Tensor], groups: Sequence[int]) -> list[Tensor]:
    """The tensors that are joined in each group."""
    return [
        part
        for tensor, size in zip(joined, groups, strict=True)
        for part in (tensor.chunk(size) if size > 1 else [tensor])
    ]


def attend_fused(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    ends: Tensor,
    key_ends: Tensor,
    longest: int,
    longest_keys: int,
    rate: float,
) -> Tensor:
    """Attention with dropout within each of some packed sequences, (queries, heads, d / heads).

    The kernel is a GPU's, to which torch gives no public name.

    `ends` and `key_ends` say where each sequence ends, after a 0, int32 (sequences + 1,); `longest`
    and `longest_keys` are at least the lengths of the longest.
    """
    packed = [rows.unsqueeze(0) for rows in (queries, keys, values)]
    lengths = ends, key_ends, longest, longest_keys
    learns = torch.is_grad_enabled()
    kernel = torch.ops.aten._efficient_attention_forward.default
    return kernel(*packed, None, *lengths, rate, 0, learns)[0].squeeze(0)
