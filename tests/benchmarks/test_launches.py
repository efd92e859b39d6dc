"""Launches and waits of a step on a GPU, counted on a pretended device: bounds for every method.

A step of BERT-base at batch size 64 is shorter on a GPU than starting its kernels one by one, so
launches decide its time, and a wait leaves the GPU idle until the host has prepared the next ones.
Both depend on the layers, not on width and batch, which are small here. Bounds are what was
counted; a change that needs fewer lowers them. Selections are not part of a step. Times of these
benchmarks are those of the pretence and say nothing.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bench.checks.timing import DRAWN, DRAWN_DEV, PublishedShape, _backbone
from bench.evaluation.classifier import MODES, Fold, fit
from bench.evaluation.protocols import GRID, NETWORKS
from bench.runs.run import Run
from bench.training.context import RunContext
from bench.training.loop import Training
from bench.utils.files import write_json, write_text
from tests.methods.outside import run_of
from tests.support.pretended_device import PretendedDevice, Record, pretended_device

Make = Callable[..., Run]
BATCH, WIDTH, HEADS, STEPS = 8, 32, 4, 3  # the last step is counted: queues and buffers are full
DEPTHS = FEW, MORE = 2, 4  # counted; a layer more is as many launches more, which a test verifies
BASE, LARGE = 12, 24  # layers of the published models
WORDS = [f"w{number}" for number in range(1495)]
# Launches of a step with 12 and with 24 layers, and its waits, by method at its own precision.
BOUNDS = {
    "simcse": (552, 996, 0),
    "simcse[precision=float32]": (489, 885, 0),
    "gs-infonce": (578, 1022, 0),
    "sscl": (974, 1790, 0),
    "is-cse[buffer=16,neighbours=4]": (572, 968, 0),
    "is-cse[buffer=16,clusters=4,group=both,neighbours=4]": (641, 1037, 1),
    "esimcse[queue=16]": (744, 1332, 0),
    "dclr[select_on=STS-B]": (903, 1443, 0),
    "cards[neighbours=4,switch=0]": (598, 1042, 0),
    "consert": (506, 902, 0),
    "ct-bert[batch_size=4,drawn=24]": (787, 1483, 0),
    "is-bert": (480, 876, 0),
    "promptbert": (1914, 3630, 0),
    "word-noise": (494, 890, 0),
    "declutr[batch_size=2,document=128,longest=32,shortest=8]": (1246, 2326, 0),
    "skip-thought": (2495, 2495, 12),
}
ENCODING = (251, 491, 1)
ROWS: list[tuple[str, int, int, int]] = []


@pytest.fixture(scope="module", autouse=True)
def report() -> Iterator[None]:
    yield
    print(f"\n{'':60}{'12 layers':>10}{'24 layers':>10}{'waits':>8}")
    for name, base, large, waits in ROWS:
        print(f"{name:60}{base:>10}{large:>10}{waits:>8}")


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Make:
    """A run on generated text, with the lengths of the papers' corpus."""
    folder, draw = tmp_path_factory.mktemp("launches"), random.Random(0)

    def sentence(low: int, high: int) -> str:
        return " ".join(draw.choices(WORDS, k=draw.randint(low, high)))

    rows = 3 * STEPS * BATCH
    write_text(folder / "text.txt", "".join(f"{sentence(*DRAWN)}\n" for _ in range(rows)))
    documents = "".join(f"{1 + 8 * row}\t8\n" for row in range(rows // 8))
    write_text(folder / "text.docs.tsv", f"first\tlines\n{documents}")
    dev = [
        f"a\tb\tdev\t{row}\t{row % 6}\t{sentence(*DRAWN_DEV)}\t{sentence(*DRAWN_DEV)}\n"
        for row in range(20)
    ]
    sts = folder / "data" / "downstream" / "STS" / "STSBenchmark" / "sts-dev.csv"
    write_text(sts, "".join(dev))
    write_json(
        folder / "data" / "manifest.json", {"name": "made-up", "sts": {"STS-B": {"dev": 20}}}
    )

    def run(text: str, depth: int = FEW) -> Run:
        backbone = folder / f"{depth}-layers"
        if not backbone.exists():
            with_head(depth, backbone)
        recipe = {"batch_size": BATCH, "select_every": 1000, "epochs": 1}
        recipe |= {"corpus": str(folder / "text.txt")}
        recipe = {key: value for key, value in recipe.items() if f"{key}=" not in text}
        return run_of(text, backbone, folder / "text.txt", folder / "data", **recipe)

    return run


def with_head(depth: int, folder: Path) -> None:
    """A narrow BERT with random weights and a masked-language head, which DeCLUTR needs."""
    from transformers import AutoConfig, AutoModelForMaskedLM

    with torch.random.fork_rng(devices=[]):
        _backbone(PublishedShape("bert", WIDTH, depth, HEADS, len(WORDS) + 5, BATCH), WORDS, folder)
        model = AutoModelForMaskedLM.from_config(AutoConfig.from_pretrained(folder))
    model.save_pretrained(folder)


@pytest.fixture
def device(global_state: None) -> Iterator[PretendedDevice]:
    with pretended_device() as device:
        yield device


def of_a_step(run: Run, device: PretendedDevice, folder: Path) -> Record:
    training = Training(run, RunContext(run, folder, "cuda"), {})
    *first, last = islice(training.batches(), STEPS)
    for batch in first:
        training.step(batch)
    with device.recorded() as seen:
        training.step(last)
    return seen


def check(name: str, seen: Sequence[Record], bounds: tuple[int, int, int]) -> None:
    """Records with 2 and 4 layers, or one that does not depend on them."""
    few, more = (seen[0].launches.total(), seen[-1].launches.total())
    base, large = (few + (depth - FEW) * (more - few) // (MORE - FEW) for depth in (BASE, LARGE))
    counts = (base, large, seen[-1].waits.total())
    ROWS.append((name, *counts))
    told = f"{name}: {counts}, bounds {bounds}; with {MORE} layers: {seen[-1]}"
    assert all(count <= bound for count, bound in zip(counts, bounds, strict=True)), told


@pytest.mark.parametrize("text", BOUNDS)
def test_a_step_of_each_method(
    benchmark: Any, text: str, make: Make, device: PretendedDevice, tmp_path: Path
) -> None:
    few = of_a_step(make(text, FEW), device, tmp_path)
    more = benchmark.pedantic(of_a_step, (make(text, MORE), device, tmp_path), rounds=1)
    check(text, (few, more), BOUNDS[text])


def test_each_layer_takes_as_many_launches(
    benchmark: Any, make: Make, device: PretendedDevice, tmp_path: Path
) -> None:
    few, more, most = (of_a_step(make("simcse", depth), device, tmp_path) for depth in (2, 4, 7))
    per_layer = (more.launches.total() - few.launches.total()) / 2
    assert most.launches.total() - more.launches.total() == 3 * per_layer
    benchmark.pedantic(lambda: None, rounds=1)


def test_encoding_a_batch(
    benchmark: Any, make: Make, device: PretendedDevice, tmp_path: Path
) -> None:
    records = []
    for depth in DEPTHS:
        context = RunContext(make("simcse", depth), tmp_path, "cuda")
        encoder, sentences = context.encoder(), context.sentences()[:BATCH]
        with device.recorded() as seen:
            encoder.encode(sentences)
        records.append(seen)
    benchmark.pedantic(check, ("encoding a batch", records, ENCODING), rounds=1)


# Of one step of all heads of all probing tasks: logistic regressions, and networks.
CLASSIFIERS = {"regressions": (10, 10, 0), "networks": (26, 26, 0)}


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_a_step_of_classifiers(benchmark: Any, kind: str, device: PretendedDevice) -> None:
    """From two trainings of four passes, with 10 and with 20 steps a pass, of two tasks of unlike
    labels."""
    settings = replace(MODES["test"], max_epoch=1)
    heads = {"regressions": GRID, "networks": NETWORKS}[kind]
    totals = []
    for steps in (10, 20):
        rows = steps * settings.batch_size
        given = torch.randn(rows, 8).to("cuda"), (torch.arange(rows) % 2).to("cuda")
        folds = [Fold(np.arange(rows), np.arange(64), heads, classes) for classes in (2, 20)]
        with device.recorded() as seen:
            fitted = fit(*given, folds, settings)
        assert {head.passes for fold in fitted for head in fold} == {settings.epoch_size}
        totals.append(seen)
    steps = 10 * settings.epoch_size
    parts = [
        Counter({key: round(count / steps) for key, count in (many - few).items()})
        for few, many in zip(*((one.launches, one.waits) for one in totals), strict=True)
    ]
    benchmark.pedantic(check, (f"all {kind}", [Record(*parts)], CLASSIFIERS[kind]), rounds=1)
