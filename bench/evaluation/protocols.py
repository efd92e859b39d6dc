"""SentEval's three protocols (docs/reference/protocol.md#protocols): which splits train, select and
test."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import torch
from torch import Tensor

from bench.evaluation.classifier import ClassifierHead, Fitted, Fold, Settings, fit

# The grid of SentEval's logistic regression (validation.py).
DECAYS = tuple(10**power for power in range(-5, -1))
GRID = tuple(ClassifierHead(decay) for decay in DECAYS)  # for every task
# Probing, as SentEval recommends: a network with sigmoid, tuned on dev, at SentEval's default
# weight decay.
HIDDEN, DROPOUTS, NO_DECAY = (50, 100, 200), (0.0, 0.1, 0.2), 1e-9
NETWORKS = tuple(
    ClassifierHead(NO_DECAY, hidden, dropout) for hidden in HIDDEN for dropout in DROPOUTS
)


@dataclass(frozen=True)
class ProtocolResult:
    """Accuracies in points with two decimals, and predicted labels of the test samples, (n,)."""

    dev: float
    test: float
    predicted: np.ndarray


@dataclass(frozen=True)
class SplitPart:
    """Features (n, d) and labels, int64 (n,), on one device."""

    features: Tensor
    labels: Tensor


# The fixed splits of a task, "train", "dev" and "test", and its number of labels.
Split = tuple[dict[str, SplitPart], int]


def nested(data: SplitPart, classes: int, settings: Settings) -> ProtocolResult:
    """Nested k-fold cross-validation: the weight decay is selected inside each outer training
    split."""
    labels = data.labels.cpu().numpy()
    outer = _folds(labels, settings)
    scores, heads = _cross_validated(data, [train for train, _ in outer], classes, settings)
    tests, predicted = [], np.empty_like(labels)
    for (_, test), head in zip(outer, heads, strict=True):
        rows = torch.from_numpy(test).to(data.features.device)
        predicted[test] = head.predict(data.features[rows])
        tests.append(_accuracy(predicted[test], labels[test]))
    # SentEval rounds means with numpy, single accuracies with Python.
    dev_score, test_score = np.round(np.mean(scores), 2), np.round(np.mean(tests), 2)
    return ProtocolResult(float(dev_score), float(test_score), predicted)


def kfold(train: SplitPart, test: SplitPart, classes: int, settings: Settings) -> ProtocolResult:
    """Select the weight decay by k-fold cross-validation on the training split."""
    rows = np.arange(len(train.labels))
    (score,), (head,) = _cross_validated(train, [rows], classes, settings)
    return _tested(score, head, test)


def _cross_validated(
    data: SplitPart, parts: Sequence[np.ndarray], classes: int, settings: Settings
) -> tuple[list[float], list[Fitted]]:
    """For each part of the rows: the accuracy, in points, of the head of `GRID` that is best in
    k-fold cross-validation, the first of equals; and this head trained on all rows of the part."""
    labels, folds = data.labels.cpu().numpy(), []
    for rows in parts:
        for train, dev in _folds(labels[rows], settings):
            folds.append(Fold(rows[train], rows[dev], GRID, classes))
    # One call for all parts: more folds share a loop.
    fitted = iter(fit(data.features, data.labels, folds, settings))
    scores, winners = [], []
    for rows in parts:
        means = _means(list(islice(fitted, settings.folds)))
        scores.append(max(means))
        winners.append(Fold(rows, None, (GRID[int(np.argmax(means))],), classes))
    return scores, [head for (head,) in fit(data.features, data.labels, winners, settings)]


def best_on_dev(
    tasks: Sequence[Split], grids: Sequence[tuple[ClassifierHead, ...]], settings: Settings
) -> list[list[ProtocolResult]]:
    """The result of the head that is best on dev, by task and grid
    (docs/reference/protocol.md#probing).

    SentEval retrains the best, which gives the same classifier. The tasks have equally many
    training samples.
    """
    features, labels, folds, end = [], [], [], 0
    for parts, classes in tasks:
        start, middle = end, end + len(parts["train"].labels)
        end = middle + len(parts["dev"].labels)
        for part in (parts["train"], parts["dev"]):
            features.append(part.features)
            labels.append(part.labels)
        for grid in grids:
            folds.append(Fold(np.arange(start, middle), np.arange(middle, end), grid, classes))
    fits = iter(fit(torch.cat(features), torch.cat(labels), folds, settings))
    return [[_selected(next(fits), parts["test"]) for _ in grids] for parts, _ in tasks]


def _selected(heads: Sequence[Fitted], test: SplitPart) -> ProtocolResult:
    """The result of the head with the best dev accuracy, the first of equals."""
    scores = [round(100 * head.accuracy, 2) for head in heads]
    return _tested(max(scores), heads[int(np.argmax(scores))], test)


def _tested(dev: float, head: Fitted, test: SplitPart) -> ProtocolResult:
    predicted = head.predict(test.features)
    return ProtocolResult(dev, _accuracy(predicted, test.labels.cpu().numpy()), predicted)


def _folds(labels: np.ndarray, settings: Settings) -> list[tuple[np.ndarray, np.ndarray]]:
    from sklearn.model_selection import StratifiedKFold  # needs a second, and only some tasks it

    splitter = StratifiedKFold(settings.folds, shuffle=True, random_state=settings.seed)
    return list(splitter.split(np.zeros((len(labels), 1)), labels))


def _means(fitted: Sequence[Sequence[Fitted]]) -> list[float]:
    """Accuracy of each head in points, averaged over folds and rounded."""
    means = []
    for heads in zip(*fitted, strict=True):
        accuracies = [head.accuracy for head in heads]
        means.append(float(np.round(100 * np.mean(accuracies), 2)))
    return means


def _accuracy(predicted: np.ndarray, labels: np.ndarray) -> float:
    return round(100 * float(np.mean(predicted == labels)), 2)
