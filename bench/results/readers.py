"""The JSON files of a suite's results: their models, and readers that validate a file once.

The readers return the content as dictionaries, without fields that a file does not have.
"""

from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, Field

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


def read_analyses(path: Path) -> tuple[Content, Content]:
    """The results of a file of `Analyses` and their provenance; empty if it does not exist."""
    if not path.exists():
        return {}, {}
    remedy = "move it away and analyse again"
    content = read_document(path, Analyses, "a file of analyses", remedy)
    written = content.model_dump(exclude_unset=True)
    return written["analyses"], written.get("provenance", {})


def read_trained(path: Path) -> Content:
    """Read what a training left, `Trained`."""
    remedy = "move it away and train again"
    content = read_document(path, Trained, "the outcome of a training", remedy)
    return content.model_dump(exclude_unset=True)
