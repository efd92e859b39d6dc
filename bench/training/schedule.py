"""The schedule of a training: its batches, its learning rates, and when it reads losses and selects
models."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import torch

from bench.runs.recipe import Recipe
from methods.base import stream

# Steps between two reads of the losses. A read waits for the device; on a GPU a batch is prepared
# while the device computes the one before.
SYNC_EVERY = {"cpu": 1, "cuda": 25}
# learning rates of Contrastive Tension in five equal blocks (docs/methods.md#ct-bert)
BLOCKS = (1.0, 0.8, 0.6, 0.4, 0.2)


def batches(count: int, recipe: Recipe, seed: int) -> Iterator[list[int]]:
    """Yield the item indices of each batch: one permutation per epoch, keeping the short last
    batch.

    Source: docs/methods.md#batches.

    Args:
        count: items of an epoch; indices are 0 to count - 1.
        recipe: its `epochs` and `batch_size` are used.
        seed: the run's seed.
    """
    for epoch in range(recipe.epochs):
        order = torch.randperm(count, generator=stream(seed, "order", epoch)).tolist()
        for start in range(0, count, recipe.batch_size):
            yield order[start : start + recipe.batch_size]


def learning_rate(index: int, total: int, recipe: Recipe) -> float:
    """Return the learning rate of a step: linear warm-up, then the recipe's schedule
    (docs/methods.md#optimisation).

    Args:
        index: number of steps before this one.
        total: number of steps of the training.
        recipe: its `learning_rate`, `warmup` (share of the steps) and `schedule` are used.
    """
    warm = round(recipe.warmup * total)
    if index < warm:
        return recipe.learning_rate * (index + 1) / warm
    factors = {
        "linear": (total - index) / max(1, total - warm),
        "constant": 1.0,
        "blocks": BLOCKS[(index - warm) * len(BLOCKS) // max(1, total - warm)],
    }
    return recipe.learning_rate * factors[recipe.schedule]


@dataclass(frozen=True)
class Schedule:
    """The steps of one training.

    Attributes:
        items: items of an epoch.
        sync_every: number of steps after which losses are read.
    """

    recipe: Recipe
    items: int
    seed: int
    sync_every: int = 1

    @property
    def total(self) -> int:
        """Number of steps of all epochs."""
        return self.recipe.epochs * -(-self.items // self.recipe.batch_size)

    def batches(self, step: int) -> Iterator[list[int]]:
        """Yield the batches that are left after `step` steps."""
        return islice(batches(self.items, self.recipe, self.seed), step, None)

    def learning_rate(self, step: int) -> float:
        """Return the learning rate of the step that follows `step` steps."""
        return learning_rate(step, self.total, self.recipe)

    def should_select(self, step: int, selected: bool) -> bool:
        """Return whether the dev set is scored after `step` steps.

        Args:
            step: number of steps taken.
            selected: whether a model was selected before; without one the last step selects.
        """
        return step % self.recipe.select_every == 0 or (step == self.total and not selected)

    def should_sync(self, step: int, unread: int, selected: bool) -> bool:
        """Return whether losses are read after `step` steps, of which `unread` have not been
        read."""
        return unread >= self.sync_every or self.should_select(step, selected) or step == self.total

    def is_exhausted(self, since_best: int) -> bool:
        """Return whether the recipe's patience is used up after `since_best` selections without
        improvement."""
        patience = self.recipe.patience
        return patience is not None and 0 < patience <= since_best
