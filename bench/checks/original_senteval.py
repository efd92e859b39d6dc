"""Comparison with the original SentEval on the same vectors.

SentEval is not a dependency: it is code of 2018 that trains its classifiers only on a GPU. If a
copy can be imported, it reads the data files itself and gets our vectors of their sentences.
"""

from __future__ import annotations

import inspect
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from bench.checks.verify import aligned
from bench.datasets.tasks import GROUPS, STS_TASKS, expand_tasks
from bench.download import cache_folder
from bench.evaluation.classifier import MODES
from bench.evaluation.embedding_store import VectorStore
from bench.evaluation.scoring import read_tasks, score_encoder
from bench.models.load import load_encoder
from bench.results.records import CellKey, cell_key
from bench.utils.errors import UserError

REPOSITORY = "https://github.com/princeton-nlp/SimCSE"
# SentEval's names where they differ from ours.
NAMES = {"STS-B": "STSBenchmark", "SICK-R": "SICKRelatedness"}


def crosscheck(
    model: str,
    pooler: str | None,
    tasks: Sequence[str],
    data: Path,
    device: str,
    mode: str = "test",
) -> str:
    """Score an encoder with the original SentEval and with ours, and return a table of both.

    Vectors and our finished tasks are kept in the cache folder until the end, so an interrupted
    check resumes.

    Raises:
        UserError: SentEval cannot be imported, lacks a task, needs a GPU and there is none, or
            fails; or the model, the pooler, a task or a data file is invalid.
    """
    names = expand_tasks(tasks)
    if unknown := [name for name in names if name not in GROUPS["all"]]:
        raise UserError(f"SentEval has no task '{unknown[0]}'; leave it out")
    engine = _engine()
    read = read_tasks(names, data)
    encoder = load_encoder(model, pooler=pooler, device=device)
    work = cache_folder() / "crosscheck"
    with closing(VectorStore(work / "vectors", encoder)) as store:
        theirs = {
            cell: value
            for name in names
            for cell, value in _original(engine, name, data, store, mode)
        }
    records = score_encoder(encoder, read, mode, device, work)
    shutil.rmtree(work)
    return table({cell_key(record): record["value"] for record in records}, theirs)


def table(ours: dict[CellKey, float], theirs: dict[CellKey, float]) -> str:
    """Return a line per number that both sides have, and a line for tasks without comparable
    numbers."""
    shared = [cell for cell in ours if cell in theirs]
    rows = [("task", "split", "metric", "aggregation", "ours", "SentEval", "difference")]
    rows += [
        (*c, f"{ours[c]:.4f}", f"{theirs[c]:.4f}", f"{ours[c] - theirs[c]:+.4f}") for c in shared
    ]
    lines = aligned(rows, 4)
    if shared:
        largest = max(abs(ours[cell] - theirs[cell]) for cell in shared)
        lines.append(f"largest difference: {largest:.4f}")
    if alone := sorted({cell[0] for cell in ours} - {cell[0] for cell in shared} - {"Avg"}):
        why = "SimCSE's copy of SentEval takes the cosine, this one a regression"
        lines.append(f"not compared: {', '.join(alone)}; {why}")
    return "\n".join(lines)


def _engine() -> Callable[..., Any]:
    try:
        return import_module("senteval.engine").SE
    except ModuleNotFoundError as error:
        if error.name not in ("senteval", "senteval.engine"):
            needed = f"SentEval needs the package {error.name}; install it beside this suite"
            raise UserError(needed) from None
    except (ImportError, AttributeError) as error:
        raise UserError(
            f"the copy of SentEval on PYTHONPATH cannot be imported ({error}); use {REPOSITORY}"
        ) from None
    raise UserError(
        f"the original SentEval cannot be imported; clone {REPOSITORY} and put its folder "
        "SentEval on PYTHONPATH"
    )


def _original(
    engine: Callable[..., Any], task: str, data: Path, store: VectorStore, mode: str
) -> list[tuple[CellKey, float]]:
    settings = MODES[mode]

    def texts(batch: Sequence[Sequence[str]]) -> list[str]:
        return [" ".join(words) for words in batch]

    def prepare(_: Any, samples: Sequence[Sequence[str]]) -> None:
        store.add(texts(samples))

    def batcher(_: Any, batch: Sequence[Sequence[str]]) -> np.ndarray:
        return store(texts(batch))

    classifier = {"nhid": 0, "optim": settings.optimiser} | {
        key: getattr(settings, key) for key in ("batch_size", "tenacity", "epoch_size")
    }
    parameters = {"task_path": str(data), "usepytorch": True, "kfold": settings.folds}
    parameters["classifier"] = classifier
    name = NAMES.get(task, task)
    try:
        with _older_python():
            return list(_numbers(task, engine(parameters, batcher, prepare).eval(name)))
    except UserError:
        raise
    except Exception as error:  # its assumptions about libraries of 2018 may fail anywhere
        reason = ": ".join([type(error).__name__, *str(error).splitlines()[:1]])
        if "cuda" in reason.lower() or "nvidia" in reason.lower():
            raise UserError(
                f"SentEval runs {name} on a GPU only, and none can be used here ({reason}); "
                "run this where there is one, or check the tasks STS12 to STS16 alone"
            ) from None
        raise UserError(
            f"SentEval failed on {name} ({reason}); fix that copy, or use {REPOSITORY}"
        ) from None


@contextmanager
def _older_python() -> Iterator[None]:
    """Provide `inspect.getargspec`, which SentEval uses and Python 3.11 removed."""
    inspect.getargspec = inspect.getfullargspec  # type: ignore[attr-defined]
    try:
        yield
    finally:
        del inspect.getargspec  # type: ignore[attr-defined]


def _numbers(task: str, result: dict[str, Any]) -> Iterator[tuple[CellKey, float]]:
    """Yield SentEval's results in points, under the names of our records."""
    if task in NAMES:
        for split in ("test", "dev"):
            if split in result:
                yield (task, split, "spearman", "all"), 100 * float(result[split]["spearman"][0])
    elif task in STS_TASKS:
        for aggregation, value in result["all"]["spearman"].items():
            yield (task, "test", "spearman", aggregation), 100 * float(value)
    else:
        names = {"acc": ("test", "accuracy"), "devacc": ("dev", "accuracy"), "f1": ("test", "f1")}
        for key, (split, metric) in names.items():
            if key in result:
                yield (task, split, metric, "all"), float(result[key])
