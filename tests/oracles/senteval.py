"""An independent oracle: SentEval's classifier and protocols, one classifier at a time, in plain
torch.

Written from the description in docs/reference/protocol.md#classifier and #protocols; nothing of
`bench` is imported. Features are float numpy
(n, d), labels int64 numpy (n,) in 0 .. classes - 1, the scores of protocols percentages with two
decimals.

With `dtype=torch.float64` initial weights are still drawn in float32 and then cast, and
permutations are numpy's, so both precisions start from the same numbers and see the same batches.

`round` is the number's own: Python's on one accuracy, numpy's on a mean. They differ on a few
halves: 2.675 becomes 2.67 in Python and 2.68 in numpy.
"""

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import torch
from sklearn.model_selection import StratifiedKFold
from torch import Tensor, nn

SEED = 1111
HELD_OUT = 0.05  # of the training data, for early stopping where there is no dev set
REGULARISERS = (1e-5, 1e-4, 1e-3, 1e-2)
NO_REGULARISER = 1e-9  # SentEval's value where none is tuned
HIDDEN = (50, 100, 200)
DROPOUT = (0.0, 0.1, 0.2)

Array = np.ndarray
Labelled = tuple[Array, Array]  # features, labels
Scores = tuple[float, float]  # dev, test
F32 = torch.float32


@dataclass(frozen=True)
class Settings:
    """`epoch_size` is passes per check of the dev accuracy; `max_epoch` counts passes."""

    folds: int
    optimiser: str  # "adam" or "rmsprop", with torch's defaults
    batch_size: int
    tenacity: int
    epoch_size: int
    hidden: int = 0
    dropout: float = 0.0
    max_epoch: int = 200


TEST_MODE = Settings(folds=10, optimiser="adam", batch_size=64, tenacity=5, epoch_size=4)
DEV_MODE = Settings(folds=5, optimiser="rmsprop", batch_size=128, tenacity=3, epoch_size=2)


class Head:
    """One classifier. Reseeds numpy's and torch's global generators when it is made, and draws from
    them."""

    def __init__(
        self, inputs: int, classes: int, decay: float, settings: Settings, dtype: torch.dtype = F32
    ) -> None:
        np.random.seed(SEED)
        torch.manual_seed(SEED)
        if settings.hidden == 0:
            self.model = nn.Sequential(nn.Linear(inputs, classes))
        else:
            self.model = nn.Sequential(
                nn.Linear(inputs, settings.hidden),
                nn.Dropout(settings.dropout),
                nn.Sigmoid(),
                nn.Linear(settings.hidden, classes),
            )
        self.model.to(dtype)
        optimiser = {"adam": torch.optim.Adam, "rmsprop": torch.optim.RMSprop}[settings.optimiser]
        self.optimiser = optimiser(self.model.parameters(), weight_decay=decay)
        self.loss = nn.CrossEntropyLoss()
        self.settings, self.dtype = settings, dtype

    def fit(self, x: Array, y: Array, dev: Labelled | None = None) -> float:
        """Train until the dev accuracy no longer improves, keep the best copy and return its dev
        accuracy (a fraction).

        Without `dev` a random 5 % of the samples is held out for it. A head is fitted once.
        """
        if dev is None:
            order = np.random.permutation(len(x))
            size = int(HELD_OUT * len(x))
            dev = x[order[:size]], y[order[:size]]
            x, y = x[order[size:]], y[order[size:]]
        features, labels = self._tensor(x), torch.from_numpy(y)
        best, best_model, misses, passes, stop = -1.0, self.model, 0, 0, False
        while not stop and passes <= self.settings.max_epoch:
            for _ in range(self.settings.epoch_size):
                self.one_pass(features, labels)
            passes += self.settings.epoch_size
            accuracy = self.score(*dev)
            if accuracy > best:
                best, best_model = accuracy, copy.deepcopy(self.model)
            else:
                stop = misses >= self.settings.tenacity
                misses += 1  # never set back to zero: misses add up over the whole training
        self.model = best_model
        return best

    def one_pass(self, features: Tensor, labels: Tensor) -> None:
        self.model.train()
        order = torch.from_numpy(np.random.permutation(len(features)))
        size = self.settings.batch_size
        for batch, answers in zip(
            features[order].split(size), labels[order].split(size), strict=True
        ):
            self.optimiser.zero_grad()
            self.loss(self.model(batch), answers).backward()
            self.optimiser.step()

    def predict(self, x: Array) -> Array:
        """Classes of the samples, int64 (n,)."""
        self.model.eval()
        with torch.no_grad():
            return self.model(self._tensor(x)).argmax(1).numpy()

    def score(self, x: Array, y: Array) -> float:
        """Correct / n, a fraction."""
        return int((self.predict(x) == y).sum()) / len(y)

    def _tensor(self, x: Array) -> Tensor:
        return torch.from_numpy(x).to(self.dtype)


