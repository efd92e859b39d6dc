"""Poolers: one vector a sentence, of a transformer's hidden states
(docs/reference/training.md#vectors)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from bench.models.options import POSITIONS
from bench.models.packed_forward import Batch, States, forward, is_packed
from methods.base import masked_mean

LAST = (-1,)


@dataclass(frozen=True)
class Pooler:
    """A function of hidden states. It says which states it reads, so that no others are
    computed."""

    # All layers, embeddings first, and the attention mask, (n, length) -> (n, d).
    of: Callable[[States, Tensor], Tensor]
    layers: Sequence[int] = ()  # embeddings are 0; none: any
    first: bool = False  # whether it reads only the first token of the last layer
    positions: int | None = None  # to which every sentence is padded or cut; padding is read, too

    def pool(self, model: Any, rows: Batch) -> Tensor:
        """The vectors of token sequences, float32 (n, d)."""
        states = forward(model, rows, first_only=self.first, last_only=self.layers == LAST)
        return self.of(states.float(), rows.mask)


class StoredPooler(Pooler):
    """The first token behind the dense layer with tanh that the checkpoint stores."""

    def pool(self, model: Any, rows: Batch) -> Tensor:
        if is_packed(model):
            states = forward(model, rows, first_only=True).first()
            pooled: Tensor = model.pooler(states.unsqueeze(1))
        else:
            pooled = model(input_ids=rows.ids, attention_mask=rows.mask).pooler_output
        return pooled.float()


def _first(states: States, mask: Tensor) -> Tensor:
    return states.first()


def _mean(states: States, mask: Tensor) -> Tensor:
    return masked_mean(states[-1], mask)


def _places(mask: Tensor) -> Tensor:
    """Places of the tokens in a sentence, from 1: int64 (length,)."""
    return torch.arange(1, mask.shape[1] + 1, device=mask.device)


def _last(states: States, mask: Tensor) -> Tensor:
    return masked_mean(states[-1], _places(mask) == mask.sum(1, keepdim=True))


def _weighted(states: States, mask: Tensor) -> Tensor:
    return masked_mean(states[-1], mask * _places(mask))


def _two_layers(upper: int, lower: int) -> Pooler:
    return Pooler(
        lambda states, mask: masked_mean((states[upper] + states[lower]) / 2, mask), (upper, lower)
    )


BY_NAME = {
    "cls": StoredPooler(_first, LAST, first=True),
    "cls_before_pooler": Pooler(_first, LAST, first=True),
    "avg": Pooler(_mean, LAST),
    "avg_top2": _two_layers(-1, -2),
    "avg_first_last": _two_layers(-1, 1),
    "avg_embedding_last": _two_layers(-1, 0),
    "avg_first_last_64": Pooler(
        lambda states, mask: ((states[-1] + states[1]) / 2).mean(1),
        (-1, 1),
        positions=POSITIONS["avg_first_last_64"],
    ),
    "last": Pooler(_last, LAST),
    "weighted_mean": Pooler(_weighted, LAST),
}
