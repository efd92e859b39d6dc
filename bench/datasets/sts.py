"""Semantic textual similarity: the seven STS tasks and user-defined ones, by SentEval's protocol.

The similarity of a pair is the cosine of its vectors. The score of a task is Spearman's correlation
of similarities and gold scores. STS12-16 have several subsets: "all" correlates over the pairs of
all subsets (as in papers), "mean" is the mean of the subsets' correlations, and "wmean" the mean
weighted by number of pairs.

Files (`DATA/downstream/`), all UTF-8 and tab-separated:
  STS/STS12-en-test/STS.input.SUBSET.txt  two sentences; STS.gs.SUBSET.txt beside it: the gold
  score, or a blank line STS/STSBenchmark/sts-SPLIT.csv          gold in the 5th column, sentences
  in the 6th and 7th SICK/SICK_{train,trial,test_annotated}.txt  header; id, two sentences, gold,
  entailment

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

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from bench.datasets.manifest import Vectors, check_count, clean, fields, look_up, manifest, sizes
from bench.datasets.tasks import CHINESE_TASKS, is_described
from bench.datasets.tasks import STS_TASKS as TASKS
from bench.download import read_lines
from bench.utils.errors import UserError, did_you_mean

SICK_FILES = {"train": "SICK_train.txt", "dev": "SICK_trial.txt", "test": "SICK_test_annotated.txt"}
SPLITS = ("train", "dev", "test")
FORM = ("path", "columns", "separator", "header")  # keys of a set in "sts_files"


@dataclass(frozen=True)
class Subset:
    """Pairs of sentences, `first[i]` and `second[i]`, with gold similarities `gold[i]` (float64
    (n,), 0-5 or 1-5)."""

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

    def sentences(self) -> Iterable[str]:
        """Return all sentences, with duplicates."""
        return (text for subset in self.subsets for text in subset.first + subset.second)


def read(task: str, data: Path, split: str = "test") -> StsTask:
    """Read one task from a data folder, checked against the manifest.

    Args:
        task: one of `TASKS`, or a set described in the manifest.
        data: the folder that holds `downstream/`.
        split: "test"; STS-B and SICK-R also have "train" and "dev" ("trial" in SICK's files), and a
            described set has the splits in the manifest.

    Raises:
        UserError: unknown task or split; a file that is missing, truncated, wrongly encoded or of
            another length than in the manifest; a gold score outside 0 to 5; a pair without a
            sentence; gold scores that are all equal.
    """
    if task not in TASKS and not is_described(task):
        raise UserError(f"unknown STS task {task!r}{did_you_mean(task, (*TASKS, *CHINESE_TASKS))}")
    has_splits = task in ("STS-B", "SICK-R") or is_described(task)
    if split not in (SPLITS if has_splits else ("test",)):
        raise UserError(
            f"{task} has no split {split!r}; it has {'train, dev and test' if has_splits else 'only test'}"
        )
    folder = Path(data) / "downstream"
    counts = sizes("sts", task, data)
    if has_splits and split not in counts:
        raise UserError(
            f"the manifest of {data} has no {task} {split}; choose another task or data set"
        )
    if task == "STS-B":
        path = folder / "STS" / "STSBenchmark" / f"sts-{split}.csv"
        subsets = [_read_table(task, path, columns=(5, 6, 4), header=False, pairs=counts[split])]
    elif task == "SICK-R":
        path = folder / "SICK" / SICK_FILES[split]
        subsets = [_read_table(task, path, columns=(1, 2, 3), header=True, pairs=counts[split])]
    elif is_described(task):
        subsets = [_read_described(task, Path(data), split, counts[split])]
    else:
        year = folder / "STS" / f"{task}-en-test"
        subsets = [_read_two_files(name, year, pairs) for name, pairs in counts.items()]
    for subset in subsets:
        if np.ptp(subset.gold) == 0:
            raise UserError(
                f"{_title(task, subset)}: all gold scores are equal, so no correlation exists; fix the file"
            )
        missing = [
            not (first and second)
            for first, second in zip(subset.first, subset.second, strict=True)
        ]
        if any(missing):
            raise UserError(
                f"{_title(task, subset)}: pair {missing.index(True) + 1} lacks a sentence; "
                "fix its file or fetch it again"
            )
    return StsTask(task, split, tuple(subsets))


def _title(task: str, subset: Subset) -> str:
    """Return the name of a subset for messages."""
    return task if subset.name == task else f"{task} {subset.name}"


def scored_splits(task: str, data: Path) -> list[str]:
    """Return the splits of a task that are scored: test, and dev if there is one.

    Raises:
        UserError: a described set has an unknown split, or neither of the two.
    """
    if is_described(task):
        listed = sizes("sts", task, data)
        if unknown := set(listed) - set(SPLITS):
            raise UserError(
                f"the manifest of {data} gives {task} an unknown split '{min(unknown)}'"
                f"{did_you_mean(min(unknown), SPLITS)}"
            )
        scored: list[str] = [split for split in ("test", "dev") if split in listed]
        if not scored:
            raise UserError(
                f"the manifest of {data} gives {task} neither a test nor a dev split; add one"
            )
        return scored
    return ["test", "dev"] if task in ("STS-B", "SICK-R") else ["test"]


def _read_described(task: str, data: Path, split: str, pairs: int) -> Subset:
    def error(problem: str) -> UserError:
        return UserError(f"the manifest of {data}, sts_files, {task}: {problem}")

    form = manifest(data).get("sts_files", {}).get(task)
    if not isinstance(form, dict) or not {"path", "columns"} <= form.keys():
        raise UserError(
            f'the manifest of {data} does not describe the files of {task}; add "path" and "columns" to its table '
            f'"sts_files"'
        )
    stated: dict[str, Any] = {"separator": "\t", "header": False} | form
    if unknown := sorted(stated.keys() - FORM):
        raise error(f"unknown key '{unknown[0]}'{did_you_mean(unknown[0], FORM)}")
    path, columns, separator, header = (stated[key] for key in FORM)
    if not isinstance(path, str) or not path:
        raise error('"path" is not a string; give a file below downstream/')
    if ".." in Path(path).parts or Path(path).is_absolute():
        raise UserError(
            f"the manifest of {data}: the path of {task} leads out of downstream/; move the file there"
        )
    if "{split}" not in path and len(sizes("sts", task, data)) > 1:
        raise error(
            "several splits share one path; write {split} in place of the name of the split"
        )
    whole = (
        isinstance(columns, list)
        and len(columns) == 3
        and all(type(each) is int for each in columns)
    )
    if not whole or min(columns) < 0 or len(set(columns)) < 3:
        raise error(
            '"columns" must be three different integers from 0: of the two sentences and the score'
        )
    if not isinstance(separator, str) or not separator:
        raise error('"separator" must be a non-empty string; leave it out for a tab')
    if not isinstance(header, bool):
        raise error('"header" must be true or false')
    file = data / "downstream" / path.replace("{split}", split)
    return _read_table(task, file, tuple(columns), header, pairs, separator, even=True)


def _read_two_files(name: str, folder: Path, pairs: int) -> Subset:
    input_path, gold_path = folder / f"STS.input.{name}.txt", folder / f"STS.gs.{name}.txt"
    inputs, golds = list(read_lines(input_path)), list(read_lines(gold_path))
    if len(inputs) != len(golds):
        raise UserError(
            f"{input_path} has {len(inputs)} lines but {gold_path.name} has {len(golds)}; fix them or fetch both again"
        )
    # Only some pairs of 2015 and 2016 were annotated; the others have a blank gold line.
    rows = [
        (number, *pair)
        for number, pair in enumerate(zip(inputs, golds, strict=True), start=1)
        if pair[1].strip()
    ]
    check_count(gold_path, len(rows), pairs, "lines with a gold score")
    pairs_read = [fields(input_path, number, line, 2) for number, line, _ in rows]
    gold = [_number(gold_path, number, text) for number, _, text in rows]
    return Subset(
        name,
        tuple(clean(pair[0]) for pair in pairs_read),
        tuple(clean(pair[1]) for pair in pairs_read),
        np.array(gold),
    )


def _read_table(
    name: str,
    path: Path,
    columns: tuple[int, ...],
    header: bool,
    pairs: int,
    separator: str = "\t",
    even: bool = False,
) -> Subset:
    """Read the pairs of a table. If `even`, every line must have as many fields as the first
    one."""
    lines = list(enumerate(read_lines(path), start=1))[1 if header else 0 :]
    check_count(path, len(lines), pairs, "pairs")
    width = len(lines[0][1].split(separator)) if even else None
    rows = [
        (number, fields(path, number, line, max(columns) + 1, separator, width))
        for number, line in lines
    ]
    first, second, gold = columns
    return Subset(
        name,
        tuple(clean(row[first]) for _, row in rows),
        tuple(clean(row[second]) for _, row in rows),
        np.array([_number(path, number, row[gold]) for number, row in rows]),
    )


def _number(path: Path, number: int, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = np.nan
    if not np.isfinite(value) or "_" in text:
        raise UserError(
            f"{path}, line {number}: gold score {text.strip()!r} is not a number; fix it or fetch it again"
        )
    if not 0 <= value <= 5:
        raise UserError(
            f"{path}, line {number}: gold score {text.strip()!r} is not between 0 and 5; fix the file"
        )
    return value


def cosine(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the row-wise cosine of two arrays (n, d) as float64 (n,); 0 for zero vectors.

    Products are summed in float64. A float32 sum of some hundred products has an error in the
    seventh digit, which can reorder close pairs, so scores would depend on the order of summation.
    The remaining error of 1e-15 is rounded away at 1e-12, so that pairs of equal vectors tie: 65 of
    SMTeuroparl's 459 pairs have equal sentences, and their random order would change STS12's mean
    by 0.01 points.
    """
    first, second = first.astype(np.float64), second.astype(np.float64)
    dot = np.einsum("nd,nd->n", first, second)
    norms = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    return np.round(np.divide(dot, norms, out=np.zeros_like(dot), where=norms > 0), 12)


def score(task: StsTask, vectors: Vectors) -> list[dict[str, Any]]:
    """Score an encoder on one task.

    Args:
        task: result of `read`.
        vectors: encodes sentences, float32 (n, d); called for both columns of each subset.

    Returns:
        Dicts with `task`, `split`, `metric` ("spearman"), `aggregation` and `value` in points (x
        100), unrounded.
        Aggregations: "all"; with several subsets also "mean" and "wmean".

    Raises:
        UserError: vectors of a wrong shape or not finite, or equal similarities in a subset, which
            have no rank correlation. (SentEval returns NaN or, for NaN vectors, a meaningless
            score.)
    """
    similarities = [
        cosine(*look_up(_title(task.name, subset), (subset.first, subset.second), vectors))
        for subset in task.subsets
    ]
    golds = [subset.gold for subset in task.subsets]
    values = {"all": _spearman(task.name, np.concatenate(similarities), np.concatenate(golds))}
    if len(task.subsets) > 1:
        each = [
            _spearman(f"{task.name} {subset.name}", similarity, subset.gold)
            for subset, similarity in zip(task.subsets, similarities, strict=True)
        ]
        values["mean"] = float(np.mean(each))
        values["wmean"] = float(np.average(each, weights=[len(gold) for gold in golds]))
    common = {"task": task.name, "split": task.split, "metric": "spearman"}
    return [
        common | {"aggregation": aggregation, "value": 100 * value}
        for aggregation, value in values.items()
    ]


def _spearman(name: str, similarities: np.ndarray, gold: np.ndarray) -> float:
    for values, what in ((similarities, "similarities"), (gold, "gold scores")):
        if np.ptp(values) == 0:
            raise UserError(
                f"{name}: all {what} are equal, so no rank correlation exists; has the encoder collapsed?"
            )
    return float(spearmanr(similarities, gold).statistic)
