"""Launches and waits of a step on a GPU, counted on a pretended device: bounds for every method.

A step of BERT-base at batch size 64 is shorter on a GPU than starting its kernels one by one, so
launches decide its time, and a wait leaves the GPU idle until the host has prepared the next ones.
Both depend on the layers, not on width and batch, which are small here. Bounds are what was
counted; a change that needs fewer lowers them. Selections are not part of a step. With `-s` the
counts are printed, for docs/performance.md.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch

from bench.checks.timing import DRAWN, DRAWN_DEV, PublishedShape, _write_backbone
from bench.datasets.corpora import NLI_COLUMNS
from bench.evaluation.classifier import MODES, Fold, fit
from bench.evaluation.protocols import GRID, NETWORKS
from bench.models.fused_graphs import SEEN
from bench.registry.methods import method_classes
from bench.runs.run import Run
from bench.training.context import RunContext
from bench.training.loop import Training
from bench.utils.files import write_json, write_text
from tests.gpu.cases import TRIPLES
from tests.gpu.conftest import Make
from tests.methods.outside import run_of
from tests.support.pretended_device import PretendedDevice, Record

BATCH, WIDTH, HEADS, STEPS = 8, 32, 4, 3  # the last step is counted: queues and buffers are full
DEPTHS = FEW, MORE = 2, 4  # counted; a layer more is as many launches more, which a test verifies
MOST = 7
BASE, LARGE = 12, 24  # layers of the published models
WORDS = [f"w{number}" for number in range(1495)]
# Launches of a step with 12 and with 24 layers, and its waits, by method at its own precision.
BOUNDS = {
    "simcse": (554, 998, 0),
    "simcse[precision=float32]": (491, 887, 0),
    "gs-infonce": (580, 1024, 0),
    "sscl": (982, 1804, 0),
    "is-cse[buffer=16,neighbours=4]": (574, 970, 0),
    "is-cse[buffer=16,clusters=4,group=both,neighbours=4]": (643, 1039, 1),
    "esimcse[queue=16]": (747, 1335, 0),
    "dclr[select_on=STS-B]": (911, 1451, 0),
    "cards[neighbours=4,switch=0]": (600, 1044, 0),
    "consert": (508, 904, 0),
    "ct-bert[batch_size=4,drawn=24]": (791, 1487, 0),
    "is-bert": (482, 878, 0),
    "promptbert": (1933, 3649, 0),
    "word-noise": (497, 893, 0),
    "declutr[batch_size=2,document=128,longest=32,shortest=8]": (1251, 2331, 0),
    "skip-thought[units=8,vocabulary=30,width=6]": (2495, 2495, 12),
    "focal-infonce": (568, 1012, 0),
    "mixcse": (551, 947, 0),
    "simcse-plus-plus": (1263, 2295, 0),
    "cot-bert": (2861, 5213, 0),
    "rankcse": (850, 1438, 0),
    "diffcse": (1947, 3711, 3),
    "cropping": (484, 880, 0),
    f"sup-simcse[corpus={TRIPLES}]": (594, 1038, 0),
}
GRAPHED = 105  # of a step of SimCSE whose layers are a CUDA graph, at any depth
ENCODING = (254, 494, 1)
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
    write_text(folder / "equal.txt", "".join(f"{sentence(20, 20)}\n" for _ in range(rows)))
    triples = [",".join(sentence(*DRAWN) for _ in NLI_COLUMNS) for _ in range(rows)]
    write_text(folder / "triples.csv", "\n".join([",".join(NLI_COLUMNS), *triples, ""]))
    documents = "".join(f"{1 + 8 * row}\t8\n" for row in range(rows // 8))
    write_text(folder / "text.docs.tsv", f"first\tlines\n{documents}")
    dev = [
        f"a\tb\tdev\t{row}\t{row % 6}\t{sentence(*DRAWN_DEV)}\t{sentence(*DRAWN_DEV)}\n"
        for row in range(20)
    ]
    for depth in (*DEPTHS, MOST):
        with_head(depth, folder / f"{depth}-layers")
    sts = folder / "data" / "downstream" / "STS" / "STSBenchmark" / "sts-dev.csv"
    write_text(sts, "".join(dev))
    write_json(
        folder / "data" / "manifest.json", {"name": "made-up", "sts": {"STS-B": {"dev": 20}}}
    )

    def run(text: str, depth: int = FEW, corpus: str = "text.txt") -> Run:
        backbone = folder / f"{depth}-layers"
        recipe = {"batch_size": BATCH, "select_every": 1000, "epochs": 1}
        recipe |= {"corpus": str(folder / corpus)}
        recipe = {key: value for key, value in recipe.items() if f"{key}=" not in text}
        text = text.replace(TRIPLES, str(folder / "triples.csv"))
        return run_of(text, backbone, folder / corpus, folder / "data", **recipe)

    return run


@pytest.fixture(autouse=True)
def one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps without CUDA graphs, but where a test wants them."""
    monkeypatch.setenv("SENTBENCH_GRAPHS", "0")


