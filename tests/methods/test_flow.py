"""The flow against plain loops: cost, gradient, training, log-determinant; what it is fitted on."""

import math
from itertools import product

import numpy as np
import pytest
import torch

from methods.base import Shape
from methods.flow import Flow, Flowed, Glow, learn_flow, pair_batches
from tests.oracles import transforms as oracle
from tests.oracles.edits import Mutation, each, edits
from tests.support.fixed_vectors import Vectors
from tests.support.method_runs import HARD, vectors


def random_glow(width, levels):
    """A flow whose every weight is random, in float64."""
    hyper = Flow.Hyper(hidden=3, levels=levels, depth=2, permutation="random")
    glow = Glow(width, hyper, 0).double()
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weights in glow.parameters():
            weights.copy_(0.2 * torch.randn(weights.shape, generator=draw, dtype=torch.float64))
    return glow


def relative(result, expected):
    scale = max(1e-12, max(float(tensor.detach().abs().max()) for tensor in expected))
    worst = max(
        (a.double() - b).detach().abs().max() for a, b in zip(result, expected, strict=True)
    )
    return float(worst) / scale


def disagreement(glow, u, dtype=torch.float64):
    """Relative difference of cost, of gradients and of the embedding from the oracle's."""
    levels = len(glow.levels)
    state = {name: tensor.detach().clone() for name, tensor in glow.state_dict().items()}
    weights = dict(glow.to(dtype).named_parameters())
    for name in weights:
        state[name].requires_grad_()
    expected = oracle.glow_cost(state, levels, 2, u)
    gradients = torch.autograd.grad(expected, [state[name] for name in weights])
    embedding = torch.stack([oracle.glow(state, levels, 2, row)[0] for row in u])
    cost = glow.cost(u.to(dtype))
    result = torch.autograd.grad(cost, [*weights.values()], materialize_grads=True)
    pairs = [([cost], [expected]), (result, gradients), ([glow(u.to(dtype))[0]], [embedding])]
    return max(relative(*pair) for pair in pairs)


@pytest.mark.parametrize("kind", ["random", *HARD])
@pytest.mark.parametrize("width", [4, 7])
def test_cost_and_gradient_equal_plain_loops(width, kind):
    for dtype, tolerance in ((torch.float64, 1e-6), (torch.float32, 1e-4)):
        assert disagreement(random_glow(width, 2), vectors(kind, 4, width), dtype) < tolerance


MISTAKES: dict[str, Mutation] = {
    **edits("methods.flow:Coupling.forward", {
        "addition without gradient": ("self.network(first)", "self.network(first).detach()"),
    }),
    **edits("methods.flow:ActNorm.forward", {
        "shifted after scaling": (
            "(u + self.shift) * self.log_scales.exp()", "u * self.log_scales.exp() + self.shift"),
    }),
    **edits("methods.flow:FlowStep.forward", {
        "turned before scaling": ("self.scale(u)[:, self.order]", "self.scale(u[:, self.order])"),
    }),
    **edits("methods.flow:Glow.cost", {
        "without the half": (
            "0.5 * (z.square() + math.log(2 * math.pi)).sum(1).mean()",
            "(z.square() + math.log(2 * math.pi)).sum(1).mean()"),
    }),
    **edits("methods.flow:Glow.forward", {
        "determinant of the first level forgotten": (
            "torch.stack(log_scales)", "torch.stack(log_scales)[1:]"),
    }),
}  # fmt: skip


@each(MISTAKES)
def test_mistakes_are_seen(mutation, monkeypatch):
    mutation.apply(monkeypatch)
    assert disagreement(random_glow(8, 3), vectors("random", 4, 8)) > 1e-3


def test_a_new_flow_is_a_reversal_with_shifts_and_scales_up_to_glorots_bound():
    glow = Glow(768, Flow.Hyper(), 1)
    first = glow.levels[0][0]
    assert first.order.tolist() == list(range(767, -1, -1))
    for weights in (first.scale.shift, first.scale.log_scale):  # uniform
        bound = math.sqrt(6 / 769)
        assert float(weights.detach().std()) == pytest.approx(bound / math.sqrt(3), rel=0.1)
        assert weights.abs().max() <= bound
        weights.data.zero_()
    # A coupling adds 0 before training.
    u = torch.randn(5, 768, generator=torch.Generator().manual_seed(0))
    assert torch.equal(first(u), u.flip(1))


RELEASED = Flow.Hyper(
    levels=2, depth=2, hidden=3, batch_size=4, learning_rate=1e-2, permutation="random"
)
STARTS = list(product(("uniform", "data"), (False, True)))


def pairs_of(calm):
    """Three batches of four pairs of correlated vectors, pair by pair.

    Gradients are longer than 1, so that they are clipped. With `calm`, the pairs of the first batch
    are equal, and the first gradient after a start from the data has a norm of 0.8.
    """
    draw = torch.Generator().manual_seed(2)
    mix = torch.randn(5, 5, generator=draw, dtype=torch.float64)
    drawn = torch.randn(3, 8, 5, generator=draw, dtype=torch.float64)
    if calm:
        drawn[0, 1::2] = drawn[0, ::2]
    return list(0.3 * (drawn @ mix + 1))


