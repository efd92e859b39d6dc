"""Records: all scores, of runs and of other encoders, in one form.

A record is a flat dict with the keys of `COLUMNS`. Scores are in points (x 100): accuracies and F1
rounded to two decimals, as in SentEval, correlations with all digits. A file of scores is one
object `{"provenance": {...}, "records": [...]}`.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import ConfigDict, Field

from bench.utils.files import atomic_file, write_json
from bench.utils.validation import Document, read_document

Content = dict[str, Any]


class _Written(Document):
    model_config = ConfigDict(strict=True)


class Outcome(_Written):
    """How a training ended, see `bench.training.loop.train`."""

    status: Literal["finished", "diverged", "skipped"]
    reason: str | None = None
    best_step: int | None = None
    curve: list[dict[str, int | float | None]] | None = None  # a point a selection


class Trained(_Written):
    """The content of trained/RUN.json."""

    outcome: Outcome
    run: dict[str, Any] = {}
    provenance: dict[str, Any] = {}


class Provenance(_Written):
    """What a result was computed from. Only that of a suite has a run and an outcome."""

    run: dict[str, Any] = {}
    outcome: Outcome = Outcome(status="finished")
    data: dict[str, Any] = {}  # name and sums of the files
    mode: Literal["test", "dev"] = "test"
    tasks: dict[str, dict[str, str]] = {}  # sums by task and split
    corpora: list[dict[str, Any]] = []  # name and sum
    # Of each task the number of distinct test `sentences`, and of those `seen` in a corpus.
    contamination: dict[str, dict[str, int]] = {}


class Score(_Written):
    """A record of a file of scores."""

    task: str
    split: str
    metric: str
    aggregation: str
    value: float = Field(ge=-100, le=100)  # points


class Scores(_Written):
    """The content of scores/RUN.json, and of what `evaluate` writes."""

    provenance: Provenance
    records: list[Score]


class Analyses(_Written):
    """The content of analyses/RUN.json: results of `bench.stages.analyse` by name."""

    analyses: dict[str, dict[str, Any]]
    provenance: Provenance = Provenance()


Record = dict[str, Any]

COLUMNS = (
    "source",  # "sentbench"
    "method",  # text of a run, or `encoder[...]` of another encoder
    "backbone",
    "setting",  # of a run, "paper" or "official"
    "seed",
    "task",
    "split",
    "metric",
    "aggregation",
    "value",
)

FAILURE = "failure.json"  # in the folder of a run whose last attempt failed


def write_scores(path: Path, provenance: dict[str, Any], records: Iterable[Record]) -> None:
    """Write scores with their provenance atomically."""
    write_json(path, {"provenance": provenance, "records": list(records)})


def write_items(path: Path, items: Mapping[str, np.ndarray]) -> None:
    """Write the test items of an encoder (`bench.evaluation.scoring.EncoderScores`)."""
    with atomic_file(path) as temporary, open(temporary, "wb") as stream:
        np.savez_compressed(stream, **items)  # type: ignore[arg-type]


def read_items(path: Path) -> dict[str, np.ndarray]:
    """Read a file of `write_items`; empty if it does not exist."""
    if not path.is_file():
        return {}
    with np.load(path, allow_pickle=False) as content:
        return dict(content)


def with_stand_ins(backbone: str, measured_on: Iterable[str]) -> str:
    """A backbone as printed, with what our runs were measured on instead. An encoder without a
    backbone of the suite, such as a published one, stands in for nothing."""
    others = sorted(set(measured_on) - {backbone, "none", ""})
    return f"{backbone} (ours: {', '.join(others)})" if others else backbone


def _read(path: Path, model: type[_Written], noun: str, remedy: str) -> Content:
    return read_document(path, model, noun, remedy).model_dump(exclude_unset=True)


def read_scores(path: Path) -> tuple[Content, list[Record]]:
    """Read a file of `Scores`: its provenance and its records."""
    content = _read(path, Scores, "a scores file", "name another file, or move it away and score")
    return content["provenance"], content["records"]


def read_trained(path: Path) -> Content:
    """Read what a training left, `Trained`."""
    return _read(path, Trained, "the outcome of a training", "move it away and train again")


def read_analyses(path: Path) -> tuple[Content, Content]:
    """Read a file of `Analyses`: the results and their provenance; empty if it does not exist."""
    if not path.exists():
        return {}, {}
    content = _read(path, Analyses, "a file of analyses", "move it away and analyse again")
    return content["analyses"], content.get("provenance", {})
