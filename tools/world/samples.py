"""Samples with labels, drawn in fixed numbers; the random streams of files, and their lines."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import seed, shuffle

from bench.datasets.tasks import TASKS

Sample = tuple[str, str]  # label and sentence
Draw = Callable[[], Sample | None]  # None: the draw has no label
Sizes = Mapping[str, int]  # of the parts of a task


def start(*name: str) -> None:
    """Start the random stream of one file; files do not share one.

    1 is the version of the streams, which a new manifest need not change, 0 the seed.
    """
    seed("/".join(["world/1/0", *name]))


def write_lines(path: Path, rows: Sequence[str], end: str = "\n", encoding: str = "utf-8") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes("".join(row + end for row in rows).encode(encoding))


def write_part(out: Path, task: str, part: str, rows: Sequence[str], **form: str) -> None:
    write_lines(out / TASKS[task].file(part), rows, **form)


def evenly(labels: Sequence[str], size: int) -> dict[str, int]:
    """Divide `size` samples among labels; the remainder goes to the first ones."""
    share, rest = divmod(size, len(labels))
    return {label: share + (number < rest) for number, label in enumerate(labels)}


def collect(draw: Draw, wanted: Mapping[str, int], seen: set[str]) -> list[Sample]:
    """Sample until there are `wanted` sentences of each label that are not in `seen`."""
    missing = dict(wanted)
    rows: list[Sample] = []
    while any(missing.values()):
        label, text = draw() or ("", "")
        if missing.get(label) and text not in seen:
            missing[label] -= 1
            seen.add(text)
            rows.append((label, text))
    shuffle(rows)
    return rows
