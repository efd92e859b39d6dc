"""Labelled sentences: the transfer and the probing tasks, in SentEval's order and with its quirks
(docs/reference/protocol.md#data-files).

`bench.datasets.tasks` describes the files, the manifest of the data folder their sizes.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np

from bench.datasets import sts
from bench.datasets.manifest import (
    EncodeSentences,
    bad,
    check_vectors,
    listed_task,
    look_up,
    manifest,
    read_parts,
)
from bench.datasets.sts import StsTask
from bench.datasets.tasks import NESTED, OWN_STS, PAIRS, SPLITS, task_of
from bench.utils.errors import UserError, did_you_mean, errors_of, warn


@dataclass(frozen=True)
class Samples:
    """Labelled sentences in SentEval's order. Folds are drawn by position, so it changes scores."""

    columns: tuple[tuple[str, ...], ...]  # one or two of n sentences
    labels: np.ndarray  # int64 (n,)


@dataclass(frozen=True)
class LabelledTask:
    """A classification task."""

    name: str
    protocol: str  # as in `bench.datasets.tasks`; NESTED has the only split "all"
    classes: int  # number of labels, which are 0 to classes - 1
    splits: Mapping[str, Samples]

    def sentences(self) -> Iterable[str]:
        """Return all sentences, with duplicates, pair by pair."""
        for samples in self.splits.values():
            yield from chain.from_iterable(zip(*samples.columns, strict=True))

    def parts(self) -> Iterator[tuple[str, str, Sequence[Sequence[str]], np.ndarray]]:
        """Yield split, name, columns of sentences and labels of each split."""
        for split, samples in self.splits.items():
            yield split, split, samples.columns, samples.labels

    target = sentences  # what a post-processing of the vectors is fitted on
    has_test = True

    @property
    def test(self) -> Samples:
        """The test samples; with nested cross-validation all are."""
        return self.splits["all" if self.protocol == NESTED else "test"]

    def items(self) -> list[tuple[str, ...]]:
        """Return the sentence or pair of each test sample."""
        return list(zip(*self.test.columns, strict=True))

    def features(self, split: str, vectors: EncodeSentences) -> np.ndarray:
        """Return the features of a split, float32 (n, d); pairs give [|u - v|, u * v]."""
        columns = self.splits[split].columns
        arrays = look_up(self.name, columns, vectors)
        features = arrays[0]
        if len(arrays) == 2:
            u, v = arrays
            # facebookresearch/SentEval@5d6dc11:senteval/mrpc.py:83
            features = np.concatenate([np.abs(u - v), u * v], axis=1)
            # A product of two vectors may be beyond float32 although both vectors are not.
            with errors_of(self.name):
                check_vectors(columns[0], features)
        if len(features) > 1 and not np.ptp(features, axis=0).any():
            raise UserError(f"{self.name}: all vectors are equal; the encoder has collapsed")
        return features


def ordered(rows: Iterable[tuple[Sequence[str], int]]) -> Samples:
    """Return samples in SentEval's order: by number of tokens, then label, then line of the
    file."""
    # As facebookresearch/SentEval@5d6dc11:senteval/binary.py:40-43 and mrpc.py:61-64. Folds are
    # drawn by position, so another order of equal samples would be another score. `sorted` is
    # stable.
    rows = sorted(rows, key=lambda row: (*(len(text.split()) for text in row[0]), row[1]))
    columns = tuple(zip(*(texts for texts, _ in rows), strict=True))
    return Samples(columns, np.array([label for _, label in rows], dtype=np.int64))


def read(name: str, data: Path) -> LabelledTask:
    """Read one task from the folder that holds `downstream/`, checked against its manifest."""
    task = listed_task(name, data)
    by_split = read_parts(task, data, task_of(name).sizes or SPLITS)
    if task.reader == "classes":
        # First the sentences of label 1, then the sentences of label 0, as SentEval reads them.
        by_split = {"all": [*chain.from_iterable(by_split.values())]}
    # SentEval numbers the sorted labels of the training split, which comes first here
    # (facebookresearch/SentEval@5d6dc11:senteval/probing.py:49-50). They are texts: "10" is before
    # "5".
    labels = task.labels or sorted({line.answer for line in next(iter(by_split.values()))})
    numbers = {label: number for number, label in enumerate(labels)}
    splits = {}
    for split, lines in by_split.items():
        for line in lines:
            if line.answer not in numbers:
                hint = did_you_mean(line.answer, labels)
                raise bad(line.path, line.number, f"unknown label {line.answer[:20]!r}{hint}")
        if len({line.answer for line in lines}) < 2:
            raise UserError(
                f"{name}: its {split} samples have fewer than two labels, so that no classifier "
                "can fail; correct the file"
            )
        splits[split] = ordered((line.texts, numbers[line.answer]) for line in lines)
    return LabelledTask(name, task.protocol, len(labels), splits)


def read_scored(name: str, data: Path) -> list[StsTask | LabelledTask]:
    """Read the scored data of a task: all splits of labelled sentences, or the test and dev splits
    of pairs."""
    if task_of(name).protocol == PAIRS:
        tasks = sts.read_splits(name, data, ("test", "dev"))
        for task in tasks:
            repeated = len(task.items()) - len({*task.items()})
            # Published sets repeat pairs as well, and stay as they are
            # (docs/reference/protocol.md#differences-from-mteb).
            if repeated and name.startswith(OWN_STS):
                warn(f"warning: {repeated} pairs of {name} repeat another of their split")
        return [*tasks]
    return [read(name, data)]


def task_sums(tasks: Iterable[StsTask | LabelledTask]) -> dict[str, dict[str, str]]:
    """Checksums of tasks by name and split: sentences and gold scores or labels, in order."""
    sums: dict[str, dict[str, str]] = defaultdict(dict)
    for task in tasks:
        digests: dict[str, hashlib._Hash] = defaultdict(hashlib.sha256)
        for split, name, columns, numbers in task.parts():
            for column in columns:
                # The name stands between columns. Without it, letters that move from the end of a
                # column to the start of the next would not change the sum.
                digests[split].update("\n".join((name, *column)).encode())
            digests[split].update(numbers.tobytes())
        for split, digest in digests.items():
            sums[task.name][split] = digest.hexdigest()[:16]
    return dict(sums)


def check_dev(tasks: Iterable[str], data: Path, present: bool) -> None:
    """Check the dev sets on which trainings select their weights, and read them if `present`."""
    listed = manifest(data)
    with_dev = [task for task, sizes in listed.sts.items() if "dev" in sizes]
    for task in tasks:
        if task not in with_dev:
            choices = " or ".join(with_dev) or "a set that has one"
            raise UserError(
                f"the data set {listed.name} has no dev set of {task}, on which trainings "
                f"select their weights; set 'select_on' in 'recipe' to {choices}"
            )
        if present:
            sts.read(task, data, "dev")
