"""The schedule of a training: its batches and its learning rates."""

from collections.abc import Iterator

import torch

from bench.runs.recipe import Recipe
from methods.base import stream

# The smallest rate of a slanted triangle is this part of the largest: the default of AllenNLP.
SLANTED_RATIO = 32


def batches(count: int, recipe: Recipe, seed: int) -> Iterator[list[int]]:
    """Yield the item indices, 0 to count - 1, of each batch: one permutation per epoch, keeping the
    short last batch (docs/methods.md#batches) unless the recipe has `drop_last`."""
    end = count - count % recipe.batch_size if recipe.drop_last else count
    for epoch in range(recipe.epochs):
        order = torch.randperm(count, generator=stream(seed, "order", epoch)).tolist()
        for start in range(0, end, recipe.batch_size):
            yield order[start : start + recipe.batch_size]


def learning_rate(index: int, total: int, recipe: Recipe) -> float:
    """Return the learning rate of the step after `index` of `total`: linear warm-up, then the
    recipe's schedule (docs/methods.md#optimisation)."""
    if recipe.schedule == "slanted":
        return recipe.learning_rate * _slanted(index + 1, total, int(recipe.warmup * total))
    warm = round(recipe.warmup * total)
    if index < warm:
        return recipe.learning_rate * (index + 1) / warm
    if recipe.schedule == "linear":
        return recipe.learning_rate * ((total - index) / max(1, total - warm))
    # n boundaries make n + 1 blocks, whose rates fall in equal steps; "constant" has no boundary.
    # The step at a boundary belongs to the block before it, as in TensorFlow
    # (docs/methods.md#ct-bert).
    blocks = len(recipe.boundaries) + 1
    passed = sum(index > round(share * total) for share in recipe.boundaries)
    return recipe.learning_rate * ((blocks - passed) / blocks)


def _slanted(step: int, total: int, cut: int) -> float:
    """Return the factor of the `step`-th step, from 1, of AllenNLP's slanted triangle
    (docs/methods.md#declutr); the largest is at step `cut`."""
    rising = step / cut if step < cut else 1 - (step - cut) / (total - cut)
    return (1 + rising * (SLANTED_RATIO - 1)) / SLANTED_RATIO


def total_steps(count: int, recipe: Recipe) -> int:
    """Return the number of all batches."""
    full, rest = divmod(count, recipe.batch_size)
    return recipe.epochs * (full + (rest > 0 and not recipe.drop_last))
