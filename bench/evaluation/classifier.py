"""SentEval's classifiers (docs/reference/protocol.md#classifier), many of them trained at once.

SentEval trains its classifiers one after another, all from the same weights and shuffled with the
same seed. Those whose training splits have equal length therefore see the same sequence of row
indices. Here they take every step together, as a batch dimension. In float64 the accuracies equal
the accuracies of the one-by-one loop; in float32 they differ by rounding.

A GPU is kept busy by few large operations, so there heads of unlike shapes share a loop too, padded
with units that are exactly 0. A processor is kept busy by several loops, each on other threads.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim.adam import adam
from torch.optim.rmsprop import rmsprop

from bench.datasets.metrics import CLASSIFIER_SEED
from bench.models.side_by_side import side_by_side
from bench.utils.errors import UserError, did_you_mean
from methods.base import seeded

# The bias of padding. Its sigmoid and its share of a softmax are exactly 0, and so are its
# gradients. Weight decay moves it by about the learning rate a step, which is at most 1,600 in 200
# passes over 100,000 rows.
ABSENT = -1e4


class ClassifierHead(NamedTuple):
    """A classifier: logistic regression, or a network with sigmoid units and their dropout."""

    decay: float  # weight decay
    hidden: int = 0  # units of the hidden layer; 0 for logistic regression
    dropout: float = 0.0


def with_ones(features: Tensor) -> Tensor:
    """Append a column of ones, so that the bias is part of the weights (SentEval decays both)."""
    return nn.functional.pad(features, (0, 1), value=1.0)


def _shapes(width: int, classes: int, hidden: int) -> list[tuple[int, int]]:
    """Inputs and units of each layer of a classifier of features (n, width)."""
    return [(width, hidden), (hidden, classes)] if hidden else [(width, classes)]


def _initial(shapes: Sequence[tuple[int, int]], seed: int) -> tuple[list[Tensor], torch.Generator]:
    """SentEval's initial weights of layers, (units, inputs + 1), and its random generator after
    them."""
    with seeded(seed):
        layers = [nn.Linear(*shape) for shape in shapes]
        generator = torch.Generator().set_state(torch.get_rng_state())
    weights = [torch.column_stack([layer.weight, layer.bias]).detach() for layer in layers]
    return weights, generator


def _forward(
    weights: Sequence[Tensor], inputs: Tensor, masks: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """Compute logits (heads, classes, n), and hidden units (heads, hidden, n) or None, from inputs
    (folds, n, d + 1) and dropout masks (folds or 1, heads of a fold, hidden, n)."""
    heads, folds = len(weights[0]), len(inputs)
    by_fold = weights[0].reshape(folds, -1, inputs.shape[2])
    sums = torch.bmm(by_fold, inputs.transpose(1, 2)).view(heads, -1, inputs.shape[1])
    if len(weights) == 1:
        return sums, None
    # SentEval has the dropout before the sigmoid.
    units = torch.sigmoid(sums if masks is None else _masked(sums, masks))
    return torch.baddbmm(weights[1][:, :, -1:], weights[1][:, :, :-1], units), units


def _masked(units: Tensor, masks: Tensor) -> Tensor:
    return (units.view(-1, *masks.shape[1:]) * masks).view_as(units)


def gradients(
    weights: Sequence[Tensor], inputs: Tensor, targets: Tensor, masks: Tensor | None
) -> list[Tensor]:
    """Gradients of each head's mean cross-entropy. Targets are one-hot, (folds, classes, n)."""
    logits, units = _forward(weights, inputs, masks)
    heads, classes, n = logits.shape
    folds = len(inputs)
    probabilities = torch.softmax(logits, dim=1).view(folds, -1, classes, n)
    errors = probabilities.sub_(targets.unsqueeze(1)).div_(n).view(heads, classes, n)
    later = []
    if units is not None:
        parts = [torch.bmm(errors, units.transpose(1, 2)), errors.sum(2, keepdim=True)]
        later = [torch.cat(parts, dim=2)]
        slope = (1 - units).mul_(units)
        slope = slope if masks is None else _masked(slope, masks)
        errors = torch.bmm(weights[1][:, :, :-1].transpose(1, 2), errors).mul_(slope)
    return [torch.bmm(errors.view(folds, -1, n), inputs).view_as(weights[0]), *later]


