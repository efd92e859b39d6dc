"""Labelled sentences: the transfer and the probing tasks, in SentEval's order and with its quirks
(docs/methods.md#data-files).

`bench.datasets.tasks` describes the files, the manifest of the data folder their sizes.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np

from bench.datasets import sts
from bench.datasets.manifest import (
    Vectors,
    bad,
    check_count,
    clean,
    listed_task,
    look_up,
    manifest,
    rows,
    table_rows,
)
from bench.datasets.sts import StsTask
from bench.datasets.tasks import OWN_PROBING, OWN_STS, SPLITS, Task, task_of
from bench.download import probing_file, read_lines
from bench.utils.errors import UserError, did_you_mean

_CODES = {"tr": "train", "va": "dev", "te": "test"}
Row = tuple[list[str], str]  # one or two sentences, words joined by single spaces; label


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

    target = sentences  # what a map of the vectors is fitted on

    def features(self, split: str, vectors: Vectors) -> np.ndarray:
        """Return the features of a split, float32 (n, d); pairs give [|u - v|, u * v]."""
        columns = self.splits[split].columns
        arrays = look_up(self.name, columns, lambda texts: np.asarray(vectors(texts), np.float32))
        features = arrays[0]
        if len(arrays) == 2:
            u, v = arrays
            features = np.concatenate([np.abs(u - v), u * v], axis=1)
        if len(features) > 1 and not np.ptp(features, axis=0).any():
            raise UserError(f"{self.name}: all vectors are equal; the encoder has collapsed")
        return features


def ordered(rows: Iterable[tuple[Sequence[str], int]]) -> Samples:
    """Return samples in SentEval's order: by number of tokens, label, and line of the file."""
    rows = sorted(rows, key=lambda row: (*(len(text.split()) for text in row[0]), row[1]))
    columns = tuple(zip(*(texts for texts, _ in rows), strict=True))
    return Samples(columns, np.array([label for _, label in rows], dtype=np.int64))


def read(name: str, data: Path) -> LabelledTask:
    """Read one task from the folder that holds `downstream/`, checked against its manifest."""
    task = listed_task(name, data)
    parts: dict[str, list[Row]] = {part: [] for part in task_of(name).sizes or SPLITS}
    for part, row in _read_parts(task, data, [*parts]):
        parts[part].append(row)
    for part, samples in parts.items():
        path = data / task.file(part)
        check_count(path, len(samples), task.sizes.get(part, 0), f"{part} samples")
    if task.reader == "classes":
        # The sentences of label 1, then those of label 0, as SentEval reads them.
        parts = {"all": [*chain.from_iterable(parts.values())]}
    train = next(iter(parts.values()))
    # SentEval numbers the sorted training labels.
    labels = task.labels or sorted({label for _, label in train})
    numbers = {label: number for number, label in enumerate(labels)}
    splits = {}
    for part, samples in parts.items():
        unknown = {label for _, label in samples} - numbers.keys()
        if unknown:
            raise UserError(
                f"{data / task.file(part)}: {name} has label {min(unknown)!r} in {part} but not in "
                "training; fix it or fetch it again"
            )
        splits[part] = ordered((texts, numbers[label]) for texts, label in samples)
    return LabelledTask(name, task.protocol, len(labels), splits)


def _read_parts(task: Task, data: Path, parts: Sequence[str]) -> Iterator[tuple[str, Row]]:
    """Yield the samples of all files, each with its part."""
    if task.reader == "parts":
        path = data / task.path
        if task.group == "probing":
            probing_file(path)
        for number, row in rows(path, 3, even=task.even):
            if row[0] not in _CODES:
                raise bad(path, number, f"split {row[0][:20]!r} is not tr, va or te")
            yield _CODES[row[0]], _row(task, path, number, [clean(row[-1])], row[1].strip())
        return
    for part, label in zip(parts, ("1", "0", ""), strict=False):
        path = data / task.file(part)
        if task.reader == "classes":
            # A blank line is a sample with an empty sentence.
            for line in read_lines(path, "latin-1"):
                yield part, ([clean(line)], label)
            continue
        for sample in _trec_rows(path) if task.reader == "trec" else table_rows(path, task):
            yield part, _row(task, path, *sample)


def _trec_rows(path: Path) -> Iterator[tuple[int, list[str], str]]:
    for number, line in enumerate(read_lines(path, "latin-1"), start=1):
        label, _, rest = line.strip().partition(":")
        yield number, [clean(rest.partition(" ")[2])], label


def _row(task: Task, path: Path, number: int, texts: list[str], label: str) -> Row:
    if not all(texts) or not label:
        raise bad(path, number, "no label" if all(texts) else "no sentence")
    if task.labels and label not in task.labels:
        hint = did_you_mean(label, task.labels)
        raise bad(path, number, f"unknown label {label[:20]!r}{hint}")
    return texts, label


def task_sums(tasks: Iterable[StsTask | LabelledTask]) -> dict[str, dict[str, str]]:
    """Checksums of tasks by name and split: sentences and gold scores or labels, in order."""
    sums: dict[str, dict[str, str]] = {}
    for task in tasks:
        of_task = sums.setdefault(task.name, {})
        if isinstance(task, StsTask):
            parts = [
                (pairs.name, (pairs.first, pairs.second), pairs.gold) for pairs in task.subsets
            ]
            of_task[task.split] = _digest(parts)
        else:
            for split, samples in task.splits.items():
                of_task[split] = _digest([(split, samples.columns, samples.labels)])
    return sums


def _digest(parts: Iterable[tuple[str, Sequence[Sequence[str]], np.ndarray]]) -> str:
    """The sum of parts: name, columns of sentences, and numbers."""
    digest = hashlib.sha256()
    for name, columns, numbers in parts:
        for column in columns:
            digest.update("\n".join((name, *column)).encode())
        digest.update(numbers.tobytes())
    return digest.hexdigest()[:16]


def check_own(tasks: Iterable[str], data: Path) -> None:
    """Read the described sets among some tasks: a mistake in them shows before a training."""
    for task in tasks:
        if task.startswith(OWN_STS):
            for split in sts.scored_splits(task, data):
                sts.read(task, data, split)
        elif task.startswith(OWN_PROBING):
            read(task, data)


def check_dev(tasks: Iterable[str], data: Path, present: bool = True) -> None:
    """Check the dev sets on which trainings select their weights, and read them if `present`."""
    listed = manifest(data)
    with_dev = [task for task, parts in listed.sts.items() if "dev" in parts]
    for task in tasks:
        if task not in with_dev:
            known = " or ".join(with_dev) or "a set that has one"
            raise UserError(
                f"the data set {listed.name} has no dev set of {task}, on which trainings "
                f"select their weights; set 'select_on' in 'recipe' to {known}"
            )
        if present:
            sts.read(task, data, "dev")
