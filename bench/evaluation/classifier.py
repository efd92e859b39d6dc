"""SentEval's classifiers (docs/methods.md#classifier), many of them trained at once.

SentEval trains its logistic regressions and small networks one after another: 410 for a task with
nested cross-validation. All start from the same weights and shuffle with the same seed. Heads whose
training parts have equal length therefore see the same sequence of row indices, each within its own
part. Here they take every step together, as a batch dimension. Each head keeps its own best weights
and its own early-stopping counter.

Only the order of summation differs: in float64 the accuracies equal those of the one-by-one loop,
in float32 they differ by rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn

from methods.base import seed_torch

SEED = 1111  # SentEval's, for weights, permutations, dropout and folds
HELD_OUT = 0.05  # share of the training part that stops it early where no dev part is given
BLOCK = 32  # folds trained at once: hides what a call costs, and stays in the processor's cache


@dataclass(frozen=True)
class Settings:
    """How classifiers are trained (docs/methods.md#classifier)."""

    folds: int
    optimiser: str  # "adam" (learning rate 1e-3) or "rmsprop" (1e-2), otherwise torch's defaults
    batch_size: int
    tenacity: int  # checks without improvement that are allowed, over the whole training
    epoch_size: int  # passes between two checks
    max_epoch: int = 200  # training ends after more passes


# SimCSE's evaluation.
MODES = {
    "test": Settings(folds=10, optimiser="adam", batch_size=64, tenacity=5, epoch_size=4),
    "dev": Settings(folds=5, optimiser="rmsprop", batch_size=128, tenacity=3, epoch_size=2),
}


@dataclass(frozen=True)
class Fold:
    """A training part and the heads trained on it; folds of one `fit` have equally many heads."""

    train: np.ndarray  # row indices of the features, int64 (n,)
    dev: np.ndarray | None  # for early stopping; None holds out 5 % of `train`, as SentEval draws
    heads: tuple[tuple[float, float], ...]  # weight decay and dropout of each


@dataclass(frozen=True)
class Fitted:
    """The best state of each head of one fold: dev accuracy (0 to 1), passes trained, weights."""

    accuracies: list[float]
    passes: list[int]
    weights: list[list[Tensor]]

    def predict(self, head: int, features: Tensor) -> np.ndarray:
        """Labels, int64 (n,), that one head predicts for features (n, d); ties go to the lowest."""
        states = [weight.unsqueeze(0) for weight in self.weights[head]]
        with torch.inference_mode():
            logits, _ = _forward(states, _with_ones(features).unsqueeze(0), None)
            return logits.argmax(1)[0].cpu().numpy()


def _with_ones(features: Tensor) -> Tensor:
    """Append a column of ones, so that the bias is part of the weights (SentEval decays both)."""
    return torch.cat([features, features.new_ones(len(features), 1)], dim=1)


def initial_weights(width: int, classes: int, hidden: int = 0) -> list[Tensor]:
    """SentEval's initial weights, float32 on the CPU: a layer (classes, width + 1), its last column
    the bias, or with hidden units two, (hidden, width + 1) and (classes, hidden + 1)."""
    with torch.random.fork_rng(devices=[]):
        seed_torch(SEED)
        sizes = [width, hidden, classes] if hidden else [width, classes]
        layers = [nn.Linear(a, b) for a, b in pairwise(sizes)]
    return [torch.cat([one.weight, one.bias.unsqueeze(1)], dim=1).detach() for one in layers]


def _forward(
    weights: Sequence[Tensor], inputs: Tensor, masks: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """Logits (heads, classes, n), and hidden units (heads, hidden, n) or None.

    Args:
        weights: one layer (heads, classes, d + 1), or two with hidden units between. Heads are
            ordered by fold.
        inputs: (folds, n, d + 1).
        masks: dropout of the hidden units before the sigmoid, (heads, hidden, n).
    """
    heads, folds = len(weights[0]), len(inputs)
    by_fold = weights[0].reshape(folds, -1, inputs.shape[2])
    first = torch.bmm(by_fold, inputs.transpose(1, 2)).view(heads, -1, inputs.shape[1])
    if len(weights) == 1:
        return first, None
    units = torch.sigmoid(first if masks is None else first * masks)
    return torch.baddbmm(weights[1][:, :, -1:], weights[1][:, :, :-1], units), units


def _gradients(
    weights: Sequence[Tensor], inputs: Tensor, targets: Tensor, masks: Tensor | None
) -> list[Tensor]:
    """Gradients of each head's mean cross-entropy. Targets are one-hot, (folds, classes, n)."""
    logits, units = _forward(weights, inputs, masks)
    heads, classes, n = logits.shape
    folds = len(inputs)
    probabilities = torch.softmax(logits, dim=1).view(folds, -1, classes, n)
    errors = (probabilities - targets.unsqueeze(1)).div_(n).view(heads, classes, n)
    later = []
    if units is not None:
        parts = [torch.bmm(errors, units.transpose(1, 2)), errors.sum(2, keepdim=True)]
        later = [torch.cat(parts, dim=2)]
        slope = units * (1 - units) if masks is None else units * (1 - units) * masks
        errors = torch.bmm(weights[1][:, :, :-1].transpose(1, 2), errors) * slope
    return [torch.bmm(errors.view(folds, -1, n), inputs).view_as(weights[0]), *later]


class _Optimiser:
    """Adam or RMSProp as in torch, with L2 weight decay and one decay coefficient per head."""

    def __init__(self, name: str, weights: list[Tensor], decays: Tensor) -> None:
        self.name, self.decays, self.steps = name, decays.view(-1, 1, 1), 0
        self.squares = [torch.zeros_like(weight) for weight in weights]
        self.means = [torch.zeros_like(weight) for weight in weights] if name == "adam" else []

    def select(self, heads: Tensor) -> None:
        self.decays = self.decays[heads]
        self.squares = [square[heads] for square in self.squares]
        self.means = [mean[heads] for mean in self.means]

    def step(self, weights: list[Tensor], gradients: Sequence[Tensor]) -> None:
        self.steps += 1
        for i, (weight, plain) in enumerate(zip(weights, gradients, strict=True)):
            gradient = torch.addcmul(plain, weight, self.decays)
            if self.name == "adam":
                self.means[i].lerp_(gradient, 1 - 0.9)
                self.squares[i].mul_(0.999).addcmul_(gradient, gradient, value=1 - 0.999)
                scale = math.sqrt(1 - 0.999**self.steps)
                rate = 1e-3 / (1 - 0.9**self.steps)
                root = (self.squares[i].sqrt() / scale).add_(1e-8)
                weight.addcdiv_(self.means[i], root, value=-rate)
            else:
                self.squares[i].mul_(0.99).addcmul_(gradient, gradient, value=1 - 0.99)
                weight.addcdiv_(gradient, self.squares[i].sqrt().add_(1e-8), value=-1e-2)


def fit(
    features: Tensor,
    labels: Tensor,
    classes: int,
    folds: Sequence[Fold],
    settings: Settings,
    *,
    hidden: int = 0,
    advance: Callable[[int], object] = lambda heads: None,
) -> list[Fitted]:
    """Train all heads of all folds, on the device and in the dtype of `features`.

    Args:
        features: (n, d), shared by all folds.
        labels: int64 (n,), 0 to classes - 1.
        classes: number of labels.
        folds: training parts and heads.
        settings: optimiser, batch size and early stopping.
        hidden: units of a hidden layer with sigmoid and dropout; 0 for logistic regression.
        advance: called with the number of heads that were finished.
    """
    inputs = _with_ones(features)
    fitted: list[Fitted | None] = [None] * len(folds)
    cohorts: dict[tuple[int, bool], list[int]] = {}
    for place, fold in enumerate(folds):
        cohorts.setdefault((len(fold.train), fold.dev is None), []).append(place)
    for members in cohorts.values():
        for start in range(0, len(members), BLOCK):
            block = members[start : start + BLOCK]
            own = [folds[place] for place in block]
            cohort = _Cohort(inputs, labels, classes, own, settings, hidden)
            for member, result in cohort.train(advance):
                fitted[block[member]] = result
    return [result for result in fitted if result is not None]


class _Cohort:
    """Folds with training parts of equal length, which share one sequence of permutations."""

    def __init__(
        self,
        inputs: Tensor,
        labels: Tensor,
        classes: int,
        folds: Sequence[Fold],
        settings: Settings,
        hidden: int,
    ) -> None:
        self.inputs, self.settings, self.hidden = inputs, settings, hidden
        self.shuffle = np.random.RandomState(SEED)
        self.labels, self.classes, self.heads = labels, classes, len(folds[0].heads)
        rows = torch.from_numpy(np.stack([fold.train for fold in folds]))
        if folds[0].dev is None:
            order = self.shuffle.permutation(rows.shape[1])
            held_out = int(HELD_OUT * rows.shape[1])
            self.dev = list(rows[:, order[:held_out]])
            rows = rows[:, order[held_out:]]
        else:
            self.dev = [torch.from_numpy(fold.dev) for fold in folds]
        self.rows, self.dev = rows.to(inputs.device), [part.to(inputs.device) for part in self.dev]
        first = initial_weights(inputs.shape[1] - 1, classes, hidden)
        self.weights = [layer.to(inputs).repeat(len(folds) * self.heads, 1, 1) for layer in first]
        decays = torch.tensor([decay for fold in folds for decay, _ in fold.heads]).to(inputs)
        self.optimiser = _Optimiser(settings.optimiser, self.weights, decays)
        self.dropouts = [dropout for _, dropout in folds[0].heads]
        self.generators = [self._dropout_generator(classes) for _ in self.dropouts]

    def _dropout_generator(self, classes: int) -> torch.Generator:
        """SentEval's random generator after the initial weights were drawn."""
        with torch.random.fork_rng(devices=[]):
            seed_torch(SEED)
            if self.hidden:
                nn.Linear(self.inputs.shape[1] - 1, self.hidden), nn.Linear(self.hidden, classes)
            return torch.Generator().set_state(torch.get_rng_state())

    @torch.no_grad()
    def train(self, advance: Callable[[int], object]) -> Iterator[tuple[int, Fitted]]:
        """Yield (index of the fold in this cohort, its heads) as folds finish."""
        members = list(range(len(self.rows)))
        shape = (len(members), self.heads)
        best_correct, misses = torch.full(shape, -1), torch.zeros(shape, dtype=torch.long)
        running, trained = torch.ones(shape, dtype=torch.bool), torch.zeros(shape, dtype=torch.long)
        best = [weight.clone() for weight in self.weights]
        passes = 0
        while members:
            for _ in range(self.settings.epoch_size):
                self._pass()
            passes += self.settings.epoch_size
            trained[running] = passes
            correct = torch.stack([self._correct(place) for place in range(len(members))]).cpu()
            better = running & (correct > best_correct)
            improved = better.view(-1).nonzero().squeeze(1).to(self.rows.device)
            for best_weight, weight in zip(best, self.weights, strict=True):
                best_weight[improved] = weight[improved]
            best_correct = torch.where(better, correct, best_correct)
            missed = running & ~better
            running &= ~(missed & (misses >= self.settings.tenacity))
            misses += missed
            ended = ~running.any(1) | (passes > self.settings.max_epoch)
            if not ended.any():
                continue
            for place in ended.nonzero().squeeze(1).tolist():
                own = slice(place * self.heads, (place + 1) * self.heads)
                correct_of, size = best_correct[place].tolist(), len(self.dev[place])
                accuracies = [count / size for count in correct_of]
                layers = zip(*(weight[own].clone() for weight in best), strict=True)
                weights = [list(layer) for layer in layers]
                yield members[place], Fitted(accuracies, trained[place].tolist(), weights)
                advance(self.heads)
            staying = (~ended).nonzero().squeeze(1)
            members = [members[place] for place in staying.tolist()]
            best_correct, misses, running, trained = (
                state[staying] for state in (best_correct, misses, running, trained)
            )
            heads = (~ended).repeat_interleave(self.heads).nonzero().squeeze(1).to(self.rows.device)
            best = [weight[heads] for weight in best]
            self._select(staying, heads)

    def _select(self, folds: Tensor, heads: Tensor) -> None:
        """Drop finished folds and their heads."""
        self.dev = [self.dev[place] for place in folds.tolist()]
        self.rows = self.rows[folds.to(self.rows.device)]
        self.weights = [weight[heads] for weight in self.weights]
        self.optimiser.select(heads)

    def _pass(self) -> None:
        """One pass over the training rows in a new order. The last batch may be smaller."""
        order = torch.from_numpy(self.shuffle.permutation(self.rows.shape[1])).to(self.rows.device)
        for places in order.split(self.settings.batch_size):
            rows = self.rows[:, places]
            inputs = self.inputs.index_select(0, rows.view(-1)).view(*rows.shape, -1)
            targets = inputs.new_zeros(*rows.shape, self.classes)
            targets = targets.scatter_(2, self.labels[rows].unsqueeze(2), 1).transpose(1, 2)
            masks = self._masks(len(places), len(rows)) if self.hidden else None
            self.optimiser.step(self.weights, _gradients(self.weights, inputs, targets, masks))

    def _masks(self, count: int, folds: int) -> Tensor:
        """Scaled dropout masks, (folds x heads, hidden, count); all folds share one draw."""
        masks = [self.inputs.new_ones(count, self.hidden) for _ in self.dropouts]
        for mask, dropout, generator in zip(masks, self.dropouts, self.generators, strict=True):
            if dropout:
                drawn = torch.empty(count, self.hidden).bernoulli_(1 - dropout, generator=generator)
                mask.copy_(drawn).div_(1 - dropout)
        return torch.stack(masks).transpose(1, 2).repeat(folds, 1, 1)

    def _correct(self, place: int) -> Tensor:
        """Number of dev samples of one fold that each of its heads classifies correctly."""
        own = slice(place * self.heads, (place + 1) * self.heads)
        rows = self.dev[place]
        weights = [weight[own] for weight in self.weights]
        logits, _ = _forward(weights, self.inputs[rows].unsqueeze(0), None)
        return (logits.argmax(1) == self.labels[rows]).sum(1)
