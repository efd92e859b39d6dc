"""Manifest of a data set, and the parsing and validation that all tasks share."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from bench.datasets.tasks import OWN_STS, PAIRS, TASKS, Task, is_task, task_of
from bench.download.hub import probing_file
from bench.utils.errors import UserError, did_you_mean, errors_of, suggestion
from bench.utils.files import inside, read_lines
from bench.utils.validation import FileName, StrictModel, read_document

# Encodes sentences of a task: float32 (n, d).
EncodeSentences = Callable[[Sequence[str]], np.ndarray]
_CODES = {"tr": "train", "va": "dev", "te": "test"}  # of splits, in files with all of them
# Pairs or samples by task and file: a split, a subset of pairs, or the sentences of a label.
Sizes = dict[str, dict[FileName, PositiveInt]]


class PairFile(StrictModel):
    """The files of a described STS set."""

    path: str  # below downstream/, with {split} for the name of the split
    # Of the two sentences and of the gold score, counted from 0.
    columns: list[NonNegativeInt] = Field(min_length=3, max_length=3)
    separator: str = Field("\t", min_length=1)
    header: bool = False
    quoted: bool = True  # whether fields may stand in double quotes, as in CSV
    range: tuple[float, float] = (0, 5)  # of gold scores


class Manifest(StrictModel):
    """The tasks of a data folder and their sizes."""

    name: str
    version: int = 1
    source: dict[str, str] | str = ""
    seed: int | None = None
    sts: Sizes = {}  # pairs by subset or split
    transfer: Sizes = {}  # samples by file or split
    probing: Sizes = {}  # samples by split
    sts_files: dict[str, PairFile] = {}  # of described STS sets

    @model_validator(mode="after")
    def _check(self) -> Manifest:
        for kind in ("sts", "transfer", "probing"):
            for name in getattr(self, kind):
                if not is_task(name) or task_of(name).kind != kind:
                    tasks = [task.name for task in TASKS.values() if task.kind == kind]
                    hint = did_you_mean(name, tasks)
                    raise ValueError(
                        f"the table '{kind}' has an unknown task '{name}'{hint}; "
                        "a set of your own is called sts:NAME or probing:NAME, with letters, "
                        "digits, '_', '.' and '-' in NAME"
                    )
        # Only the manifest can know the files of a user-defined set.
        for name, parts in self.sts.items():
            if name.startswith(OWN_STS) and name not in self.sts_files:
                raise ValueError(
                    f"it does not describe the files of {name}; add them to 'sts_files'"
                )
            form = self.sts_files.get(name)
            if form and "{split}" not in form.path and len(parts) > 1:
                raise ValueError(
                    f"the splits of {name} share one path; write {{split}} for the split"
                )
        return self


def manifest(data: Path) -> Manifest:
    """Read the `manifest.json` of a data folder. A folder without one has SentEval's tasks."""
    path = data / "manifest.json"
    if not path.exists():
        content: dict[str, Any] = {"name": "senteval"}
        for task in TASKS.values():
            content.setdefault(task.kind, {})[task.name] = task.sizes
        return Manifest.model_validate(content)
    return read_document(path, Manifest, "a manifest", "correct it")


def listed_task(name: str, data: Path) -> Task:
    """Return a task with the sizes and files of a data folder's manifest; `UserError` if the folder
    lacks it, or a file of it is no text."""
    listed, task = manifest(data), task_of(name)
    tasks: Sizes = getattr(listed, task.kind)
    if name not in tasks:
        near = suggestion(name, tasks) or "; choose another task or data set"
        raise UserError(f"the data set {listed.name} has no task {name}{near}")
    form = listed.sts_files.get(name)
    if form:
        place = str(inside(Path("downstream"), form.path))
        fields = form.model_dump() | {"path": place, "names": {}, "even": True}
        task = replace(task, **fields)
    for part in tasks[name]:
        path = data / task.file(part)
        if path.is_file():
            # Every byte is a letter in latin-1, so this refuses a file only if it is no text.
            next(read_lines(path, "latin-1"), None)
    return replace(task, sizes=tasks[name])


