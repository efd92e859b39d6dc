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

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from bench.datasets.manifest import Vectors, bad, check_count, clean, look_up, manifest, rows, sizes
from bench.datasets.tasks import CHINESE_TASKS, DEV_AVERAGE, is_described
from bench.datasets.tasks import STS_TASKS as TASKS
from bench.download import read_lines
from bench.utils.errors import UserError, did_you_mean

SICK_FILES = {"train": "train", "dev": "trial", "test": "test_annotated"}
SPLITS = ("train", "dev", "test")
FORM = ("path", "columns", "separator", "header")  # keys of a set in "sts_files"


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

        Raises:
            UserError: as `read`, for the other splits.
        """
        for split in _splits(self.name, self.data) if self.data else [self.split]:
            task = self if split == self.split else read(self.name, self.data or Path(), split)
            for subset in task.subsets:
                yield from chain.from_iterable(zip(subset.first, subset.second, strict=True))


def read(task: str, data: Path, split: str = "test") -> StsTask:
    """Read one task, or a set described in the manifest, from the folder that holds `downstream/`.

    All have the split "test"; STS-B and SICK-R also have "train" and "dev" ("trial" in SICK's
    files), and a described set has the splits in the manifest.

    Raises:
        UserError: unknown task or split; a file that is missing, truncated, wrongly encoded or of
            another length than in the manifest; a gold score outside 0 to 5; a pair without a
            sentence; gold scores that are all equal.
    """
    if task not in TASKS and not is_described(task):
        raise UserError(f"unknown STS task {task!r}{did_you_mean(task, (*TASKS, *CHINESE_TASKS))}")
    has_splits = _has_splits(task)
    if split not in (SPLITS if has_splits else ("test",)):
        found = "train, dev and test" if has_splits else "only test"
        raise UserError(f"{task} has no split {split!r}; it has {found}")
    folder, counts = Path(data) / "downstream", sizes("sts", task, data)
    if has_splits and split not in counts:
        raise UserError(
            f"the manifest of {data} has no {task} {split}; choose another task or data set"
        )
    if not has_splits:
        year = folder / "STS" / f"{task}-en-test"
        subsets = [_read_year(name, year, pairs) for name, pairs in counts.items()]
    elif task == "STS-B":
        path = folder / "STS" / "STSBenchmark" / f"sts-{split}.csv"
        subsets = [_read_table(task, path, counts[split], (5, 6, 4))]
    elif task == "SICK-R":
        path = folder / "SICK" / f"SICK_{SICK_FILES[split]}.txt"
        subsets = [_read_table(task, path, counts[split], (1, 2, 3), header=True)]
    else:
        path, form = _described(task, Path(data), split)
        subsets = [_read_table(task, path, counts[split], **form, even=True)]
    for subset in subsets:
        if np.ptp(subset.gold) == 0:
            raise UserError(
                f"{_title(task, subset)}: all gold scores are equal, so no correlation exists; "
                "fix the file"
            )
        for number, pair in enumerate(zip(subset.first, subset.second, strict=True), start=1):
            if not all(pair):
                raise UserError(
                    f"{_title(task, subset)}: pair {number} lacks a sentence; "
                    "fix its file or fetch it again"
                )
    return StsTask(task, split, tuple(subsets), Path(data))


def _has_splits(task: str) -> bool:
    return task in DEV_AVERAGE or is_described(task)


def _splits(task: str, data: Path) -> list[str]:
    """Return the splits of a task that a data folder has."""
    if not _has_splits(task):
        return ["test"]
    counts = sizes("sts", task, data)
    return [split for split in SPLITS if split in counts]


def _title(task: str, subset: Subset) -> str:
    """Return the name of a subset for messages."""
    return task if subset.name == task else f"{task} {subset.name}"


def scored_splits(task: str, data: Path) -> list[str]:
    """Return the splits of a task that are scored: test, and dev if there is one.

    Raises:
        UserError: a described set has an unknown split, or neither of the two.
    """
    if not is_described(task):
        return ["test", "dev"] if task in DEV_AVERAGE else ["test"]
    listed = sizes("sts", task, data)
    if unknown := sorted(set(listed) - set(SPLITS)):
        raise UserError(
            f"the manifest of {data} gives {task} an unknown split '{unknown[0]}'"
            f"{did_you_mean(unknown[0], SPLITS)}"
        )
    scored: list[str] = [split for split in ("test", "dev") if split in listed]
    if not scored:
        raise UserError(
            f"the manifest of {data} gives {task} neither a test nor a dev split; add one"
        )
    return scored


def _described(task: str, data: Path, split: str) -> tuple[Path, dict[str, Any]]:
    """Return the file of a set described in the manifest, and its columns, separator and header."""

    def error(problem: str) -> UserError:
        return UserError(f"the manifest of {data}, sts_files, {task}: {problem}")

    stated = manifest(data).get("sts_files", {}).get(task)
    if not isinstance(stated, dict) or not {"path", "columns"} <= stated.keys():
        raise UserError(
            f"the manifest of {data} does not describe the files of {task}; "
            'add "path" and "columns" to its table "sts_files"'
        )
    form: dict[str, Any] = {"separator": "\t", "header": False} | stated
    if unknown := sorted(form.keys() - FORM):
        raise error(f"unknown key '{unknown[0]}'{did_you_mean(unknown[0], FORM)}")
    path, columns = form.pop("path"), form["columns"]
    if not isinstance(path, str) or not path:
        raise error('"path" is not a string; give a file below downstream/')
    if ".." in Path(path).parts or Path(path).is_absolute():
        raise error("the path leads out of downstream/; move the file there")
    if "{split}" not in path and len(sizes("sts", task, data)) > 1:
        raise error("several splits share one path; write {split} for the name of the split")
    whole = isinstance(columns, list) and all(type(each) is int for each in columns)
    if not whole or len(columns) != 3 or min(columns) < 0 or len(set(columns)) < 3:
        raise error(
            '"columns" must be three different integers from 0: of the two sentences and the score'
        )
    if not isinstance(form["separator"], str) or not form["separator"]:
        raise error('"separator" must be a non-empty string; leave it out for a tab')
    if not isinstance(form["header"], bool):
        raise error('"header" must be true or false')
    return data / "downstream" / path.replace("{split}", split), form


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


def _read_table(
    name: str, path: Path, pairs: int, columns: Sequence[int], **form: str | bool
) -> Subset:
    """Read the pairs of a table; `form` as in `bench.datasets.manifest.rows`."""
    lines = list(rows(path, max(columns) + 1, **form))  # type: ignore[arg-type]
    check_count(path, len(lines), pairs, "pairs")
    return _subset(
        name, path, [(number, *(row[column] for column in columns)) for number, row in lines]
    )


def _subset(name: str, path: Path, pairs: Sequence[tuple[Any, ...]]) -> Subset:
    """Return a subset of pairs: number of the line of the gold score in `path`, sentences, gold."""
    numbers, first, second, gold = zip(*pairs, strict=True)
    values = [_number(path, number, text) for number, text in zip(numbers, gold, strict=True)]
    return Subset(name, tuple(map(clean, first)), tuple(map(clean, second)), np.array(values))


def _number(path: Path, number: int, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = np.nan
    if not np.isfinite(value) or "_" in text:
        raise bad(path, number, f"gold score {text.strip()!r} is not a number")
    if not 0 <= value <= 5:
        raise bad(path, number, f"gold score {text.strip()!r} is not between 0 and 5")
    return value


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
