"""Geometry of vectors: how near positive pairs are, how evenly all lie on the sphere, how alike layers and tokens are.

Torch tensors on any device, computed in their own type: float32 in a training, float64 where a result is kept. A vector
of zeros has no direction and stays as it is. Definitions and what they are taken from: docs/analyses.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean

import torch
from torch import Tensor

POSITIVE = 4.0  # the gold score above which a pair of STS-B is positive
BATCH = 128  # pairs that DCLR's code looks at together
ROWS = 256  # rows of one block of products: 40 MB in float64 against 20,000 others


def unit(vectors: Tensor) -> Tensor:
    """Vectors (..., d) of length 1."""
    lengths = vectors.norm(dim=-1, keepdim=True)
    return vectors / lengths.where(lengths > 0, 1)


@torch.no_grad()
def alignment(first: Tensor, second: Tensor, gold: Tensor, *, with_four: bool = False) -> float | None:
    """Mean squared distance of the unit vectors of positive pairs, 0 to 4; None where no pair is positive.

    Args:
        first, second: (n, d), the two sides of each pair.
        gold: (n,), 0 to 5.
        with_four: a gold score of exactly 4 counts as positive too, as in DCLR's code.
    """
    positive = gold >= POSITIVE if with_four else gold > POSITIVE
    if not positive.any():
        return None
    return float((unit(first[positive]) - unit(second[positive])).square().sum(1).mean())


@torch.no_grad()
def uniformity(vectors: Tensor) -> float:
    """Log of the mean of exp(-2 |x - y|²) over all pairs of different rows, unit vectors: 0 (all alike) down to -8.

    Args:
        vectors: (n, d), n at least 2; equal rows count as often as they stand there.
    """
    rows = unit(vectors)
    squares = rows.square().sum(1)
    total = 0.0
    for start in range(0, len(rows), ROWS):
        block = slice(start, start + ROWS)
        distances = squares[block, None] + squares[start:] - 2 * (rows[block] @ rows[start:].T)
        total += float((-2 * distances).exp_().triu_(1).sum())  # each pair once
    return math.log(2 * total / (len(rows) * (len(rows) - 1)))


def in_batches(first: Tensor, second: Tensor, gold: Tensor) -> tuple[float | None, float]:
    """Alignment and uniformity as DCLR's code has them: of each `BATCH` pairs, then the plain mean over batches.

    A batch without a positive pair, which makes that code's alignment NaN, is left out.
    """
    batches = list(zip(first.split(BATCH), second.split(BATCH), gold.split(BATCH), strict=True))
    near = [found for batch in batches if (found := alignment(*batch, with_four=True)) is not None]
    return fmean(near) if near else None, fmean(uniformity(torch.cat([left, right])) for left, right, _ in batches)


@torch.no_grad()
def largest_similarities(vectors: Tensor, others: Tensor, ranks: int) -> list[float]:
    """The 1st, 2nd, ... largest cosine of each row with the others, each rank's mean over the rows.

    Args:
        vectors, others: unit vectors (n, d), n above `ranks`; a row is not compared with the other of its own place.
    """
    cosines = (vectors @ others.T).fill_diagonal_(-math.inf)
    return cosines.topk(ranks).values.double().mean(0).tolist()


@torch.no_grad()
def token_similarity(states: Tensor, mask: Tensor) -> Tensor:
    """TokSim of each sentence: the mean cosine of two different tokens, (n,); 0 where there are fewer than two.

    Args:
        states: (n, length, d); mask: (n, length), 1 at the tokens that count.
    """
    rows = unit(states) * mask.unsqueeze(-1)
    count = mask.sum(1)
    total = rows.sum(1).square().sum(1) - rows.square().sum((1, 2))
    return total / (count * (count - 1)).clamp(min=1)


@torch.no_grad()
def layer_similarities(states: Sequence[Tensor], mask: Tensor) -> Tensor:
    """SetSim and TokSim of each sentence, float64 (n, 4L + 2), of L layers and the embeddings before them.

    Columns: SetSim between layers i and i + 1 from 0 on, first of the first token (L), then of the mean of all tokens
    (L); TokSim of layers 0 to L without special tokens (L + 1), then with them (L + 1). The special tokens are the
    first and the last of a sentence.

    Args:
        states: of all layers, embeddings first, (n, length, d) each; mask: the attention mask, padding on the right.
    """
    inner = mask.clone()
    inner[:, 0] = 0
    inner[torch.arange(len(mask), device=mask.device), mask.sum(1) - 1] = 0
    first, mean, without, whole = [], [], [], []
    for layer in states:
        exact = layer.double()
        first.append(unit(exact[:, 0]))
        mean.append(unit((exact * mask.unsqueeze(-1)).sum(1)))  # the cosine of a sum is that of the mean
        without.append(token_similarity(exact, inner))
        whole.append(token_similarity(exact, mask))
    adjacent = [(lower * upper).sum(1) for side in (first, mean) for lower, upper in pairwise(side)]
    return torch.stack([*adjacent, *without, *whole], dim=1)
