"""DeCLUTR's and PromptBERT's losses from the printed formulas, as plain loops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

Ids = Sequence[int]


def similarity(left: Tensor, right: Tensor) -> Tensor:
    return (left * right).sum() / ((left * left).sum().sqrt() * (right * right).sum().sqrt())


def log_sum(terms: Sequence[Tensor]) -> Tensor:
    top = max(float(term.detach()) for term in terms)
    total = terms[0].new_zeros(())
    for term in terms:
        total = total + (term - top).exp()
    return total.log() + top


def declutr_contrast(
    anchors: Tensor, positives: Tensor, temperature: float, average: bool
) -> Tensor:
    """Section 3.1: e_{i + AN} the mean of anchor i's positives; l(i, i + AN) + l(i + AN, i)."""
    n = len(anchors)
    count = len(positives) // n
    e = [anchors[i] for i in range(n)]
    for i in range(n):
        total = torch.zeros_like(anchors[i])
        for p in range(count):
            total = total + positives[i * count + p]
        e.append(total / count)
    loss = anchors.new_zeros(())
    for i in range(2 * n):
        j = i + n if i < n else i - n
        others = [similarity(e[i], e[k]) / temperature for k in range(2 * n) if k != i]
        loss = loss + log_sum(others) - similarity(e[i], e[j]) / temperature
    return loss / (2 * n) if average else loss


def cross_entropy(logits: Tensor, targets: Sequence[int]) -> Tensor:
    loss = logits.new_zeros(())
    for row, target in zip(logits, targets, strict=True):
        loss = loss + log_sum(list(row)) - row[target]
    return loss / len(targets)


def info_nce(first: Sequence[Tensor], second: Sequence[Tensor], temperature: float) -> Tensor:
    loss = first[0].new_zeros(())
    for i in range(len(first)):
        candidates = [similarity(first[i], second[j]) / temperature for j in range(len(second))]
        loss = loss + log_sum(candidates) - candidates[i]
    return loss / len(first)


def at_mask(model: Any, before: Ids, words: Ids, behind: Ids, mask_id: int) -> Tensor:
    """The last state at the mask behind the sentence, of one sentence alone."""
    ids = [*before, *words, *behind]
    place = len(before) + len(words) + list(behind).index(mask_id)
    return model(input_ids=torch.tensor([ids])).last_hidden_state[0, place]


def template_alone(
    model: Any, before: Ids, behind: Ids, mask_id: int, gap: int, first: int
) -> Tensor:
    """Without the sentence; what stands behind it keeps the positions `gap` pieces further."""
    positions = [first + i for i in range(len(before))]
    positions += [first + len(before) + gap + i for i in range(len(behind))]
    states = model(
        input_ids=torch.tensor([[*before, *behind]]), position_ids=torch.tensor([positions])
    )
    return states.last_hidden_state[0, len(before) + list(behind).index(mask_id)]
