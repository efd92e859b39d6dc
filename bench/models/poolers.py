"""Poolers: from the hidden states of a transformer to one vector a sentence
(docs/methods.md#vectors)."""

from collections.abc import Callable

import torch
from torch import Tensor

from bench.models.packed_forward import States
from bench.utils.errors import UserError, did_you_mean
from methods.base import POOLERS as POOLER_NAMES


def _masked_mean(states: Tensor, mask: Tensor) -> Tensor:
    """Mean over all tokens, special tokens included (docs/methods.md#vectors)."""
    weights = mask.unsqueeze(-1).to(states)
    return (states * weights).sum(1) / weights.sum(1)


# Functions of all hidden states (embeddings first) and the attention mask, (n, length) -> (n, d).
# The pooler "cls" is not among them: it is the output of the model's own pooling layer.
POOLERS: dict[str, Callable[[States, Tensor], Tensor]] = {
    "cls_before_pooler": lambda states, mask: states.first(-1),
    "avg": lambda states, mask: _masked_mean(states[-1], mask),
    "avg_top2": lambda states, mask: _masked_mean((states[-1] + states[-2]) / 2, mask),
    "avg_first_last": lambda states, mask: _masked_mean((states[-1] + states[1]) / 2, mask),
    "avg_first_last_64": lambda states, mask: ((states[-1] + states[1]) / 2).mean(1),
    "avg_embedding_last": lambda states, mask: _masked_mean((states[-1] + states[0]) / 2, mask),
}
# Positions of every sentence, for poolers that average padding too: longer sentences are cut,
# shorter ones padded. Length: shuxinyin/SimCSE-Pytorch@c5bc95a, SimCSE/train.py:116.
POSITIONS = {"avg_first_last_64": 64}
FIRST_ONLY = ("cls", "cls_before_pooler")  # poolers that use only the first token of the last layer


def check_pooler(name: str) -> None:
    if name not in POOLER_NAMES:
        raise UserError(f"unknown pooler '{name}'{did_you_mean(name, POOLER_NAMES)}")


# Poolers that average two layers: indices of the hidden states, embeddings first.
LAYERS = {"avg_top2": (-1, -2), "avg_first_last": (1, -1), "avg_embedding_last": (0, -1)}


def layer_weights(pooler: str, depth: int) -> Tensor:
    """Weight of each layer's states for a pooler of `LAYERS`, float32 (depth + 1)."""
    weights = torch.zeros(depth + 1)
    for layer in LAYERS[pooler]:
        weights[layer] += 1
    return weights
