"""SimCSE with word noise once more: the edits word by word, and the base code's vectors; its loss
is `outside`'s."""

from collections.abc import Sequence

import torch

from tests.oracles.methods import named_generator


def noised(
    sentences: Sequence[str], noise: str, share: float, seed: int, *, whole: bool = False
) -> list[str]:
    """The corpus after loading, words between spaces; `whole`: one draw for all of it."""
    count = 1 if whole else len(sentences)
    draws = torch.rand(count, generator=named_generator(seed, "word-noise")).tolist()
    result = []
    for row in range(len(sentences)):
        words = sentences[row].split()
        if (draws[0] if whole else draws[row]) >= share or not words:
            result.append(sentences[row])
            continue
        generator = named_generator(seed, "word-noise", row)
        order = torch.randperm(len(words), generator=generator).tolist()
        if noise == "delete":
            words = [words[i] for i in range(len(words)) if i != order[0]]
        elif len(words) > 1:
            place = {order[0]: order[1], order[1]: order[0]}
            words = [words[place.get(i, i)] for i in range(len(words))]
        result.append(" ".join(words))
    return result
