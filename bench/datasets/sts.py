"""Semantic textual similarity: the seven STS tasks and user-defined ones, by SentEval's protocol.

The similarity of a pair is the cosine of its vectors. The score of a task is Spearman's correlation
of similarities and gold scores. STS12-16 have several subsets: "all" correlates over the pairs of
all subsets (as in papers), "mean" is the mean of the subsets' correlations, and "wmean" the mean
weighted by number of pairs.

The files are described by `bench.datasets.tasks`; subsets and numbers of pairs come from a
manifest: the file `manifest.json` of the data folder, which can describe further sets, or
SentEval's.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from bench.datasets.manifest import EncodeSentences, Line, bad, listed_task, look_up, read_parts
from bench.datasets.metrics import Metric, metrics_of, score_record
from bench.datasets.tasks import OWN_STS, PAIRS, SPLITS
from bench.utils.errors import UserError


@dataclass(frozen=True)
class Subset:
    """Pairs of sentences, and gold similarities from 0 or 1 to 5, float64 (n,). Scores of another
    range are scaled to 0 to 5, which changes no rank."""

    name: str
    first: tuple[str, ...]
    second: tuple[str, ...]
    gold: np.ndarray


@dataclass(frozen=True)
class StsTask:
    """One split of a task. STS-B and SICK-R have one subset, named as the task."""

    name: str
    split: str
    subsets: tuple[Subset, ...]
    data: Path | None = field(default=None, compare=False)  # the folder it was read from

    def sentences(self) -> Iterable[str]:
        """Return all sentences, with duplicates."""
        for subset in self.subsets:
            yield from subset.first + subset.second

    def parts(self) -> Iterator[tuple[str, str, Sequence[Sequence[str]], np.ndarray]]:
        """Yield split, name, columns of sentences and gold scores of each subset."""
        for subset in self.subsets:
            yield self.split, subset.name, (subset.first, subset.second), subset.gold

    @property
    def has_test(self) -> bool:
        """Whether this is the split that is reported."""
        return self.split == "test"

    def items(self) -> list[tuple[str, ...]]:
        """Return the pairs of all subsets, in order."""
        pairs: list[tuple[str, ...]] = []
        for subset in self.subsets:
            pairs += zip(subset.first, subset.second, strict=True)
        return pairs

    def target(self) -> Iterable[str]:
        """Return all sentences of all splits of the set (docs/reference/methods.md#bert-whitening),
        pair by pair, with duplicates."""
        tasks = [self]
        if self.data:
            tasks = read_splits(self.name, self.data)
        for task in tasks:
            yield from chain.from_iterable(task.items())


def read(name: str, data: Path, split: str = "test") -> StsTask:
    """Read one task, or a set described in the manifest, from the folder that holds `downstream/`.
    STS12 to STS16 have the only split "test"."""
    task = listed_task(name, data)
    if split not in task.splits:
        raise UserError(
            f"the manifest of {data} has no {name} {split}; choose another task or data set"
        )
    if task.has_subsets:
        parts = read_parts(task, data, task.sizes)
    else:
        parts = {name: read_parts(task, data, [split])[split]}
    subsets = [_subset(part, lines, *task.range) for part, lines in parts.items()]
    return StsTask(name, split, tuple(subsets), data)


def read_splits(name: str, data: Path, splits: Iterable[str] = SPLITS) -> list[StsTask]:
    """Read those of some splits that a set has."""
    its_splits = listed_task(name, data).splits
    return [read(name, data, split) for split in splits if split in its_splits]


def _subset(name: str, lines: Sequence[Line], least: float, most: float) -> Subset:
    golds = []
    for line in lines:
        try:
            gold = float(line.answer)
        except ValueError:
            gold = np.nan
        if not least <= gold <= most:  # NaN fails both comparisons
            problem = f"gold score {line.answer!r} is not a number from {least:g} to {most:g}"
            if name.startswith(OWN_STS):
                problem += ", the 'range' of the set in manifest.json"
            raise bad(line.path, line.number, problem)
        golds.append(gold)
    if len({*golds}) < 2:
        raise UserError(
            f"{name}: all gold scores are equal, so no rank correlation exists; correct the file, "
            "or the columns in manifest.json"
        )
    firsts, seconds = zip(*(line.texts for line in lines), strict=True)
    return Subset(name, firsts, seconds, np.interp(golds, (least, most), (0, 5)))


def cosine(firsts: np.ndarray, seconds: np.ndarray) -> np.ndarray:
    """Return the row-wise cosine of two arrays (n, d) as float64 (n,); 0 for zero vectors.

    A float32 sum has an error in the seventh digit, which can reorder close pairs. The error of
    float64, 1e-15, is rounded away at 1e-12, so that pairs of equal vectors tie: 65 of
    SMTeuroparl's 459 pairs have equal sentences, and their random order would change STS12's mean
    by 0.01 points.
    """
    firsts, seconds = firsts.astype(np.float64), seconds.astype(np.float64)
    dot = np.einsum("nd,nd->n", firsts, seconds)
    norms = np.linalg.norm(firsts, axis=1) * np.linalg.norm(seconds, axis=1)
    # SentEval has 0 for a zero vector, too
    # (facebookresearch/SentEval@5d6dc11:senteval/utils.py:38-39).
    return np.round(np.divide(dot, norms, out=np.zeros_like(dot), where=norms > 0), 12)


def similarities(task: StsTask, vectors: EncodeSentences) -> list[np.ndarray]:
    """The cosine of each pair, one array per subset, from the `vectors` of both columns."""
    return [
        cosine(*look_up(_title(task, subset), (subset.first, subset.second), vectors))
        for subset in task.subsets
    ]


def score_pairs(task: StsTask, predicted: Sequence[np.ndarray]) -> list[dict[str, Any]]:
    """Score the `similarities` of one task. Returns a record for each metric of pairs and each
    aggregation, with its value in points (x 100), unrounded."""
    golds = [subset.gold for subset in task.subsets]
    records = []
    for name, metric in metrics_of(PAIRS, task.name).items():
        pooled = _correlation(metric, task.name, np.concatenate(predicted), np.concatenate(golds))
        # Papers print "all", which SimCSE added to SentEval's two means
        # (princeton-nlp/SimCSE@49fa580:SentEval/senteval/sts.py:61-62, 78-79, 97-98).
        values = {"all": pooled}
        if len(golds) > 1:
            by_subset = [
                _correlation(metric, _title(task, subset), values, subset.gold)
                for subset, values in zip(task.subsets, predicted, strict=True)
            ]
            values["mean"] = float(np.mean(by_subset))
            values["wmean"] = float(np.average(by_subset, weights=list(map(len, golds))))
        for aggregation, value in values.items():
            records.append(score_record(task.name, task.split, name, 100 * value, aggregation))
    return records


def _title(task: StsTask, subset: Subset) -> str:
    return task.name if subset.name == task.name else f"{task.name} {subset.name}"


def _correlation(metric: Metric, name: str, predicted: np.ndarray, gold: np.ndarray) -> float:
    if np.ptp(predicted) == 0:
        raise UserError(
            f"{name}: all similarities are equal, so no rank correlation exists; "
            "has the encoder collapsed?"
        )
    assert metric.formula
    return metric.formula(gold, predicted)