def bad(path: Path, number: int, problem: str) -> UserError:
    """Return the error of line `number`, from 1, of a file."""
    return UserError(f"{path}, line {number}: {problem}; fix it or fetch it again")


def rows(
    path: Path,
    least: int,
    separator: str = "\t",
    header: bool = False,
    even: bool = False,
    quoted: bool = False,
) -> Iterator[tuple[int, list[str]]]:
    """Yield number, from 1, and the `least` or more fields of each line of a table in UTF-8."""
    # The fields of the first line. All lines of an even table have as many: a separator within a
    # sentence would shift the fields behind it, and another text would be read as the score.
    width = 0
    for number, fields in islice(_fields(path, separator, quoted), header, None):
        width = width or len(fields)
        if len(fields) < least or (even and len(fields) != width):
            kind, expected = f"fields between {separator!r}", f"{width} as in the first"
            if separator == "\t":
                kind = "tab-separated fields"
            if len(fields) < least:
                expected = f"{least} or more"
            raise bad(path, number, f"{len(fields)} {kind}, expected {expected}")
        yield number, fields


def _fields(path: Path, separator: str, quoted: bool) -> Iterator[tuple[int, list[str]]]:
    lines = read_lines(path)
    if not quoted or len(separator) > 1:  # the csv module has separators of one character
        yield from ((number, line.split(separator)) for number, line in enumerate(lines, start=1))
        return
    # A quoted field may span lines, so the line ends that `read_lines` drops are put back. Without
    # `strict` a quote that is never closed would swallow the lines behind it, silently.
    table = csv.reader((f"{line}\n" for line in lines), delimiter=separator, strict=True)
    try:
        for fields in table:
            yield table.line_num, fields
    except csv.Error as error:
        problem = f'{error}; set "quoted": false in manifest.json if quotes are text'
        raise bad(path, table.line_num, problem) from None


class Line(NamedTuple):
    """A line of a task's file: one or two sentences, their gold score or label."""

    texts: tuple[str, ...]
    answer: str
    path: Path
    number: int


def read_parts(task: Task, data: Path, parts: Iterable[str]) -> dict[str, list[Line]]:
    """Read parts of a task as they stand in its files, and compare their sizes with the manifest.

    A part is a split, a subset of an STS set, or the sentences of one label. Pairs without a gold
    score are left out.
    """
    by_part: dict[str, list[Line]] = {}
    for part in parts:
        path, lines = data / task.file(part), list[Line]()
        if task.group == "probing":
            probing_file(path)
        # The first file of "classes" has label 1.
        for texts, answer, file, number in _lines(task, path, part, "0" if by_part else "1"):
            line = Line(tuple(map(clean, texts)), answer.strip(), file, number)
            if not line.answer:
                raise bad(file, number, "no gold score or label")
            # A blank line of MR, CR, SUBJ or MPQA is a sample, as in SentEval.
            if task.reader != "classes" and not all(line.texts):
                raise bad(file, number, "no sentence")
            lines.append(line)
        # Folds are drawn by position, so a line too few or too many changes every score.
        expected = task.sizes.get(part, 0)
        if len(lines) != expected:
            unit = "pairs with a gold score" if task.protocol == PAIRS else f"{part} samples"
            raise UserError(
                f"{path}: {len(lines)} {unit}, the manifest expects {expected}; fetch the file "
                "again, or, for other data, name its counts in manifest.json beside downstream/"
            )
        by_part[part] = lines
    return by_part


