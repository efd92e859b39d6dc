"""Geometry of sentence vectors: alignment, uniformity, and similarity of layers and tokens, with
definitions and sources in docs/reference/analyses.md. Zero vectors stay zero when normalised."""

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor
from torch.nn import functional as F

# Pairs of STS-B with a higher gold score are positive (docs/reference/analyses.md).
POSITIVE = 4.0
# Rows per block of a similarity matrix: 40 MB in float64 against 20,000 other rows.
ROWS = 256


def unit(vectors: Tensor) -> Tensor:
    """Normalise vectors (..., d) to length 1, however short they are."""
    return F.normalize(vectors, dim=-1, eps=1e-37)


def alignment(firsts: Tensor, seconds: Tensor, gold: Tensor) -> float | None:
    """Mean squared distance between the unit vectors of positive pairs, from both sides (n, d) of
    all pairs and their gold scores (n,); None without a positive pair."""
    positive = gold > POSITIVE
    if not positive.any():
        return None
    return float((unit(firsts[positive]) - unit(seconds[positive])).square().sum(1).mean())


def uniformity(vectors: Tensor) -> float:
    """Log of the mean of exp(-2 |x - y|²) over all pairs of n >= 2 rows (n, d), as unit vectors: 0
    (all equal) down to -8."""
    rows = unit(vectors)
    squares = rows.square().sum(1)
    total = 0.0
    for start in range(0, len(rows), ROWS):
        block = slice(start, start + ROWS)
        distances = squares[block, None] + squares[start:] - 2 * (rows[block] @ rows[start:].T)
        total += float((-2 * distances).exp_().triu_(1).sum())  # each pair once
    return math.log(2 * total / (len(rows) * (len(rows) - 1)))


def largest_similarities(vectors: Tensor, candidates: Tensor, ranks: int) -> list[float]:
    """Means of the largest, second largest, ... cosine of each row with the `candidates`, without
    the candidate of the same number. All are unit vectors (n, d)."""
    cosines = (vectors @ candidates.T).fill_diagonal_(-math.inf)
    return cosines.topk(ranks).values.double().mean(0).tolist()


def token_similarity(states: Tensor, mask: Tensor) -> Tensor:
    """TokSim of each sentence, (n,): the mean cosine of pairs of different tokens of the mask; 0
    for fewer than two. States are (n, length, d)."""
    rows = unit(states) * mask.unsqueeze(-1)
    count = mask.sum(1)
    total = rows.sum(1).square().sum(1) - rows.square().sum((1, 2))
    return total / (count * (count - 1)).clamp(min=1)


def layer_similarities(states: Sequence[Tensor], mask: Tensor) -> Tensor:
    """SetSim and TokSim of each sentence, for the embeddings and L layers, each (n, length, d),
    padded on the right.

    Returns float64 (n, 4L + 2). SetSim between layers i and i + 1, for the first token (L columns)
    and the mean of all tokens (L); TokSim of layers 0 to L without special tokens (L + 1), which
    are the first and the last, and with them (L + 1).
    """
    # Without the special tokens, the first and the last of each sentence.
    inner = mask.clone()
    inner[:, 0] = 0
    inner[torch.arange(len(mask), device=mask.device), mask.sum(1) - 1] = 0
    first_tokens, means, inner_tokens, all_tokens = [], [], [], []
    for layer in states:
        exact = layer.double()
        first_tokens.append(unit(exact[:, 0]))
        # The sum has the same direction as the mean.
        means.append(unit((exact * mask.unsqueeze(-1)).sum(1)))
        inner_tokens.append(token_similarity(exact, inner))
        all_tokens.append(token_similarity(exact, mask))
    adjacent = []
    for layers in (first_tokens, means):
        adjacent += [(lower * upper).sum(1) for lower, upper in pairwise(layers)]
    return torch.stack([*adjacent, *inner_tokens, *all_tokens], dim=1)
