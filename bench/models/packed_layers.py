"""The layers of packed transformers: BERT's, which RoBERTa shares, and ModernBERT's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

if TYPE_CHECKING:
    from bench.models.packed_forward import Batch

# Added to logits of attention that do not count: their weights are exactly 0 in every type.
FAR = torch.finfo(torch.bfloat16).min


def bert_layer(
    layer: Any, states: Tensor, batch: Batch, padding: Any, drop: Dropout, first_only: bool
) -> Tensor:
    """One layer of BERT or RoBERTa: (tokens, d) -> (tokens, d), or (n, d) if `first_only`."""
    attention, attention_output = layer.attention.self, layer.attention.output
    computed = batch.first(states) if first_only else states

    def heads(rows: Tensor) -> Tensor:
        return rows.unflatten(-1, (attention.num_attention_heads, -1)).transpose(1, 2)

    queries = attention.query(computed)
    queries = heads(queries.unsqueeze(1) if first_only else batch.pad(queries))
    keys, values = (heads(batch.pad(key(states))) for key in (attention.key, attention.value))
    mixed = attend(queries, keys, values, padding, attention.dropout.p, drop)
    mixed = mixed.transpose(1, 2).flatten(2)
    mixed = mixed.squeeze(1) if first_only else batch.pack(mixed)

    mixed = drop(attention_output.dense(mixed), attention_output.dropout.p)
    between = attention_output.LayerNorm(mixed + computed)
    widened = drop(layer.output.dense(layer.intermediate(between)), layer.output.dropout.p)
    return layer.output.LayerNorm(widened + between)


class ModernBert:
    """What the layers of a ModernBERT share in one forward pass."""

    def __init__(
        self, model: Any, batch: Batch, padding: Tensor | None, positions: Tensor | None
    ) -> None:
        """Take a model, its batch, what is added to the logits of attention (n, 1, 1, length), and
        positions (n, length) other than 0, 1, ..."""
        length, device = batch.ids.shape[1], batch.ids.device
        places = torch.arange(length, device=device)
        positions = places[None] if positions is None else positions
        self._batch, like = batch, torch.zeros((), device=device, dtype=model.dtype)
        self._turns = {
            kind: [part.unsqueeze(1) for part in model.rotary_emb(like, positions, kind)]
            for kind in set(model.config.layer_types)
        }
        self._added: dict[str, Tensor | None] = dict.fromkeys(self._turns, padding)
        reach = model.config.sliding_window  # tokens to either side that local layers see
        if length - 1 > reach:
            far = (places[:, None] - places).abs() > reach
            # Not -inf: padding may see nothing but what is far, and its NaN would reach gradients.
            hidden = torch.zeros(far.shape, device=device).masked_fill_(far, FAR)[None, None]
            self._added["sliding_attention"] = hidden if padding is None else hidden + padding

    def layer(self, layer: Any, states: Tensor, drop: Dropout, first_only: bool) -> Tensor:
        """One layer: (tokens, d) -> (tokens, d), or (n, d) if `first_only`."""
        batch, attention, mlp = self._batch, layer.attn, layer.mlp
        normed = layer.attn_norm(states)
        queries, keys, values = self._heads(attention, normed, first_only)
        cosines, sines = self._turns[layer.attention_type]
        added = self._added[layer.attention_type]
        keys = _turned(keys, cosines, sines)
        if first_only:
            states, cosines, sines = batch.first(states), cosines[:, :, :1], sines[:, :, :1]
            added = None if added is None else added[:, :, :1]
        queries = _turned(queries, cosines, sines)
        mixed = attend(queries, keys, values, added, attention.attention_dropout, drop)
        mixed = mixed.transpose(1, 2).flatten(2)
        mixed = attention.Wo(mixed.squeeze(1) if first_only else batch.pack(mixed))
        states = states + drop(mixed, getattr(attention.out_drop, "p", 0.0))
        values, gates = mlp.Wi(layer.mlp_norm(states)).chunk(2, dim=-1)
        return cast(Tensor, states + mlp.Wo(drop(mlp.act(values) * gates, mlp.drop.p)))

    def _heads(self, attention: Any, normed: Tensor, first_only: bool) -> list[Tensor]:
        """Queries, keys and values, each (n, heads, length, d / heads)."""
        batch, joined = self._batch, attention.Wqkv
        if not first_only:
            parts = [batch.pad(part) for part in joined(normed).chunk(3, dim=-1)]
        else:
            width, bias = normed.shape[1], joined.bias
            biases = (None, None) if bias is None else (bias[:width], bias[width:])
            asking = F.linear(batch.first(normed), joined.weight[:width], biases[0])
            others = F.linear(normed, joined.weight[width:], biases[1]).chunk(2, dim=-1)
            parts = [asking.unsqueeze(1), *map(batch.pad, others)]
        return [part.unflatten(-1, (-1, attention.head_dim)).transpose(1, 2) for part in parts]


def _turned(heads: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    """Rotary positions, as transformers computes them: in float32."""
    left, right = heads.float().chunk(2, dim=-1)
    turned = torch.cat((left, right), -1) * cosines + torch.cat((-right, left), -1) * sines
    return turned.to(heads.dtype)


def attend(
    queries: Tensor, keys: Tensor, values: Tensor, padding: Any, dropout: float, drop: Dropout
) -> Tensor:
    """Attention with dropout; `padding` is added to its logits; None: nothing is."""
    if padding is not None:
        padding = padding.to(queries.dtype)
    if drop.active and dropout and drop.own:
        weights = queries * queries.shape[-1] ** -0.5 @ keys.transpose(-1, -2)
        if padding is not None:
            weights = weights + padding
        return drop(weights.softmax(-1), dropout) @ values
    rate = dropout if drop.active else 0.0
    return F.scaled_dot_product_attention(queries, keys, values, attn_mask=padding, dropout_p=rate)


class Dropout:
    """Dropout of one forward pass.

    On a CPU it draws 16 random bits per element, ten times faster than torch. There the rate is
    rounded to multiples of 1/65536 (0.1 becomes 0.100006), and the rest is scaled by the rounded
    rate. The generator is seeded from torch's global one, so a seeded step draws the same masks.
    """

    def __init__(self, active: bool, device: torch.device) -> None:
        self.active, self.own = active, device.type == "cpu"
        if active and self.own:
            self._bits = np.random.SFC64(int(torch.randint(2**62, ())))

    def __call__(self, values: Tensor, rate: float) -> Tensor:
        if not self.active or not rate:
            return values
        if not self.own:
            return F.dropout(values, rate)
        threshold = min(round(rate * 65536), 65535)
        bits = self._bits.random_raw(-(-values.numel() // 4)).view(np.uint16)[: values.numel()]
        # The mask includes the scale, so that each pass is a single product.
        kind = np.float64 if values.dtype == torch.float64 else np.float32
        mask = np.multiply(bits >= threshold, kind(65536 / (65536 - threshold)), dtype=kind)
        return cast(Tensor, _Masked.apply(values, torch.from_numpy(mask).view_as(values)))


class _Masked(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, mask: Tensor) -> Tensor:
        ctx.save_for_backward(mask)
        return (values * mask).to(values.dtype)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (mask,) = ctx.saved_tensors
        return (gradient * mask).to(gradient.dtype), None
