"""Labelled sentences by rejection: as many of each label as wanted, no sentence twice."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

Sample = tuple[str, str]  # label and sentence
Draw = Callable[[random.Random], Sample | None]  # None where what was drawn has no label


def evenly(labels: Sequence[str], size: int) -> dict[str, int]:
    """`size` samples shared out; what does not divide goes to the first labels."""
    return {label: size // len(labels) + (number < size % len(labels)) for number, label in enumerate(labels)}


def collect(rng: random.Random, draw: Draw, wanted: Mapping[str, int], seen: set[str]) -> list[Sample]:
    """Samples in random order, `wanted` of each label; draws of other labels, or None, are thrown away.

    Args:
        seen: sentences that may not come again; those that are collected are added.
    """
    room = dict(wanted)
    rows: list[Sample] = []
    while any(room.values()):
        sample = draw(rng)
        if sample is None or not room.get(sample[0]) or sample[1] in seen:
            continue
        room[sample[0]] -= 1
        seen.add(sample[1])
        rows.append(sample)
    rng.shuffle(rows)
    return rows
