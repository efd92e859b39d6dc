"""Records of `bench.evaluation.scoring` against the literal classifier, from the task to the number
that is written."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score

from bench.datasets.labelled import LabelledTask, Samples, ordered
from bench.evaluation.classifier import MODES
from bench.evaluation.scoring import score
from tests.oracles import senteval as literal

WIDTH = 32
# Ten folds would only take longer, and in batches of 64 few samples are too few steps to learn
# anything.
SMALL = {"folds": 3, "batch_size": 16}
LITERAL = {"test": replace(literal.TEST_MODE, **SMALL), "dev": replace(literal.DEV_MODE, **SMALL)}


@pytest.fixture(autouse=True)
def _small_modes_in_double(monkeypatch: pytest.MonkeyPatch) -> None:
    """In float64 accuracies are equal, not merely close."""
    for mode, settings in list(MODES.items()):
        monkeypatch.setitem(MODES, mode, replace(settings, **SMALL))
    single = LabelledTask.features
    monkeypatch.setattr(LabelledTask, "features", lambda *words: single(*words).astype(np.float64))


def samples(prefix: str, labels: Sequence[int], columns: int = 1) -> Samples:
    """Sentences of unlike lengths that name their place and label, in SentEval's order."""
    rows = []
    for place, label in enumerate(labels):
        end = f"{place} {label}" + " x" * (place % 3)
        rows.append((tuple(f"{prefix} {column} {end}" for column in range(columns)), label))
    return ordered(rows)


def vectors(texts: Sequence[str]) -> np.ndarray:
    """Overlapping clouds by label; the second sentence of a pair is near the first where its label
    is 1."""
    centres = np.random.default_rng(0).normal(size=(6, WIDTH))
    rows = []
    for text in texts:
        prefix, column, place, label, *_ = text.split()
        generator = np.random.default_rng([len(prefix), int(place)])
        row = generator.normal(size=WIDTH)
        if prefix.startswith("pairs"):
            if column == "1":
                apart = np.random.default_rng(int(place)).normal(size=WIDTH)
                row = row + (1.2 - 0.7 * int(label)) * apart
        else:
            row = row + 0.42 * centres[int(label)]
        rows.append(row.astype(np.float32))
    return np.stack(rows)


def labels(count: int, classes: int, seed: int) -> list[int]:
    return np.random.default_rng(seed).permutation(np.arange(count) % classes).tolist()


def inputs(task: LabelledTask, split: str) -> literal.Labelled:
    """Features by their definition, without `LabelledTask`."""
    found = [vectors(column) for column in task.splits[split].columns]
    if len(found) == 2:
        found = [np.hstack([np.abs(found[0] - found[1]), found[0] * found[1]])]
    return found[0].astype(np.float64), task.splits[split].labels


def values(task: LabelledTask, mode: str) -> dict[tuple[str, str], float]:
    records = score([task], vectors, mode=mode)
    assert all((record["task"], record["aggregation"]) == (task.name, "all") for record in records)
    assert len({(record["metric"], record["split"]) for record in records}) == len(records)
    return {(record["metric"], record["split"]): record["value"] for record in records}


def nested(task: LabelledTask, settings: literal.Settings) -> dict[tuple[str, str], float]:
    dev, test = literal.nested(*inputs(task, "all"), task.classes, settings, torch.float64)
    return {("accuracy", "dev"): dev, ("accuracy", "test"): test}


def kfold(task: LabelledTask, settings: literal.Settings) -> dict[tuple[str, str], float]:
    dev, test, predicted = literal.kfold(
        *inputs(task, "train"), *inputs(task, "test"), task.classes, settings, torch.float64
    )
    found = {("accuracy", "dev"): dev, ("accuracy", "test"): test}
    if task.name == "MRPC":
        found["f1", "test"] = round(100 * float(f1_score(task.splits["test"].labels, predicted)), 2)
    return found


def fixed(task: LabelledTask, settings: literal.Settings) -> dict[tuple[str, str], float]:
    parts = {split: inputs(task, split) for split in task.splits}
    dev, test = literal.split(parts, task.classes, settings, dtype=torch.float64)
    found = {("accuracy", "dev"): dev, ("accuracy", "test"): test}
    if task.name == "Length":
        mlp_dev, mlp_test, _ = literal.tuned_mlp(parts, task.classes, settings, torch.float64)
        found |= {("accuracy_mlp", "dev"): mlp_dev, ("accuracy_mlp", "test"): mlp_test}
    return found


def task(name: str, protocol: str, classes: int, **splits: tuple[int, int]) -> LabelledTask:
    """A task whose splits have so many samples, drawn with a seed."""
    kind, columns = ("pairs-", 2) if name == "MRPC" else ("", 1)
    parts = {
        split: samples(f"{kind}{split}", labels(count, classes, seed), columns)
        for split, (count, seed) in splits.items()
    }
    return LabelledTask(name, protocol, classes, parts)


Oracle = Callable[[LabelledTask, literal.Settings], dict[tuple[str, str], float]]
FIXED = {"train": (130, 130), "dev": (40, 40), "test": (50, 50)}
CASES: list[tuple[LabelledTask, Oracle]] = [
    (task("MR", "nested", 2, all=(90, 1)), nested),
    (task("xprobe-Depth", "nested", 4, all=(80, 2)), nested),
    (task("TREC", "kfold", 6, train=(120, 3), test=(50, 4)), kfold),
    (task("MRPC", "kfold", 2, train=(110, 5), test=(60, 6)), kfold),
    (task("SST2", "split", 2, **FIXED), fixed),
    (task("Length", "probing", 5, **FIXED), fixed),
]


@pytest.mark.parametrize("mode", [pytest.param("test", marks=pytest.mark.slow), "dev"])
@pytest.mark.parametrize(("task", "oracle"), CASES, ids=lambda given: getattr(given, "name", ""))
def test_records_are_those_of_the_literal_classifier(
    task: LabelledTask, oracle: Oracle, mode: str
) -> None:
    expected = oracle(task, LITERAL[mode])
    assert values(task, mode) == expected
    # Neither chance nor trivial, so that equality says something (nested refits are stopped by 3
    # samples: on dev).
    assert 110 / task.classes < expected["accuracy", "dev"] < 100
