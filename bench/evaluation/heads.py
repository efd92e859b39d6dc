"""The arithmetic of many classifiers at once: layers, gradients, dropout and optimisers.

Heads are a batch dimension, ordered by fold. Layers include the bias as their last column. Smaller
layers are padded with units and labels that are exactly 0 (`ABSENT`).
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.optim.adam import adam
from torch.optim.rmsprop import rmsprop

from methods.base import seed_torch

SEED = 1111  # SentEval's, for weights, permutations, dropout and folds
# The bias of padding. Its sigmoid and its share of a softmax are exactly 0, and so are its
# gradients. Weight decay moves it by about the learning rate a step, which is at most 1,600 in 200
# passes over 100,000 rows.
ABSENT = -1e4


class Head(NamedTuple):
    """A classifier: logistic regression, or a network with sigmoid units and their dropout."""

    decay: float  # weight decay
    hidden: int = 0  # units of the hidden layer; 0 for logistic regression
    dropout: float = 0.0


def with_ones(features: Tensor) -> Tensor:
    """Append a column of ones, so that the bias is part of the weights (SentEval decays both)."""
    return torch.cat([features, features.new_ones(len(features), 1)], dim=1)


def initial(width: int, classes: int, hidden: int = 0) -> tuple[list[Tensor], torch.Generator]:
    """SentEval's initial weights, a layer (classes, width + 1), or with hidden units two, (hidden,
    width + 1) and (classes, hidden + 1), and its random generator after them."""
    with torch.random.fork_rng(devices=[]):
        seed_torch(SEED)
        sizes = [width, hidden, classes] if hidden else [width, classes]
        layers = [nn.Linear(a, b) for a, b in pairwise(sizes)]
        generator = torch.Generator().set_state(torch.get_rng_state())
    weights = [
        torch.cat([layer.weight, layer.bias.unsqueeze(1)], dim=1).detach() for layer in layers
    ]
    return weights, generator


def pad(weights: Sequence[Tensor], classes: int, hidden: int) -> list[Tensor]:
    """Layers as of `initial`, with absent units and labels up to the given numbers."""
    first, *rest = weights
    layers = [first.new_zeros(hidden or classes, first.shape[1])]
    layers += [layer.new_zeros(classes, hidden + 1) for layer in rest]
    for layer in layers:
        layer[:, -1] = ABSENT
    layers[0][: len(first)] = first
    for layer in rest:
        layers[1][: len(layer), : layer.shape[1] - 1] = layer[:, :-1]
        layers[1][: len(layer), -1] = layer[:, -1]
    return layers


def unpad(weights: Sequence[Tensor], classes: int, hidden: int) -> list[Tensor]:
    """Undo `pad`; the layers are copies."""
    first, *rest = weights
    layers = [first[: hidden or classes].clone()]
    return layers + [
        torch.cat([layer[:classes, :hidden], layer[:classes, -1:]], 1) for layer in rest
    ]


def forward(
    weights: Sequence[Tensor], inputs: Tensor, masks: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """Logits (heads, classes, n), and hidden units (heads, hidden, n) or None, of inputs
    (folds, n, d + 1) and dropout masks (folds or 1, heads of a fold, hidden, n)."""
    heads, folds = len(weights[0]), len(inputs)
    by_fold = weights[0].reshape(folds, -1, inputs.shape[2])
    first = torch.bmm(by_fold, inputs.transpose(1, 2)).view(heads, -1, inputs.shape[1])
    if len(weights) == 1:
        return first, None
    units = torch.sigmoid(first if masks is None else _masked(first, masks))
    return torch.baddbmm(weights[1][:, :, -1:], weights[1][:, :, :-1], units), units


def _masked(units: Tensor, masks: Tensor) -> Tensor:
    return (units.view(-1, *masks.shape[1:]) * masks).view_as(units)


def gradients(
    weights: Sequence[Tensor], inputs: Tensor, targets: Tensor, masks: Tensor | None
) -> list[Tensor]:
    """Gradients of each head's mean cross-entropy. Targets are one-hot, (folds, classes, n)."""
    logits, units = forward(weights, inputs, masks)
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


class Dropout:
    """Scaled masks of the hidden units of each head. On a processor they are SentEval's: drawn in
    the shape of each network, by the generator that drew its weights."""

    def __init__(
        self, like: Tensor, heads: Sequence[Head], generators: dict[int, list[torch.Generator]]
    ) -> None:
        """Take device and dtype of `like`, and by number of labels a generator for each head."""
        self.like, self.heads, self.generators = like, heads, generators
        self.hidden = max(head.hidden for head in heads)
        rates = torch.zeros(len(heads), self.hidden, 1)  # absent units are always kept
        for rate, head in zip(rates, heads, strict=True):
            rate[: head.hidden] = head.dropout
        self.rates, self.keep = rates.to(like), (1 - rates).to(like)
        self.on_device = torch.Generator(like.device).manual_seed(SEED)

    def masks(self, count: int, classes: Sequence[int]) -> Tensor:
        """Masks of `count` samples, (folds or 1, heads of a fold, hidden, count). Folds with the
        same number of labels (`classes`, of each) share one draw, on a GPU all folds."""
        if self.like.is_cuda:
            shape, device = (1, len(self.heads), self.hidden, count), self.like.device
            drawn = torch.rand(shape, generator=self.on_device, device=device)
            return (drawn >= self.rates) / self.keep
        draws = {labels: self._draw(count, labels) for labels in dict.fromkeys(classes)}
        if len(draws) == 1:
            return draws[classes[0]].unsqueeze(0)
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
        self, name: str, weights: Sequence[Tensor], decays: Tensor, *, fused: bool = False
    ) -> None:
        """`fused` takes torch's fused Adam, a single launch on a GPU; it rounds differently."""
        self.name, self.decays, self.fused = name, decays.view(-1, 1, 1), fused
        self.squares = [torch.zeros_like(weight) for weight in weights]
        self.means = [torch.zeros_like(weight) for weight in weights] if name == "adam" else []
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
