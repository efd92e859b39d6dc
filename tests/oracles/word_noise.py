"""SimCSE with word noise once more: the edits word by word, and the base code's vectors; its loss
is `outside`'s."""

from collections.abc import Sequence
from typing import Any

import torch

from tests.oracles.methods import named_generator


def averaged(
    model: Any,
    tokens: Sequence[Sequence[int]],
    pad: int,
    *,
    positions: int = 64,
    layers: Sequence[int] = (1, -1),
    attended: bool = False,
    masked: bool = False,
) -> torch.Tensor:
    """(n, d), the base code's mean of the first and the last layer over 64 positions: attention
    does not see padding, the mean does (SimCSE/model.py:21-37, SimCSE/dataloader.py:35-36). The
    other arguments are mistakes.
    """
    rows = []
    for row in tokens:
        ids = torch.tensor([[*row, *[pad] * (positions - len(row))]])
        mask = torch.tensor([[1] * len(row) + [int(attended)] * (positions - len(row))])
        states = model(input_ids=ids, attention_mask=mask, output_hidden_states=True).hidden_states
        count = len(row) if masked else positions
        means = [states[layer][0, :count].sum(0) / count for layer in layers]
        rows.append(sum(means) / 2)
    return torch.stack(rows)


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
