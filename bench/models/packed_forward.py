"""The one forward pass of a transformer: only real tokens go through its linear layers.

What BERT and RoBERTa share is run here on *packed* states, one row a token, on their own modules and weights. Attention
alone sees padding, so its dropout is what it always was. Where only [CLS] is wanted of the last layer, no other token
is taken behind its keys and values. Without dropout this is the model's own forward pass to rounding; with dropout it
has the same distribution. Other architectures run as their own code has them, padded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, cast, overload

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

Tokens = Sequence[Sequence[int]]

PACKED = ("bert", "roberta", "xlm-roberta")  # model types whose layers are built alike


@dataclass
class Work:
    """What was asked of the machine; FLOP of matrix products alone, a multiply-add counted as two.

    Attributes:
        sentences, tokens: sequences and their real tokens in the passes of a training's steps.
        forward, backward: FLOP of these passes, frozen models included, and of going back through them.
        selection: FLOP of what Encoders encode.
    """

    sentences: int = 0
    tokens: int = 0
    forward: float = 0.0
    backward: float = 0.0
    selection: float = 0.0

    def count(self, config: Any, lengths: np.ndarray, first_only: bool) -> None:
        """Add one pass."""
        flop = forward_flop(config, lengths, first_only)
        if torch.is_inference_mode_enabled():  # Encoders, in float32
            self.selection += flop
            return
        self.sentences += len(lengths)
        self.tokens += int(lengths.sum())
        self.forward += flop
        if torch.is_grad_enabled():
            self.backward += 2 * flop  # a product of its own for the gradient of each factor


def forward_flop(config: Any, lengths: Sequence[int] | np.ndarray, first_only: bool) -> float:
    """FLOP of the matrix products of one forward pass over sequences of these lengths, without any padding.

    Args:
        config: of a transformer: `hidden_size`, `num_hidden_layers`, and `intermediate_size` (else 4 x width).
        first_only: of the last layer only the first token is computed, behind the keys and values of all.
    """
    width, depth = config.hidden_size, config.num_hidden_layers
    inner = getattr(config, "intermediate_size", None) or 4 * width
    lengths = np.asarray(lengths, dtype=np.float64)
    rows, tokens, squares = len(lengths), lengths.sum(), (lengths**2).sum()
    whole = 2 * tokens * (4 * width**2 + 2 * width * inner) + 4 * squares * width
    if not first_only:
        return float(depth * whole)
    last = 2 * tokens * 2 * width**2 + 2 * rows * (2 * width**2 + 2 * width * inner) + 4 * tokens * width
    return float((depth - 1) * whole + last)


class _Select(torch.autograd.Function):
    """Rows of a matrix by distinct numbers; backwards they are put where they were, with no sums."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, places: Tensor) -> Tensor:
        ctx.save_for_backward(places)
        ctx.count = len(rows)
        return rows.index_select(0, places)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (places,) = ctx.saved_tensors
        return gradient.new_zeros(ctx.count, gradient.shape[1]).index_copy_(0, places, gradient), None


class _Place(torch.autograd.Function):
    """The opposite: rows at distinct numbers of a matrix of zeros."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, places: Tensor, count: int) -> Tensor:
        ctx.save_for_backward(places)
        return rows.new_zeros(count, rows.shape[1]).index_copy_(0, places, rows)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (places,) = ctx.saved_tensors
        return gradient.index_select(0, places), None, None


@dataclass(frozen=True)
class Batch:
    """Token sequences of one forward pass.

    Attributes:
        ids, mask: padded on the right to the longest, int64 (n, length).
        lengths: real tokens of each, on the host.
        places: the real tokens' numbers among the n * length, or None where all are real.
        firsts: the numbers of the first tokens among the real ones, (n).
    """

    ids: Tensor
    mask: Tensor
    lengths: np.ndarray
    places: Tensor | None
    firsts: Tensor

    @classmethod
    def of(cls, tokens: Tokens, pad_id: int, device: str | torch.device = "cpu") -> Batch:
        """At least one token sequence, none of them empty, padded with `pad_id` and sent to a device."""
        lengths = np.fromiter(map(len, tokens), np.int64, len(tokens))
        real = np.arange(lengths.max()) < lengths[:, None]
        ids = np.full(real.shape, pad_id, np.int64)
        ids[real] = np.fromiter(chain.from_iterable(tokens), np.int64, lengths.sum())
        places = None if real.all() else real.ravel().nonzero()[0]
        firsts = np.concatenate([[0], lengths.cumsum()[:-1]])

        def sent(array: np.ndarray) -> Tensor:
            tensor = torch.from_numpy(array)
            # Pinned memory is copied while the device still works at the step before.
            return tensor if str(device) == "cpu" else tensor.pin_memory().to(device, non_blocking=True)

        return cls(
            sent(ids), sent(real.astype(np.int64)), lengths, None if places is None else sent(places), sent(firsts)
        )

    def pack(self, states: Tensor) -> Tensor:
        """(n, length, d) -> (tokens, d)."""
        flat = states.reshape(-1, states.shape[-1])
        return flat if self.places is None else cast(Tensor, _Select.apply(flat, self.places))

    def pad(self, rows: Tensor) -> Tensor:
        """(tokens, d) -> (n, length, d), zeros where there is no token."""
        if self.places is not None:
            rows = cast(Tensor, _Place.apply(rows, self.places, self.ids.numel()))
        return rows.view(*self.ids.shape, rows.shape[-1])

    def first(self, rows: Tensor) -> Tensor:
        """(tokens, d) -> (n, d): of each sequence its first."""
        return cast(Tensor, _Select.apply(rows, self.firsts))


class States(Sequence[Tensor]):
    """Hidden states of all layers, embeddings first: each (n, length, d), zeros or anything where there is no token.

    A last layer of which only the first tokens were computed is given by `first`; by its index it is a `LookupError`.
    """

    def __init__(self, layers: Sequence[Tensor], batch: Batch, first_only: bool = False) -> None:
        self._layers, self._batch, self._first_only = layers, batch, first_only

    def __len__(self) -> int:
        return len(self._layers)

    @overload
    def __getitem__(self, index: int) -> Tensor: ...
    @overload
    def __getitem__(self, index: slice) -> States: ...
    def __getitem__(self, index: int | slice) -> Tensor | States:
        if isinstance(index, slice):
            chosen = range(len(self))[index]
            return States(self._layers[index], self._batch, self._first_only and len(self) - 1 in chosen)
        if self._is_first_only(index):
            # No IndexError, at which an iteration would end as if there were no such layer.
            raise LookupError("of the last layer only the first tokens were computed")
        return self._batch.pad(self._layers[index])

    def first(self, index: int) -> Tensor:
        """The first tokens' states in one layer, (n, d)."""
        return self._layers[index] if self._is_first_only(index) else self._batch.first(self._layers[index])

    def _is_first_only(self, index: int) -> bool:
        return self._first_only and index in (-1, len(self) - 1)


