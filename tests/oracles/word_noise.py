"""SimCSE with word noise once more: the edits word by word; its loss is `outside`'s."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from tests.oracles.methods import named_generator


def exchanged(words: Sequence[str], seed: int, row: int) -> list[str]:
    if len(words) < 2:
        return list(words)
    order = torch.randperm(len(words), generator=named_generator(seed, "word-noise", row)).tolist()
    place = {order[0]: order[1], order[1]: order[0]}
    return [words[place.get(i, i)] for i in range(len(words))]


def shortened(words: Sequence[str], seed: int, row: int) -> list[str]:
    order = torch.randperm(len(words), generator=named_generator(seed, "word-noise", row)).tolist()
    return [words[i] for i in range(len(words)) if i != order[0]]


def noised(
    sentences: Sequence[str], noise: str | None, share: float, seed: int, *, whole: bool = False
) -> list[str]:
    """The corpus after loading, words between spaces; `whole`: one draw for all of it."""
    if noise is None:
        return list(sentences)
    draws = torch.rand(
        1 if whole else len(sentences), generator=named_generator(seed, "word-noise")
    ).tolist()
    found = []
    for row in range(len(sentences)):
        if (draws[0] if whole else draws[row]) >= share or not sentences[row].split():
            found.append(sentences[row])
        else:
            change = exchanged if noise == "swap" else shortened
            found.append(" ".join(change(sentences[row].split(), seed, row)))
    return found
