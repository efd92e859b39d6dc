"""Records: all scores, of runs and of other encoders, in one form.

A record is a flat dict with the fields of `RecordedScore`, after `source` ("sentbench"), `method`
(the text of a run, or `encoder[...]` of another encoder), `backbone`, `setting` and `seed`. Scores
are in points (x 100): accuracies and F1 rounded to two decimals, as in SentEval, correlations with
all digits. A file of scores is one object `{"provenance": {...}, "records": [...]}`.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from pydantic import ConfigDict, Field

from bench.datasets.metrics import Cell
from bench.utils.errors import library_errors
from bench.utils.files import atomic_file, write_json
from bench.utils.validation import Document, FileName, read_document


class _Written(Document):
    # A text in place of a number is damage, and is not converted.
    model_config = ConfigDict(strict=True)

    def as_written(self) -> dict[str, Any]:
        """The fields that the file has, as JSON data."""
        # A default is no statement: a file of an older version did not record the field.
        return self.model_dump(exclude_unset=True)


class CurvePoint(_Written):
    """A point of a training curve, at a selection."""

    step: int
    loss: float | None = None
    dev: float | None = None
    alignment: float | None = None
    uniformity: float | None = None


class Outcome(_Written):
    """How a training ended, see `bench.training.loop.train`."""

    status: Literal["finished", "diverged", "skipped"]
    reason: str | None = None
    encoder_sha256: str | None = None  # of its files; older trainings have none
    best_step: int | None = None
    curve: list[CurvePoint] | None = None
    steps: int | None = None
    best_dev: float | None = None
    seconds: float | None = None
    runs_per_gpu: int = 1  # how many runs shared the GPU of the training


class DescribedRun(_Written):
    """The run of a result, as `bench.runs.run.Run.describe` wrote it. Empty for an encoder outside
    a suite, which has no run."""

    id: FileName = ""
    method: str = ""
    setting: str = ""
    backbone: str = ""
    trained: bool = False
    data: str = ""
    seed: int | None = None
    recipe: dict[str, Any] = {}
    identity: dict[str, Any] = {}


class Code(_Written):
    """The version of the suite, its commit, and whether the code differed from that."""

    version: str = ""
    commit: str | None = None
    dirty: bool | None = None


class Device(_Written):
    """The device that computed a result."""

    kind: str = ""  # "cpu" or "cuda"
    name: str = ""
    threads: int | None = None


class Arithmetic(_Written):
    """Settings of torch, see `bench.results.provenance`."""

    deterministic: bool = False


class Data(_Written):
    """A data folder."""

    name: str = ""
    folder: str = ""


class Corpus(_Written):
    """A corpus and the sum of its file."""

    kind: str = "corpus"  # in older files
    name: str
    sha256: str


class Counts(_Written):
    """The number of test `items` of a task, of those with a sentence `seen` in a corpus, and of
    those `in_dev`, the sets that select the checkpoint."""

    items: int
    seen: int
    in_dev: int


class Provenance(_Written):
    """The origin of a result. Only results of a suite have a run and an outcome."""

    run: DescribedRun = DescribedRun()
    outcome: Outcome = Outcome(status="finished")
    code: Code = Code()
    versions: dict[str, str] = {}
    device: Device = Device()
    arithmetic: Arithmetic = Arithmetic()
    date: str = ""
    data: Data = Data()
    mode: Literal["test", "dev"] = "test"  # of the classifiers of scores
    probe_seeds: list[int] = []  # further seeds of the classifiers
    tasks: dict[str, dict[str, str]] = {}  # sums by task and split
    corpora: list[Corpus] = []
    files: dict[str, str] = {}  # sums of files whose name may get other content
    encoder: str | None = None  # identity of the encoder
    contamination: dict[str, Counts] = {}  # by task
    seconds: float | None = None
    runs_per_gpu: int = 1  # how many runs shared the GPU

    def sums(self, corpus: str) -> Iterator[tuple[str, str]]:
        """The checksums of inputs, by name: splits of tasks, and the corpus of this name. A corpus
        given by path is part of the identity of the run."""
        for task, splits in self.tasks.items():
            for split, digest in splits.items():
                yield f"{task} {split}", digest
        for entry in self.corpora:
            if entry.name == corpus:
                yield f"corpus {corpus}", entry.sha256


class Trained(_Written):
    """The content of trained/RUN.json."""

    outcome: Outcome
    run: DescribedRun = DescribedRun()
    provenance: Provenance = Provenance()


class RecordedScore(_Written):
    """A record of a file of scores."""

    task: str
    split: str
    metric: str
    aggregation: str
    value: float = Field(ge=-100, le=100)  # points

    @property
    def cell(self) -> Cell:
        return Cell(self.task, self.split, self.metric, self.aggregation)


class ScoreDocument(_Written):
    """The content of scores/RUN.json, and of what `evaluate` writes."""

    provenance: Provenance
    records: list[RecordedScore]


class Analyses(_Written):
    """The content of analyses/RUN.json: results of `bench.stages.analyse` by name."""

    analyses: dict[str, dict[str, Any]]
    provenance: Provenance = Provenance()


Record = dict[str, Any]


class ScoredEncoder(NamedTuple):
    """The scores of an encoder outside suites."""

    label: str
    records: list[Record]
    items: Mapping[str, np.ndarray] = {}  # by task (`bench.evaluation.scoring.with_keys`)


AGAIN = "move it away and run the suite again"
FAILURE = "failure.json"  # in the folder of a run whose last attempt failed


def write_scores(path: Path, provenance: dict[str, Any], records: Iterable[Record]) -> None:
    """Write scores with their provenance atomically."""
    write_json(path, {"provenance": provenance, "records": list(records)})


def write_items(path: Path, items: Mapping[str, np.ndarray]) -> None:
    """Write the test items of an encoder (`bench.evaluation.scoring.with_keys`)."""
    with atomic_file(path) as temporary:
        np.savez_compressed(temporary, **items)  # type: ignore[arg-type]


def read_items(path: Path) -> dict[str, np.ndarray]:
    """Read a file of `write_items`; empty if it does not exist."""
    if not path.is_file():
        return {}
    with (
        library_errors(f"{path} is not a file of items", f"with its file of scores {AGAIN}"),
        np.load(path, allow_pickle=False) as content,
    ):
        return dict(content)


def read_scores(path: Path) -> ScoreDocument:
    """Read the scores of an encoder."""
    return read_document(path, ScoreDocument, "a scores file", f"name another file, or {AGAIN}")


def read_trained(path: Path) -> Trained:
    """Read the outcome of a training."""
    return read_document(path, Trained, "the outcome of a training", AGAIN)


def read_analyses(path: Path) -> Analyses:
    """Read the analyses of an encoder; empty if the file does not exist."""
    if not path.exists():
        return Analyses(analyses={})
    return read_document(path, Analyses, "a file of analyses", AGAIN)