def _lines(
    task: Task, path: Path, part: str, label: str
) -> Iterator[tuple[Sequence[str], str, Path, int]]:
    """Yield the fields of a `Line` as they stand in the file of a part, whose lines have a label in
    files of "classes"."""
    if task.reader == "table":
        *columns, answer = task.columns
        least = max(task.columns) + 1
        table = rows(path, least, task.separator, task.header, task.even, task.quoted)
        for number, row in table:
            yield [row[column] for column in columns], row[answer], path, number
    elif task.reader == "parts":  # one file has all of them
        for number, row in rows(path, 3, even=task.even):
            if row[0] not in _CODES:
                raise bad(path, number, f"split {row[0][:20]!r} is not tr, va or te")
            if _CODES[row[0]] == part:
                yield row[-1:], row[1], path, number
    elif task.reader == "subsets":
        golds = path.with_name(path.name.replace("input", "gs"))
        pairs, scores = list(rows(path, 2)), list(read_lines(golds))
        if len(pairs) != len(scores):
            raise UserError(
                f"{path} has {len(pairs)} lines but {golds.name} has {len(scores)}; "
                "fix them or fetch both again"
            )
        for (number, row), score in zip(pairs, scores, strict=True):
            # Only some pairs of 2015 and 2016 were annotated. The others have a blank line, and
            # SentEval leaves them out (facebookresearch/SentEval@5d6dc11:senteval/sts.py:35-43).
            if score.strip():
                yield row[:2], score, golds, number
    else:
        for number, text in enumerate(read_lines(path, "latin-1"), start=1):
            if task.reader == "trec":
                label, _, text = text.strip().partition(":")
                text = text.partition(" ")[2]  # without the fine label
            yield [text], label, path, number


def clean(sentence: str) -> str:
    """Words joined by single spaces, as in SentEval (docs/reference/protocol.md#data-files)."""
    # facebookresearch/SentEval@5d6dc11:senteval/sts.py:42-43
    return " ".join(sentence.split())


def look_up(
    where: str, columns: Sequence[Sequence[str]], vectors: EncodeSentences
) -> list[np.ndarray]:
    """Encode columns of n sentences and return their vectors, float32 (n, d) per column."""
    texts = list(chain.from_iterable(columns))
    with errors_of(where):
        return np.split(check_vectors(texts, vectors(texts)), len(columns))


def check_vectors(texts: Sequence[str], answer: Any, width: int = 0) -> np.ndarray:
    """Return what an encoder gave for texts as float32 (n, d), where d is `width` unless that is 0;
    `UserError` unless each has a vector of floating-point numbers, with squares in float32."""
    vectors = np.asarray(answer)
    shape = len(texts), width or np.atleast_1d(vectors).shape[-1] or 1
    # Whole numbers are refused, since they may be packed bits, and no type says so: libraries give
    # "ubinary" vectors as uint8 and "binary" ones as int8, which is also a quantisation. Services
    # give both as lists.
    if vectors.shape != shape or vectors.dtype.kind != "f":
        kind = f"an array of {vectors.dtype} of shape {vectors.shape}"
        if not vectors.ndim:
            kind = f"{type(vectors.item()).__name__} and no array"
        raise UserError(
            f"the encoder gave {kind} for {len(texts)} sentences; it must give one vector per "
            "sentence, all of one length, of floating-point numbers: unpack bits by "
            "numpy.unpackbits(vectors, axis=1), convert other numbers by .astype('float32')"
        )
    vectors = vectors.astype(np.float32, copy=False)
    # Norms and the optimisers of classifiers square numbers: float32 reaches from 1e-38 to 3e38.
    # NaN fails both comparisons.
    largest = np.maximum(vectors.max(axis=1), -vectors.min(axis=1))
    has_squares = (largest == 0) | (largest > 1e-19) & (largest < 1e19)
    if not has_squares.all():
        text = texts[has_squares.argmin()]
        raise UserError(
            f"the vector of {text[:80]!r} is not finite, or its squares are beyond float32; the "
            "encoder has diverged or is broken, so mend it, scale its vectors or choose another"
        )
    return vectors