def is_packed(model: Any) -> bool:
    """Whether a model's layers are run here, and not by its own code."""
    return model.config.model_type in PACKED and not model.config.is_decoder


def forward(model: Any, batch: Batch, *, first_only: bool = False, work: Work | None = None, **inputs: Any) -> States:
    """Hidden states of a transformer, in evaluation or training mode as it is.

    Args:
        first_only: of the last layer nothing but the first tokens is asked for.
        work: where the pass is counted.
        inputs: further inputs of the embedding layer, e.g. `position_ids`.
    """
    first_only = first_only and is_packed(model)
    if work is not None:
        work.count(model.config, batch.lengths, first_only)
    if not is_packed(model):
        output = model(input_ids=batch.ids, attention_mask=batch.mask, output_hidden_states=True, **inputs)
        return States([batch.pack(layer) for layer in output.hidden_states], batch)
    # The embedding layer is called as it is, padded, since methods hook into it; it is cheap.
    states = batch.pack(model.embeddings(input_ids=batch.ids, **inputs))
    padding = None  # (n, 1, 1, length), added to attention's logits
    if batch.places is not None:
        padding = torch.zeros(batch.mask.shape, device=states.device).masked_fill_(batch.mask == 0, -torch.inf)
        padding = padding[:, None, None, :]
    drop = Dropout(model.training, states.device)
    layers = [states]
    for index, layer in enumerate(model.encoder.layer):
        last = first_only and index == model.config.num_hidden_layers - 1
        layers.append(_layer(layer, layers[-1], batch, padding, drop, last))
    return States(layers, batch, first_only)


def pooler_output(model: Any, batch: Batch, work: Work | None = None) -> Tensor:
    """What a model's own pooler makes of its last layer, (n, d)."""
    if is_packed(model):
        return model.pooler(forward(model, batch, first_only=True, work=work).first(-1).unsqueeze(1))
    if work is not None:
        work.count(model.config, batch.lengths, first_only=False)
    return model(input_ids=batch.ids, attention_mask=batch.mask).pooler_output


def _layer(layer: Any, states: Tensor, batch: Batch, padding: Tensor | None, drop: Dropout, first_only: bool) -> Tensor:
    """One layer of BERT or RoBERTa: (tokens, d) -> (tokens, d), or (n, d) of the first tokens alone."""
    attention, joined = layer.attention.self, layer.attention.output
    asking = batch.first(states) if first_only else states

    def heads(rows: Tensor) -> Tensor:
        return rows.unflatten(-1, (attention.num_attention_heads, -1)).transpose(1, 2)

    queries = attention.query(asking)
    queries = heads(queries.unsqueeze(1) if first_only else batch.pad(queries))
    keys, values = heads(batch.pad(attention.key(states))), heads(batch.pad(attention.value(states)))
    mixed = _attend(queries, keys, values, padding, attention.dropout.p, drop).transpose(1, 2).flatten(2)
    mixed = mixed.squeeze(1) if first_only else batch.pack(mixed)

    between = joined.LayerNorm(drop(joined.dense(mixed), joined.dropout.p) + asking)
    output = layer.output
    return output.LayerNorm(drop(output.dense(layer.intermediate(between)), output.dropout.p) + between)


def _attend(
    queries: Tensor, keys: Tensor, values: Tensor, padding: Tensor | None, dropout: float, drop: Dropout
) -> Tensor:
    """Attention with dropout of its weights; `padding` (n, 1, 1, length) is -inf where there is no token, else 0."""
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
    """Dropout of one forward pass. On a processor 16 random bits decide an element, ten times faster than torch's own.

    So there the rate is rounded to 1/65536 (0.1 is 0.100006), and what stays is scaled by exactly what that rate asks.
    The bits come from a generator that torch's global one seeds, so a seeded step draws the same masks again.
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
        # What stays, already scaled: one product forwards and one back.
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
