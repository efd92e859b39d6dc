"""Forward pass of transformers on packed sequences: linear layers skip padding, unless its states
are asked for.

Layers of BERT and RoBERTa run on *packed* states, one row per token, with the modules and weights
of the model. Only attention uses padded states, so its dropout is unchanged. If only [CLS] of the
last layer is needed, that layer computes queries and feed-forward for [CLS] alone. Without dropout
the result equals the forward pass of transformers up to rounding; with dropout it has the same
distribution. Other architectures run the forward pass of transformers, padded.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from methods.base import Tokens, to_device

PACKED = ("bert", "roberta", "xlm-roberta")  # model types with the same layer structure


@dataclass(frozen=True)
class Rows:
    """Rows to take from a matrix."""

    index: Tensor  # of each row, (m,); any valid one where the result is zero
    zero: Tensor | None = None  # rows of the result that are zero, bool (m, 1)

    def of(self, matrix: Tensor) -> Tensor:
        rows = matrix.index_select(0, self.index)
        return rows if self.zero is None else rows.masked_fill_(self.zero, 0)


class _Take(torch.autograd.Function):
    """Rows of a matrix, each at most once. The backward pass takes them `back`, with the bits of
    `index_copy_` into zeros, for which deterministic kernels of a GPU would sort."""

    @staticmethod
    def forward(ctx: Any, matrix: Tensor, rows: Rows, back: Rows) -> Tensor:
        ctx.back = back
        return rows.of(matrix)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return ctx.back.of(gradient), None, None


def _padded(length: int) -> int:
    """The next multiple of 8, to which kernels of a GPU are aligned."""
    return -(-length // 8) * 8


@dataclass(frozen=True)
class Batch:
    """Token sequences of one forward pass. The packed states have one row per token."""

    ids: Tensor  # token ids, padded on the right, int64 (n, length)
    mask: Tensor  # 1 for tokens, 0 for padding, int64 (n, length)
    lengths: np.ndarray  # positions of each sequence that are computed, int64 (n,), on the host
    packed: Rows | None  # of the flattened (n * length); None if all positions are packed
    ragged: bool  # whether any position is padding, which attention ignores
    unpacked: Rows  # of the packed states at all positions, zeros at padding
    at_first: Rows  # of (n, d) at the first tokens in the packed states, zeros at others
    ends: Tensor  # where each sequence ends in the packed states, after a 0, int32 (n + 1,)

    @classmethod
    def of(
        cls,
        tokens: Tokens,
        pad_id: int,
        device: str | torch.device = "cpu",
        positions: int | None = None,
    ) -> Batch:
        """Pad at least one non-empty token sequence with `pad_id` and copy it to a device.

        With `positions`, pad to this length, which no sequence may exceed, and compute the states
        of padding, too. By default the length is the longest one, and padding is skipped.
        """
        lengths = np.fromiter(map(len, tokens), np.int64, len(tokens))
        real = np.arange(positions or lengths.max()) < lengths[:, None]
        ids = np.full(real.shape, pad_id, np.int64)
        ids[real] = np.fromiter(chain.from_iterable(tokens), np.int64, lengths.sum())
        ragged, flat = not real.all(), real.ravel()
        if positions is not None:
            lengths = np.full_like(lengths, positions)
        ends = np.concatenate([[0], lengths.cumsum()])
        owners = np.arange(len(lengths)).repeat(lengths)
        later = np.diff(owners, prepend=-1) == 0
        # All as int64 in one copy: each costs the host of a GPU several launches.
        arrays = [ids, real, flat.nonzero()[0], flat.cumsum() - 1, owners, later, ends]
        joined = to_device(torch.from_numpy(np.concatenate(arrays, axis=None)), device)
        padded, mask, packed, unpacked, owner, is_later, bounds = joined.split(
            [array.size for array in arrays]
        )
        return cls(
            ids=padded.view(real.shape),
            mask=mask.view(real.shape),
            lengths=lengths,
            packed=Rows(packed) if ragged and positions is None else None,
            ragged=ragged,
            unpacked=Rows(unpacked, mask.unsqueeze(1) == 0),
            at_first=Rows(owner, is_later.unsqueeze(1) != 0),
            ends=bounds.int(),
        )

    @cached_property
    def longest(self) -> int:
        """Length of the longest sequence, rounded up for kernels."""
        return _padded(int(self.lengths.max()))

    def pack(self, states: Tensor) -> Tensor:
        """(n, length, d) -> (rows, d)."""
        flat = states.reshape(-1, states.shape[-1])
        if self.packed is None:
            return flat
        return _Take.apply(flat, self.packed, self.unpacked)

    def pad(self, rows: Tensor) -> Tensor:
        """(rows, d) -> (n, length, d), with zeros as padding."""
        if self.packed is not None:
            rows = _Take.apply(rows, self.unpacked, self.packed)
        return rows.view(*self.ids.shape, rows.shape[-1])

    def first(self, rows: Tensor) -> Tensor:
        """(rows, d) -> (n, d): the first token of each sequence."""
        return _Take.apply(rows, Rows(self.ends[:-1]), self.at_first)


class States(Sequence[Tensor]):
    """Hidden states of all layers, embeddings first, each (n, length, d).

    Values at padding are undefined, unless the batch computes them. If only the first tokens of the
    last layer were computed, `first` returns them, and indexing that layer is an error.
    """

    def __init__(self, layers: Sequence[Tensor], batch: Batch, first_only: bool = False) -> None:
        self._layers, self._batch, self._first_only = layers, batch, first_only

    def __len__(self) -> int:
        return len(self._layers)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            has_last = len(self) - 1 in range(len(self))[index]
            return States(self._layers[index], self._batch, self._first_only and has_last)
        if self._first_only and index in (-1, len(self) - 1):
            # Not IndexError, which would silently end an iteration before the last layer.
            raise LookupError("only the first tokens of the last layer were computed")
        return self._batch.pad(self._layers[index])

    def first(self) -> Tensor:
        """States of the first tokens in the last layer, (n, d)."""
        rows = self._layers[-1]
        return rows if self._first_only else self._batch.first(rows)

    def float(self) -> States:
        """The same in float32."""
        return States([layer.float() for layer in self._layers], self._batch, self._first_only)


def bert_layer(
    layer: Any, states: Tensor, first_only: bool, batch: Batch, padding: Any, drop: Dropout
) -> Tensor:
    """One layer of BERT or RoBERTa: (tokens, d) -> (tokens, d), or (n, d) if `first_only`."""
    attention, attention_output = layer.attention.self, layer.attention.output
    computed = batch.first(states) if first_only else states

    def heads(rows: Tensor) -> Tensor:
        return rows.unflatten(-1, (attention.num_attention_heads, -1)).transpose(1, 2)

    # Only attention compares tokens, so only it is padded.
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


def attend(
    queries: Tensor, keys: Tensor, values: Tensor, padding: Any, dropout: float, drop: Dropout
) -> Tensor:
    """Attention with dropout. `padding` is added to its logits, unless it is None."""
    if padding is not None:
        padding = padding.to(queries.dtype)
    if drop.active and dropout and drop.fast:
        # Written out, since torch's attention would draw its own, slower dropout.
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
        self.active, self.fast = active, device.type == "cpu"
        if active and self.fast:
            self._bits = np.random.SFC64(int(torch.randint(2**62, ())))

    def __call__(self, values: Tensor, rate: float) -> Tensor:
        if not self.active or not rate:
            return values
        if not self.fast:
            return F.dropout(values, rate)
        threshold = min(round(rate * 65536), 65535)
        bits = self._bits.random_raw(-(-values.numel() // 4)).view(np.uint16)[: values.numel()]
        # The mask includes the scale, so that each pass is a single product.
        dtype = np.float64 if values.dtype == torch.float64 else np.float32
        mask = np.multiply(bits >= threshold, dtype(65536 / (65536 - threshold)), dtype=dtype)
        return (values * torch.from_numpy(mask).view_as(values)).to(values.dtype)


def is_packed(model: Any) -> bool:
    """Whether a model runs on packed states, not with the forward pass of transformers."""
    config = model.config
    return config.model_type in PACKED and not getattr(config, "is_decoder", False)


def forward(
    model: Any,
    batch: Batch,
    *,
    first_only: bool = False,
    last_only: bool = False,
    fused: Any = None,
    **inputs: Any,
) -> States:
    """Hidden states of a Hugging Face transformer, in its current mode.

    Args:
        first_only: a packed model computes only the first tokens of the last layer.
        last_only: a model that is not packed keeps only the last layer.
        fused: `bench.models.fused_forward.FusedLayers`, which compute the layers of a packed model.
        inputs: further inputs of the embeddings, such as `position_ids`.
    """
    first_only = first_only and is_packed(model)
    if not is_packed(model):
        inputs |= {"input_ids": batch.ids, "attention_mask": batch.mask}
        if "use_cache" in inspect.signature(model.forward).parameters:  # decoders keep keys, values
            inputs["use_cache"] = False
        output = model(**inputs, output_hidden_states=not last_only)
        padded = [output.last_hidden_state] if last_only else output.hidden_states
        return States([batch.pack(layer) for layer in padded], batch)
    # The embedding layer runs padded, because methods hook into it. It is cheap.
    layers = [batch.pack(model.embeddings(input_ids=batch.ids, **inputs))]
    if fused:
        run = fused.on(batch)
    else:
        padding, drop = _padding(batch), Dropout(model.training, batch.ids.device)
        run = partial(bert_layer, batch=batch, padding=padding, drop=drop)
    last_layer = model.encoder.layer[-1]
    for layer in model.encoder.layer:
        layers.append(run(layer, layers[-1], first_only and layer is last_layer))
    return States(layers, batch, first_only)


def _padding(batch: Batch) -> Tensor | None:
    """Summands of the logits of attention, (n, 1, 1, length): -inf at padding."""
    if not batch.ragged:
        return None
    (rows, length), device = batch.mask.shape, batch.mask.device
    # A GPU's attention copies masks whose rows do not start at multiples of 8 elements.
    aligned = length if device.type == "cpu" else _padded(length)
    padding = torch.zeros(rows, aligned, device=device)[:, :length]
    return padding.masked_fill_(batch.mask == 0, -torch.inf)[:, None, None, :]
