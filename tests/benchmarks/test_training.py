"""What a training costs, selection included, against what people use on the same inputs.

Sides take turns with the same threads, and medians count. The official program selects every 125
steps; here each side takes fewer steps and selects after the last, which gives 125 + 1.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from statistics import fmean, median
from typing import Any

import pytest
import torch

import bench.training.loop
from bench.datasets.corpora import read_sentences
from bench.download import corpus_path
from bench.registry.backbones import backbone
from bench.runs.resolve import resolve
from bench.training.checkpoint import Log

MISSING = "what is compared with is not installed: make extras"
pytest.importorskip("accelerate", reason=MISSING)
rivals = pytest.importorskip("tests.benchmarks.training_rivals", reason=MISSING)

THREADS = 2
EVERY = 125  # steps between two official selections
# Steps, rounds, learning rate. The toy's rate is the smoke suite's, the other is BERT's
# (docs/methods.md#optimisation).
CASES = {"toy-bert": (60, 3, 1e-3), "wiki-minilm": (20, 1, 3e-5)}
LAST = 5  # steps whose losses are compared
# Losses, and dev scores in points, by which sides with draws of their own may differ.
APART = (0.06, 5.0)


@dataclass
class Cost:
    step: float
    selection: float
    step_busy: float  # the same of the processor, which another program's load hardly changes
    selection_busy: float
    loss: float
    dev: float

    def cycle(self, busy: bool = False) -> float:
        """Seconds of what lies between the ends of two official selections."""
        if busy:
            return EVERY * self.step_busy + self.selection_busy
        return EVERY * self.step + self.selection


COSTS: dict[tuple[str, str], dict[str, Cost]] = {}


@pytest.fixture(scope="module", autouse=True)
def report() -> Iterator[None]:
    yield
    for (name, precision), sides in COSTS.items():
        names = ["s a step", "selection", "125 + 1", "times ours", "processor s", "times ours"]
        print(f"\n{name}, {precision:20}", *(f"{cell:>11}" for cell in (*names, "loss", "dev")))
        ours = sides["ours"]
        for side, cost in sides.items():
            if cost.selection > 0:
                times = cost.cycle() / ours.cycle(), cost.cycle(True) / ours.cycle(True)
            else:  # steps alone are compared
                times = cost.step / ours.step, cost.step_busy / ours.step_busy
            found = (cost.step, cost.selection, cost.cycle(), times[0], cost.step_busy, times[1])
            print(f"{side:30}", *(f"{number:11.3f}" for number in (*found, cost.loss, cost.dev)))
    print(f"threads {THREADS}; medians of sides in turn; load {os.getloadavg()[0]:.1f}")


@dataclass(frozen=True)
class Case:
    """A backbone, a corpus, the data to select on, and a suite's folder that may be written to."""

    name: str
    backbone: Path
    corpus: Path
    data: Path
    suite: Path


@pytest.fixture(scope="module")
def toy(world: Path, tmp_path_factory: pytest.TempPathFactory) -> Case:
    """The shipped toy backbone on the embedded world."""
    suite = tmp_path_factory.mktemp("suite")
    folder = backbone("toy-bert").folder()
    return Case("toy-bert", folder, world / "world.txt", world, suite)


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Case:
    if request.param == "toy-bert":
        return request.getfixturevalue("toy")
    data, models = (Path(os.environ.get(name, "unset")) for name in ("BENCH_DATA", "BENCH_MODELS"))
    if not (models / request.param).is_dir():
        pytest.skip(f"BENCH_MODELS holds no {request.param}")
    corpus = corpus_path("wiki1m_fallback", data)
    return Case(request.param, models / request.param, corpus, data, tmp_path)


def ours(
    case: Case, setting: rivals.Setting, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> rivals.Training:
    recipe = {
        "sentences": len(setting.sentences),
        "learning_rate": setting.rate,
        "select_every": setting.steps,
        "select_on": "+".join(rivals.DEV),
        "precision": setting.precision,
        "threads": THREADS,
    }
    inputs = {"backbone_name": case.name, "corpus": str(case.corpus), "data": str(case.data)}
    run = resolve("simcse", **inputs, seed=setting.seed, recipe=recipe)
    training, write = rivals.Training(), Log.write

    def noted(log: Log, row: dict[str, Any]) -> None:
        write(log, row)
        training.losses.append(row["loss"])
        training.end("dev" in row)

    with monkeypatch.context() as patch:
        patch.setattr(Log, "write", noted)
        training.dev = bench.training.loop.train(run, case.suite, folder)["outcome"]["best_dev"]
    torch.use_deterministic_algorithms(False)  # the others do not ask for it
    return training


@pytest.mark.usefixtures("global_state")
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_against_what_people_use(
    benchmark: Any, case: Case, precision: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if precision == "bfloat16" and not torch.cpu.get_capabilities().get("avx512_bf16"):
        pytest.skip("this processor has no products in bfloat16")
    torch.set_num_threads(THREADS)
    steps, rounds, rate = CASES[case.name]
    sentences = read_sentences(case.corpus, steps * rivals.BATCH)
    found = {"plain recipe": [], "sentence-transformers": [], "ours": []}
    seeds = iter(range(1, rounds + 1))

    def others() -> tuple[tuple[rivals.Setting], dict[str, Any]]:
        inputs = case.backbone, sentences, case.data
        setting = rivals.Setting(*inputs, rate, precision, seed=next(seeds))
        found["plain recipe"].append(rivals.plain_recipe(setting))
        found["sentence-transformers"].append(rivals.sentence_transformers(setting))
        return (setting,), {}

    def own(setting: rivals.Setting) -> None:
        folder = tmp_path / str(setting.seed)
        found["ours"].append(ours(case, setting, folder, monkeypatch))

    benchmark.pedantic(own, setup=others, rounds=rounds)
    COSTS[case.name, precision] = {side: cost(trainings) for side, trainings in found.items()}
    benchmark.extra_info |= {side: vars(each) for side, each in COSTS[case.name, precision].items()}
    # Speed that is bought with another training would be none.
    for place, limit in enumerate(APART):
        values = [(each.loss, each.dev)[place] for each in COSTS[case.name, precision].values()]
        assert max(values) - min(values) < limit, values
    for each in chain(*found.values()):
        assert fmean(each.losses[-LAST:]) < each.losses[0] / 2


def cost(trainings: list[rivals.Training]) -> Cost:
    """Medians over rounds; a loss is the mean of a training's last ones."""

    def middle(value: Any) -> float:
        return median(map(value, trainings))

    selects = any(end[2] for end in trainings[0].ends)
    return Cost(
        step=middle(rivals.Training.step),
        selection=middle(rivals.Training.selection) if selects else 0.0,
        step_busy=middle(partial(rivals.Training.step, busy=True)),
        selection_busy=middle(partial(rivals.Training.selection, busy=True)) if selects else 0.0,
        loss=middle(lambda each: fmean(each.losses[-LAST:])),
        dev=middle(lambda each: each.dev),
    )
