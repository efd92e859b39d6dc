"""The training loop: what decides a run, what two runs share, and how a training ends."""

import json
import math
from collections import Counter
from itertools import chain

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import bench.training.loop
from bench.models.load import load_encoder
from bench.runs.run import Recipe, Run
from bench.training import optimiser
from bench.training.context import RunContext
from bench.training.loop import batches, train
from bench.training.optimiser import (
    clip_and_step,
    learning_rate,
    make_optimiser,
    set_learning_rate,
)
from bench.utils.errors import UserError
from methods.simcse import SimCSE
from tests.support.outcomes import (
    assert_same_training,
    dev_score,
    log_of,
    outcome_of,
    script_dev,
    weights_of,
)

pytestmark = pytest.mark.usefixtures("global_state")

METHODS = [
    "simcse", "gs-infonce", "is-cse[buffer=20,neighbours=3]", "sscl", "gs-infonce+is-cse+sscl",
]  # fmt: skip


# What two methods share


class Seen:
    """Tokens that a method had embedded, and their vectors, step by step."""

    def __init__(self, patch):
        self.tokens, self.vectors = [], []
        plain = RunContext.embed

        def embed(context, views, *options):
            made = plain(context, views, *options)
            assert all(view == views[0] for view in views)
            self.tokens.append([list(row) for row in views[0]])
            self.vectors.append([vector.detach().clone() for vector in made.vectors])
            return made

        patch.setattr(RunContext, "embed", embed)


def test_methods_with_one_seed_share_batches_head_and_masks(train_tiny):
    seen = []
    for text in METHODS:
        with pytest.MonkeyPatch.context() as patch:
            seen.append(Seen(patch))
            train_tiny(text, fresh=True, dropout=0.1)
    plain, *rest = seen
    for method in rest:
        assert method.tokens == plain.tokens
        assert all(map(torch.equal, method.vectors[0], plain.vectors[0]))
    assert not torch.equal(*plain.vectors[0])  # masks differ between views,
    assert len({str(batch) for batch in plain.tokens}) == 6  # and batches between steps


def test_masks_depend_on_the_step_alone(train_tiny):
    """Whatever a method or an optimiser draws in between: vectors of weights that stand still."""
    seen = []
    for text, drawn in (("simcse", 7), ("gs-infonce", 0)):
        with pytest.MonkeyPatch.context() as patch:
            seen.append(Seen(patch))
            patch.setattr(optimiser._AdamW, "step", lambda self, drawn=drawn: torch.rand(drawn))
            script_dev(patch, [1.0] * 3)
            train_tiny(text, fresh=True, dropout=0.1)
    for result, expected in zip(*(method.vectors for method in seen), strict=True):
        assert all(map(torch.equal, result, expected))


# Batches, learning rates and optimisers


@given(st.integers(1, 60), st.integers(1, 12), st.integers(1, 3), st.integers(0, 99))
def test_every_sentence_once_an_epoch(count, batch_size, epochs, seed):
    recipe = Recipe(batch_size=batch_size, epochs=epochs)
    drawn = list(batches(count, recipe, seed))
    steps = -(-count // batch_size)
    assert len(drawn) == epochs * steps
    for epoch in range(epochs):
        part = drawn[epoch * steps : (epoch + 1) * steps]
        assert Counter(index for batch in part for index in batch) == Counter(range(count))
        assert [len(batch) for batch in part[:-1]] == [batch_size] * (steps - 1)
    whole = [batch for batch in drawn if len(batch) == batch_size]
    assert list(batches(count, recipe.changed(drop_last=True), seed)) == whole


def test_learning_rates_by_hand():
    recipe = Recipe(learning_rate=3e-5)
    # SimCSE's log at step 500.
    assert learning_rate(500, 15_626, recipe) == pytest.approx(2.904e-5, abs=5e-10)


# Of others: tests/methods/test_ct_bert.py and test_released_library.py.
@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("linear", [4, 8, 8, 7, 6, 5, 4, 3, 2, 1]),
        ("constant", [4, 8, 8, 8, 8, 8, 8, 8, 8, 8]),
    ],
)
def test_schedules_by_hand(schedule, expected):
    recipe = Recipe(learning_rate=8.0, warmup=0.2, schedule=schedule)
    result = [learning_rate(index, len(expected), recipe) for index in range(len(expected))]
    assert result == pytest.approx(expected)


GRADIENTS = [torch.tensor([0.3 * index - 0.5, 8.0 * index + 1e-3]).double() for index in range(5)]


def adam_with_an_early_epsilon(value, mean, square, rate, step):
    """m / (sqrt(v) + eps) times sqrt(1 - b2^t) / (1 - b1^t), and torch's decay.

    Source: docs/reference/methods.md#dclr.
    """
    size = rate * math.sqrt(1 - 0.999**step) / (1 - 0.9**step)
    return value * (1 - 0.01 * rate) - size * mean / (square.sqrt() + 1e-2)


