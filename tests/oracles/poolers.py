"""The vector of one sentence from its hidden states, by plain loops
(docs/reference/training.md#vectors)."""

from collections.abc import Callable
from typing import Any

import torch

Layer = list[list[float]]  # [token][dimension], special tokens included


def mean(rows: Layer) -> list[float]:
    return [sum(row[k] for row in rows) / len(rows) for k in range(len(rows[0]))]


def half(left: Layer, right: Layer) -> Layer:
    rows = zip(left, right, strict=True)
    return [[(a + b) / 2 for a, b in zip(u, v, strict=True)] for u, v in rows]


# Of the states of the sentence alone; with padding where `FIXED` has the pooler's length.
FIXED = {"avg_first_last_64": 64}
POOLED: dict[str, Callable[[list[Layer]], list[float]]] = {
    "cls_before_pooler": lambda layers: layers[-1][0],
    "avg": lambda layers: mean(layers[-1]),
    "avg_top2": lambda layers: mean(half(layers[-1], layers[-2])),
    "avg_first_last": lambda layers: mean(half(layers[1], layers[-1])),
    "avg_first_last_64": lambda layers: mean(half(layers[1], layers[-1])),
    "avg_embedding_last": lambda layers: mean(half(layers[0], layers[-1])),
    "last": lambda layers: layers[-1][-1],
    # Each row as often as its position says.
    "weighted_mean": lambda layers: mean(
        [r for i, r in enumerate(layers[-1], 1) for _ in range(i)]
    ),
}


def pooled_alone(model: Any, tokenizer: Any, text: str, pooler: str, layers: int) -> list[float]:
    """The vector of a text of its own, after so many layers of a model of transformers."""
    fixed = {"padding": "max_length", "max_length": FIXED[pooler]} if pooler in FIXED else {}
    inputs = tokenizer(text, return_tensors="pt", truncation=True, **fixed)
    with torch.no_grad():
        states = model.eval()(**inputs, output_hidden_states=True).hidden_states
    return POOLED[pooler]([state[0].tolist() for state in states[: layers + 1]])
