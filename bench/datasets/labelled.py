"""Labelled sentences: the transfer and the probing tasks, in SentEval's order and with its quirks
(docs/methods.md#data-files).

The files are described by `bench.datasets.tasks`, their sizes by the manifest of the data folder. A
user-defined task `probing:NAME` is the file `probing/NAME.txt` in SentEval's format, with its sizes
in the `manifest.json`:

    {"name": "mine", "probing": {"probing:negation": {"train": 800, "dev": 100, "test": 100}}}
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np

from bench.datasets.manifest import (
    Vectors,
    bad,
    check_count,
    clean,
    listed_task,
    look_up,
    rows,
    table_rows,
)
from bench.datasets.tasks import KFOLD, NESTED, PROBING, SPLIT, TASKS, Task
from bench.download import probing_file, read_lines
from bench.utils.errors import UserError, did_you_mean

# The parts of a task by its protocol.
PARTS = {
    NESTED: ("all",),
    KFOLD: ("train", "test"),
    SPLIT: ("train", "dev", "test"),
    PROBING: ("train", "dev", "test"),
}
_CODES = {"tr": "train", "va": "dev", "te": "test"}
Row = tuple[list[str], str]  # one or two sentences, words joined by single spaces; label


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
    protocol: str  # as in `bench.datasets.tasks`; NESTED has the only split "all"
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


def ordered(rows: Iterable[tuple[Sequence[str], int]]) -> Samples:
    """Return samples in SentEval's order (docs/methods.md#data-files)."""
    rows = sorted(rows, key=lambda row: (*(len(text.split()) for text in row[0]), row[1]))
    columns = tuple(zip(*(texts for texts, _ in rows), strict=True))
    return Samples(columns, np.array([label for _, label in rows], dtype=np.int64))


def read(name: str, data: Path) -> LabelledTask:
    """Read one task from the folder that holds `downstream/`, checked against its manifest."""
    task = listed_task(name, data)
    if task.reader == "classes":
        parts = {"all": list(_read_classes(task, data))}
        first = Path(data) / task.path
    else:
        paths = {part: Path(data) / task.file(part) for part in PARTS[task.protocol]}
        parts = _read_parts(task, paths)
        first = next(iter(paths.values()))
        for part, path in paths.items():
            check_count(path, len(parts[part]), task.sizes.get(part, 0), f"{part} samples")
    train = next(iter(parts.values()))
    # SentEval numbers the sorted training labels.
    labels = task.labels or sorted({label for _, label in train})
    numbers = {label: number for number, label in enumerate(labels)}
    splits = {}
    for part, samples in parts.items():
        for _, label in samples:
            if label not in numbers:
                raise UserError(
                    f"{paths[part]}: {name} has label {label!r} in {part} but not in training; "
                    "fix it or fetch it again"
                )
        splits[part] = ordered((texts, numbers[label]) for texts, label in samples)
    classes = max(len(labels), 2)
    missing = set(range(classes)) - set(next(iter(splits.values())).labels.tolist())
    if missing:
        raise UserError(
            f"{first}: {name} has no training sample of label {min(missing)} of {classes}; "
            "fix it or fetch it again"
        )
    return LabelledTask(name, task.protocol, classes, splits)


def _read_classes(task: Task, data: Path) -> Iterator[Row]:
    """The sentences of label 1, then those of label 0, as SentEval reads them. A blank line is a
    sample with an empty sentence."""
    parts = TASKS[task.name].sizes
    for label, part in zip(("1", "0"), parts, strict=True):
        path = Path(data) / task.file(part)
        texts = [clean(line) for line in read_lines(path, "latin-1")]
        check_count(path, len(texts), task.sizes.get(part, 0), "lines")
        yield from (([text], label) for text in texts)


def _read_parts(task: Task, paths: Mapping[str, Path]) -> dict[str, list[Row]]:
    parts: dict[str, list[Row]] = {part: [] for part in paths}
    if task.reader == "parts":
        path = paths["train"]
        if task.group == "probing":
            probing_file(path)
        for number, row in rows(path, 3, even=task.even):
            if row[0] not in _CODES:
                raise bad(path, number, f"split {row[0][:20]!r} is not tr, va or te")
            sample = _row(task, path, number, [clean(row[-1])], row[1].strip())
            parts[_CODES[row[0]]].append(sample)
        return parts
    for part, path in paths.items():
        lines = _trec_rows(path) if task.reader == "trec" else table_rows(path, task)
        parts[part] = [_row(task, path, *line) for line in lines]
    return parts


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