def with_head(depth: int, folder: Path) -> None:
    """A narrow BERT with random weights and a masked-language head, which DeCLUTR needs."""
    from transformers import AutoConfig, AutoModelForMaskedLM

    with torch.random.fork_rng(devices=[]):
        _write_backbone(
            PublishedShape("bert", WIDTH, depth, HEADS, len(WORDS) + 5, BATCH), WORDS, folder
        )
        model = AutoModelForMaskedLM.from_config(AutoConfig.from_pretrained(folder))
    model.save_pretrained(folder)


def of_a_step(run: Run, device: PretendedDevice, folder: Path, steps: int = STEPS) -> Record:
    training = Training(run, RunContext(run, folder, "cuda"), {})
    *first, last = islice(training.batches(), steps)
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
    text: str, make: Make, device: PretendedDevice, tmp_path: Path
) -> None:
    seen = [of_a_step(make(text, depth), device, tmp_path) for depth in DEPTHS]
    check(text, seen, BOUNDS[text])


def test_each_method_has_bounds() -> None:
    trained = {name for name, method in method_classes().items() if method.trained}
    assert {text.partition("[")[0] for text in BOUNDS} == trained


def test_each_layer_takes_as_many_launches(
    make: Make, device: PretendedDevice, tmp_path: Path
) -> None:
    few, more, most = (
        of_a_step(make("simcse", depth), device, tmp_path) for depth in (*DEPTHS, MOST)
    )
    per_layer = (more.launches.total() - few.launches.total()) // (MORE - FEW)
    assert most.launches.total() - more.launches.total() == (MOST - MORE) * per_layer


def test_a_graphed_step(
    make: Make, device: PretendedDevice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one after the capture and the comparison: as many launches at any depth."""
    monkeypatch.setenv("SENTBENCH_GRAPHS", "1")
    runs = [make("simcse", depth, "equal.txt") for depth in DEPTHS]
    seen = [of_a_step(run, device, tmp_path, steps=SEEN + 3) for run in runs]
    assert [one.launches["replay"] for one in seen] == [2, 2]
    check("simcse, a graph of the layers", seen, (GRAPHED, GRAPHED, 0))


def test_encoding_a_batch(make: Make, device: PretendedDevice, tmp_path: Path) -> None:
    records = []
    for depth in DEPTHS:
        context = RunContext(make("simcse", depth), tmp_path, "cuda")
        encoder, sentences = context.encoder(), context.sentences()[:BATCH]
        with device.recorded() as seen:
            encoder.encode(sentences)
        records.append(seen)
    check("encoding a batch", records, ENCODING)


# Of one step of all heads of all probing tasks: logistic regressions, and networks.
CLASSIFIERS = {"regressions": (10, 10, 0), "networks": (25, 25, 0)}


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_a_step_of_classifiers(kind: str, device: PretendedDevice) -> None:
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
    check(f"all {kind}", [Record(*parts)], CLASSIFIERS[kind])
