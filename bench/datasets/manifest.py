"""Manifest of a data set, and the parsing and validation that all tasks share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from bench.datasets.tasks import KNOWN_TASKS, OWN_PROBING, OWN_STS, kind_of
from bench.download import read_lines
from bench.utils.errors import UserError, did_you_mean, suggestion
from bench.utils.files import read_json

TABLES = ("sts", "transfer", "probing")  # sizes of tasks in a manifest
KEYS = ("name", "version", "source", "seed", "sts_files", *TABLES)  # allowed in a manifest
SHOWN = 80  # characters of a sentence in a message
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
    content = read_json(path, distinct=True)
    content = content if isinstance(content, dict) else {}
    tables = [content[kind] for kind in TABLES if kind in content]
    whole = all(
        isinstance(table, dict) and all(isinstance(counts, dict) for counts in table.values())
        for table in tables
    )
    if not (tables and whole and isinstance(content.get("name"), str)):
        raise UserError(
            f'{path} lacks a name or a table "sts", "transfer" or "probing" of tasks and their '
            "sizes; add them"
        )
    if unknown := sorted(content.keys() - KEYS):
        raise UserError(f"{path} has an unknown key '{unknown[0]}'{did_you_mean(unknown[0], KEYS)}")
    for kind in TABLES:
        _check_tasks(content.get(kind, {}), kind, path)
    listed, files = content.get("sts", {}), content.get("sts_files", {})
    if isinstance(files, dict) and (unlisted := sorted(files.keys() - listed.keys())):
        hint = did_you_mean(unlisted[0], listed)
        raise UserError(
            f"{path} describes files of '{unlisted[0]}', which its table \"sts\" lacks{hint}"
        )
    return content


def _check_tasks(tasks: Iterable[str], kind: str, path: Path) -> None:
    """Raise `UserError` for a task that no table of this kind can have, such as a misspelt one."""
    known = [task for task in KNOWN_TASKS if kind_of(task) == kind]
    own = {"sts": OWN_STS, "probing": OWN_PROBING}.get(kind)
    for task in tasks:
        if task not in known and not (own and task.startswith(own) and task != own):
            named = f"; a set of your own is called {own}NAME" if own else ""
            raise UserError(
                f"{path}: the table \"{kind}\" has an unknown task '{task}'"
                f"{did_you_mean(task, known)}{named}"
            )


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
        name = listed["name"]
        others = [other for other, sizes in listed.get(kind, {}).items() if sizes]
        near = suggestion(task, others) or "; choose another task or data set"
        raise UserError(f"the data set {name} has no task {task}{near}")
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


def bad(path: Path, number: int, problem: str) -> UserError:
    """Return the error of line `number`, from 1, of a file."""
    return UserError(f"{path}, line {number}: {problem}; fix it or fetch it again")


def rows(
    path: Path,
    least: int,
    separator: str = "\t",
    header: bool = False,
    strip: bool = False,
    even: bool = False,
) -> Iterator[tuple[int, list[str]]]:
    """Yield number, from 1, and fields of each line of a table in UTF-8.

    Args:
        path: the file.
        least: smallest number of fields.
        separator: between two fields.
        header: skip the first line.
        strip: remove white space around a line first.
        even: every line must have as many fields as the first one.

    Raises:
        UserError: the file cannot be read, or a line has a wrong number of fields.
    """
    width = None
    for number, line in islice(enumerate(read_lines(path), start=1), header, None):
        values = (line.strip() if strip else line).split(separator)
        if len(values) < least or (even and len(values) != (width or len(values))):
            kind = "tab-separated fields" if separator == "\t" else f"fields between {separator!r}"
            wanted = (
                f"{least} or more" if len(values) < least else f"{width} as in the lines before"
            )
            raise bad(path, number, f"{len(values)} {kind}, expected {wanted}")
        width = len(values)
        yield number, values


def check_count(path: Path, found: int, expected: int, what: str) -> None:
    """Raise `UserError` if the length of a file differs from the manifest."""
    if found != expected:
        raise UserError(
            f"{path}: {found} {what}, the manifest expects {expected}; fetch the file again, or, "
            "for other data, name its counts in manifest.json beside downstream/"
        )


def clean(sentence: str) -> str:
    """Words joined by single spaces, as in SentEval (docs/methods.md#data-files)."""
    return " ".join(sentence.split())


def look_up(where: str, columns: Sequence[Sequence[str]], vectors: Vectors) -> list[np.ndarray]:
    """Encode columns of n sentences and return their vectors, an array (n, d) per column.

    Raises:
        UserError: wrong shape, or values that are not finite; the message names the task, `where`.
    """
    arrays = [np.asarray(vectors(column)) for column in columns]
    for column, array in zip(columns, arrays, strict=True):
        if array.ndim != 2 or len(array) != len(column) or array.shape[1] != arrays[0].shape[1]:
            raise UserError(
                f"{where}: the encoder gave an array of shape {array.shape} for {len(column)} "
                "sentences; it must give one vector per sentence, all of one length"
            )
        check_finite(column, array, f"{where}: ")
    return arrays


def check_finite(texts: Sequence[str], vectors: np.ndarray, where: str = "") -> None:
    """Raise `UserError`, which begins with `where`, for a vector (n, d) that is not finite."""
    finite = np.isfinite(vectors).all(axis=1)
    if not finite.all():
        text = texts[int(finite.argmin())]
        shown = text if len(text) <= SHOWN else f"{text[:SHOWN]} ..."
        raise UserError(
            f"{where}the vector of {shown!r} is not finite; the encoder has diverged or is broken, "
            "so mend it or choose another"
        )