def folds(x: Array, y: Array, k: int) -> Iterator[tuple[Array, Array]]:
    """Indices of the training and the held-out part of each of k stratified folds."""
    yield from StratifiedKFold(k, shuffle=True, random_state=SEED).split(x, y)


def cross_validated(
    x: Array, y: Array, classes: int, decay: float, settings: Settings, dtype: torch.dtype
) -> float:
    """Mean accuracy over k folds; each held-out part stops its own training early and is scored."""
    scores = []
    for train, held_out in folds(x, y, settings.folds):
        dev = x[held_out], y[held_out]
        head = Head(x.shape[1], classes, decay, settings, dtype)
        head.fit(x[train], y[train], dev)
        scores.append(head.score(*dev))
    return float(round(100 * np.mean(scores), 2))


def tune_and_refit(
    x: Array, y: Array, classes: int, settings: Settings, dtype: torch.dtype
) -> tuple[float, Head]:
    """Best cross-validated accuracy over the regularisers, and a head refitted with it."""
    scores = [cross_validated(x, y, classes, decay, settings, dtype) for decay in REGULARISERS]
    head = Head(x.shape[1], classes, REGULARISERS[int(np.argmax(scores))], settings, dtype)
    head.fit(x, y)
    return max(scores), head


def nested(
    x: Array, y: Array, classes: int, settings: Settings, dtype: torch.dtype = F32
) -> Scores:
    """(dev, test) of MR, CR, SUBJ and MPQA: each fold tests a head tuned on the others."""
    dev, test = [], []
    for train, held_out in folds(x, y, settings.folds):
        best, head = tune_and_refit(x[train], y[train], classes, settings, dtype)
        dev.append(best)
        test.append(round(100 * head.score(x[held_out], y[held_out]), 2))
    return float(round(np.mean(dev), 2)), float(round(np.mean(test), 2))


def kfold(
    train_x: Array,
    train_y: Array,
    test_x: Array,
    test_y: Array,
    classes: int,
    settings: Settings,
    dtype: torch.dtype = F32,
) -> tuple[float, float, Array]:
    """(dev, test, predictions on the test set) of TREC and MRPC: tuned by k folds."""
    dev, head = tune_and_refit(train_x, train_y, classes, settings, dtype)
    return dev, round(100 * head.score(test_x, test_y), 2), head.predict(test_x)


def split(
    splits: Mapping[str, Labelled], classes: int, settings: Settings, dtype: torch.dtype = F32
) -> Scores:
    """(dev, test) of SST2 and probing: tuned on dev, refitted the same way."""

    def fitted(decay: float) -> Head:
        head = Head(splits["train"][0].shape[1], classes, decay, settings, dtype)
        head.fit(*splits["train"], splits["dev"])
        return head

    scores = [round(100 * fitted(decay).score(*splits["dev"]), 2) for decay in REGULARISERS]
    head = fitted(REGULARISERS[int(np.argmax(scores))])
    return max(scores), round(100 * head.score(*splits["test"]), 2)


def tuned_mlp(
    splits: Mapping[str, Labelled], classes: int, settings: Settings, dtype: torch.dtype = F32
) -> Scores:
    """(dev, test) of the best network on dev, the first of equals, without a tuned regulariser.

    It is scored as it is: a refit would repeat the same fit bit for bit.
    """
    scores = []
    for hidden, dropout in product(HIDDEN, DROPOUT):
        chosen = replace(settings, hidden=hidden, dropout=dropout)
        head = Head(splits["train"][0].shape[1], classes, NO_REGULARISER, chosen, dtype)
        head.fit(*splits["train"], splits["dev"])
        scores.append([round(100 * head.score(*splits[name]), 2) for name in ("dev", "test")])
    dev, test = max(scores, key=lambda score: score[0])
    return dev, test