class _Dropout:
    """Scaled masks of the hidden units of each head. On a processor they are SentEval's: drawn in
    the shape of each network, by the generator that drew its weights."""

    def __init__(
        self,
        like: Tensor,
        heads: Sequence[ClassifierHead],
        generators: dict[int, list[torch.Generator]],
        seed: int,
    ) -> None:
        """Take device and dtype of `like`, and by number of labels a generator for each head."""
        self.like, self.heads, self.generators = like, heads, generators
        self.hidden = max(head.hidden for head in heads)
        rates = torch.zeros(len(heads), self.hidden, 1)  # absent units are always kept
        for rate, head in zip(rates, heads, strict=True):
            rate[: head.hidden] = head.dropout
        self.rates, self.keep = rates.to(like), (1 - rates).to(like)
        self.on_device = torch.Generator(like.device).manual_seed(seed)

    def masks(self, count: int, classes: Sequence[int]) -> Tensor:
        """Masks of `count` samples, (folds or 1, heads of a fold, hidden, count). Folds with the
        same number of labels (`classes`, of each) share one draw, on a GPU all folds."""
        if self.like.is_cuda:
            shape, device = (1, len(self.heads), self.hidden, count), self.like.device
            drawn = torch.rand(shape, generator=self.on_device, device=device)
            return (drawn >= self.rates) / self.keep
        draws = {labels: self._draw(count, labels) for labels in dict.fromkeys(classes)}
        return torch.stack([draws[labels] for labels in classes])

    def _draw(self, count: int, classes: int) -> Tensor:
        masks = self.like.new_ones(len(self.heads), self.hidden, count)
        for mask, head, generator in zip(masks, self.heads, self.generators[classes], strict=True):
            if head.dropout:
                drawn = torch.empty(count, head.hidden)
                drawn.bernoulli_(1 - head.dropout, generator=generator)
                mask[: head.hidden].copy_(drawn.T).div_(1 - head.dropout)
        return masks


class Optimiser:
    """Adam or RMSProp as in torch, with L2 weight decay and one decay coefficient per head."""

    def __init__(
        self, name: str, weights: Sequence[Tensor], decays: Tensor, *, fused: bool
    ) -> None:
        """`fused` takes torch's fused Adam, a single launch on a GPU; it rounds differently."""
        self.name, self.decays, self.fused = name, decays.view(-1, 1, 1), fused
        self.squares = [torch.zeros_like(weight) for weight in weights]
        self.means = [torch.zeros_like(weight) for weight in weights]  # of Adam
        self.steps = [torch.zeros((), device=decays.device if fused else "cpu") for _ in weights]

    def select(self, heads: Tensor) -> None:
        self.decays = self.decays[heads]
        self.squares = [square[heads] for square in self.squares]
        self.means = [mean[heads] for mean in self.means]

    def step(self, weights: list[Tensor], gradients: list[Tensor]) -> None:
        """Update the weights; the gradients are overwritten."""
        for weight, gradient in zip(weights, gradients, strict=True):
            gradient.addcmul_(weight, self.decays)
        if self.name == "adam":
            adam(
                weights, gradients, self.means, self.squares, [], self.steps,
                foreach=False, fused=self.fused, amsgrad=False, maximize=False,
                lr=1e-3, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.0,
            )  # fmt: skip
        else:
            rmsprop(
                weights, gradients, self.squares, [], [], self.steps,
                foreach=False, centered=False,
                lr=1e-2, alpha=0.99, eps=1e-8, weight_decay=0.0, momentum=0.0,
            )  # fmt: skip


