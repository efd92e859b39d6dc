"""Forward pass of BERT-like transformers on packed sequences: linear layers skip padding, unless
its states are asked for.

BERT and RoBERTa layers run here on *packed* states, one row per token, with the model's own modules
and weights. Only attention uses padded states, so its dropout is unchanged. If only [CLS] of the
last layer is needed, that layer computes queries and feed-forward for [CLS] alone. Without dropout
the result equals the model's own forward pass up to rounding; with dropout it has the same
distribution. Other architectures run their own padded forward pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from bench.utils.errors import UserError

Tokens = Sequence[Sequence[int]]

PACKED = ("bert", "roberta", "xlm-roberta")  # model types with the same layer structure


@dataclass
class Work:
    """Counts the FLOP of a training's matrix products; a multiply-add counts as two.

    Attributes:
        sentences: sequences in the forward passes of training steps.
        tokens: their tokens, without padding that is skipped.
        forward: FLOP of these passes, including those of frozen models.
        backward: FLOP of the backward passes.
        selection: FLOP of encoders, which run in inference mode.
    """

    sentences: int = 0
    tokens: int = 0
    forward: float = 0.0
    backward: float = 0.0
    selection: float = 0.0

    def count(self, config: Any, lengths: np.ndarray, first_only: bool) -> None:
        """Add one forward pass, and its backward pass if gradients are enabled."""
        flop = forward_flop(config, lengths, first_only)
        if torch.is_inference_mode_enabled():  # encoders, in float32
            self.selection += flop
            return
        self.sentences += len(lengths)
        self.tokens += int(lengths.sum())
        self.forward += flop
        if torch.is_grad_enabled():
            self.backward += 2 * flop  # one product for the gradient of each factor


def forward_flop(config: Any, lengths: Sequence[int] | np.ndarray, first_only: bool) -> float:
    """FLOP of the matrix products of one forward pass without padding.

    Args:
        config: of the model; without `intermediate_size`, that is 4 x `hidden_size`.
        lengths: tokens of each sequence.
        first_only: the last layer computes only the first token, and the keys and values of all.
    """
    width, depth = config.hidden_size, config.num_hidden_layers
    inner = getattr(config, "intermediate_size", None) or 4 * width
    lengths = np.asarray(lengths, dtype=np.float64)
    rows, tokens, squares = len(lengths), lengths.sum(), (lengths**2).sum()
    whole = 2 * tokens * (4 * width**2 + 2 * width * inner) + 4 * squares * width
    if not first_only:
        return float(depth * whole)
    last = 2 * tokens * 2 * width**2 + 4 * tokens * width
    last += 2 * rows * (2 * width**2 + 2 * width * inner)
    return float((depth - 1) * whole + last)


class _Select(torch.autograd.Function):
    """Select distinct rows of a matrix. The backward pass copies instead of accumulating."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, places: Tensor) -> Tensor:
        ctx.save_for_backward(places)
        ctx.count = len(rows)
        return rows.index_select(0, places)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (places,) = ctx.saved_tensors
        zeros = gradient.new_zeros(ctx.count, gradient.shape[1])
        return zeros.index_copy_(0, places, gradient), None