def learned_otherwise(start, calm):
    """Relative difference of the trained weights from those of plain loops, in float64."""
    hyper, batches = RELEASED.model_copy(update={"start": start}), pairs_of(calm)
    weights = learn_flow(batches, hyper, 1).state_dict()
    state = Glow(5, hyper, 1).double().state_dict()
    if start == "data":
        oracle.data_start(state, 2, 2, batches[0][::2])
    sides = [(batch[::2], batch[1::2]) for batch in batches]
    expected = oracle.trained_glow(state, 2, 2, sides, hyper.learning_rate)
    return max(relative([weights[name]], [expected[name]]) for name in weights)


@pytest.mark.parametrize(("start", "calm"), STARTS)
def test_training_equals_plain_loops(start, calm):
    assert learned_otherwise(start, calm) < 1e-9


IN_TRAINING: dict[str, Mutation] = {
    **edits("methods.flow:learn_flow", {
        "loss of one sentence": ("2 * glow.cost(batch)", "glow.cost(batch)"),
        "start from both sentences": ("batch[::2]", "batch"),
    }),
    **edits("methods.flow:BertAdam.step", {
        "always clipped": (
            "torch.linalg.vector_norm(torch.stack(norms)).clamp(min=1)",
            "torch.linalg.vector_norm(torch.stack(norms)).clamp(min=0)"),
        "no decay": (
            "mean / (square.sqrt() + 1e-06) + 0.01 * weight", "mean / (square.sqrt() + 1e-06)"),
        "momentum of the square": ("0.999", "0.99"),
    }),
}  # fmt: skip


@each(IN_TRAINING)
def test_mistakes_in_the_training_are_seen(mutation, monkeypatch):
    mutation.apply(monkeypatch)
    assert any(learned_otherwise(*case) > 1e-4 for case in STARTS)


@pytest.mark.parametrize(
    ("pairs", "epochs", "sizes"),
    [(70, 1, [32, 32]), (70, 2, [32] * 4), (70, 0.5, [32]), (9, 1, [9])],
)
def test_a_step_is_32_pairs_and_a_rest_is_dropped(pairs, epochs, sizes):
    batches = list(pair_batches(pairs, Flow.Hyper(epochs=epochs), 0))
    assert [len(batch) for batch in batches] == sizes
    one_epoch = torch.cat(batches)[:pairs]
    assert len(set(one_epoch.tolist())) == len(one_epoch)


def flowed(base, seed=1, **hyper):
    return Flowed(base, {}, hyper=dict(Flow.Hyper(**hyper)), seed=seed, width=None)


def test_both_sentences_of_a_pair_are_in_one_step():
    asked = []

    def vectors(texts):
        asked.append([int(text) for text in texts])
        return np.random.default_rng(len(asked)).normal(size=(len(texts), 4)).astype(np.float32)

    flowed(None).fitted([str(row) for row in range(141)], vectors)
    assert [len(rows) for rows in asked] == [64, 64]
    for rows in asked:
        assert all(first % 2 == 0 for first in rows[::2])
        assert rows[1::2] == [first + 1 for first in rows[::2]]


def test_equal_arguments_give_equal_flows_whatever_the_global_generator_and_threads(global_state):
    batches = torch.randn(96, 7, generator=torch.Generator().manual_seed(0)).split(32)
    before = torch.get_rng_state()
    first = learn_flow(batches, Flow.Hyper(), 1).state_dict()
    assert torch.equal(torch.get_rng_state(), before)
    torch.set_num_threads(2)
    second = learn_flow(batches, Flow.Hyper(), 1).state_dict()
    assert torch.get_num_threads() == 2
    torch.testing.assert_close(first, second, rtol=0, atol=0)


def test_one_pair_and_constant_dimensions_give_finite_numbers():
    vectors = torch.randn(40, 5, generator=torch.Generator().manual_seed(0))
    vectors[:, 2] = 1
    for rows in (vectors, vectors[:2]):
        assert torch.isfinite(learn_flow([rows], Flow.Hyper(), 1)(rows)[0]).all()


@pytest.mark.parametrize(("width", "levels"), [(2, 1), (3, 1), (4, 2), (7, 2), (768, 3)])
def test_levels_end_where_two_dimensions_are_left(width, levels):
    assert len(Glow(width, Flow.Hyper(), 0).levels) == levels
    assert Flow.clamp_to_backbone(Flow.Hyper(), Shape(width, 4)).levels == levels


class Noisy(Vectors):
    """An Encoder with dropout: its vectors vary with the seed."""

    def encode_with_dropout(self, sentences, seed):
        noise = np.random.default_rng(seed).normal(size=(len(sentences), 6))
        return (self.encode(sentences) + noise).astype(np.float32)


def test_it_is_trained_with_dropout_and_maps_without():
    vectors, texts = torch.randn(40, 6), [str(row) for row in range(40)]
    fitted = []
    for base in (Vectors(vectors), Noisy(vectors)):
        encoder = flowed(base).fitted(texts, base.encode)
        assert np.array_equal(encoder.encode(texts), encoder.glow(vectors)[0].numpy())
        fitted.append(encoder)
    assert fitted[0].identity != fitted[1].identity


def test_identities_differ_where_vectors_do():
    base, another = Vectors(torch.eye(2)), Vectors(torch.eye(2), "another")
    encoders = [flowed(base), flowed(base, 2), flowed(base, epochs=2), flowed(another)]
    assert len({encoder.identity for encoder in encoders}) == len(encoders)


# What the tests of all methods need to know of this one (`method_runs.of_methods`).

OUT_OF_LIMITS = {
    "untrained+flow": (
        "levels=0 depth=0 hidden=0 batch_size=0 epochs=0 learning_rate=0 sentences=1 "
        "start=zero permutation=none"
    ),
}
