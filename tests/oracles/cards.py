"""CARDS once more: which sentence is drawn, the loss of all of it, and switched words."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from tests.oracles.methods import infonce, named_generator, similarity

SEED = 3
CUT = 6  # letters of a sentence that the search reads
# Row 4 repeats row 1, row 6 repeats row 0.
SENTENCES = ["a dog", "a cat", "the red car", "two birds", "a cat", "one old tree", "a dog"]
SENTENCES += ["water", "The End"]
DISTINCT = ["a dog", "a cat", "the red car", "two birds", "one old tree", "water", "The End"]
BATCHES = ([1, 4, 0, 7], [6, 2, 0, 5], [8, 3, 1, 2], [0], [3, 1, 5, 4, 6])


def neighbours(count: int) -> list[list[str]]:
    """Nearest other sentences of each distinct one, by the vectors below."""
    result = []
    for sentence in DISTINCT:
        u = vector(sentence)
        cosines = {text: similarity(u, vector(text)).item() for text in DISTINCT}
        del cosines[sentence]
        result.append(sorted(cosines, key=lambda text: -round(cosines[text], 6))[:count])
    return result


def vector(sentence: str) -> Tensor:
    """The sentence's vector as the search reads it: cut, here after so many letters."""
    letters = sentence[:CUT]
    sums = [1.0 + sum(ord(letter) for letter in letters[k::3]) % 17 for k in range(3)]
    return torch.tensor(sums, dtype=torch.float64)


def retrieved(rows: Sequence[int], index: int, count: int) -> list[str]:
    """One of its nearest for each anchor, evenly, from the stream "retrieval" of the step."""
    draw = named_generator(SEED, "retrieval", index)
    places = zip(rows, torch.randint(count, (len(rows),), generator=draw).tolist(), strict=True)
    table = neighbours(count)
    return [table[DISTINCT.index(SENTENCES[row])][place] for row, place in places]


def loss(leaves: Sequence[Tensor], rows: Sequence[int], index: int, count: int, t: float) -> Tensor:
    """InfoNCE; sentence j's retrieved one joins for every i whose sentence it is not."""
    h, p, r = leaves
    extra: list[Any] = [[] for _ in rows]
    if count:
        drawn = retrieved(rows, index, count)
        for i in range(len(rows)):
            for j in range(len(rows)):
                if SENTENCES[rows[i]] != drawn[j]:
                    extra[i].append((1.0, r[j]))
    return infonce(h, p, t, extra)


def switch(text: str, share: float, counted: bool, generator: torch.Generator) -> str:
    """Between spaces are words; the case of first letters is turned, anything else stays."""
    words = [word for word in text.split(" ") if word != ""]
    if counted:
        left = max(1, round(share * len(words)))
        for place in torch.randperm(len(words), generator=generator).tolist():
            if left > 0 and words[place][0].isalpha():
                words[place] = turned(words[place])
                left -= 1
    else:
        for place, chance in enumerate(torch.rand(len(words), generator=generator).tolist()):
            if chance < share and words[place][0].isalpha():
                words[place] = turned(words[place])
    return " ".join(words)


def turned(word: str) -> str:
    return (word[0].upper() if word[0].islower() else word[0].lower()) + word[1:]
