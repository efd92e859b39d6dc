"""Semantic textual similarity: the seven tasks and any others, their files and SentEval's protocol.

A pair's similarity is the cosine of its two vectors, a task's score is Spearman's correlation of similarities and gold
scores. STS12-16 have several subsets: "all" correlates over all their pairs at once (what papers print), "mean" and
"wmean" average the subsets' correlations, plainly and by number of pairs.

Files (`DATA/downstream/`), all UTF-8 and tab-separated:
  STS/STS12-en-test/STS.input.SUBSET.txt  two sentences; STS.gs.SUBSET.txt beside it: the gold score, or a blank line
  STS/STSBenchmark/sts-SPLIT.csv          gold in the 5th column, sentences in the 6th and 7th
  SICK/SICK_{train,trial,test_annotated}.txt  header; id, two sentences, gold, entailment

Subsets and numbers of pairs come from a manifest: the data folder's own `manifest.json`, else SentEval's.

Any other set of pairs, in any language, is described there: its numbers of pairs under "sts", its files under
"sts_files". Chinese STS-B (CNSD) is one; one of a user's own is called `sts:NAME`:

    {"name": "mine", "sts": {"sts:german": {"dev": 500, "test": 500}},
     "sts_files": {"sts:german": {"path": "german/{split}.tsv", "columns": [1, 2, 0]}}}

`path` is below `downstream/`, with `{split}` where the split's name stands; `columns` are those of the two sentences
and of the gold score (0 to 5), counted from 0; `separator` is a tab and `header` is false where they are not given.
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
FORM = ("path", "columns", "separator", "header")  # of a described set, in a manifest


@dataclass(frozen=True)
class Subset:
    """Pairs of sentences, `first[i]` and `second[i]`, with gold similarities `gold[i]` (float64[n], 0-5 or 1-5)."""

    name: str
    first: tuple[str, ...]
    second: tuple[str, ...]
    gold: np.ndarray


@dataclass(frozen=True)
class StsTask:
    """One split of one task; STS-B and SICK-R have one subset that carries the task's name."""

    name: str
    split: str
    subsets: tuple[Subset, ...]

    def sentences(self) -> Iterable[str]:
        """All sentences, repeated ones too."""
        return (text for subset in self.subsets for text in subset.first + subset.second)


def read(task: str, data: Path, split: str = "test") -> StsTask:
    """Read one task from a data folder, checked against the manifest.

    Args:
        task: one of `TASKS`, or a set that the manifest describes.
        data: the folder that holds `downstream/`.
        split: "test"; STS-B and SICK-R also have "train" and "dev" (SICK's is called trial in its files), and a set
            that the manifest describes has those that it lists.

    Raises:
        UserError: an unknown task or split; a file that is missing, cut short, of another length than the manifest
            says, wrongly encoded, or with a gold score that is no number from 0 to 5; a pair without a sentence; gold
            scores that are all equal.
    """
    if task not in TASKS and not is_described(task):
        raise UserError(f"unknown STS task {task!r}{did_you_mean(task, (*TASKS, *CHINESE_TASKS))}")
    has_splits = task in ("STS-B", "SICK-R") or is_described(task)
    if split not in (SPLITS if has_splits else ("test",)):
        known = "train, dev and test" if has_splits else "test alone"
        raise UserError(f"{task} has no split {split!r}; it has {known}")
    folder = Path(data) / "downstream"
    counts = sizes("sts", task, data)
    if has_splits and split not in counts:
        raise UserError(f"the manifest of {data} lists no {task} {split}; choose another task or data")
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
                f"{_called(task, subset)}: all gold scores are equal, so nothing can correlate; mend the file"
            )
        lacking = [not (first and second) for first, second in zip(subset.first, subset.second, strict=True)]
        if any(lacking):
            raise UserError(
                f"{_called(task, subset)}: pair {lacking.index(True) + 1} lacks a sentence; mend its file or fetch it "
                "again"
            )
    return StsTask(task, split, tuple(subsets))


def _called(task: str, subset: Subset) -> str:
    """A part of a task by name, which may be all of it."""
    return task if subset.name == task else f"{task} {subset.name}"


def scored_splits(task: str, data: Path) -> list[str]:
    """The splits of a task that are scored: the test set, and the dev set where there is one.

    Raises:
        UserError: a set that the manifest describes has an unknown part, or neither of the two.
    """
    if is_described(task):
        listed = sizes("sts", task, data)
        if unknown := set(listed) - set(SPLITS):
            raise UserError(
                f"the manifest of {data} gives {task} a part '{min(unknown)}'{did_you_mean(min(unknown), SPLITS)}"
            )
        scored: list[str] = [split for split in ("test", "dev") if split in listed]
        if not scored:
            raise UserError(f"the manifest of {data} gives {task} neither a test nor a dev part; add one")
        return scored
    return ["test", "dev"] if task in ("STS-B", "SICK-R") else ["test"]


