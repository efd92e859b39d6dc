"""The host's work in a training step on a GPU, beside the same step in plain calls of torch.

A processor runs a GPU's path on a model so small that its arithmetic costs next to nothing, so the
time of the thread is that of calls. In the plain step modules are set to training mode, gradients
are reset and AdamW takes its step by torch's methods; weights are joined and cast one by one.
"""

import time
from itertools import islice
from statistics import median

import pytest
import torch
from transformers import AutoTokenizer, BertConfig, BertModel

from bench.models import fused_forward
from bench.registry.backbones import backbone
from bench.runs.resolve import resolve
from bench.training import context
from bench.training.loop import Training, batches, training_settings
from bench.training.optimiser import learning_rate, set_learning_rate
from methods.base import Step, seed_torch, stream_seed

SHAPE = {"hidden_size": 16, "num_hidden_layers": 12, "num_attention_heads": 2}
BATCH, ROUNDS, STEPS = 2, 12, 10
LARGEST = 0.85  # of the plain step's time


@pytest.fixture
def run(tmp_path, world, monkeypatch):
    tokenizer = AutoTokenizer.from_pretrained(backbone("toy-bert").folder())
    shape = SHAPE | {"intermediate_size": 32, "vocab_size": len(tokenizer)}
    BertModel(BertConfig(**shape), add_pooling_layer=False).save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    monkeypatch.setattr(context, "is_fused", lambda model, device: True)
    # The kernel of attention is one launch each way.
    monkeypatch.setattr(
        fused_forward,
        "attend_fused",
        lambda queries, keys, values, *lengths: queries + values[: len(queries)],
    )
    recipe = {"batch_size": BATCH, "select_every": 10**6}
    places = {"corpus": str(world / "world.txt"), "data": str(world)}
    return resolve("simcse", backbone_name=str(tmp_path / "model"), **places, seed=1, recipe=recipe)


class PlainCopies:
    """What takes the place of `_Copies`."""

    @staticmethod
    def apply(dtype, groups, *weights):
        parts = iter(weights)
        cast = ([weight.to(dtype, copy=True) for weight in islice(parts, size)] for size in groups)
        return [torch.cat(group) if len(group) > 1 else group[0] for group in cast]


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
        set_learning_rate(optimiser, index, learning_rate(index, training.total, recipe), recipe)
        torch.nn.utils.clip_grad_norm_(weights, recipe.clip)
        optimiser.step()
        yield loss.item()


@pytest.mark.usefixtures("global_state")
def test_the_hosts_work_beside_plain_calls(benchmark, run, tmp_path, monkeypatch):
    sides = {}
    for name, steps in (("ours", Training.steps), ("plain", plain_steps)):
        training = Training(run, context.RunContext(run, tmp_path, "cpu"), {})
        sides[name] = steps(training), training
    seconds = {name: [] for name in sides}

    def in_turn():
        for name, (rows, _) in sides.items():
            with monkeypatch.context() as patch:
                if name == "plain":
                    patch.setattr(fused_forward, "_Copies", PlainCopies)
                for _ in range(STEPS):
                    started = time.thread_time()
                    next(rows)
                    seconds[name].append(time.thread_time() - started)

    with training_settings(run, "cpu"):
        in_turn()
        for times in seconds.values():
            times.clear()
        benchmark.pedantic(in_turn, rounds=ROUNDS)
    for measure in (min, median):
        ours, plain = (1e3 * measure(seconds[name]) for name in ("ours", "plain"))
        print(f"\n{measure.__name__}: ours {ours:.2f} ms, plain {plain:.2f}, {ours / plain:.2f}")
    assert min(seconds["ours"]) < LARGEST * min(seconds["plain"])
