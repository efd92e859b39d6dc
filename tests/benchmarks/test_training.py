"""The cost of a training, selection included, beside what people use on the same inputs.

Sides take turns with the same threads, and medians count. The official program selects every 125
steps; here each side takes fewer steps and selects after the last, which gives 125 + 1.
"""

import os
from itertools import chain
from pathlib import Path
from statistics import fmean, median

import pandas as pd
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
# (docs/reference/training.md#optimisation).
CASES = {"toy-bert": (60, 3, 1e-3), "wiki-minilm": (20, 1, 3e-5)}
LAST = 5  # steps whose losses are compared
# Losses, and dev scores in points, by which sides with draws of their own may differ.
APART = {"loss": 0.06, "dev": 5.0}


COSTS = {}


@pytest.fixture(scope="module", autouse=True)
def report():
    """A cycle is what lies between the ends of two official selections."""
    yield
    for name, sides in COSTS.items():
        table = pd.DataFrame(sides).T
        table["125 + 1"] = EVERY * table["step"] + table["selection"]
        table["times ours"] = table["125 + 1"] / table.loc["ours", "125 + 1"]
        # Of a side that selects nothing, steps alone are compared.
        steps = table["step"] / table.loc["ours", "step"]
        table["times ours"] = table["times ours"].where(table["selection"] > 0, steps)
        print(f"\n{', '.join(name)}", table.to_string(float_format="%.3f"), sep="\n")
    print(f"threads {THREADS}; medians of sides in turn; load {os.getloadavg()[0]:.1f}")


@pytest.fixture(params=CASES)
def places(request, world):
    """The name of a backbone, a corpus, and the data to select on, as `resolve` gets them."""
    data, corpus = world, world / "world.txt"
    if request.param != "toy-bert":
        data, models = (
            Path(os.environ.get(key, "unset")) for key in ("BENCH_DATA", "BENCH_MODELS")
        )
        if not (models / request.param).is_dir():
            pytest.skip(f"BENCH_MODELS holds no {request.param}")
        corpus = corpus_path("wiki1m_fallback", data)
    return {"backbone_name": request.param, "corpus": str(corpus), "data": str(data)}


def ours(places, setting, folder, monkeypatch):
    recipe = {
        "sentences": len(setting.sentences),
        "learning_rate": setting.rate,
        "select_every": setting.steps,
        "select_on": "+".join(rivals.DEV),
        "precision": setting.precision,
        "threads": THREADS,
    }
    run = resolve("simcse", **places, seed=setting.seed, recipe=recipe)
    training, write = rivals.Training(), Log.write

    def noted(log, row):
        write(log, row)
        training.losses.append(row["loss"])
        training.end("dev" in row)

    with monkeypatch.context() as patch:
        patch.setattr(Log, "write", noted)
        training.dev = bench.training.loop.train(run, folder, folder)["outcome"]["best_dev"]
    torch.use_deterministic_algorithms(False)  # the others do not ask for it
    return training


@pytest.mark.usefixtures("global_state")
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_against_what_people_use(benchmark, places, precision, tmp_path, monkeypatch):
    if precision == "bfloat16" and not torch.cpu.get_capabilities().get("avx512_bf16"):
        pytest.skip("this processor has no products in bfloat16")
    torch.set_num_threads(THREADS)
    name = places["backbone_name"]
    steps, rounds, rate = CASES[name]
    sentences = read_sentences(Path(places["corpus"]), steps * rivals.BATCH)
    result = {"plain recipe": [], "sentence-transformers": [], "ours": []}
    seeds = iter(range(1, rounds + 1))

    def others():
        inputs = backbone(name).folder(), sentences, Path(places["data"])
        setting = rivals.Setting(*inputs, rate, precision, seed=next(seeds))
        result["plain recipe"].append(rivals.plain_recipe(setting))
        result["sentence-transformers"].append(rivals.sentence_transformers(setting))
        return (setting,), {}

    def own(setting):
        folder = tmp_path / str(setting.seed)
        result["ours"].append(ours(places, setting, folder, monkeypatch))

    benchmark.pedantic(own, setup=others, rounds=rounds)
    costs = {side: cost(trainings) for side, trainings in result.items()}
    COSTS[name, precision] = costs
    # Speed that is bought with another training would be none.
    for measure, limit in APART.items():
        values = [cost[measure] for cost in costs.values()]
        assert max(values) - min(values) < limit, (measure, values)
    for training in chain(*result.values()):
        assert fmean(training.losses[-LAST:]) < training.losses[0] / 2


def cost(trainings):
    """Medians over rounds; a loss is the mean of a training's last ones."""
    return {
        "step": median(training.step() for training in trainings),
        "selection": median(training.selection() for training in trainings),
        "loss": median(fmean(training.losses[-LAST:]) for training in trainings),
        "dev": median(training.dev for training in trainings),
    }
