"""What SentEval's classifiers cost: all heads of a task at once, against the literal loop.

Features are overlapping Gaussian classes, in the real tasks' numbers and 384 dimensions. The
literal loop runs the first fold at every weight decay, and is scaled to all heads.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from bench.evaluation import protocols
from bench.evaluation.classifier import MODES, Fold
from bench.evaluation.protocols import DECAYS, Part
from tests.oracles import senteval as literal  # the tests' oracle

WIDTH = 384
# Samples and classes of the training part, and how far apart classes stand, so that accuracies are
# near the real ones.
TASKS = {
    "MR": ("nested", 10662, 2, 0.10),
    "CR": ("nested", 3775, 2, 0.12),
    "SUBJ": ("nested", 10000, 2, 0.17),
    "MPQA": ("nested", 10606, 2, 0.14),
    "SST2": ("split", 67349, 2, 0.11),
    "TREC": ("kfold", 5452, 6, 0.20),
    "MRPC": ("kfold", 4076, 2, 0.08),
}


@dataclass
class Cost:
    literal: float
    engine: float
    floor: float


COSTS: dict[str, Cost] = {}


@pytest.fixture(scope="module", autouse=True)
def report() -> Iterator[None]:
    yield
    if not COSTS:
        return
    print(f"\n{'':6}{'literal s':>12}{'engine s':>12}{'floor s':>10}{'times faster':>14}")
    parts = zip(*(vars(cost).values() for cost in COSTS.values()), strict=True)
    everything = Cost(*map(sum, parts))
    for name, cost in {**COSTS, "all": everything}.items():
        ratio = cost.literal / cost.engine
        print(f"{name:6}{cost.literal:12.1f}{cost.engine:12.1f}{cost.floor:10.1f}{ratio:14.1f}")
    print(f"threads {torch.get_num_threads()}; floor: operations at this machine's matrix speed")


@pytest.fixture(scope="module")
def speed() -> float:
    """Floating-point operations a second of a large product of matrices."""
    a, b = torch.randn(1024, 1024), torch.randn(1024, 1024)
    a @ b
    started = time.perf_counter()
    for _ in range(20):
        a @ b
    return 20 * 2 * 1024**3 / (time.perf_counter() - started)


def samples(name: str) -> tuple[np.ndarray, np.ndarray]:
    _, count, classes, distance = TASKS[name]
    generator = np.random.default_rng(0)
    width = 2 * WIDTH if name == "MRPC" else WIDTH
    labels = generator.integers(0, classes, count)
    centres = distance * generator.normal(size=(classes, width))
    return (centres[labels] + generator.normal(size=(count, width))).astype(np.float32), labels


def literal_seconds(name: str, features: np.ndarray, labels: np.ndarray) -> float:
    """Seconds that the literal loop takes for all heads of a task, from a sample of one fold."""
    kind, _, classes, _ = TASKS[name]
    if kind == "split":
        dev = features[:872], labels[:872]
        train = features, labels
    else:
        rows, held_out = next(literal.folds(features, labels, 10))
        if kind == "nested":
            inner, inner_out = next(literal.folds(features[rows], labels[rows], 10))
            rows, held_out = rows[inner], rows[inner_out]
        dev, train = (features[held_out], labels[held_out]), (features[rows], labels[rows])
    decays = DECAYS[1::2] if kind == "split" else DECAYS  # 0.3 ms a step, and SST2 has 1,053 a pass
    started = time.perf_counter()
    for decay in decays:
        literal.Head(features.shape[1], classes, decay, literal.TEST_MODE).fit(*train, dev)
    each = (time.perf_counter() - started) / len(decays)
    # The original trains the best head of SST2 a second time.
    return each * {"nested": 410, "kfold": 41, "split": 5}[kind]


@pytest.mark.parametrize("name", TASKS)
def test_heads_at_once(benchmark, name: str, speed: float, monkeypatch: pytest.MonkeyPatch) -> None:
    features, labels = samples(name)
    kind, _, classes, _ = TASKS[name]
    data = Part(torch.from_numpy(features), torch.from_numpy(labels))
    few = Part(data.features[:872], data.labels[:872])
    steps = 0

    def counted(inputs, targets, classes: int, folds: list[Fold], *more, **named):
        nonlocal steps
        fitted = plain(inputs, targets, classes, folds, *more, **named)
        for fold, found in zip(folds, fitted, strict=True):
            steps += sum(found.passes) * len(fold.train)
        return fitted

    plain = protocols.fit
    monkeypatch.setattr(protocols, "fit", counted)

    def run() -> protocols.Result:
        rest = classes, MODES["test"], lambda heads: None
        if kind == "nested":
            return protocols.nested(data, *rest)
        if kind == "kfold":
            return protocols.kfold(data, few, *rest)
        return protocols.split({"train": data, "dev": few, "test": few}, *rest)

    benchmark.pedantic(run, rounds=1)
    floor = 2 * 2 * steps * features.shape[1] * classes / speed  # forward and backward
    COSTS[name] = Cost(literal_seconds(name, features, labels), benchmark.stats["median"], floor)
    benchmark.extra_info |= vars(COSTS[name])
