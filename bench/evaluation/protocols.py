"""SentEval's three evaluation protocols (docs/methods.md#protocols): which parts train, select and
test its classifiers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from sklearn.model_selection import StratifiedKFold
from torch import Tensor

from bench.datasets.labelled import KFOLD, NESTED
from bench.evaluation.classifier import HELD_OUT, SEED, Fold, Settings, fit
from bench.utils.errors import UserError

DECAYS = tuple(10**power for power in range(-5, -1))  # grid of weight decays, for every task
# Probing, as SentEval recommends: a network with sigmoid, tuned on dev, at SentEval's default
# weight decay.
HIDDEN, DROPOUTS, NO_DECAY = (50, 100, 200), (0.0, 0.1, 0.2), 1e-9

Advance = Callable[[int], object]


@dataclass(frozen=True)
class Result:
    """Accuracies in points with two decimals; predicted labels of a fixed test part, int64 (n,)."""

    dev: float
    test: float
    predicted: np.ndarray | None = None


@dataclass(frozen=True)
class Part:
    """Features (n, d) and labels, int64 (n,), on one device."""

    features: Tensor
    labels: Tensor


def heads(protocol: str, settings: Settings) -> int:
    """Number of classifiers that a protocol of `bench.datasets.labelled` trains, without
    networks."""
    k, grid = settings.folds, len(DECAYS)
    return k * (grid * k + 1) if protocol == NESTED else grid * k + 1 if protocol == KFOLD else grid


def nested(data: Part, classes: int, settings: Settings, advance: Advance) -> Result:
    """Nested k-fold cross-validation: the weight decay is selected inside each outer training part.

    Args:
        data: all samples.
        classes: number of labels.
        settings: of the classifiers.
        advance: called with the number of classifiers that were finished, here and below.

    Raises:
        UserError: a label has too few samples for the folds, or no sample can be held out.
    """
    labels = data.labels.cpu().numpy()
    outer = list(_folds(labels, settings.folds))
    inner = [
        Fold(train[inner_train], train[inner_dev], _plain(DECAYS))
        for train, _ in outer
        for inner_train, inner_dev in _folds(labels[train], settings.folds)
    ]
    data_of = (data.features, data.labels, classes)
    accuracies = [fitted.accuracies for fitted in fit(*data_of, inner, settings, advance=advance)]
    starts = range(0, len(accuracies), settings.folds)
    scores = [_means(accuracies[start : start + settings.folds]) for start in starts]
    refit = [_without_dev(train, score) for (train, _), score in zip(outer, scores, strict=True)]
    tests = []
    fits = fit(*data_of, refit, settings, advance=advance)
    for (_, test), fitted in zip(outer, fits, strict=True):
        rows = torch.from_numpy(test).to(data.features.device)
        tests.append(_accuracy(fitted.predict(0, data.features[rows]), labels[test]))
    return Result(_mean([max(score) for score in scores]), _mean(tests))


def kfold(train: Part, test: Part, classes: int, settings: Settings, advance: Advance) -> Result:
    """Select the weight decay by k-fold cross-validation on the training part, then train on all of
    it.

    Raises:
        UserError: as in `nested`.
    """
    labels = train.labels.cpu().numpy()
    folds = [Fold(rows, dev, _plain(DECAYS)) for rows, dev in _folds(labels, settings.folds)]
    data_of = (train.features, train.labels, classes)
    fitted_folds = fit(*data_of, folds, settings, advance=advance)
    scores = _means([fitted.accuracies for fitted in fitted_folds])
    last = _without_dev(np.arange(len(labels)), scores)
    fitted = fit(*data_of, [last], settings, advance=advance)[0]
    predicted = fitted.predict(0, test.features)
    return Result(max(scores), _accuracy(predicted, test.labels.cpu().numpy()), predicted)


def split(parts: Mapping[str, Part], classes: int, settings: Settings, advance: Advance) -> Result:
    """Fixed parts ("train", "dev", "test"): select the weight decay on dev.

    SentEval retrains the best, which gives the same classifier.
    """
    return _best_on_dev(parts, classes, settings, [(0, _plain(DECAYS))], advance)


def tuned_network(
    parts: Mapping[str, Part], classes: int, settings: Settings, advance: Advance
) -> Result:
    """Fixed parts: a network with one hidden layer, its size and dropout selected on dev
    (docs/methods.md#probing)."""
    grid = [(hidden, tuple((NO_DECAY, dropout) for dropout in DROPOUTS)) for hidden in HIDDEN]
    return _best_on_dev(parts, classes, settings, grid, advance)


def _best_on_dev(
    parts: Mapping[str, Part],
    classes: int,
    settings: Settings,
    grid: Sequence[tuple[int, tuple[tuple[float, float], ...]]],
    advance: Advance,
) -> Result:
    train, dev, test = (parts[name] for name in ("train", "dev", "test"))
    features = torch.cat([train.features, dev.features])
    labels = torch.cat([train.labels, dev.labels])
    rows = np.arange(len(labels))
    scores, fitted = [], []
    for hidden, heads_of in grid:
        fold = Fold(rows[: len(train.labels)], rows[len(train.labels) :], heads_of)
        result = fit(features, labels, classes, [fold], settings, hidden=hidden, advance=advance)[0]
        for head, accuracy in enumerate(result.accuracies):
            scores.append(round(100 * accuracy, 2))
            fitted.append((result, head))
    best, head = fitted[int(np.argmax(scores))]
    predicted = best.predict(head, test.features)
    return Result(max(scores), _accuracy(predicted, test.labels.cpu().numpy()), predicted)


def _plain(decays: Sequence[float]) -> tuple[tuple[float, float], ...]:
    return tuple((decay, 0.0) for decay in decays)


def _without_dev(train: np.ndarray, scores: Sequence[float]) -> Fold:
    if int(HELD_OUT * len(train)) < 1:
        raise UserError(
            f"a classifier holds out {HELD_OUT:.0%} of its training part, which is less than one "
            f"of {len(train)} samples; choose another task or data"
        )
    return Fold(train, None, _plain([DECAYS[int(np.argmax(scores))]]))


def _folds(labels: np.ndarray, count: int) -> list[tuple[np.ndarray, np.ndarray]]:
    counts = np.bincount(labels)
    if counts.min() < 2 or counts.max() < count:
        raise UserError(
            f"{count} folds need {count} samples of some label and 2 of each, but the labels have "
            f"{counts.tolist()}; choose another task or data"
        )
    splitter = StratifiedKFold(count, shuffle=True, random_state=SEED)
    return list(splitter.split(np.zeros((len(labels), 1)), labels))


def _means(accuracies: Sequence[Sequence[float]]) -> list[float]:
    """Accuracy of each head in points, averaged over folds and rounded."""
    return [float(np.round(100 * np.mean(values), 2)) for values in zip(*accuracies, strict=True)]


def _mean(values: Sequence[float]) -> float:
    # SentEval rounds means with numpy, single accuracies with Python.
    return float(np.round(np.mean(values), 2))


def _accuracy(predicted: np.ndarray, labels: np.ndarray) -> float:
    return round(100 * float(np.mean(predicted == labels)), 2)