def rmsprop(value, gradient, square, rate, step):
    return value - rate * gradient / (square.sqrt() + 1e-7)


@pytest.mark.parametrize(
    ("updated", "betas", "fields"),
    [
        (adam_with_an_early_epsilon, (0.9, 0.999),
         {"epsilon": 1e-2, "early_epsilon": True, "weight_decay": 0.01}),
        (rmsprop, (0, 0.9), {"epsilon": 1e-7, "optimiser": "rmsprop"}),
    ],
)  # fmt: skip
def test_optimisers_by_hand(updated, betas, fields):
    """At rates that fall."""
    recipe = Recipe(learning_rate=0.1, **fields)
    value, mean, square = torch.tensor([1.0, -2.0]).double(), 0, 0
    weight = torch.nn.Parameter(value.clone())
    optimiser = make_optimiser([weight], recipe)
    for index, gradient in enumerate(GRADIENTS):
        rate = 0.1 / (index + 1)
        set_learning_rate(optimiser, rate, recipe)
        weight.grad = gradient.clone()
        optimiser.step()
        mean = betas[0] * mean + (1 - betas[0]) * gradient
        square = betas[1] * square + (1 - betas[1]) * gradient**2
        value = updated(value, mean, square, rate, index + 1)
    torch.testing.assert_close(weight.detach(), value, rtol=1e-9, atol=0)


@pytest.mark.parametrize("decay_biases", [True, False])
def test_adamw_has_the_bits_of_torchs(decay_biases, monkeypatch):
    """With weights that have a gradient in some steps, and a step that a scaler skips."""
    recipe = Recipe(weight_decay=0.1, decay_biases=decay_biases)

    def trained():
        draw = torch.Generator().manual_seed(0)
        shapes = [(3, 2), (2,), (4, 3), (3,)]
        weights = [torch.randn(shape, generator=draw).requires_grad_() for shape in shapes]
        optimiser = make_optimiser(weights, recipe)
        scaler = torch.amp.GradScaler("cpu", growth_interval=2)
        for index, absent in enumerate(([3], [3], [], [], [1, 3], [], [0, 1, 2, 3])):
            for place, weight in enumerate(weights):
                slope = torch.randn(weight.shape, generator=draw)
                weight.grad = None if place in absent else scaler.scale(slope)
            set_learning_rate(optimiser, 0.1, recipe)
            if index == 3:
                weights[0].grad[0, 0] = math.inf
            if index % 2:
                clip_and_step(weights, optimiser, scaler, 1.0)
            else:
                optimiser.step()
        state = optimiser.state_dict()["state"]
        return weights, [moments[name] for moments in state.values() for name in sorted(moments)]

    ours = trained()
    monkeypatch.delattr(type(make_optimiser([torch.zeros(1)], recipe)), "_init_group")
    torchs = trained()
    assert len(ours[1]) == len(torchs[1]) == 12
    for mine, plain in zip(chain(*ours), chain(*torchs), strict=True):
        assert torch.equal(mine, plain)


@pytest.mark.parametrize("fused", [False, True])
def test_adam_of_bert_counts_no_step_that_a_scaler_skips(fused):
    """The steps behind them are those of a scaler that skips none."""
    recipe = Recipe(learning_rate=1e-3, bias_correction=False, epsilon=1e-6)

    def trained(skips):
        weight = torch.nn.Parameter(torch.zeros(3))
        optimiser, scaler = make_optimiser([weight], recipe), torch.amp.GradScaler("cpu")
        for index in range(skips + 5):
            scaler.scale(torch.zeros(()))  # makes the scale
            scale = scaler.get_scale() if index >= skips else math.inf
            weight.grad = torch.tensor([0.1, 0.2, 0.3]) * scale
            set_learning_rate(optimiser, 1e-3, recipe)
            if fused:
                clip_and_step([weight], optimiser, scaler, 1e9)
            else:
                scaler.step(optimiser)
                scaler.update()
        return weight.detach()

    for skips in (1, 3, 9):
        torch.testing.assert_close(trained(skips), trained(0), rtol=1e-5, atol=0)


# Modes


class Steady(torch.nn.Linear):
    """Never in training mode."""

    def train(self, mode=True):
        return super().train(False)


def test_every_step_starts_in_training_mode(train_tiny, monkeypatch):
    """Whatever a step before it left, and after a selection; but a module may have its own mode."""
    plain, seen = SimCSE.step_loss, []

    def prepare(method, context):
        method.steady = Steady(2, 2)

    def step_loss(method, context, step):
        seen.append({name for name, part in method.named_modules() if not part.training})
        layers = context.backbone.encoder.layer
        assert all(module.training for module in context.backbone.modules())
        loss = plain(method, context, step)
        layers[step.index % len(layers)].output.eval()
        return loss

    monkeypatch.setattr(SimCSE, "prepare", prepare)
    monkeypatch.setattr(SimCSE, "step_loss", step_loss)
    train_tiny("simcse", fresh=True)
    assert seen == [{"steady"}] * 6


