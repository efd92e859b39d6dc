"""Semantic textual similarity: the seven STS tasks and user-defined ones, by SentEval's protocol.

The similarity of a pair is the cosine of its vectors. The score of a task is Spearman's correlation
of similarities and gold scores. STS12-16 have several subsets: "all" correlates over the pairs of
all subsets (as in papers), "mean" is the mean of the subsets' correlations, and "wmean" the mean
weighted by number of pairs.

Files (`DATA/downstream/`), all UTF-8 and tab-separated:
  STS/STS12-en-test/STS.input.SUBSET.txt     two sentences; STS.gs.SUBSET.txt beside it: the gold
                                             score, or a blank line
  STS/STSBenchmark/sts-SPLIT.csv             gold in the 5th column, sentences in the 6th and 7th
  SICK/SICK_{train,trial,test_annotated}.txt header; id, two sentences, gold, entailment

Subsets and numbers of pairs come from a manifest: the data folder's own `manifest.json`, else
SentEval's.

The manifest can describe further sets: the numbers of pairs under "sts", the files under
"sts_files". Chinese STS-B (CNSD) is one; user-defined sets are called `sts:NAME`:

    {"name": "mine", "sts": {"sts:german": {"dev": 500, "test": 500}},
     "sts_files": {"sts:german": {"path": "german/{split}.tsv", "columns": [1, 2, 0]}}}

`path` is relative to `downstream/`; `{split}` is replaced by the name of the split. `columns` are
those of the two sentences and of the gold score (0 to 5), counted from 0. Defaults: `separator` is
a tab, `header` is false.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from bench.datasets.manifest import SPLITS as SPLITS
from bench.datasets.manifest import Vectors, bad, check_count, clean, look_up, manifest, rows, sizes
from bench.datasets.tasks import DEV_AVERAGE, is_described
from bench.download import read_lines
from bench.utils.errors import UserError

SICK_FILES = {"train": "train", "dev": "trial", "test": "test_annotated"}


@dataclass(frozen=True)
class Subset:
    """Pairs of sentences, and gold similarities from 0 or 1 to 5, float64 (n,)."""

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
        return (text for subset in self.subsets for text in subset.first + subset.second)

    def target(self) -> Iterable[str]:
        """Return all sentences of the set, pair by pair, with duplicates: of train, dev and test
        for STS-B and SICK-R (docs/methods.md#bert-whitening), of all splits of a described set.
        """
        splits = [self.split]
        if self.data and _has_splits(self.name):
            counts = sizes("sts", self.name, self.data)
            splits = [split for split in SPLITS if split in counts]
        for split in splits:
            task = self if split == self.split else read(self.name, self.data or Path(), split)
            for subset in task.subsets:
                yield from chain.from_iterable(zip(subset.first, subset.second, strict=True))


def read(task: str, data: Path, split: str = "test") -> StsTask:
    """Read one task, or a set described in the manifest, from the folder that holds `downstream/`.

    All have the split "test"; STS-B and SICK-R also have "train" and "dev" ("trial" in SICK's
    files), and a described set has the splits in the manifest.

    Raises:
        UserError: a file that is missing, truncated, wrongly encoded or of another length than in
            the manifest; a gold score outside 0 to 5; a pair without a sentence.
    """
    folder, counts = Path(data) / "downstream", sizes("sts", task, data)
    if split == "test" and not _has_splits(task):
        year = folder / "STS" / f"{task}-en-test"
        subsets = [_read_year(name, year, pairs) for name, pairs in counts.items()]
        return StsTask(task, split, tuple(subsets), Path(data))
    if split not in counts:
        raise UserError(
            f"the manifest of {data} has no {task} {split}; choose another task or data set"
        )
    if task == "STS-B":
        path = folder / "STS" / "STSBenchmark" / f"sts-{split}.csv"
        subset = _read_table(task, path, counts[split], (5, 6, 4))
    elif task == "SICK-R":
        path = folder / "SICK" / f"SICK_{SICK_FILES[split]}.txt"
        subset = _read_table(task, path, counts[split], (1, 2, 3), header=True)
    else:
        form = manifest(data).sts_files[task]
        path = folder / form.path.replace("{split}", split)
        options = {"separator": form.separator, "header": form.header, "even": True}
        subset = _read_table(task, path, counts[split], form.columns, **options)
    return StsTask(task, split, (subset,), Path(data))


def _has_splits(task: str) -> bool:
    return task in DEV_AVERAGE or is_described(task)


def _title(task: str, subset: Subset) -> str:
    """Return the name of a subset for messages."""
    return task if subset.name == task else f"{task} {subset.name}"


def scored_splits(task: str, data: Path) -> list[str]:
    """Return the splits of a task that are scored: test, and dev if there is one."""
    if not is_described(task):
        return ["test", "dev"] if task in DEV_AVERAGE else ["test"]
    listed = sizes("sts", task, data)
    return [split for split in ("test", "dev") if split in listed]


def _read_year(name: str, folder: Path, pairs: int) -> Subset:
    texts, golds = folder / f"STS.input.{name}.txt", folder / f"STS.gs.{name}.txt"
    inputs, scores = list(rows(texts, 2)), list(read_lines(golds))
    if len(inputs) != len(scores):
        raise UserError(
            f"{texts} has {len(inputs)} lines but {golds.name} has {len(scores)}; "
            "fix them or fetch both again"
        )
    # Only some pairs of 2015 and 2016 were annotated; the others have a blank gold line.
    scored = [
        (number, first, second, gold)
        for (number, (first, second, *_)), gold in zip(inputs, scores, strict=True)
        if gold.strip()
    ]
    check_count(golds, len(scored), pairs, "lines with a gold score")
    return _subset(name, golds, scored)


def _read_table(name: str, path: Path, pairs: int, columns: Sequence[int], **form: Any) -> Subset:
    """Read the pairs of a table; `form` as in `bench.datasets.manifest.rows`."""
    lines = list(rows(path, max(columns) + 1, **form))
    check_count(path, len(lines), pairs, "pairs")
    return _subset(
        name, path, [(number, *(row[column] for column in columns)) for number, row in lines]
    )


def _subset(name: str, path: Path, pairs: Sequence[tuple[Any, ...]]) -> Subset:
    """Return a subset of pairs: number of the line of the gold score in `path`, sentences, gold."""
    sentences = [(clean(first), clean(second)) for _, first, second, _ in pairs]
    golds = np.empty(len(pairs))
    for row, (number, _, _, gold) in enumerate(pairs):
        if not all(sentences[row]):
            raise bad(path, number, "the pair lacks a sentence")
        try:
            golds[row] = float(gold)
        except ValueError:
            golds[row] = np.nan
        if not 0 <= golds[row] <= 5:  # NaN is not, either
            raise bad(path, number, f"gold score {gold.strip()!r} is not a number from 0 to 5")
    first, second = zip(*sentences, strict=True)
    return Subset(name, first, second, golds)


def cosine(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the row-wise cosine of two arrays (n, d) as float64 (n,); 0 for zero vectors.

    A float32 sum has an error in the seventh digit, which can reorder close pairs. The error of
    float64, 1e-15, is rounded away at 1e-12, so that pairs of equal vectors tie: 65 of
    SMTeuroparl's 459 pairs have equal sentences, and their random order would change STS12's mean
    by 0.01 points.
    """
    first, second = first.astype(np.float64), second.astype(np.float64)
    dot = np.einsum("nd,nd->n", first, second)
    norms = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    return np.round(np.divide(dot, norms, out=np.zeros_like(dot), where=norms > 0), 12)


def similarities(task: StsTask, vectors: Vectors) -> list[np.ndarray]:
    """The cosine of each pair, one array per subset, from the `vectors` of both columns.

    Raises:
        UserError: vectors of a wrong shape or not finite.
    """
    return [
        cosine(*look_up(_title(task.name, subset), (subset.first, subset.second), vectors))
        for subset in task.subsets
    ]


def score(task: StsTask, vectors: Vectors) -> list[dict[str, Any]]:
    """Score an encoder, `vectors`, on one task; it is called for both columns of each subset.

    Returns:
        Dicts with `task`, `split`, `metric` ("spearman"), `aggregation` ("all"; with several
        subsets also "mean" and "wmean") and `value` in points (x 100), unrounded.

    Raises:
        UserError: vectors of a wrong shape or not finite, or equal similarities in a subset, for
            which SentEval returns NaN or a meaningless score.
    """
    predicted, golds = similarities(task, vectors), [subset.gold for subset in task.subsets]
    values = {"all": _spearman(task.name, np.concatenate(predicted), np.concatenate(golds))}
    if len(golds) > 1:
        titles = [_title(task.name, subset) for subset in task.subsets]
        each = [*map(_spearman, titles, predicted, golds)]
        values["mean"] = float(np.mean(each))
        values["wmean"] = float(np.average(each, weights=[len(gold) for gold in golds]))
    common = {"task": task.name, "split": task.split, "metric": "spearman"}
    return [
        common | {"aggregation": aggregation, "value": 100 * value}
        for aggregation, value in values.items()
    ]


def _spearman(name: str, similarities: np.ndarray, gold: np.ndarray) -> float:
    from scipy.stats import spearmanr

    for values, what in ((similarities, "similarities"), (gold, "gold scores")):
        if np.ptp(values) == 0:
            raise UserError(
                f"{name}: all {what} are equal, so no rank correlation exists; "
                "has the encoder collapsed?"
            )
    return float(spearmanr(similarities, gold).statistic)