# Share of the training split that stops a training early if a task has no dev split: SentEval's.
HELD_OUT = 0.05
# Folds trained at once: hides what a call costs, and on a processor stays in its cache. Another
# number rounds the weights at the end of a block differently.
BLOCK = {"cpu": 32, "cuda": 128}
PADDED_CLASSES = 32  # tasks of more classes (WordContent: 1,000) would pad all others too far


@dataclass(frozen=True)
class Settings:
    """How classifiers are trained (docs/reference/protocol.md#classifier)."""

    folds: int
    optimiser: str  # "adam" (learning rate 1e-3) or "rmsprop" (1e-2), otherwise torch's defaults
    batch_size: int
    tenacity: int  # checks without improvement that are allowed, over the whole training
    epoch_size: int  # passes between two checks
    max_epoch: int = 200  # training ends after more passes
    seed: int = CLASSIFIER_SEED


# SimCSE's evaluation.
MODES = {
    "test": Settings(folds=10, optimiser="adam", batch_size=64, tenacity=5, epoch_size=4),
    "dev": Settings(folds=5, optimiser="rmsprop", batch_size=128, tenacity=3, epoch_size=2),
}


def check_mode(mode: str) -> None:
    """Refuse a mode that is not one of `MODES`."""
    if mode not in MODES:
        raise UserError(f"unknown mode '{mode}'{did_you_mean(mode, MODES)}")


@dataclass(frozen=True)
class Fold:
    """A training split and the heads that are trained on it."""

    train: np.ndarray  # row indices of the features, int64 (n,)
    dev: np.ndarray | None  # for early stopping; None holds out 5 % of `train`, as SentEval draws
    heads: tuple[ClassifierHead, ...]
    classes: int  # number of labels, which are 0 to classes - 1


@dataclass(frozen=True)
class Fitted:
    """The best state of one head: dev accuracy (0 to 1), weights."""

    accuracy: float
    weights: list[Tensor]

    def predict(self, features: Tensor) -> np.ndarray:
        """Labels, int64 (n,), for features (n, d); ties go to the lowest."""
        layers = [layer.unsqueeze(0) for layer in self.weights]
        logits, _ = _forward(layers, with_ones(features).unsqueeze(0), None)
        return logits.argmax(1)[0].cpu().numpy()


def fit(
    features: Tensor,
    labels: Tensor,
    folds: Sequence[Fold],
    settings: Settings,
    *,
    padded: bool = False,
) -> list[list[Fitted]]:
    """Train all heads of all folds, on the device and in the dtype of `features`, (n, d); labels
    are int64 (n,). Heads of unlike shapes share a loop if `padded`, and on a GPU."""
    inputs, on_gpu = with_ones(features), features.is_cuda
    block, cohorts = BLOCK[features.device.type], []
    for group in _groups(folds, padded or on_gpu):
        for start in range(0, len(group), block):
            cohorts.append(_Cohort(inputs, labels, group[start : start + block], settings))
    results: list[list[Any]] = [[None] * len(fold.heads) for fold in folds]

    def train(cohort: _Cohort, is_stopped: Callable[[], bool]) -> None:
        for part, fitted in cohort.train(is_stopped):
            for index, head in zip(part.heads, fitted, strict=True):
                results[part.place][index] = head

    # A loop has one thread, even alone: its operations are too small to be divided. The longest
    # begin first, so that none runs alone last.
    cohorts.sort(key=lambda cohort: -cohort.size)
    side_by_side(train, cohorts, 1 if on_gpu else len(cohorts), share=None if on_gpu else 1)
    return results


class _Part(NamedTuple):
    """Some heads of a fold: the place of the fold, the places of the heads in it, and the fold with
    only these heads."""

    place: int
    heads: Sequence[int]
    fold: Fold


