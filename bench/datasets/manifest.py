"""What all tasks share: the manifest of a data set, lines taken apart with their place kept, vectors looked over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.datasets.tasks import kind_of
from bench.utils.errors import UserError, did_you_mean
from bench.utils.files import read_json

KEYS = ("name", "version", "source", "seed", "sts", "sts_files", "transfer", "probing")  # of a manifest
Vectors = Callable[[Sequence[str]], np.ndarray]  # of any sentences of a task, float32 [n, d]


def manifest(data: Path) -> dict[str, Any]:
    """What a data set holds: the folder's own `manifest.json`, else SentEval's.

    Returns:
        `{"name", "version", "sts": {task: {subset or split: pairs}}, "transfer": {task: {file or split: samples}},
        "probing": {task: {split: samples}}}`; a data set may lack one of the three tables. Beside them may stand
        "sts_files": {task: {"path", "separator", "columns", "header"}}, read by `bench.datasets.sts`.

    Raises:
        UserError: the folder's own manifest is not of that form.
    """
    own = Path(data) / "manifest.json"
    path = own if own.exists() else Path(__file__).with_name("senteval.json")
    content = read_json(path)
    kinds = [kind for kind in ("sts", "transfer", "probing") if isinstance(content, dict) and kind in content]
    tables = [content[kind] for kind in kinds]
    if (
        not tables
        or not isinstance(content.get("name"), str)
        or not all(
            isinstance(table, dict) and all(isinstance(counts, dict) for counts in table.values()) for table in tables
        )
    ):
        raise UserError(
            f'{path} has no name, or no tables "sts", "transfer" or "probing" of tasks with their sizes; mend it'
        )
    if unknown := sorted(content.keys() - KEYS):
        raise UserError(f"{path} has an unknown key '{unknown[0]}'{did_you_mean(unknown[0], KEYS)}")
    return content


def sizes(kind: str, task: str, data: Path) -> dict[str, int]:
    """Sizes of one task's parts by the manifest of a data folder.

    Raises:
        UserError: `data` is no data folder, its data set does not list the task, or a size is no whole number above 0.
    """
    if not (Path(data) / "downstream").is_dir():
        raise UserError(f"{data} holds no folder downstream/; name the data folder with --data or BENCH_DATA")
    listed = manifest(data)
    counts = listed.get(kind, {}).get(task)
    if not counts:
        raise UserError(f"the data set {listed.get('name', data)} lists no {task}; choose another task or data")
    for part, size in counts.items():
        if type(size) is not int or size < 1:
            raise UserError(f"the manifest in {data} gives {task} {size!r} in '{part}'; write a whole number above 0")
    return counts


def check_listed(tasks: Sequence[str], data: Path) -> None:
    """Raise `UserError` for the first of some tasks that a data folder's manifest does not list."""
    for task in tasks:
        sizes(kind_of(task), task, data)


def fields(
    path: Path, number: int, line: str, least: int, separator: str = "\t", exactly: int | None = None
) -> list[str]:
    """The fields of line `number` (from 1), at least `least` of them.

    Args:
        exactly: how many there are in every line, where that is known.

    Raises:
        UserError: there are fewer, or not that many; file and line are named.
    """
    found = line.split(separator)
    if len(found) < least or exactly not in (None, len(found)):
        kind = "tab-separated fields" if separator == "\t" else f"fields between {separator!r}"
        wanted = f"{least} or more" if len(found) < least else f"{exactly} as in the lines before"
        raise UserError(f"{path}, line {number}: {len(found)} {kind}, expected {wanted}; mend it or fetch it again")
    return found


def check_count(path: Path, found: int, expected: int, what: str) -> None:
    """Raise `UserError` for a file of another length than the manifest says."""
    if found != expected:
        raise UserError(
            f"{path}: {found} {what}, the manifest expects {expected}; fetch the file again, or, for other data, "
            f"name its counts in manifest.json beside downstream/"
        )


def clean(sentence: str) -> str:
    """Words joined by single spaces, as SentEval splits and re-joins them (methods.md d.1)."""
    return " ".join(sentence.split())


def look_up(where: str, columns: Sequence[Sequence[str]], vectors: Vectors) -> list[np.ndarray]:
    """Vectors [n, d] of each of some columns of n sentences; `where` is named when they are not what they must be.

    Raises:
        UserError: they are not one per sentence, all of one length, or not finite.
    """
    found = [np.asarray(vectors(column)) for column in columns]
    for column, array in zip(columns, found, strict=True):
        if array.ndim != 2 or len(array) != len(column) or array.shape[1] != found[0].shape[1]:
            raise UserError(
                f"{where}: the encoder gave an array of shape {array.shape} for {len(column)} sentences; "
                f"it must give one vector per sentence, all of one length"
            )
        finite = np.isfinite(array).all(axis=1)
        if not finite.all():
            text = column[int(finite.argmin())]
            raise UserError(f"{where}: the vector of {text!r} is not finite; the encoder has diverged")
    return found
