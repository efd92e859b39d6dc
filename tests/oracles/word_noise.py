"""SimCSE with word noise once more: the loss as loops over i and j, the edits word by word."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import torch
from torch import Tensor

from tests.oracles.methods import Batch, dot, minus_log_share, unit


def nt_xent(first: Batch, second: Batch, t: float) -> Tensor:
    """Mean over all 2N vectors of -log( e^{sim(u_i, u_pos)/t} / sum_{j != i} e^{sim(u_i, u_j)/t}
    )."""
    vectors = [
        unit(u) for pair in zip(first, second, strict=True) for u in pair
    ]  # s1, s1', s2, s2', ...
    total = torch.zeros((), dtype=torch.float64)
    for i in range(len(vectors)):
        partner = i + 1 if i % 2 == 0 else i - 1
        scores = []
        for j in range(len(vectors)):
            if j != i:
                scores.append((1.0, dot(vectors[i], vectors[j]) / t))
        total = total + minus_log_share(dot(vectors[i], vectors[partner]) / t, scores)
    return total / len(vectors)


def generator(seed: int, *names: object) -> torch.Generator:
    digest = hashlib.sha256("/".join(str(name) for name in (seed, *names)).encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)


def exchanged(words: Sequence[str], seed: int, row: int) -> list[str]:
    if len(words) < 2:
        return list(words)
    order = torch.randperm(len(words), generator=generator(seed, "word-noise", row)).tolist()
    place = {order[0]: order[1], order[1]: order[0]}
    return [words[place.get(i, i)] for i in range(len(words))]


def shortened(words: Sequence[str], seed: int, row: int) -> list[str]:
    order = torch.randperm(len(words), generator=generator(seed, "word-noise", row)).tolist()
    return [words[i] for i in range(len(words)) if i != order[0]]


def noised(
    sentences: Sequence[str], noise: str | None, share: float, seed: int, *, whole: bool = False
) -> list[str]:
    """The corpus after loading, words between spaces; `whole`: one draw for all of it."""
    if noise is None:
        return list(sentences)
    draws = torch.rand(
        1 if whole else len(sentences), generator=generator(seed, "word-noise")
    ).tolist()
    found = []
    for row in range(len(sentences)):
        if (draws[0] if whole else draws[row]) >= share or not sentences[row].split():
            found.append(sentences[row])
        else:
            change = exchanged if noise == "swap" else shortened
            found.append(" ".join(change(sentences[row].split(), seed, row)))
    return found
