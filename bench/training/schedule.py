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
    """Yield the item indices, 0 to count - 1, of each batch: one permutation per epoch, keeping the
    short last batch (docs/methods.md#batches)."""
    for epoch in range(recipe.epochs):
        order = torch.randperm(count, generator=stream(seed, "order", epoch)).tolist()
        for start in range(0, count, recipe.batch_size):
            yield order[start : start + recipe.batch_size]


def learning_rate(index: int, total: int, recipe: Recipe) -> float:
    """Return the learning rate of the step after `index` of `total`: linear warm-up, then the
    recipe's schedule (docs/methods.md#optimisation)."""
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
    """The steps of one training over `items` per epoch; losses are read after `sync_every`."""

    recipe: Recipe
    items: int
    seed: int
    sync_every: int = 1

    @property
    def total(self) -> int:
        return self.recipe.epochs * -(-self.items // self.recipe.batch_size)

    def batches(self, step: int) -> Iterator[list[int]]:
        return islice(batches(self.items, self.recipe, self.seed), step, None)

    def learning_rate(self, step: int) -> float:
        return learning_rate(step, self.total, self.recipe)

    def should_select(self, step: int, selected: bool) -> bool:
        """Return whether the dev set is scored after `step` steps; the last step selects if no
        other one `selected`."""
        return step % self.recipe.select_every == 0 or (step == self.total and not selected)

    def should_sync(self, step: int, unread: int, selected: bool) -> bool:
        """Return whether losses are read after `step` steps; `unread` of them have not been."""
        return unread >= self.sync_every or self.should_select(step, selected) or step == self.total

    def is_exhausted(self, since_best: int) -> bool:
        """Return whether `since_best` selections without improvement use up the patience."""
        patience = self.recipe.patience
        return patience is not None and 0 < patience <= since_best
