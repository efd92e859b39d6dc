"""Score an encoder on tasks, which share the vectors of their distinct sentences."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from filelock import FileLock, Timeout

from bench.datasets import sts
from bench.datasets.contamination import item_keys
from bench.datasets.labelled import LabelledTask, read_scored, task_sums
from bench.datasets.manifest import EncodeSentences, check_vectors
from bench.datasets.metrics import (
    CLASSIFIER_SEED,
    REST,
    UNSEEN,
    Cell,
    metrics_of,
    probe_seed,
    score_record,
    spearman,
)
from bench.datasets.tasks import (
    GROUPS,
    KFOLD,
    NESTED,
    PROBING,
    averages,
    expand_tasks,
)
from bench.evaluation import protocols
from bench.evaluation.classifier import MODES
from bench.models.defaults import torch_defaults
from bench.models.encoder import Encoder, TransformerEncoder, adaptation, innermost
from bench.models.float32 import ELSEWHERE, float32_products
from bench.utils.errors import UserError, counted
from bench.utils.files import disk_errors, intact_files, read_json, sha256_text, write_summed
from bench.utils.progress import Progress

# Sentences between two writes, the most that an interruption loses. A GPU, which waits for each
# write, takes more at once.
CHUNK, GPU_CHUNKS = 2048, 8
KEY = 16  # bytes of the hash of a sentence; 128 bits have no collisions in practice


def _key(sentence: str) -> bytes:
    return hashlib.sha256(sentence.encode()).digest()[:KEY]


class VectorStore:
    """A folder with vectors of one encoder, float32 (n, d), looked up by the hash of the sentence.

    Each chunk is a file, whose rows are a hash and a vector.
    """

    def __init__(self, folder: Path, encoder: Encoder) -> None:
        """Open or create a store. Vectors of another encoder are not seen."""
        self.encoder = encoder
        self.folder, self._lock = folder / encoder.identity, FileLock(folder / ".lock", 0)
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            self._lock.acquire()
        except Timeout:
            raise UserError(
                f"{folder} is in use by another process; wait for it or write elsewhere"
            ) from None
        self._vectors: dict[bytes, np.ndarray] = {}
        for file in intact_files(self.folder, "*.npy"):
            self._read(file)

    def _read(self, file: Path) -> None:
        rows = np.load(file, mmap_mode="r").view(np.ndarray)
        self._vectors.update(zip(rows["key"].tolist(), rows["vector"], strict=True))

    def add(
        self, sentences: Sequence[str], device: str = "cpu", tokens: Path | None = None
    ) -> None:
        """Encode the distinct sentences that are missing, the longest first. A transformer's token
        ids are read from the folder `tokens`, which the scorings of a suite share."""
        base = innermost(self.encoder)
        if tokens and isinstance(base, TransformerEncoder):
            base.read_tokens(sentences, tokens)
        texts = [text for text in {*sentences} if _key(text) not in self._vectors]
        # The longest first: memory that is too small is full at once, and not after hours.
        texts.sort(key=lambda text: (-len(text), text))
        size = CHUNK if device == "cpu" else CHUNK * GPU_CHUNKS
        progress = Progress(len(texts), f"encode {len(texts):,} sentences")
        for start in range(0, len(texts), size):
            chunk = texts[start : start + size]
            width = len(next(iter(self._vectors.values()), ()))
            # Checked before they are written, since stored vectors are not computed again.
            vectors = check_vectors(chunk, self.encoder.encode(chunk), width)
            rows = np.empty(
                len(chunk), [("key", np.void, KEY), ("vector", np.float32, vectors.shape[1])]
            )
            rows["key"] = np.frombuffer(b"".join(map(_key, chunk)), rows["key"].dtype)
            rows["vector"] = vectors
            save = partial(np.save, arr=rows)
            self._read(write_summed(self.folder, f"{len(self._vectors):08}", ".npy", save))
            progress.advance(len(chunk))

    def __call__(self, sentences: Sequence[str]) -> np.ndarray:
        """Vectors of sentences that were added, float32 (n, d)."""
        return np.stack([self._vectors[_key(text)] for text in sentences])

    def close(self) -> None:
        self._lock.release()


ReadTask = sts.StsTask | LabelledTask
TaskRecord = dict[str, Any]  # as in `bench.results.records`
Adaptation = Callable[
    [Sequence[str], EncodeSentences], EncodeSentences
]  # see `bench.models.encoder.adaptation`
Columns = dict[str, np.ndarray]
# By task: which test items stand in a training corpus, and which in a dev set, bool (n,) each.
Contamination = Mapping[str, tuple[np.ndarray, np.ndarray]]
Classified = tuple[list[TaskRecord], list[bool]]  # records, and which test samples are right


class EncoderScores(NamedTuple):
    """The scores of an encoder."""

    records: list[TaskRecord]
    # By task, the arrays (n,) of what each test item contributes: of pairs `gold` and
    # `similarity`, of samples `right`. In the order of `items`.
    items: dict[str, Columns]


def read_tasks(names: Sequence[str], data: Path) -> list[ReadTask]:
    """Read tasks by name or group. STS tasks with a dev split yield two tasks, one a split."""
    if not names:
        raise UserError(f"'tasks' names no task; give {', '.join(GROUPS)}, or names of tasks")
    tasks: list[ReadTask] = []
    for name in expand_tasks(names):
        tasks += read_scored(name, data)
    return tasks


def sentences(tasks: Sequence[ReadTask], adapt: Adaptation | None = None) -> list[str]:
    """The distinct sentences of tasks, in order of first appearance; with `adapt` all those that
    it is fitted on."""
    texts: dict[str, None] = {}
    for task in tasks:
        texts |= dict.fromkeys(task.target() if adapt else task.sentences())
    return list(texts)


def vectors_of(encoder: Encoder, texts: Sequence[str]) -> EncodeSentences:
    """Encode each distinct sentence once, in memory. Returns a lookup by text."""
    rows = {text: row for row, text in enumerate(dict.fromkeys(texts))}
    vectors = encoder.encode(list(rows))
    return lambda texts: vectors[[rows[text] for text in texts]]


def encoded(encoder: Encoder, tasks: Sequence[ReadTask]) -> EncodeSentences:
    """The vectors of all sentences of tasks."""
    return vectors_of(encoder, sentences(tasks, adaptation(encoder)))


def score_tasks(
    encoder: Encoder, tasks: Sequence[ReadTask], vectors: EncodeSentences | None = None
) -> list[TaskRecord]:
    """Score STS tasks from vectors in memory, by default from `encoded`."""
    vectors = vectors or encoded(encoder, tasks)
    return Scorer(tasks, vectors, adaptation(encoder)).scores().records


@dataclass(frozen=True)
class Classifiers:
    """How classifiers are trained: in a mode of `MODES` and on a device. Each further seed beside
    SentEval's gives further records of the test split."""

    mode: str = "test"
    probe_seeds: Sequence[int] = ()
    device: str = "cpu"

    @property
    def seeds(self) -> tuple[int, ...]:
        """All seeds, SentEval's first."""
        return CLASSIFIER_SEED, *self.probe_seeds


