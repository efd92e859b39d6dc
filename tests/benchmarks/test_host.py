"""The host's work in a training step beside forward and backward pass, against plain calls of
torch: set modules to training mode, reset gradients, clip, AdamW's step.

The model is so small that arithmetic costs next to nothing. Times are those of the thread.
"""

import os
import time
from contextlib import contextmanager
from statistics import median

import pytest
import torch
from transformers import AutoTokenizer, BertConfig, BertModel

from bench.registry.backbones import backbone
from bench.runs.paths import Files
from bench.runs.resolve import resolve
from bench.training.context import RunContext
from bench.training.loop import Training, batches, training_settings
from bench.training.optimiser import learning_rate, set_learning_rate
from methods.base import Step, seed_torch, stream_seed

SHAPE = {"hidden_size": 16, "num_hidden_layers": 12, "num_attention_heads": 2}
ROUNDS, STEPS = 12, 10
LARGEST = 0.95  # of the time of plain calls


@pytest.fixture
def run(tmp_path, world):
    tokenizer = AutoTokenizer.from_pretrained(backbone("toy-bert").folder())
    shape = SHAPE | {"intermediate_size": 32, "vocab_size": len(tokenizer)}
    BertModel(BertConfig(**shape), add_pooling_layer=False).save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    places = {"corpus": str(world / "world.txt"), "data": str(world)}
    recipe = {"batch_size": 2, "select_every": 10**6}
    return resolve("simcse", backbone_name=str(tmp_path / "model"), **places, seed=1, recipe=recipe)


class Passes:
    """Seconds of the forward and backward passes of a training."""

    def __init__(self, training):
        self.seconds, self.inside = 0.0, False
        method, context = training.method, training.context
        step_loss, products = method.step_loss, context.products

        def timed_loss(*inputs):
            with self.timed():
                return step_loss(*inputs)

        @contextmanager
        def timed_products():  # of the backward pass, and within the forward one
            with self.timed(), products():
                yield

        method.step_loss, context.products = timed_loss, timed_products

    @contextmanager
    def timed(self):
        outer, self.inside = self.inside, True
        started = time.thread_time()
        yield
        self.inside = outer
        if not outer:
            self.seconds += time.thread_time() - started


def plain_steps(training):
    recipe, weights = training.run.recipe, training.weights
    optimiser = torch.optim.AdamW(weights, fused=True)
    for index, rows in enumerate(batches(training.items, recipe, training.seed)):
        training.modules.train()
        optimiser.zero_grad()
        step = Step(index, training.total, recipe.batch_size, training.seed, rows)
        seed_torch(stream_seed(training.seed, "dropout", index))
        loss = training.method.step_loss(training.context, step)
        with training.context.products():
            loss.backward()
        set_learning_rate(optimiser, learning_rate(index, training.total, recipe), recipe)
        torch.nn.utils.clip_grad_norm_(weights, recipe.clip)
        optimiser.step()
        yield {"loss": loss.item()}


@pytest.mark.usefixtures("global_state")
def test_around_the_model_against_plain_calls(benchmark, run, tmp_path):
    sides, seconds, losses = {}, {}, {}
    for name, steps in (("ours", Training.steps), ("plain", plain_steps)):
        training = Training(run, RunContext(run, Files(tmp_path, run.data), "cpu"), {})
        sides[name] = Passes(training), steps(training)
        seconds[name], losses[name] = [], []

    def in_turn():
        for name, (passes, rows) in sides.items():
            for _ in range(STEPS):
                started, before = time.thread_time(), passes.seconds
                losses[name].append(next(rows)["loss"])
                within = passes.seconds - before
                seconds[name].append((time.thread_time() - started - within, within))

    with training_settings(run, "cpu"):
        benchmark.pedantic(in_turn, rounds=ROUNDS, warmup_rounds=1)
    assert losses["ours"] == losses["plain"]
    costs = {}
    for name, times in seconds.items():
        around, within = (1e3 * median(part) for part in zip(*times[STEPS:], strict=True))
        costs[name] = around
        print(f"\n{name}: {around:.2f} ms around passes of {within:.2f} ms", end="")
    print(f"; times plain {costs['ours'] / costs['plain']:.2f}; load {os.getloadavg()[0]:.1f}")
    assert costs["ours"] < LARGEST * costs["plain"]