class _Place(torch.autograd.Function):
    """Inverse of `_Select`: write rows to distinct places of a matrix of zeros."""

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
        ids: token ids, padded on the right, int64 (n, length).
        mask: 1 for tokens, 0 for padding, int64 (n, length).
        lengths: positions of each sequence that are computed, int64 (n,), on the host.
        places: their indices in the flattened (n * length); None if all positions are computed.
        firsts: indices of the first tokens in the packed states, (n,).
        ragged: whether any position is padding, which attention ignores.
    """

    ids: Tensor
    mask: Tensor
    lengths: np.ndarray
    places: Tensor | None
    firsts: Tensor
    ragged: bool

    @classmethod
    def of(
        cls,
        tokens: Tokens,
        pad_id: int,
        device: str | torch.device = "cpu",
        positions: int | None = None,
    ) -> Batch:
        """Pad at least one non-empty token sequence with `pad_id` and copy it to a device.

        Args:
            positions: pad to this length and compute the states of padding too; by default the
                longest sequence's length, with padding skipped.

        Raises:
            UserError: a sequence is longer than `positions`.
        """
        lengths = np.fromiter(map(len, tokens), np.int64, len(tokens))
        if positions is not None and lengths.max() > positions:
            what = f"a sentence has {lengths.max()} tokens, but the pooler averages {positions}"
            raise UserError(f"{what}; choose another pooler or a smaller max_length")
        real = np.arange(positions or lengths.max()) < lengths[:, None]
        ids = np.full(real.shape, pad_id, np.int64)
        ids[real] = np.fromiter(chain.from_iterable(tokens), np.int64, lengths.sum())
        ragged = not real.all()
        places = real.ravel().nonzero()[0] if ragged and positions is None else None
        if positions is not None:
            lengths = np.full_like(lengths, positions)
        firsts = np.concatenate([[0], lengths.cumsum()[:-1]])

        def to_device(array: np.ndarray) -> Tensor:
            tensor = torch.from_numpy(array)
            if str(device) == "cpu":
                return tensor
            # Pinned memory is copied asynchronously, while the device computes the previous step.
            return tensor.pin_memory().to(device, non_blocking=True)

        return cls(
            to_device(ids),
            to_device(real.astype(np.int64)),
            lengths,
            None if places is None else to_device(places),
            to_device(firsts),
            ragged,
        )

    def pack(self, states: Tensor) -> Tensor:
        """(n, length, d) -> (tokens, d)."""
        flat = states.reshape(-1, states.shape[-1])
        return flat if self.places is None else cast(Tensor, _Select.apply(flat, self.places))

    def pad(self, rows: Tensor) -> Tensor:
        """(tokens, d) -> (n, length, d), with zeros as padding."""
        if self.places is not None:
            rows = cast(Tensor, _Place.apply(rows, self.places, self.ids.numel()))
        return rows.view(*self.ids.shape, rows.shape[-1])

    def first(self, rows: Tensor) -> Tensor:
        """(tokens, d) -> (n, d): the first token of each sequence."""
        return cast(Tensor, _Select.apply(rows, self.firsts))


class States(Sequence[Tensor]):
    """Hidden states of all layers, embeddings first, each (n, length, d).

    Values at padding are undefined, unless the batch computes them. If only the first tokens of the
    last layer were computed, `first(-1)` returns them, and indexing that layer raises
    `LookupError`.
    """

    def __init__(self, layers: Sequence[Tensor], batch: Batch, first_only: bool = False) -> None:
        self._layers, self._batch, self._first_only = layers, batch, first_only

    def __len__(self) -> int:
        return len(self._layers)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            has_last = len(self) - 1 in range(len(self))[index]
            return States(self._layers[index], self._batch, self._first_only and has_last)
        if self._is_first_only(index):
            # Not IndexError, which would silently end an iteration before the last layer.
            raise LookupError("only the first tokens of the last layer were computed")
        return self._batch.pad(self._layers[index])

    def first(self, index: int) -> Tensor:
        """States of the first tokens in one layer, (n, d)."""
        rows = self._layers[index]
        return rows if self._is_first_only(index) else self._batch.first(rows)

    def _is_first_only(self, index: int) -> bool:
        return self._first_only and index in (-1, len(self) - 1)


def is_packed(model: Any) -> bool:
    """Whether a model runs on packed states rather than with its own forward pass."""
    return model.config.model_type in PACKED and not model.config.is_decoder


def forward(
    model: Any, batch: Batch, *, first_only: bool = False, work: Work | None = None, **inputs: Any
) -> States:
    """Hidden states of a Hugging Face transformer, in its current mode (evaluation or training).

    Args:
        first_only: compute only the first tokens of the last layer.
        work: counts the pass.
        inputs: more inputs of the embedding layer, such as `position_ids`.
    """
    first_only = first_only and is_packed(model)
    if work is not None:
        work.count(model.config, batch.lengths, first_only)
    if not is_packed(model):
        output = model(
            input_ids=batch.ids, attention_mask=batch.mask, output_hidden_states=True, **inputs
        )
        return States([batch.pack(layer) for layer in output.hidden_states], batch)
    # The embedding layer runs padded, because methods hook into it. It is cheap.
    states = batch.pack(model.embeddings(input_ids=batch.ids, **inputs))
    padding = None  # (n, 1, 1, length), added to the attention logits
    if batch.ragged:
        padding = torch.zeros(batch.mask.shape, device=states.device)
        padding = padding.masked_fill_(batch.mask == 0, -torch.inf)[:, None, None, :]
    drop = Dropout(model.training, states.device)
    layers = [states]
    for index, layer in enumerate(model.encoder.layer):
        last = first_only and index == model.config.num_hidden_layers - 1
        layers.append(_layer(layer, layers[-1], batch, padding, drop, last))
    return States(layers, batch, first_only)


def pooler_output(model: Any, batch: Batch, work: Work | None = None) -> Tensor:
    """Output of a model's own pooler, (n, d)."""
    if is_packed(model):
        states = forward(model, batch, first_only=True, work=work)
        return model.pooler(states.first(-1).unsqueeze(1))
    if work is not None:
        work.count(model.config, batch.lengths, first_only=False)
    return model(input_ids=batch.ids, attention_mask=batch.mask).pooler_output


def _layer(
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
    mixed = _attend(queries, keys, values, padding, attention.dropout.p, drop)
    mixed = mixed.transpose(1, 2).flatten(2)
    mixed = mixed.squeeze(1) if first_only else batch.pack(mixed)

    mixed = drop(attention_output.dense(mixed), attention_output.dropout.p)
    between = attention_output.LayerNorm(mixed + computed)
    widened = drop(layer.output.dense(layer.intermediate(between)), layer.output.dropout.p)
    return layer.output.LayerNorm(widened + between)


def _attend(
    queries: Tensor, keys: Tensor, values: Tensor, padding: Any, dropout: float, drop: Dropout
) -> Tensor:
    """Attention with dropout; `padding` (n, 1, 1, length) is -inf at padding, else 0, or None."""
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
