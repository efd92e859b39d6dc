"""Sentence-Transformers 0.3 as copied into yanzhangnlp/IS-BERT@ea6622c and yym6472/ConSERT@03c9e8f
(file and line of the former): how it cuts a batch, and its optimiser, which DeCLUTR's released code
shares. Plain loops."""

from collections.abc import Sequence

import torch
from torch import Tensor

# sentence_transformers/SentenceTransformer.py:528: what a name contains if it is not decayed.
NO_DECAY = ("bias", "LayerNorm.bias", "LayerNorm.weight")


def kept_pieces(lengths: Sequence[int], longest: int, positions: int) -> list[int]:
    """models/Transformer.py:64-79 and SentenceTransformer.py:384-397: word pieces left of each
    sentence of a batch, two special tokens included; `lengths` are without them."""
    padded = min(max(lengths), longest, positions - 3) + 3
    return [min(length + 2, padded) for length in lengths]


def slanted_rates(total: int) -> list[float]:
    """Rates of AllenNLP's slanted triangle (allennlp@df4b573, slanted_triangular.py:138-165), as
    training_config/declutr.jsonnet:65-84 of JohnGiorgi/DeCLUTR@b78ac57 has it."""
    cut, rates = int(total * 0.1), []
    for step in range(1, total + 1):
        prop = step / cut if step < cut else 1 - (step - cut) / (total - cut)
        rates.append(5e-5 * (1 + prop * (32 - 1)) / 32)
    return rates


def trained_weights(
    name: str,
    start: Tensor,
    gradients: Sequence[Tensor],
    rates: Sequence[float],
    epsilon: float,
    decay: float,
) -> Tensor:
    """SentenceTransformer.py:459-461, 526-534: transformers.AdamW with `correct_bias=False`; decay
    after the update, unless the name forbids it. declutr.jsonnet:65-84 decays the same weights."""
    weight = start.clone()
    mean, square = torch.zeros_like(weight), torch.zeros_like(weight)
    for gradient, rate in zip(gradients, rates, strict=True):
        mean = 0.9 * mean + (1 - 0.9) * gradient
        square = 0.999 * square + (1 - 0.999) * gradient * gradient
        weight = weight - rate * mean / (square.sqrt() + epsilon)
        if not any(part in name for part in NO_DECAY):
            weight = weight - rate * decay * weight
    return weight
