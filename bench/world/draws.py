"""Rejection sampling of distinct labelled sentences, and writing of files."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

Sample = tuple[str, str]  # label and sentence
Draw = Callable[[random.Random], Sample | None]  # None: the draw has no label
Stream = Callable[..., random.Random]  # returns the generator of a file
Sizes = dict[str, dict[str, int]]  # for the manifest: by task and part


def write_lines(path: Path, rows: Sequence[str], end: str = "\n", encoding: str = "utf-8") -> None:
    """Write the lines of a file; create its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes("".join(row + end for row in rows).encode(encoding))


def evenly(labels: Sequence[str], size: int) -> dict[str, int]:
    """Divide `size` samples among labels; the remainder goes to the first ones."""
    each, more = divmod(size, len(labels))
    return {label: each + (number < more) for number, label in enumerate(labels)}


def collect(
    rng: random.Random, draw: Draw, wanted: Mapping[str, int], seen: set[str]
) -> list[Sample]:
    """Sample until there are `wanted` sentences of each label, in random order.

    Sentences in `seen` are rejected; the sampled ones are added to it.
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