def _read_described(task: str, data: Path, split: str, pairs: int) -> Subset:
    def wrong(what: str) -> UserError:
        return UserError(f"the manifest of {data}, sts_files, {task}: {what}")

    form = manifest(data).get("sts_files", {}).get(task)
    if not isinstance(form, dict) or not {"path", "columns"} <= form.keys():
        raise UserError(
            f'the manifest of {data} does not say how {task} is read; give "path", and "columns" of the two sentences '
            f'and the score, in its table "sts_files"'
        )
    stated: dict[str, Any] = {"separator": "\t", "header": False} | form
    if unknown := sorted(stated.keys() - FORM):
        raise wrong(f"unknown key '{unknown[0]}'{did_you_mean(unknown[0], FORM)}")
    path, columns, separator, header = (stated[key] for key in FORM)
    if not isinstance(path, str) or not path:
        raise wrong('"path" is no text; name a file below downstream/')
    if ".." in Path(path).parts or Path(path).is_absolute():
        raise UserError(f"the manifest of {data}: the path of {task} leads out of downstream/; put its file there")
    if "{split}" not in path and len(sizes("sts", task, data)) > 1:
        raise wrong("it has several parts, and one path for all of them; write {split} where the part's name stands")
    whole = isinstance(columns, list) and len(columns) == 3 and all(type(each) is int for each in columns)
    if not whole or min(columns) < 0 or len(set(columns)) < 3:
        raise wrong('"columns" are three different whole numbers from 0 on: of the two sentences, and of the score')
    if not isinstance(separator, str) or not separator:
        raise wrong('"separator" is the text between two fields; leave it out where it is a tab')
    if not isinstance(header, bool):
        raise wrong('"header" is true or false')
    file = data / "downstream" / path.replace("{split}", split)
    return _read_table(task, file, tuple(columns), header, pairs, separator, even=True)


def _read_two_files(name: str, folder: Path, pairs: int) -> Subset:
    input_path, gold_path = folder / f"STS.input.{name}.txt", folder / f"STS.gs.{name}.txt"
    inputs, golds = list(read_lines(input_path)), list(read_lines(gold_path))
    if len(inputs) != len(golds):
        raise UserError(
            f"{input_path} has {len(inputs)} lines but {gold_path.name} has {len(golds)}; mend them or fetch both again"
        )
    # Only a sample of the pairs of 2015 and 2016 was annotated; the others have a blank gold line.
    rows = [(number, *pair) for number, pair in enumerate(zip(inputs, golds, strict=True), start=1) if pair[1].strip()]
    check_count(gold_path, len(rows), pairs, "lines with a gold score")
    pairs_read = [fields(input_path, number, line, 2) for number, line, _ in rows]
    gold = [_number(gold_path, number, text) for number, _, text in rows]
    return Subset(
        name, tuple(clean(pair[0]) for pair in pairs_read), tuple(clean(pair[1]) for pair in pairs_read), np.array(gold)
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
    """Pairs of a table; in an `even` one all lines have as many fields as the first, or a sentence was cut in two."""
    lines = list(enumerate(read_lines(path), start=1))[1 if header else 0 :]
    check_count(path, len(lines), pairs, "pairs")
    width = len(lines[0][1].split(separator)) if even else None
    rows = [(number, fields(path, number, line, max(columns) + 1, separator, width)) for number, line in lines]
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
            f"{path}, line {number}: gold score {text.strip()!r} is not a number; mend it or fetch it again"
        )
    if not 0 <= value <= 5:
        raise UserError(f"{path}, line {number}: gold score {text.strip()!r} is not between 0 and 5; mend the file")
    return value


def cosine(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Row-wise cosine of two arrays [n, d], as float64[n]; 0 where a vector is zero.

    Vectors are float32 but their products are summed in float64: a sum of some hundred float32 products is off in the
    seventh digit, enough to reorder close pairs, so that a score would depend on the order of summation. The 1e-15
    that remains is rounded away at 1e-12, so that pairs of equal vectors tie, as average ranks ask for: 65 of
    SMTeuroparl's 459 pairs are of equal sentences, and left to chance their order moves STS12's mean by 0.01 points.
    """
    first, second = first.astype(np.float64), second.astype(np.float64)
    dot = np.einsum("nd,nd->n", first, second)
    norms = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    return np.round(np.divide(dot, norms, out=np.zeros_like(dot), where=norms > 0), 12)


def score(task: StsTask, vectors: Vectors) -> list[dict[str, Any]]:
    """Score an encoder on one task.

    Args:
        task: what `read` returned.
        vectors: sentences -> float32[n, d]; asked for each subset's first and second sentences.

    Returns:
        Dicts with `task`, `split`, `metric` ("spearman"), `aggregation` and `value` in points (x 100), unrounded.
        Aggregations: "all"; tasks of several subsets also "mean" and "wmean".

    Raises:
        UserError: vectors of a wrong shape or not finite; all similarities of a subset equal, where no rank
            correlation exists. (SentEval would print NaN or, for vectors of NaN, a score of something else.)
    """
    similarities = [
        cosine(*look_up(_called(task.name, subset), (subset.first, subset.second), vectors)) for subset in task.subsets
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
    return [common | {"aggregation": aggregation, "value": 100 * value} for aggregation, value in values.items()]


def _spearman(name: str, similarities: np.ndarray, gold: np.ndarray) -> float:
    for values, what in ((similarities, "similarities"), (gold, "gold scores")):
        if np.ptp(values) == 0:
            raise UserError(f"{name}: all {what} are equal, so no rank correlation exists; has the encoder collapsed?")
    return float(spearmanr(similarities, gold).statistic)
