"""Labelled sentences, shared by the transfer and the probing tasks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.datasets.manifest import Vectors, look_up
from bench.utils.errors import UserError

NESTED, KFOLD, SPLIT = "nested", "kfold", "split"


@dataclass(frozen=True)
class Samples:
    """Labelled sentences in SentEval's order: by number of tokens, then label, then line of the
    file.

    Folds are drawn by position, so the order changes scores.

    Attributes:
        columns: one or two sentences per sample, each column a tuple of n.
        labels: int64 (n,).
    """

    columns: tuple[tuple[str, ...], ...]
    labels: np.ndarray


@dataclass(frozen=True)
class LabelledTask:
    """A classification task.

    Attributes:
        name: of the task.
        protocol: "nested" (nested k-fold, one split "all"), "kfold" (train, test) or "split"
            (train, dev, test).
        classes: number of labels, which are 0 to classes - 1.
        splits: samples by split.
    """

    name: str
    protocol: str
    classes: int
    splits: Mapping[str, Samples]

    def sentences(self) -> Iterable[str]:
        """Return all sentences, with duplicates."""
        return (
            text
            for samples in self.splits.values()
            for column in samples.columns
            for text in column
        )

    def features(self, split: str, vectors: Vectors) -> np.ndarray:
        """Return the features of a split, float32 (n, d); pairs give [|u - v|, u * v]
        (docs/methods.md#protocols).

        Raises:
            UserError: the vectors have a wrong shape, are not finite, or are all equal.
        """
        columns = self.splits[split].columns
        encoded = look_up(
            self.name, columns, lambda texts: np.asarray(vectors(texts), dtype=np.float32)
        )
        features = encoded[0]
        if len(encoded) == 2:
            features = np.concatenate(
                [np.abs(encoded[0] - encoded[1]), encoded[0] * encoded[1]], axis=1
            )
        if len(features) > 1 and not np.ptp(features, axis=0).any():
            raise UserError(f"{self.name}: all vectors are equal; the encoder has collapsed")
        return features


def ordered(columns: Sequence[Sequence[str]], labels: Sequence[int]) -> Samples:
    """Return samples in SentEval's order (docs/methods.md#data-files).

    Args:
        columns: one or two lists of n sentences, words joined by single spaces.
        labels: n labels.
    """

    def key(place: int) -> tuple[int, ...]:
        return (*(len(column[place].split()) for column in columns), labels[place])

    order = sorted(range(len(labels)), key=key)
    return Samples(
        tuple(tuple(column[place] for place in order) for column in columns),
        np.array([labels[place] for place in order], dtype=np.int64),
    )


def check_labels(name: str, path: Path, splits: Mapping[str, Samples], classes: int) -> None:
    """Raise `UserError` if the training part lacks a label, which could then never be predicted."""
    first = next(iter(splits.values()))
    missing = sorted(set(range(classes)) - set(first.labels.tolist()))
    if missing:
        raise UserError(
            f"{path}: {name} has no training sample of label {missing[0]} of {classes}; fix it or fetch it again"
        )
