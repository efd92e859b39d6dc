"""Sentences with labels: what the transfer and the probing tasks have in common."""

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
    """Labelled sentences: `columns` holds one sentence of each sample, or two; `labels` is int64[n].

    In SentEval's order: by number of tokens, then by label, else as in the file. Folds are drawn by place, so another
    order is another score.
    """

    columns: tuple[tuple[str, ...], ...]
    labels: np.ndarray


@dataclass(frozen=True)
class LabelledTask:
    """A task that a classifier is trained for.

    Attributes:
        protocol: "nested" (k-fold within k-fold, one split "all"), "kfold" (train, test) or "split" (train, dev, test).
        classes: number of labels; they are 0 to classes - 1.
    """

    name: str
    protocol: str
    classes: int
    splits: Mapping[str, Samples]

    def sentences(self) -> Iterable[str]:
        """All sentences, repeated ones too."""
        return (text for samples in self.splits.values() for column in samples.columns for text in column)

    def features(self, split: str, vectors: Vectors) -> np.ndarray:
        """What the classifier sees of a split, float32[n, d]; pairs give [|u - v|, u * v] (methods.md d.4).

        Raises:
            UserError: the vectors are not one per sentence, all of one length, or not finite; or all are equal.
        """
        columns = self.splits[split].columns
        found = look_up(self.name, columns, lambda texts: np.asarray(vectors(texts), dtype=np.float32))
        features = found[0]
        if len(found) == 2:
            features = np.concatenate([np.abs(found[0] - found[1]), found[0] * found[1]], axis=1)
        if len(features) > 1 and not np.ptp(features, axis=0).any():
            raise UserError(f"{self.name}: all vectors are equal; the encoder has collapsed")
        return features


def ordered(columns: Sequence[Sequence[str]], labels: Sequence[int]) -> Samples:
    """Samples in SentEval's order (methods.md d.1).

    Args:
        columns: one list of n sentences or two, their words joined by single spaces.
        labels: n, in the same order.
    """

    def key(place: int) -> tuple[int, ...]:
        return (*(len(column[place].split()) for column in columns), labels[place])

    order = sorted(range(len(labels)), key=key)
    return Samples(
        tuple(tuple(column[place] for place in order) for column in columns),
        np.array([labels[place] for place in order], dtype=np.int64),
    )


def check_labels(name: str, path: Path, splits: Mapping[str, Samples], classes: int) -> None:
    """Raise `UserError` for a task whose training part lacks a label: its classifier could never give it."""
    first = next(iter(splits.values()))
    missing = sorted(set(range(classes)) - set(first.labels.tolist()))
    if missing:
        raise UserError(
            f"{path}: {name} has no training sample of label {missing[0]} of {classes}; mend it or fetch it again"
        )
