"""Small labelled tasks, and their records by the literal classifier."""

import numpy as np
import torch
from sklearn.metrics import f1_score

from bench.datasets.labelled import LabelledTask, ordered
from tests.oracles import senteval as literal

LITERAL = {"test": literal.TEST_MODE, "dev": literal.DEV_MODE}


# Ten folds would only take longer, and in batches of 64 few samples are too few steps to learn
# anything.
SMALL = {"folds": 3, "batch_size": 16}


WIDTH = 32


def samples(prefix, count, classes, columns):
    """Sentences of unlike lengths that name their place and label, in SentEval's order."""
    labels = np.random.default_rng(count).permutation(np.arange(count) % classes).tolist()
    rows = []
    for place, label in enumerate(labels):
        end = f"{place} {label}" + " x" * (place % 3)
        rows.append((tuple(f"{prefix} {column} {end}" for column in range(columns)), label))
    return ordered(rows)


def vectors(texts):
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


def task(name, protocol, classes, **sizes):
    kind, columns = ("pairs-", 2) if name == "MRPC" else ("", 1)
    splits = {
        split: samples(f"{kind}{split}", size, classes, columns) for split, size in sizes.items()
    }
    return LabelledTask(name, protocol, classes, splits)


def inputs(task, split):
    """Features by their definition, without `LabelledTask`."""
    result = [vectors(column) for column in task.splits[split].columns]
    if len(result) == 2:
        result = [np.hstack([np.abs(result[0] - result[1]), result[0] * result[1]])]
    return result[0].astype(np.float64), task.splits[split].labels


def literal_values(task, chosen):
    """The records of a task, by metric and split, from the literal protocols."""
    parts = {split: inputs(task, split) for split in task.splits}
    common, result = (task.classes, chosen), {}
    if task.protocol == "nested":
        dev, test = literal.nested(*parts["all"], *common, torch.float64)
    elif task.protocol == "kfold":
        dev, test, predicted = literal.kfold(
            *parts["train"], *parts["test"], *common, torch.float64
        )
        if task.name == "MRPC":
            result["f1", "test"] = round(100 * float(f1_score(parts["test"][1], predicted)), 2)
    else:
        dev, test = literal.split(parts, *common, torch.float64)
        if task.protocol == "probing":
            mlp_dev, mlp_test = literal.tuned_mlp(parts, *common, torch.float64)
            result |= {("accuracy_mlp", "dev"): mlp_dev, ("accuracy_mlp", "test"): mlp_test}
    return result | {("accuracy", "dev"): dev, ("accuracy", "test"): test}
