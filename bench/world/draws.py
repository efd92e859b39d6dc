"""Rejection sampling of distinct labelled sentences."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

Sample = tuple[str, str]  # label and sentence
Draw = Callable[[random.Random], Sample | None]  # None: the draw has no label


def evenly(labels: Sequence[str], size: int) -> dict[str, int]:
    """Divide `size` samples among labels; the remainder goes to the first ones."""
    return {
        label: size // len(labels) + (number < size % len(labels))
        for number, label in enumerate(labels)
    }


def collect(
    rng: random.Random, draw: Draw, wanted: Mapping[str, int], seen: set[str]
) -> list[Sample]:
    """Sample until there are `wanted` sentences of each label, in random order.

    Args:
        rng: random stream.
        draw: samples a label and a sentence, or None.
        wanted: number of samples by label.
        seen: sentences to reject; updated with the samples.
    """
    missing = dict(wanted)
    rows: list[Sample] = []
    while any(missing.values()):
        sample = draw(rng)
        if sample is None or not missing.get(sample[0]) or sample[1] in seen:
            continue
        missing[sample[0]] -= 1
        seen.add(sample[1])
        rows.append(sample)
    rng.shuffle(rows)
    return rows
