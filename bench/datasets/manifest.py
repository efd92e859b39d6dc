"""Manifest of a data set, and the parsing and validation that all tasks share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.datasets.tasks import kind_of
from bench.utils.errors import UserError, did_you_mean
from bench.utils.files import read_json

KEYS = (
    "name",
    "version",
    "source",
    "seed",
    "sts",
    "sts_files",
    "transfer",
    "probing",
)  # allowed in a manifest
Vectors = Callable[[Sequence[str]], np.ndarray]  # encodes sentences of a task: float32 (n, d)


def manifest(data: Path) -> dict[str, Any]:
    """Read the folder's own `manifest.json`, or SentEval's if there is none.

    Returns:
        `{"name", "version", "sts": {task: {subset or split: pairs}}, "transfer": {task: {file or
        split: samples}}, "probing": {task: {split: samples}}}`, with at least one of the three
        tables; and optionally "sts_files": {task: {"path", "separator", "columns", "header"}}, read
        by `bench.datasets.sts`.

    Raises:
        UserError: the folder's own manifest is malformed.
    """
    own = Path(data) / "manifest.json"
    path = own if own.exists() else Path(__file__).with_name("senteval.json")
    content = read_json(path)
    kinds = [
        kind
        for kind in ("sts", "transfer", "probing")
        if isinstance(content, dict) and kind in content
    ]
    tables = [content[kind] for kind in kinds]
    if (
        not tables
        or not isinstance(content.get("name"), str)
        or not all(
            isinstance(table, dict) and all(isinstance(counts, dict) for counts in table.values())
            for table in tables
        )
    ):
        raise UserError(
            f'{path} lacks a name or a table "sts", "transfer" or "probing" of tasks and their sizes; add them'
        )
    if unknown := sorted(content.keys() - KEYS):
        raise UserError(f"{path} has an unknown key '{unknown[0]}'{did_you_mean(unknown[0], KEYS)}")
    return content


def sizes(kind: str, task: str, data: Path) -> dict[str, int]:
    """Return the sizes of the parts of a task from the manifest of a data folder.

    Raises:
        UserError: `data` is not a data folder, the manifest lacks the task, or a size is not
            positive.
    """
    if not (Path(data) / "downstream").is_dir():
        raise UserError(
            f"{data} has no folder downstream/; set the data folder with --data or BENCH_DATA"
        )
    listed = manifest(data)
    counts = listed.get(kind, {}).get(task)
    if not counts:
        raise UserError(
            f"the data set {listed.get('name', data)} has no task {task}; choose another task or data set"
        )
    for part, size in counts.items():
        if type(size) is not int or size < 1:
            raise UserError(
                f"the manifest in {data} gives {task} {size!r} in '{part}'; use a positive integer"
            )
    return counts


def check_listed(tasks: Sequence[str], data: Path) -> None:
    """Raise `UserError` if the manifest of a data folder lacks one of the tasks."""
    for task in tasks:
        sizes(kind_of(task), task, data)


def fields(
    path: Path,
    number: int,
    line: str,
    least: int,
    separator: str = "\t",
    exactly: int | None = None,
) -> list[str]:
    """Split line `number` (from 1) of a table.

    Args:
        path: the file, for messages.
        number: of the line, for messages.
        line: its text.
        least: smallest number of fields.
        separator: between two fields.
        exactly: number of fields, if known.

    Raises:
        UserError: wrong number of fields.
    """
    values = line.split(separator)
    if len(values) < least or exactly not in (None, len(values)):
        kind = "tab-separated fields" if separator == "\t" else f"fields between {separator!r}"
        wanted = f"{least} or more" if len(values) < least else f"{exactly} as in the lines before"
        raise UserError(
            f"{path}, line {number}: {len(values)} {kind}, expected {wanted}; fix it or fetch it again"
        )
    return values


def check_count(path: Path, found: int, expected: int, what: str) -> None:
    """Raise `UserError` if the length of a file differs from the manifest."""
    if found != expected:
        raise UserError(
            f"{path}: {found} {what}, the manifest expects {expected}; fetch the file again, or, for other data, "
            f"name its counts in manifest.json beside downstream/"
        )


def clean(sentence: str) -> str:
    """Words joined by single spaces, as SentEval splits and re-joins them
    (docs/methods.md#data-files)."""
    return " ".join(sentence.split())


def look_up(where: str, columns: Sequence[Sequence[str]], vectors: Vectors) -> list[np.ndarray]:
    """Encode columns of n sentences and validate the vectors.

    Args:
        where: name of the task, for messages.
        columns: lists of sentences.
        vectors: the encoder.

    Returns:
        An array (n, d) per column.

    Raises:
        UserError: wrong shape, or values that are not finite.
    """
    arrays = [np.asarray(vectors(column)) for column in columns]
    for column, array in zip(columns, arrays, strict=True):
        if array.ndim != 2 or len(array) != len(column) or array.shape[1] != arrays[0].shape[1]:
            raise UserError(
                f"{where}: the encoder gave an array of shape {array.shape} for {len(column)} sentences; "
                f"it must give one vector per sentence, all of one length"
            )
        finite = np.isfinite(array).all(axis=1)
        if not finite.all():
            text = column[int(finite.argmin())]
            raise UserError(
                f"{where}: the vector of {text!r} is not finite; the encoder has diverged"
            )
    return arrays