def _groups(folds: Sequence[Fold], padded: bool) -> list[list[_Part]]:
    """Group the heads that may share a loop: their training splits have equal lengths, and the
    folds have equally many heads, of layers of one shape or `padded` to it."""
    groups: dict[tuple[object, ...], list[_Part]] = defaultdict(list)
    for place, fold in enumerate(folds):
        # 0 where a loop may hold folds of different numbers of labels.
        labels = fold.classes
        if padded and labels <= PADDED_CLASSES:
            labels = 0
        by_layers: dict[int, list[tuple[int, ClassifierHead]]] = defaultdict(list)
        for member in enumerate(fold.heads):
            hidden = member[1].hidden
            by_layers[min(hidden, 1) if padded else hidden].append(member)
        for members in by_layers.values():
            indices, heads = zip(*members, strict=True)
            shapes = tuple((head.hidden, head.dropout) for head in heads)
            part = _Part(place, indices, replace(fold, heads=heads))
            groups[len(fold.train), fold.dev is None, labels, shapes].append(part)
    return list(groups.values())


class _Cohort:
    """Folds with training splits of equal length, which share one sequence of permutations."""

    def __init__(
        self, inputs: Tensor, labels: Tensor, parts: Sequence[_Part], settings: Settings
    ) -> None:
        self.inputs, self.labels, self.settings = inputs, labels, settings
        self.parts, folds = list(parts), [part.fold for part in parts]
        self.heads = folds[0].heads  # of every fold, but for the decay
        self.shuffle = np.random.RandomState(settings.seed)
        rows = torch.from_numpy(np.stack([fold.train for fold in folds], axis=1)).to(inputs.device)
        if folds[0].dev is None:
            order = self.shuffle.permutation(len(rows))
            held_out = int(HELD_OUT * len(rows))
            self.dev = list(rows[order[:held_out]].T)
            rows = rows[order[held_out:]]
        else:
            self.dev = [torch.from_numpy(fold.dev).to(inputs.device) for fold in folds]
        self.rows = rows
        self.width = inputs.shape[1] - 1
        self.one_hot = torch.eye(max(fold.classes for fold in folds)).to(inputs)
        self._draw(folds)
        decays = torch.tensor([head.decay for fold in folds for head in fold.heads]).to(inputs)
        fused = inputs.is_cuda and settings.optimiser == "adam"
        self.optimiser = Optimiser(settings.optimiser, self.weights, decays, fused=fused)
        self.size = sum(layer.numel() for layer in self.weights)

    def _draw(self, folds: Sequence[Fold]) -> None:
        """Draw the initial weights; SentEval's dropout masks follow in the same generator."""
        hidden = max(head.hidden for head in self.heads)
        self.weights = []
        for inputs, units in _shapes(self.width, len(self.one_hot), hidden):
            layer = self.inputs.new_zeros(len(folds), len(self.heads), units, inputs + 1)
            layer[..., -1] = ABSENT
            self.weights.append(layer.flatten(0, 1))
        generators: dict[int, list[torch.Generator]] = {}
        place, seed = 0, self.settings.seed
        for fold in folds:
            generators[fold.classes] = []
            for head in self.heads:
                shapes = _shapes(self.width, fold.classes, head.hidden)
                drawn, generator = _initial(shapes, seed)
                generators[fold.classes].append(generator)
                # The bias is the last column, behind inputs that a smaller layer lacks.
                for layer, weights in zip(self.weights, drawn, strict=True):
                    units, inputs = weights.shape
                    layer[place, :units, : inputs - 1] = weights[:, :-1]
                    layer[place, :units, -1] = weights[:, -1]
                place += 1
        self.dropout = _Dropout(self.inputs, self.heads, generators, seed) if hidden else None

    def train(self, is_stopped: Callable[[], bool]) -> Iterator[tuple[_Part, list[Fitted]]]:
        """Yield the heads of each fold as it finishes; end early once `is_stopped`."""
        heads = len(self.heads)
        shape = (len(self.parts), heads)
        best_correct, misses = torch.full(shape, -1), torch.zeros(shape, dtype=torch.long)
        running = torch.ones(shape, dtype=torch.bool)
        best = [weight.clone() for weight in self.weights]
        passes = 0
        while self.parts:
            for _ in range(self.settings.epoch_size):
                if is_stopped():  # an error or an interrupt ends the other loops, too
                    return
                self._pass()
            passes += self.settings.epoch_size
            correct = torch.stack([self._correct(place) for place in range(len(self.parts))]).cpu()
            # Of equal checks the earliest counts, as in SentEval.
            better = running & (correct > best_correct)
            improved = better.view(-1).nonzero().squeeze(1).to(self.rows.device)
            for best_weight, weight in zip(best, self.weights, strict=True):
                best_weight[improved] = weight[improved]
            best_correct = torch.where(better, correct, best_correct)
            missed = running & ~better
            # Misses add up over the whole training: SentEval never sets them back.
            running &= ~(missed & (misses >= self.settings.tenacity))
            misses += missed
            ended = ~running.any(1) | (passes > self.settings.max_epoch)
            if not ended.any():
                continue
            for place in ended.nonzero().squeeze(1).tolist():
                yield self.parts[place], self._fitted(place, best_correct[place].tolist(), best)
            staying = (~ended).nonzero().squeeze(1)
            best_correct, misses, running = (
                state[staying] for state in (best_correct, misses, running)
            )
            # Only the heads of the folds that go on: the tensors shrink with each end.
            kept = (~ended).repeat_interleave(heads).nonzero().squeeze(1).to(self.rows.device)
            best = [weight[kept] for weight in best]
            self._select(staying, kept)

    def _fitted(self, place: int, correct: list[int], best: Sequence[Tensor]) -> list[Fitted]:
        """The best states of one fold's heads."""
        classes, fitted = self.parts[place].fold.classes, []
        for i, head in enumerate(self.heads):
            shapes, weights = _shapes(self.width, classes, head.hidden), []
            for layer, (inputs, units) in zip(best, shapes, strict=True):
                rows = layer[place * len(self.heads) + i, :units]
                weights.append(torch.cat([rows[:, :inputs], rows[:, -1:]], dim=1))
            fitted.append(Fitted(correct[i] / len(self.dev[place]), weights))
        return fitted

    def _select(self, folds: Tensor, heads: Tensor) -> None:
        """Drop finished folds and their heads."""
        self.parts = [self.parts[place] for place in folds.tolist()]
        self.dev = [self.dev[place] for place in folds.tolist()]
        self.rows = self.rows[:, folds.to(self.rows.device)]
        self.weights = [weight[heads] for weight in self.weights]
        self.optimiser.select(heads)

    def _pass(self) -> None:
        """One pass over the training rows in a new order. The last batch may be smaller."""
        order = torch.from_numpy(self.shuffle.permutation(len(self.rows))).to(self.rows.device)
        rows = self.rows.index_select(0, order)
        labels, size = self.labels[rows], self.settings.batch_size
        classes = [part.fold.classes for part in self.parts]
        for places, answers in zip(rows.split(size), labels.split(size), strict=True):
            inputs = self.inputs.index_select(0, places.view(-1)).view(*places.shape, -1)
            targets = self.one_hot.index_select(0, answers.view(-1)).view(*answers.shape, -1)
            masks = self.dropout.masks(len(places), classes) if self.dropout else None
            batch = inputs.transpose(0, 1), targets.permute(1, 2, 0), masks
            self.optimiser.step(self.weights, gradients(self.weights, *batch))

    def _correct(self, place: int) -> Tensor:
        """Number of dev samples of one fold that each of its heads classifies correctly."""
        heads = slice(place * len(self.heads), (place + 1) * len(self.heads))
        rows = self.dev[place]
        weights = [weight[heads] for weight in self.weights]
        logits, _ = _forward(weights, self.inputs[rows].unsqueeze(0), None)
        return (logits.argmax(1) == self.labels[rows]).sum(1)