# Selection


def test_the_best_is_kept_and_ties_keep_the_earlier(train_tiny, monkeypatch):
    """A negative score can be the best."""
    states = []
    script_dev(monkeypatch, [-30, -10, -10, -20, -50, -10.1], states)
    folder = train_tiny("simcse", fresh=True, select_every=1)
    outcome = outcome_of(folder)
    assert (outcome["status"], outcome["steps"]) == ("finished", 6)
    assert (outcome["best_step"], outcome["best_dev"]) == (2, -10)
    kept = weights_of(folder)
    assert all(torch.equal(kept[name], states[1][name]) for name in kept)


@pytest.mark.parametrize(("patience", "steps", "best"), [(1, 3, 2), (2, 6, 4)])
def test_patience_counts_selections_without_gain(train_tiny, monkeypatch, patience, steps, best):
    script_dev(monkeypatch, [1, 2, 2, 3, 1, 1])
    outcome = outcome_of(train_tiny("simcse", fresh=True, select_every=1, patience=patience))
    assert (outcome["steps"], outcome["best_step"]) == (steps, best)


def test_selection_on_two_sets_takes_their_mean(train_tiny):
    folder = train_tiny("simcse", select_on="STS-B+SICK-R")
    devs = [row["dev"] for row in log_of(folder) if "dev" in row]
    assert outcome_of(folder)["best_dev"] == max((dev["STS-B"] + dev["SICK-R"]) / 2 for dev in devs)


@pytest.mark.parametrize(("every", "selected"), [(2, [2, 4, 6]), (4, [4]), (100, [6])])
def test_what_is_kept_scores_what_the_log_says(train_tiny, tiny_data, every, selected):
    """Read back from its folder, the encoder has the best dev score; its vectors are without the
    training head."""
    folder = train_tiny("simcse", select_every=every)
    encoder = load_encoder(folder / "encoder")
    assert dev_score(encoder, tiny_data) == outcome_of(folder)["best_dev"]
    assert encoder.pooler == "cls_before_pooler"
    assert [row["step"] for row in log_of(folder) if "dev" in row] == selected


# Ends


def diverging(monkeypatch, value):
    """A factor of the loss of the third step."""
    plain = SimCSE.loss

    def loss(self, views, step):
        return plain(self, views, step) * (value if step.index == 2 else 1)

    monkeypatch.setattr(SimCSE, "loss", loss)


@pytest.mark.parametrize("every", [3, 25])
def test_losses_that_are_read_late_change_nothing(train_tiny, monkeypatch, every):
    """As on a GPU, where a read would make device and host wait for each other."""
    plain = train_tiny("simcse")
    monkeypatch.setitem(bench.training.loop.SYNC_EVERY, "cpu", every)
    assert_same_training(plain, train_tiny("simcse", fresh=True))


@pytest.mark.parametrize(("value", "every"), [(math.nan, 1), (math.nan, 25), (math.inf, 1)])
def test_a_loss_that_is_not_finite_stops_and_is_recorded(train_tiny, monkeypatch, value, every):
    monkeypatch.setitem(bench.training.loop.SYNC_EVERY, "cpu", every)
    diverging(monkeypatch, value)
    folder = train_tiny("simcse", fresh=True)
    sentences = list(batches(44, Recipe(batch_size=8), 1))[2]
    expected = {"status": "diverged", "step": 3, "reason": f"the loss became {value}"}
    assert outcome_of(folder) == expected | {"sentences": sentences}
    assert [row["step"] for row in log_of(folder)] == [1, 2]
    assert not (folder / "encoder").exists()


def test_vectors_that_cannot_be_scored_are_a_divergence(train_tiny, monkeypatch):
    def collapsed(*_):
        raise UserError("STS-B: all similarities are equal")

    monkeypatch.setattr(bench.training.loop, "score_tasks", collapsed)
    expected = {"status": "diverged", "step": 2, "reason": "STS-B: all similarities are equal"}
    assert outcome_of(train_tiny("simcse", fresh=True)).items() >= expected.items()


@pytest.mark.parametrize("status", ["finished", "diverged", "skipped"])
def test_what_has_ended_is_not_repeated(train_tiny, tmp_path, monkeypatch, status):
    if status == "diverged":
        diverging(monkeypatch, math.nan)
    folder = train_tiny("sscl[layer=4]" if status == "skipped" else "simcse", fresh=True)
    first = json.loads((folder / "outcome.json").read_text())
    assert first["outcome"]["status"] == status
    if status == "skipped":
        assert "layer 4 is not an intermediate layer" in first["outcome"]["reason"]
    monkeypatch.setattr(bench.training.loop, "RunContext", None)  # a second training would fail
    assert train(Run.model_validate(first["run"]), tmp_path, folder) == first