@float32_products(ELSEWHERE)
def score_encoder(
    encoder: Encoder,
    tasks: Sequence[ReadTask],
    classifiers: Classifiers,
    work: Path,
    tokens: Path | None = None,
    contamination: Contamination | None = None,
) -> EncoderScores:
    """Score an encoder on tasks, as `score_tasks`.

    Vectors and finished tasks are kept in the folder `work`, where the next call resumes an
    interrupted one. The folder `tokens` is shared by the scorings of a suite."""
    with disk_errors(work), closing(VectorStore(work, encoder)) as store:
        adapt = adaptation(encoder)
        store.add(sentences(tasks, adapt), classifiers.device, tokens)
        return Scorer(tasks, store, adapt, classifiers, store.folder, contamination).scores()


@dataclass
class Scorer:
    """Scores tasks from vectors of one encoder.

    Args:
        vectors: a lookup of the tasks' sentences, float32 (n, d).
        adapt: the encoder's last step, fitted on each task.
        folder: keeps the results of classifications.
        contamination: the result of `bench.datasets.contamination`. The test items that are in
            neither get further records.
    """

    tasks: Sequence[ReadTask]
    vectors: EncodeSentences
    adapt: Adaptation | None = None
    classifiers: Classifiers = Classifiers()
    folder: Path | None = None
    contamination: Contamination | None = None

    def __post_init__(self) -> None:
        self.labelled = [task for task in self.tasks if isinstance(task, LabelledTask)]
        self._last_fit: tuple[Sequence[str], EncodeSentences] = (), self.vectors
        self._results: dict[tuple[str, int], Classified] = {}  # by task and seed
        cells = list(product(self.labelled, self.classifiers.seeds))
        if self.folder:
            for task, seed in cells:
                for file in intact_files(self.folder, f"{self._file_name(task, seed)}-*.json"):
                    self._results[task.name, seed] = read_json(file)
        title = f"classify {counted(len(self.labelled), 'task')}"
        self._progress = Progress(len(cells), title, len(self._results))

    @torch_defaults()
    def scores(self) -> EncoderScores:
        """Return records of each task, and the averages of complete groups, in points: correlations
        and averages unrounded, accuracies and F1 with two decimals (docs/reference/protocol.md)."""
        records: list[TaskRecord] = []
        items: dict[str, Columns] = {}
        for task in self.tasks:
            task_records, columns = self.score(task)
            records += task_records
            if not columns:
                continue
            items[task.name] = columns
            if self.contamination:
                in_corpus, in_dev = self.contamination[task.name]
                records += _without(task, columns, in_corpus, UNSEEN)
                records += _without(task, columns, in_corpus | in_dev, REST)
        # Last, since they are means of the records above, for each seed of the classifiers.
        for aggregation in map(probe_seed, self.classifiers.seeds):
            values = {}
            for record in records:
                if (record["split"], record["aggregation"]) == ("test", aggregation):
                    values[Cell(record["task"], "test", record["metric"])] = record["value"]
            for cell, value in averages(values).items():
                records.append(score_record(cell.task, "test", cell.metric, value, aggregation))
        return EncoderScores(records, items)

    def _file_name(self, task: LabelledTask, seed: int) -> str:
        digest = sha256_text(str(task_sums([task])))[:16]
        return f"{task.name}-{self.classifiers.mode}-{seed}-{digest}"

    def score(self, task: ReadTask) -> tuple[list[TaskRecord], Columns]:
        """The records of a task, and the columns of its test items (empty without any)."""
        if not isinstance(task, LabelledTask):
            return self._score_pairs(task)
        of_first_seed, right = self._classified(task, CLASSIFIER_SEED)
        records = [*of_first_seed]
        for seed in self.classifiers.probe_seeds:
            for record in self._classified(task, seed)[0]:
                if record["split"] == "test":
                    records.append(record | {"aggregation": probe_seed(seed)})
        return records, {"right": np.array(right, dtype=bool)}

    def _score_pairs(self, task: sts.StsTask) -> tuple[list[TaskRecord], Columns]:
        similarities = sts.similarities(task, self._vectors_of(task))
        records = sts.score_pairs(task, similarities)
        if not task.has_test:
            return records, {}
        gold = np.concatenate([subset.gold for subset in task.subsets])
        return records, {"gold": gold, "similarity": np.concatenate(similarities)}

    def _vectors_of(self, task: ReadTask) -> EncodeSentences:
        """The finished vectors of a task. Its splits follow one another and have the same target,
        so it is enough to keep the last post-processing that was fitted."""
        if not self.adapt:
            return self.vectors
        target = list(task.target())
        if target != self._last_fit[0]:
            self._last_fit = target, self.adapt(target, self.vectors)
        return self._last_fit[1]

    def _classified(self, task: LabelledTask, seed: int) -> Classified:
        """The result of a task with one seed, which is kept in the folder."""
        if (task.name, seed) not in self._results:
            waiting = [item for item in self.labelled if (item.name, seed) not in self._results]
            together = _trained_together(task, waiting, self.classifiers.device)
            for item, result in zip(together, self._train(together, seed), strict=True):
                self._results[item.name, seed] = result
                if self.folder:
                    save = partial(Path.write_text, data=json.dumps(result))
                    write_summed(self.folder, self._file_name(item, seed), ".json", save)
            self._progress.advance(len(together))
        return self._results[task.name, seed]

    def _train(self, tasks: Sequence[LabelledTask], seed: int) -> list[Classified]:
        """The results of each task of `_trained_together`."""
        settings, device = replace(MODES[self.classifiers.mode], seed=seed), self.classifiers.device
        splits: list[protocols.Split] = []
        for task in tasks:
            vectors, parts = self._vectors_of(task), {}
            for name, samples in task.splits.items():
                features = torch.from_numpy(task.features(name, vectors)).to(device)
                labels = torch.from_numpy(samples.labels).to(device)
                parts[name] = protocols.SplitPart(features, labels)
            splits.append((parts, task.classes))
        # Only tasks with fixed splits are trained together.
        protocol, (parts, classes) = tasks[0].protocol, splits[0]
        if protocol == NESTED:
            results = [[protocols.nested(parts["all"], classes, settings)]]
        elif protocol == KFOLD:
            results = [[protocols.kfold(parts["train"], parts["test"], classes, settings)]]
        else:
            grids = [protocols.GRID, *([protocols.NETWORKS] if protocol == PROBING else [])]
            results = protocols.best_on_dev(splits, grids, settings)
        return list(map(_result, tasks, results))


