"""Scores of an Encoder on any tasks: every distinct sentence is encoded once, every task reads the same vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import cache
from pathlib import Path

import numpy as np
import torch

from bench.datasets import probing, sts, transfer
from bench.datasets.labelled import KFOLD, NESTED, SPLIT, LabelledTask
from bench.datasets.manifest import Vectors
from bench.datasets.tasks import AVERAGED, GROUPS, average, expand_tasks, is_probing, kind_of
from bench.evaluation.classifier import MODES, Settings
from bench.evaluation.embedding_store import VectorStore
from bench.models.encoder import Encoder, adaptation
from bench.results.provenance import task_sums
from bench.results.records import Record
from bench.utils.errors import UserError, did_you_mean
from bench.utils.files import read_json, sha256_text, write_json
from bench.utils.progress import Progress

Task = sts.StsTask | LabelledTask
Adaptation = Callable[[np.ndarray], np.ndarray]


def read_tasks(names: Sequence[str], data: Path) -> list[Task]:
    """Tasks by name or group, read and checked; of STS sets the dev split too where there is one.

    Raises:
        UserError: no name or an unknown one, or files that are not as the manifest says.
    """
    if not names:
        raise UserError(f"--tasks names no task; write {', '.join(GROUPS)}, or names of tasks")
    tasks: list[Task] = []
    for name in expand_tasks(names):
        match kind_of(name):
            case "sts":
                tasks += [sts.read(name, data, split) for split in sts.scored_splits(name, data)]
            case "transfer":
                tasks.append(transfer.read(name, data))
            case _:
                tasks.append(probing.read(name, data))
    return tasks


def sentences(tasks: Sequence[Task]) -> list[str]:
    """The distinct sentences of some tasks, in order of first appearance."""
    return list(dict.fromkeys(text for task in tasks for text in task.sentences()))


def encoded(encoder: Encoder, tasks: Sequence[Task]) -> Vectors:
    """Vectors of the sentences of some tasks by text, each distinct one encoded once, in memory."""
    distinct = sentences(tasks)
    rows = {sentence: row for row, sentence in enumerate(distinct)}
    vectors = encoder.encode(distinct)
    return lambda texts: vectors[[rows[text] for text in texts]]


def score_tasks(encoder: Encoder, tasks: Sequence[Task], vectors: Vectors | None = None) -> list[Record]:
    """Records of tasks that need no classifier, from vectors in memory (`encoded`, where they are not there yet).

    Raises:
        UserError: the vectors are not finite or all alike.
    """
    return score(tasks, vectors or encoded(encoder, tasks), adapt=adaptation(encoder))


def adapted(task: Task, vectors: Vectors, adapt: Adaptation) -> Vectors:
    """Vectors of a task's sentences after a map of all of them, repeated ones too; made when first asked for.

    Args:
        vectors: before the map, float32 [n, d].
        adapt: [n, d] -> [n, k], of a task's sentences in their order (`bench.models.encoder.adaptation`).
    """

    @cache
    def made() -> tuple[dict[str, int], np.ndarray]:
        texts = list(task.sentences())
        rows: dict[str, int] = {}
        for row, text in enumerate(texts):
            rows.setdefault(text, row)
        return rows, adapt(vectors(texts))

    def look_up(texts: Sequence[str]) -> np.ndarray:
        rows, found = made()
        return found[[rows[text] for text in texts]]

    return look_up


def score_encoder(encoder: Encoder, tasks: Sequence[Task], mode: str, device: str, work: Path) -> list[Record]:
    """Records of an encoder on tasks, as `score` gives them.

    Args:
        mode: of `bench.evaluation.classifier.MODES`.
        device: of the classifiers.
        work: a folder that keeps vectors and finished tasks until all is there, so that a later call goes on.

    Raises:
        UserError: an unknown mode; vectors of a wrong shape, not finite or all alike; `work` cannot be written or is
            in use.
    """
    with closing(VectorStore(work / "vectors", encoder)) as store:
        store.add(sentences(tasks))
        kept = work / store.identity
        return score(tasks, store, adapt=adaptation(encoder), mode=mode, device=device, kept=kept)


def score(
    tasks: Sequence[Task],
    vectors: Vectors,
    *,
    adapt: Adaptation | None = None,
    mode: str = "test",
    device: str = "cpu",
    kept: Path | None = None,
) -> list[Record]:
    """Records (task, split, metric, aggregation, value) of each task, and the averages of whole groups.

    Values are in points: correlations and averages unrounded, accuracies and F1 with two decimals (docs/protocol.md).

    Args:
        vectors: of any sentence of the tasks, float32 [n, d].
        adapt: what is still to be done with all vectors of one task (`bench.models.encoder.adaptation`).
        mode: of `bench.evaluation.classifier.MODES`, for tasks with a classifier.
        device: of the classifiers.
        kept: folder for the records of finished tasks, which are not computed again.

    Raises:
        UserError: an unknown mode; vectors that are not finite or all alike.
    """
    if mode not in MODES:
        raise UserError(f"unknown mode '{mode}'{did_you_mean(mode, MODES)}")
    settings = MODES[mode]
    records: list[Record] = []
    labelled = [task for task in tasks if isinstance(task, LabelledTask)]
    with Progress(sum(_work(task, settings) for task in labelled), "classify", unit="sample") as progress:
        for task in tasks:
            own = adapted(task, vectors, adapt) if adapt else vectors
            if isinstance(task, sts.StsTask):
                records += sts.score(task, own)
                continue
            file = kept / f"{task.name}-{mode}-{sha256_text(str(task_sums([task])))[:16]}.json" if kept else None
            if file and file.is_file():
                records += read_json(file)
                progress.advance(_work(task, settings), note=task.name)
                continue
            found = list(_score_labelled(task, own, settings, device, progress))
            if file:
                write_json(file, found)
            records += found
    return records + list(_averages(records))


def _averages(records: Sequence[Record]) -> Iterator[Record]:
    for metric, group in AVERAGED.items():
        test = {
            record["task"]: record["value"]
            for record in records
            if (record["split"], record["metric"], record["aggregation"]) == ("test", metric, "all")
        }
        if set(group) <= set(test):
            value = average([test[task] for task in group])
            yield {"task": "Avg", "split": "test", "metric": metric, "aggregation": "all", "value": value}


def _parts(task: LabelledTask) -> int:
    return len(next(iter(task.splits.values())).labels)


def _work(task: LabelledTask, settings: Settings) -> int:
    """Heads times training samples, which is about what a task costs."""
    from bench.evaluation import protocols

    networks = len(protocols.HIDDEN) * len(protocols.DROPOUTS) if is_probing(task.name) else 0
    return (protocols.heads(task.protocol, settings) + networks) * _parts(task)


def _score_labelled(
    task: LabelledTask, vectors: Vectors, settings: Settings, device: str, progress: Progress
) -> Iterator[Record]:
    from bench.evaluation import protocols

    parts = {
        name: protocols.Part(
            torch.from_numpy(task.features(name, vectors)).to(device), torch.from_numpy(samples.labels).to(device)
        )
        for name, samples in task.splits.items()
    }
    size = _parts(task)

    def advance(heads: int) -> None:
        progress.advance(heads * size, note=task.name)

    def records(result: protocols.Result, metric: str) -> Iterator[Record]:
        for part, value in (("test", result.test), ("dev", result.dev)):
            yield {"task": task.name, "split": part, "metric": metric, "aggregation": "all", "value": value}

    if task.protocol == NESTED:
        yield from records(protocols.nested(parts["all"], task.classes, settings, advance), "accuracy")
    elif task.protocol == KFOLD:
        result = protocols.kfold(parts["train"], parts["test"], task.classes, settings, advance)
        yield from records(result, "accuracy")
        if task.name == "MRPC":
            from sklearn.metrics import f1_score

            value = round(100 * float(f1_score(task.splits["test"].labels, result.predicted)), 2)
            yield {"task": task.name, "split": "test", "metric": "f1", "aggregation": "all", "value": value}
    elif task.protocol == SPLIT:
        yield from records(protocols.split(parts, task.classes, settings, advance), "accuracy")
        if is_probing(task.name):
            yield from records(protocols.tuned_network(parts, task.classes, settings, advance), "accuracy_mlp")
