"""SentEval's three evaluation protocols (docs/methods.md#protocols): which parts train, select and
test its classifiers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from math import ceil
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from bench.evaluation.classifier import BLOCK, HELD_OUT, Fold, Settings, fit
from bench.evaluation.heads import SEED, Head
from bench.utils.errors import UserError

DECAYS = tuple(10**power for power in range(-5, -1))
GRID = tuple(Head(decay) for decay in DECAYS)  # for every task
# Probing, as SentEval recommends: a network with sigmoid, tuned on dev, at SentEval's default
# weight decay.
HIDDEN, DROPOUTS, NO_DECAY = (50, 100, 200), (0.0, 0.1, 0.2), 1e-9
NETWORKS = tuple(Head(NO_DECAY, hidden, dropout) for hidden in HIDDEN for dropout in DROPOUTS)


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


class Split(NamedTuple):
    """The fixed parts of a task, "train", "dev" and "test", and its number of labels."""

    parts: Mapping[str, Part]
    classes: int


def fewest_steps(sizes: Mapping[str, int], settings: Settings, device: str, networks: bool) -> int:
    """The fewest optimiser steps of a task's classifiers, those of a loop counting once.

    Args:
        sizes: samples of "train" with "dev" or "test", or of parts that are folded together.
        settings: of the classifiers.
        device: "cpu" or "cuda".
        networks: whether it is a probing task, with networks too.
    """
    on_cpu = device == "cpu"
    if "dev" in sizes:  # a processor trains each size of network by itself
        groups = 1 + (len(HIDDEN) if on_cpu else 1) * networks
    else:
        folds = (settings.folds, 1) if "train" in sizes else (settings.folds**2, settings.folds)
        block = BLOCK["cpu" if on_cpu else "cuda"]
        groups = sum(ceil(count / block) for count in folds)
    passes = settings.epoch_size * (settings.tenacity + 2)  # the first check always improves
    return passes * groups * ceil(sizes.get("train", sum(sizes.values())) / settings.batch_size)


def nested(data: Part, classes: int, settings: Settings) -> Result:
    """Nested k-fold cross-validation: the weight decay is selected inside each outer training part.

    Args:
        data: all samples.
        classes: number of labels.
        settings: of the classifiers.
    """
    labels = data.labels.cpu().numpy()
    outer = list(_folds(labels, settings.folds))
    inner = [
        Fold(train[inner_train], train[inner_dev], GRID, classes)
        for train, _ in outer
        for inner_train, inner_dev in _folds(labels[train], settings.folds)
    ]
    fitted = fit(data.features, data.labels, inner, settings)
    accuracies = [[head.accuracy for head in fold] for fold in fitted]
    starts = range(0, len(accuracies), settings.folds)
    scores = [_means(accuracies[start : start + settings.folds]) for start in starts]
    parts = zip((train for train, _ in outer), scores, strict=True)
    refit = [_without_dev(train, score, classes) for train, score in parts]
    tests = []
    fits = fit(data.features, data.labels, refit, settings)
    for (_, test), (head,) in zip(outer, fits, strict=True):
        rows = torch.from_numpy(test).to(data.features.device)
        tests.append(_accuracy(head.predict(data.features[rows]), labels[test]))
    # SentEval rounds means with numpy, single accuracies with Python.
    dev = np.round(np.mean([max(score) for score in scores]), 2)
    return Result(float(dev), float(np.round(np.mean(tests), 2)))


def kfold(train: Part, test: Part, classes: int, settings: Settings) -> Result:
    """Select the weight decay by k-fold cross-validation on the training part, then train on all of
    it."""
    labels = train.labels.cpu().numpy()
    folds = [Fold(rows, dev, GRID, classes) for rows, dev in _folds(labels, settings.folds)]
    fitted = fit(train.features, train.labels, folds, settings)
    scores = _means([[head.accuracy for head in fold] for fold in fitted])
    last = _without_dev(np.arange(len(labels)), scores, classes)
    ((head,),) = fit(train.features, train.labels, [last], settings)
    predicted = head.predict(test.features)
    return Result(max(scores), _accuracy(predicted, test.labels.cpu().numpy()), predicted)


def split(task: Split, settings: Settings) -> Result:
    """Select the weight decay on dev.

    SentEval retrains the best, which gives the same classifier.
    """
    ((result,),) = _best_on_dev([task], [GRID], settings)
    return result


def probing(tasks: Sequence[Split], settings: Settings) -> list[list[Result]]:
    """Of each task the results of `split`, and of a network with one hidden layer, its size and
    dropout selected on dev (docs/methods.md#probing).

    The tasks have equally many training samples, so that all their classifiers take every step
    together (`bench.evaluation.classifier.fit`).
    """
    return _best_on_dev(tasks, [GRID, NETWORKS], settings)


def _best_on_dev(
    tasks: Sequence[Split], grids: Sequence[tuple[Head, ...]], settings: Settings
) -> list[list[Result]]:
    """Of each task and grid, the result of the head that is best on dev, the first of equals."""
    known = [task.parts[name] for task in tasks for name in ("train", "dev")]
    features = torch.cat([part.features for part in known])
    labels = torch.cat([part.labels for part in known])
    rows = np.split(np.arange(len(labels)), np.cumsum([len(part.labels) for part in known])[:-1])
    heads = tuple(chain.from_iterable(grids))
    folds = [
        Fold(train, dev, heads, task.classes)
        for task, train, dev in zip(tasks, rows[::2], rows[1::2], strict=True)
    ]
    fitted = fit(features, labels, folds, settings)
    results = []
    for task, trained in zip(tasks, fitted, strict=True):
        test, remaining = task.parts["test"], iter(trained)
        answers = test.labels.cpu().numpy()
        of_task = []
        for grid in grids:
            of_grid = list(islice(remaining, len(grid)))
            scores = [round(100 * head.accuracy, 2) for head in of_grid]
            predicted = of_grid[int(np.argmax(scores))].predict(test.features)
            of_task.append(Result(max(scores), _accuracy(predicted, answers), predicted))
        results.append(of_task)
    return results


def _without_dev(train: np.ndarray, scores: Sequence[float], classes: int) -> Fold:
    if int(HELD_OUT * len(train)) < 1:
        raise UserError(
            f"a classifier holds out {HELD_OUT:.0%} of its training part, which is less than one "
            f"of {len(train)} samples; choose another task or data"
        )
    return Fold(train, None, (GRID[int(np.argmax(scores))],), classes)


def _folds(labels: np.ndarray, count: int) -> list[tuple[np.ndarray, np.ndarray]]:
    from sklearn.model_selection import StratifiedKFold  # needs a second, and only some tasks it

    splitter = StratifiedKFold(count, shuffle=True, random_state=SEED)
    return list(splitter.split(np.zeros((len(labels), 1)), labels))


def _means(accuracies: Sequence[Sequence[float]]) -> list[float]:
    """Accuracy of each head in points, averaged over folds and rounded."""
    return [float(np.round(100 * np.mean(values), 2)) for values in zip(*accuracies, strict=True)]


def _accuracy(predicted: np.ndarray, labels: np.ndarray) -> float:
    return round(100 * float(np.mean(predicted == labels)), 2)