def with_keys(tasks: Sequence[ReadTask], items: Mapping[str, Columns]) -> dict[str, np.ndarray]:
    """The test items of a scoring by task: arrays (n,) with a field for each of their columns, and
    `first` and `last`, the keys of their texts, which are equal for equal words."""
    keyed = {}
    for task in tasks:
        if task.has_test:
            texts = list(task.items())  # one or two of each item
            columns = {
                "first": item_keys(item[:1] for item in texts),
                "last": item_keys(item[-1:] for item in texts),
                **items[task.name],
            }
            keyed[task.name] = np.rec.fromarrays([*columns.values()], names=[*columns])  # type: ignore[call-overload]
    return keyed


def _without(
    task: ReadTask, items: Columns, left_out: np.ndarray, aggregation: str
) -> list[TaskRecord]:
    """The record of the test items that are not left out; none if that leaves all items, or items
    without a score."""
    kept = ~left_out
    if kept.all() or not kept.any():
        return []
    if isinstance(task, LabelledTask):
        accuracy = round(100 * float(items["right"][kept].mean()), 2)
        return [score_record(task.name, "test", "accuracy", accuracy, aggregation)]
    gold, similarity = items["gold"][kept], items["similarity"][kept]
    if not (np.ptp(gold) and np.ptp(similarity)):  # equal values have no ranks
        return []
    points = 100 * spearman(gold, similarity)
    return [score_record(task.name, "test", "spearman", points, aggregation)]


def _trained_together(
    task: LabelledTask, waiting: Sequence[LabelledTask], device: str
) -> list[LabelledTask]:
    """The tasks that are trained together with `task`. On a GPU these are all probing tasks with
    equally many training samples. A processor would only need more memory."""
    if device == "cpu" or task.protocol != PROBING:
        return [task]
    size = len(task.splits["train"].labels)
    probing = [item for item in waiting if item.protocol == PROBING]
    return [item for item in probing if len(item.splits["train"].labels) == size]


def _result(task: LabelledTask, results: Sequence[protocols.ProtocolResult]) -> Classified:
    """The records of logistic regression and, for a probing task, of the networks; and which test
    samples logistic regression gets right."""
    records = []
    for metric, result in zip(("accuracy", "accuracy_mlp"), results, strict=False):
        records.append(score_record(task.name, "test", metric, result.test))
        records.append(score_record(task.name, "dev", metric, result.dev))
    labels, predicted = task.test.labels, results[0].predicted
    for name, described in metrics_of(task.protocol, task.name).items():
        if described.formula:
            value = described.formula(labels, predicted)
            records.append(score_record(task.name, "test", name, round(100 * value, 2)))
    return records, (predicted == labels).tolist()
