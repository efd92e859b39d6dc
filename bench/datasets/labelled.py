"""Labelled sentences, shared by the transfer and the probing tasks."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np

from bench.datasets.manifest import Vectors, look_up
from bench.utils.errors import UserError

NESTED, KFOLD, SPLIT = "nested", "kfold", "split"
Rows = Sequence[tuple[Sequence[str], int]]  # one or two sentences, words joined by spaces; label


@dataclass(frozen=True)
class Samples:
    """Labelled sentences in SentEval's order: by number of tokens, then label, then line of the
    file. Folds are drawn by position, so the order changes scores."""

    columns: tuple[tuple[str, ...], ...]  # one or two of n sentences
    labels: np.ndarray  # int64 (n,)


@dataclass(frozen=True)
class LabelledTask:
    """A classification task."""

    name: str
    protocol: str  # "nested" k-fold with one split "all", "kfold" (train, test) or "split" (+ dev)
    classes: int  # number of labels, which are 0 to classes - 1
    splits: Mapping[str, Samples]

    def sentences(self) -> Iterable[str]:
        """Return all sentences, with duplicates."""
        columns = (samples.columns for samples in self.splits.values())
        return chain.from_iterable(chain.from_iterable(columns))

    def target(self) -> Iterable[str]:
        """Return all sentences of all splits, with duplicates; those of pairs pair by pair."""
        columns = (samples.columns for samples in self.splits.values())
        return chain.from_iterable(chain.from_iterable(zip(*each, strict=True)) for each in columns)

    def features(self, split: str, vectors: Vectors) -> np.ndarray:
        """Return the features of a split, float32 (n, d); pairs give [|u - v|, u * v]
        (docs/methods.md#protocols).

        Raises:
            UserError: the vectors have a wrong shape, are not finite, or are all equal.
        """
        columns = self.splits[split].columns
        arrays = look_up(self.name, columns, lambda texts: np.asarray(vectors(texts), np.float32))
        features = arrays[0]
        if len(arrays) == 2:
            u, v = arrays
            features = np.concatenate([np.abs(u - v), u * v], axis=1)
        if len(features) > 1 and not np.ptp(features, axis=0).any():
            raise UserError(f"{self.name}: all vectors are equal; the encoder has collapsed")
        return features


def ordered(rows: Rows) -> Samples:
    """Return samples in SentEval's order (docs/methods.md#data-files)."""
    rows = sorted(rows, key=lambda row: (*(len(text.split()) for text in row[0]), row[1]))
    columns = tuple(zip(*(texts for texts, _ in rows), strict=True))
    return Samples(columns, np.array([label for _, label in rows], dtype=np.int64))


def make_task(
    name: str, protocol: str, classes: int, path: Path, parts: Mapping[str, Rows]
) -> LabelledTask:
    """Return the task of rows by split; the first split is for training.

    Raises:
        UserError: the training part, in `path`, lacks a label, which could then never be predicted.
    """
    splits = {split: ordered(rows) for split, rows in parts.items()}
    present = set(next(iter(splits.values())).labels.tolist())
    for label in range(classes):
        if label not in present:
            raise UserError(
                f"{path}: {name} has no training sample of label {label} of {classes}; "
                "fix it or fetch it again"
            )
    return LabelledTask(name, protocol, classes, splits)
